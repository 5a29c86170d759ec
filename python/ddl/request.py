# SPDX-License-Identifier: Apache-2.0
"""Persistent collectives: made once, started many times."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Optional, Union

from ._buffers import buffer
from ._library import Accuracy, CError, CRequestOptions, CRequestStats, CStats, Rounding, Type, Wire, lib
from .errors import argument_error, error

if TYPE_CHECKING:
    from .comm import Comm

_start, _test, _wait, _set_buffers = lib.ddl_start, lib.ddl_test, lib.ddl_wait, lib.ddl_request_set_buffers


def word(kind: Any, value: Any, what: str) -> int:
    """A member of an enum by its name, such as "sum", or itself."""
    try:
        return kind[value.upper()] if isinstance(value, str) else kind(value)
    except (KeyError, ValueError):
        names = ", ".join(member.name.lower() for member in kind)
        raise argument_error(f'{what} "{value}" is unknown: give one of {names}') from None


def options(
    wire: Union[Wire, str] = Wire.AUTO,
    priority: int = 0,
    rings: int = 0,
    algorithm: Optional[str] = None,
    rounding: Union[Rounding, str] = Rounding.NEAREST,
    seed: int = 0,
    error_feedback: bool = False,
    accuracy: Union[Accuracy, str] = Accuracy.AUTO,
    reproducible: Optional[bool] = None,
) -> CRequestOptions:
    """Options of a request, the same on every rank.

    Args:
        wire: type in which float32 elements travel: "auto" (what the plan says), "native", "bfloat16", "float16", "int8".
        priority: higher goes first.
        rings: rings that share the data, 1 to 64; 0: what the plan says.
        algorithm: a name as ``ddl info`` prints it; None: chosen.
        rounding: "nearest" or "stochastic" (with `seed`), to wires that round.
        seed: the same seed gives the same bits in every run.
        error_feedback: what rounding takes away is added to the input of the next start.
        accuracy: "auto" (what the plan says), "fast" (the error grows with the ranks), "flat" (it does not), "exact" (no rounding).
        reproducible: whether all-reduces reduce in an order that is fixed for a number of ranks; None: what the plan says.
    """
    return CRequestOptions(
        ctypes.sizeof(CRequestOptions),
        word(Wire, wire, "wire"),
        priority,
        rings,
        algorithm.encode() if algorithm is not None else None,
        word(Rounding, rounding, "rounding"),
        seed,
        int(error_feedback),
        word(Accuracy, accuracy, "accuracy"),
        -1 if reproducible is None else int(reproducible),
    )


def stats_of(stats: CStats) -> Dict[str, int]:
    return {field[0]: getattr(stats, field[0]) for field in CStats._fields_}


class Request:
    """A persistent collective, made by the ``*_init`` methods of :class:`ddl.Comm`.

    It keeps its buffers alive. A request is used by one thread at a time. As a context manager it is freed at the end.
    """

    __slots__ = ("comm", "_handle", "_shape", "_keep", "__weakref__")

    def __init__(self, comm: "Comm", handle: int, send: Any, recv: Any) -> None:
        self.comm = comm
        self._handle: Optional[int] = handle
        self._shape = (send.count, send.type, recv.count, recv.type)
        self._keep: Any = (send.owner, recv.owner)

    def start(self) -> None:
        """Starts it; does not block. The buffers must not be touched until it is complete.

        Raises:
            ddl.ArgumentError: it is active, or was freed.
            ddl.Error: the communicator failed.
        """
        rc = _start(self._handle) if self._handle else self._gone()
        if rc:
            self._fail(rc, "the request is active already: wait for it first")

    def test(self) -> bool:
        """Makes progress; whether it is complete (or was not started). Does not block. Raises as :meth:`wait`."""
        rc = _test(self._handle) if self._handle else self._gone()
        if rc < 0:
            self._fail(rc)
        return rc > 0

    def wait(self) -> None:
        """Blocks until it is complete; returns at once where it was not started. Other Python threads run meanwhile.

        Raises:
            ddl.DisagreementError: the ranks passed different arguments.
            ddl.PeerError: a rank died.
            ddl.DeadlineError: a rank did not come in time.
            ddl.AbortedError: the communicator was aborted.
        """
        rc = _wait(self._handle) if self._handle else self._gone()
        if rc:
            self._fail(rc)

    def run(self) -> None:
        """:meth:`start` and :meth:`wait`."""
        self.start()
        self.wait()

    def set_buffers(self, send: Any, recv: Any) -> None:
        """Lays it on other buffers of the same lengths and types. Other ranks may keep theirs.

        Args:
            send, recv: as given to the call that made it; a broadcast has the same buffer as both; None where there is none.
        """
        a, b = buffer(send, False, "send buffer"), buffer(recv, True, "receive buffer")
        if (a.count, a.type, b.count, b.type) != self._shape:
            raise argument_error("the buffers have other lengths or types than the request: make another request for them")
        self.lay(a.address, b.address, (a.owner, b.owner))

    def lay(self, send: int, recv: int, owner: Any) -> None:
        """The same for those who know addresses; `owner` keeps what is there alive, and nothing else is checked but overlap."""
        if not self._handle:
            self._gone()
        err = CError()
        rc = _set_buffers(self._handle, send, recv, ctypes.byref(err))
        if rc:
            raise error(rc, err.text.decode())
        self._keep = owner

    def free(self) -> None:
        """Frees it; twice does nothing. Not collective. Raises ddl.ArgumentError where it is active."""
        if self._handle and self.comm._handle:
            rc = lib.ddl_request_free(self._handle)
            if rc:
                raise error(rc, "the request is active: wait for it, then free it")
        self._handle = None
        self._keep = None

    def stats(self, peer: Optional[int] = None) -> Dict[str, Any]:
        """What it has done so far: bytes, and nanoseconds spent waiting and working (DDL_STATS must be on).

        Args:
            peer: only the part with this rank.
        """
        if not self._handle:
            self._gone()
        if peer is not None:
            part = CStats()
            rc = lib.ddl_request_get_peer_stats(self._handle, peer, ctypes.byref(part))
            if rc:
                raise error(rc, "" if rc != -95 else "statistics are off: set DDL_STATS before the communicator is made")
            return stats_of(part)
        whole = CRequestStats(ctypes.sizeof(CRequestStats))
        rc = lib.ddl_request_get_stats(self._handle, ctypes.byref(whole))
        if rc:
            raise error(rc, "" if rc != -95 else "statistics are off: set DDL_STATS before the communicator is made")
        result = {name: getattr(whole, name) for name in ("starts", "total_ns", "shortest_ns", "longest_ns")}
        result["all"] = stats_of(whole.all)
        result["levels"] = [stats_of(whole.levels[i]) for i in range(whole.n_levels)]
        result["rails"] = [stats_of(whole.rails[i]) for i in range(whole.n_rails)]
        return result

    def get_feedback(self, residual: Any) -> None:
        """Copies what it will add to its next input to `residual`: float32, as many as the input has, for a checkpoint."""
        self._feedback(lib.ddl_request_get_feedback, buffer(residual, True, "residual"))

    def set_feedback(self, residual: Any) -> None:
        """Sets it from such a copy."""
        self._feedback(lib.ddl_request_set_feedback, buffer(residual, False, "residual"))

    def reset_feedback(self) -> None:
        """Makes it zero."""
        rc = lib.ddl_request_reset_feedback(self._handle) if self._handle else self._gone()
        if rc:
            raise error(rc, "the request has no error feedback, or it is active")

    def _feedback(self, call: Any, residual: Any) -> None:
        if residual.type != Type.FLOAT32:
            raise argument_error("the residual is not float32")
        address = ctypes.cast(residual.address, ctypes.POINTER(ctypes.c_float))
        rc = call(self._handle, address, residual.count) if self._handle else self._gone()
        if rc:
            raise error(rc, "the request has no error feedback, it is active, or the residual has another length than its input")

    def _gone(self) -> int:
        raise argument_error("the request was freed: make another one")

    def _fail(self, rc: int, alone: str = "") -> None:
        failure = self.comm.error()
        raise failure if failure else error(rc, alone)

    def __enter__(self) -> "Request":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()

    def __del__(self) -> None:
        if self._handle and self.comm._handle and lib.ddl_request_free(self._handle):
            self.comm._orphans.append((self._handle, self._keep))  # active: its memory stays until the communicator ends
