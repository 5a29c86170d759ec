# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions with the library's sentence."""

from __future__ import annotations

import errno
import os


class Error(RuntimeError):
    """A call failed. ``str()`` is the library's sentence: what, which rank and node, and the remedy.

    Attributes:
        code: negative errno, as ``ddl/error.h`` lists them.
    """

    code: int = 0


class ArgumentError(Error, ValueError):
    """-EINVAL, -ENOENT, -EBUSY: an argument is out of its range, names what does not exist, or is in use."""


class UnsupportedError(Error, NotImplementedError):
    """-EOPNOTSUPP: not implemented here, or not for this; also every call in a child after fork()."""


class DisagreementError(Error):
    """-EPROTO: ranks disagree on a call's count, type or operation, on the plan or on the library's version."""


class PeerError(Error, ConnectionError):
    """-ECONNRESET, -ECONNREFUSED: another rank is gone or cannot be reached."""


class DeadlineError(Error, TimeoutError):
    """-ETIMEDOUT: another rank did not come before the deadline."""


class AbortedError(Error):
    """-ECANCELED: the communicator was aborted."""


class NoMemoryError(Error, MemoryError):
    """-ENOMEM."""


class LibraryError(Error, ImportError):
    """libddl.so was not found, or is of another version than this package."""


_KINDS = {
    errno.EINVAL: ArgumentError,
    errno.ENOENT: ArgumentError,
    errno.EBUSY: ArgumentError,
    errno.EOPNOTSUPP: UnsupportedError,
    errno.EPROTO: DisagreementError,
    errno.ECONNRESET: PeerError,
    errno.ECONNREFUSED: PeerError,
    errno.ETIMEDOUT: DeadlineError,
    errno.ECANCELED: AbortedError,
    errno.ENOMEM: NoMemoryError,
}


def error(code: int, text: str = "") -> Error:
    """The exception for a negative errno."""
    failure = _KINDS.get(-code, Error)(text or os.strerror(-code))
    failure.code = code
    return failure


def argument_error(text: str) -> ArgumentError:
    """The exception for an argument that this package itself refuses."""
    failure = ArgumentError(text)
    failure.code = -errno.EINVAL
    return failure
