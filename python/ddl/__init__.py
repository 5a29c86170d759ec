# SPDX-License-Identifier: Apache-2.0
"""DDL for Slurm: topology-aware collectives for training, from Python.

    import ddl, numpy
    comm = ddl.init()                                        # under srun --ddl=multiring --mpi=pmix, or ddl run
    grad = numpy.ones(1000, numpy.float32)
    comm.allreduce(grad, op="avg")                           # blocks
    request = comm.allreduce_init(grad, wire="bfloat16")     # once
    request.start(); ...; request.wait()                     # many times

`ddl.torch` makes it a backend of torch.distributed; `ddl.tensorflow` and `ddl.jax` bring it into graphs and jit. Everything here is
pure Python over the C library (ddl/ddl.h).
"""

from __future__ import annotations

from typing import Any, Optional

from ._library import VERSION as __version__
from ._library import Accuracy, Op, Rounding, Type, Wire, lib
from .comm import Comm
from .errors import (
    AbortedError,
    ArgumentError,
    DeadlineError,
    DisagreementError,
    Error,
    LibraryError,
    NoMemoryError,
    PeerError,
    UnsupportedError,
)
from .request import Request, options
from .store import Store

_world: Optional[Comm] = None


def init(**keywords: Any) -> Comm:
    """The communicator of all ranks, made by the first call (with the keywords of :meth:`Comm.create`) and kept until the end.

    The first call is collective and blocks. It is destroyed when the interpreter ends, or by :func:`finalize`.
    """
    global _world
    if _world is None or not _world._handle:
        _world = Comm.create(**keywords)
    elif keywords:
        raise ArgumentError("ddl.init() has made the communicator already: give keywords in the first call only")
    return _world


def finalize() -> None:
    """Destroys the communicator of :func:`init`; does nothing where there is none."""
    global _world
    if _world is not None:
        _world.destroy()
    _world = None


def library_version() -> str:
    """The version of the C library in use."""
    return lib.ddl_version().decode()


__all__ = [
    "AbortedError",
    "Accuracy",
    "ArgumentError",
    "Comm",
    "DeadlineError",
    "DisagreementError",
    "Error",
    "LibraryError",
    "NoMemoryError",
    "Op",
    "PeerError",
    "Request",
    "Rounding",
    "Store",
    "Type",
    "UnsupportedError",
    "Wire",
    "__version__",
    "finalize",
    "init",
    "library_version",
    "options",
]
