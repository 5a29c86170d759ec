# SPDX-License-Identifier: Apache-2.0
"""Communicators: the ranks of a job step, and the collectives between them."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import sys
import weakref
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._buffers import NOTHING, Buffer, buffer, type_of
from ._library import CCommOptions, CError, Op, Type, lib
from .errors import Error, argument_error, error
from .request import Request, options, word
from .store import Bridge, Store

_all: "weakref.WeakValueDictionary[int, Comm]" = weakref.WeakValueDictionary()  # in the order in which they were made
_numbers = itertools.count()

_Ask = Tuple[str, Tuple[Any, ...], Buffer, Buffer]  # C name, its arguments up to the communicator, buffers


class Comm:
    """The ranks of a job step, their plan and their connections. Made by :func:`ddl.init`, :meth:`create`, :meth:`split`,
    :meth:`dup`.

    Buffers are whatever holds contiguous numbers on the host: numpy arrays (with ml_dtypes also bfloat16), torch tensors,
    bytearray, array.array, memoryview, and what speaks DLPack. Types are float64, float32, float16, bfloat16, int64, int32, int8 and
    uint8.
    Results are written to the receive buffer, which is returned; where it is left out, the send buffer is reduced in place.
    Operations are "sum", "avg", "min", "max", "prod".

    Blocking collectives and the ``*_init`` methods are called in the same order on every rank. Every method may raise
    :class:`ddl.ArgumentError` for wrong arguments, and what :meth:`ddl.Request.wait` raises when another rank fails: after the
    first failure the communicator is of no use. Keywords of the ``*_init`` methods are those of :func:`ddl.options`.
    """

    def __init__(self, handle: int) -> None:
        self._handle: Optional[int] = handle
        self._orphans: List[Tuple[int, Any]] = []  # requests that were dropped while active
        self._requests: "weakref.WeakSet[Request]" = weakref.WeakSet()
        self._memory: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._kept: List[Any] = []
        self._closing = False  # close() was called
        self.rank: int = lib.ddl_comm_rank(handle)
        self.size: int = lib.ddl_comm_size(handle)
        _all[next(_numbers)] = self

    # ---- making and ending

    @classmethod
    def create(
        cls,
        *,
        store: Optional[Store] = None,
        plan: Optional[str] = None,
        transports: Optional[str] = None,
        interfaces: Optional[str] = None,
        timeout: Optional[float] = None,
        progress_threads: Optional[int] = None,
        measure: Optional[bool] = None,
    ) -> "Comm":
        """Makes the communicator of all ranks. Blocks until all ranks have called it.

        Args:
            store: where ranks find each other; None: PMIx (srun --mpi=pmix, ddl run, mpirun), else this process is alone.
            plan: plan text; None: DDL_PLAN, else built by exchange.
            transports, interfaces: comma-separated names; None: DDL_TRANSPORTS and DDL_NET, else chosen.
            timeout: seconds that a call waits for other ranks; None: DDL_TIMEOUT, else 600.
            progress_threads: cores that service threads run on, 0 (none) to 8; None: DDL_PROGRESS, else what the plan says, else 0.
            measure: whether all-reduces between nodes are measured first; None: DDL_MEASURE, else yes.
        """
        if timeout is not None and not timeout > 0:
            raise argument_error(f"timeout={timeout}: a number of seconds above 0, or None for the default")
        bridge = Bridge(store) if store is not None else None
        made, err = ctypes.c_void_p(), CError()
        asked = CCommOptions(
            ctypes.sizeof(CCommOptions),
            ctypes.pointer(bridge.c) if bridge else None,
            plan.encode() if plan is not None else None,
            transports.encode() if transports is not None else None,
            interfaces.encode() if interfaces is not None else None,
            max(1, int(timeout * 1000)) if timeout else 0,
            -1 if progress_threads is None else progress_threads,
            -1 if measure is None else int(measure),
        )
        rc = lib.ddl_comm_create(ctypes.byref(asked), ctypes.byref(made), ctypes.byref(err))
        if rc:
            raise error(rc, err.text.decode()) from (bridge.exception if bridge else None)
        assert made.value
        return cls(made.value)

    def split(self, color: Optional[int], key: int = 0) -> Optional["Comm"]:
        """Makes communicators of parts, one for each color. Collective; blocks.

        Args:
            color: 0 or more: which part this rank belongs to; None: none, and None is returned.
            key: ranks of a part are numbered by (key, rank here).
        """
        made, err = ctypes.c_void_p(), CError()
        rc = lib.ddl_comm_split(self._live(), -1 if color is None else color, key, ctypes.byref(made), ctypes.byref(err))
        if rc:
            raise error(rc, err.text.decode())
        return type(self)(made.value) if made.value else None

    def dup(self) -> "Comm":
        """Makes a communicator of the same ranks with requests of its own. Collective; blocks."""
        made, err = ctypes.c_void_p(), CError()
        rc = lib.ddl_comm_dup(self._live(), ctypes.byref(made), ctypes.byref(err))
        if rc:
            raise error(rc, err.text.decode())
        assert made.value
        return type(self)(made.value)

    def destroy(self) -> None:
        """Ends it, its requests too; says goodbye to the other ranks (at most ten seconds). Twice does nothing.

        Raises:
            ddl.ArgumentError: arrays of :meth:`alloc` are alive, or a request is active.
        """
        if self._handle and len(self._memory):
            raise argument_error("arrays of alloc() are still in use, and their memory would end: delete them first")
        self._end()

    def close(self, at_exit: bool = False) -> None:
        """:meth:`destroy` for whoever is done: calls under way are aborted on all ranks; while arrays of :meth:`alloc` are used,
        the end waits for them, at the latest for the end of the program."""
        if self._handle and self._busy():
            self.abort("a rank ended the communicator while calls on it were under way")
        self._closing = True
        if at_exit or not len(self._memory):
            self._end()

    def _busy(self) -> bool:
        handles = [r._handle for r in list(self._requests) if r._handle] + [h for h, _ in self._orphans]
        return any(lib.ddl_test(h) == 0 for h in handles)

    def _end(self) -> None:
        if not self._handle:
            return
        for request in list(self._requests):
            request.free()
        for handle, _ in self._orphans:
            if lib.ddl_request_free(handle):
                raise argument_error("a request that was dropped is still active: wait for requests before you drop them")
        self._orphans.clear()
        handle, self._handle = self._handle, None
        lib.ddl_comm_destroy(handle)

    def abort(self, reason: Optional[str] = None) -> None:
        """Aborts it: every waiting and later call on any rank raises :class:`ddl.AbortedError` with this reason. Does not block."""
        lib.ddl_comm_abort(self._live(), reason.encode() if reason is not None else None)

    def error(self) -> Optional[Error]:
        """The first failure, None if there was none. Never blocks."""
        err = CError()
        rc = lib.ddl_comm_get_error(self._live(), ctypes.byref(err))
        return error(rc, err.text.decode()) if rc else None

    # ---- what it is

    @property
    def plan(self) -> str:
        """The plan in force as one line of text, the same on every rank."""
        return lib.ddl_comm_plan(self._live()).decode()

    def order(self, ring: int = 0) -> List[int]:
        """The ranks in the order of a ring of the plan, 0 to 63."""
        ranks = (ctypes.c_int * self.size)()
        rc = lib.ddl_comm_order(self._live(), ring, ranks)
        if rc:
            raise error(rc, f"ring {ring} does not exist: give one from 0 to 63")
        return list(ranks)

    def node_name(self, rank: int) -> str:
        """The name of a rank's node."""
        name = lib.ddl_comm_node_name(self._live(), rank)
        if name is None:
            raise argument_error(f"rank {rank} does not exist: give one from 0 to {self.size - 1}")
        return name.decode()

    def __repr__(self) -> str:
        return f"<ddl.Comm rank {self.rank} of {self.size}{'' if self._handle else ', destroyed'}>"

    def alloc(self, shape: Union[int, Sequence[int]], dtype: Any = "float32") -> Any:
        """A numpy array of zeros in memory that the ranks of a node reduce in place, without copies (ddl_mem_alloc).

        It lives as long as it or a view of it is used; the communicator must live longer. Not collective.
        """
        import numpy

        kind = numpy.dtype(dtype)
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for d in dims:
            count *= d
        raw = self.alloc_bytes(count * kind.itemsize)
        return numpy.frombuffer(raw, numpy.uint8, count * kind.itemsize).view(kind).reshape(dims)

    def alloc_bytes(self, size: int) -> Any:
        """The same as a ctypes array of so many bytes (at least one)."""
        memory, err = ctypes.c_void_p(), CError()
        rc = lib.ddl_mem_alloc(self._live(), size, ctypes.byref(memory), ctypes.byref(err))
        if rc:
            raise error(rc, err.text.decode())
        assert memory.value
        raw = (ctypes.c_uint8 * max(size, 1)).from_address(memory.value)
        self._memory.add(_Hashed(raw))
        weakref.finalize(raw, _give_back, weakref.ref(self), memory.value).atexit = False
        return raw

    def keep_bytes(self, size: int) -> int:
        """The address of such memory that stays until the communicator ends, whoever uses it."""
        self._kept.append(self.alloc_bytes(size))
        return ctypes.addressof(self._kept[-1])

    def _live(self) -> int:
        if not self._handle:
            raise argument_error("the communicator was destroyed: make another one")
        return self._handle

    # ---- running

    def _run(self, ask: _Ask) -> Any:
        """The blocking form."""
        name, arguments, send, recv = ask
        rc = getattr(lib, "ddl_" + name)(*arguments, self._live())
        if rc:
            raise self.error() or error(rc, f"{name} was refused; the sentence before says why")
        return (recv if recv is not NOTHING else send).owner

    def _make(self, ask: _Ask, keywords: Any) -> Request:
        """The persistent form."""
        name, arguments, send, recv = ask
        made, err = ctypes.c_void_p(), CError()
        asked = options(**keywords)
        call = getattr(lib, "ddl_" + name + "_init")
        rc = call(*arguments, self._live(), ctypes.byref(asked), ctypes.byref(made), ctypes.byref(err))
        if rc:
            raise error(rc, err.text.decode())
        assert made.value
        request = Request(self, made.value, send, recv)
        self._requests.add(request)
        return request

    def make(self, name: str, arguments: Tuple[Any, ...], **keywords: Any) -> Request:
        """A persistent request by the C call's name and its arguments up to the communicator, for those who know addresses."""
        return self._make((name, arguments, NOTHING, NOTHING), keywords)

    # ---- the collectives

    def allreduce(self, send: Any, recv: Any = None, op: Union[Op, str] = Op.SUM) -> Any:
        """recv[i] = op over all ranks of send[i]. All ranks get the same bits."""
        return self._run(self._allreduce(send, recv, op))

    def allreduce_init(self, send: Any, recv: Any = None, op: Union[Op, str] = Op.SUM, **keywords: Any) -> Request:
        """:meth:`allreduce` as a persistent request."""
        return self._make(self._allreduce(send, recv, op), keywords)

    def _allreduce(self, send: Any, recv: Any, op: Union[Op, str]) -> _Ask:
        a, b = _pair(send, recv)
        _same(a, b, a.count)
        return "allreduce", (a.address, b.address, a.count, a.type, word(Op, op, "operation")), a, b

    def broadcast(self, data: Any, root: int = 0) -> Any:
        """data of every rank becomes that of rank root."""
        return self._run(self._broadcast(data, root))

    def broadcast_init(self, data: Any, root: int = 0, **keywords: Any) -> Request:
        """:meth:`broadcast` as a persistent request."""
        return self._make(self._broadcast(data, root), keywords)

    def _broadcast(self, data: Any, root: int) -> _Ask:
        a = _given(buffer(data, root != self.rank, "buffer"), "buffer")
        return "broadcast", (a.address, a.count, a.type, root), a, a

    def barrier(self) -> None:
        """No rank returns before every rank has called it."""
        self._run(("barrier", (), NOTHING, NOTHING))

    def barrier_init(self, **keywords: Any) -> Request:
        """:meth:`barrier` as a persistent request."""
        return self._make(("barrier", (), NOTHING, NOTHING), keywords)

    def reduce_scatter(self, send: Any, recv: Any, op: Union[Op, str] = Op.SUM, counts: Optional[Sequence[int]] = None) -> Any:
        """recv of rank r = block r of the sum: size equal blocks, or blocks of counts[r] elements (the same on every rank)."""
        return self._run(self._reduce_scatter(send, recv, op, counts))

    def reduce_scatter_init(
        self, send: Any, recv: Any, op: Union[Op, str] = Op.SUM, counts: Optional[Sequence[int]] = None, **keywords: Any
    ) -> Request:
        """:meth:`reduce_scatter` as a persistent request."""
        return self._make(self._reduce_scatter(send, recv, op, counts), keywords)

    def _reduce_scatter(self, send: Any, recv: Any, op: Union[Op, str], counts: Optional[Sequence[int]]) -> _Ask:
        a, b = _given(buffer(send, False, "send buffer"), "send buffer"), _given(
            buffer(recv, True, "receive buffer"), "receive buffer"
        )
        name, count, mine = self._blocks("reduce_scatter", counts, b.count)
        _length(a, "send buffer", self.size * b.count if counts is None else sum(counts))
        _same(a, b, mine)
        return name, (a.address, b.address, count, a.type, word(Op, op, "operation")), a, b

    def allgather(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None) -> Any:
        """recv = the send buffers of all ranks in their order: equal ones, or of counts[r] elements (the same on every rank)."""
        return self._run(self._allgather(send, recv, counts))

    def allgather_init(self, send: Any, recv: Any, counts: Optional[Sequence[int]] = None, **keywords: Any) -> Request:
        """:meth:`allgather` as a persistent request."""
        return self._make(self._allgather(send, recv, counts), keywords)

    def _allgather(self, send: Any, recv: Any, counts: Optional[Sequence[int]]) -> _Ask:
        a, b = _given(buffer(send, False, "send buffer"), "send buffer"), _given(
            buffer(recv, True, "receive buffer"), "receive buffer"
        )
        name, count, mine = self._blocks("allgather", counts, a.count)
        _length(a, "send buffer", mine)
        _same(a, b, self.size * a.count if counts is None else sum(counts))
        return name, (a.address, b.address, count, a.type), a, b

    def reduce(self, send: Any, recv: Any = None, op: Union[Op, str] = Op.SUM, root: int = 0) -> Any:
        """On rank root, recv[i] = op over all ranks of send[i]; elsewhere recv is not looked at."""
        return self._run(self._reduce(send, recv, op, root))

    def reduce_init(self, send: Any, recv: Any = None, op: Union[Op, str] = Op.SUM, root: int = 0, **keywords: Any) -> Request:
        """:meth:`reduce` as a persistent request."""
        return self._make(self._reduce(send, recv, op, root), keywords)

    def _reduce(self, send: Any, recv: Any, op: Union[Op, str], root: int) -> _Ask:
        if self.rank == root:
            a, b = _pair(send, recv)
            _same(a, b, a.count)
        else:
            a, b = _given(buffer(send, False, "send buffer"), "send buffer"), NOTHING
        return "reduce", (a.address, b.address, a.count, a.type, word(Op, op, "operation"), root), a, b

    def alltoall(
        self,
        send: Any,
        recv: Any,
        send_counts: Optional[Sequence[int]] = None,
        recv_counts: Optional[Sequence[int]] = None,
    ) -> Any:
        """Block r of send goes to rank r; block r of recv comes from rank r. Equal blocks, or blocks by both counts."""
        return self._run(self._alltoall(send, recv, send_counts, recv_counts))

    def alltoall_init(
        self,
        send: Any,
        recv: Any,
        send_counts: Optional[Sequence[int]] = None,
        recv_counts: Optional[Sequence[int]] = None,
        **keywords: Any,
    ) -> Request:
        """:meth:`alltoall` as a persistent request."""
        return self._make(self._alltoall(send, recv, send_counts, recv_counts), keywords)

    def _alltoall(self, send: Any, recv: Any, send_counts: Optional[Sequence[int]], recv_counts: Optional[Sequence[int]]) -> _Ask:
        a, b = _given(buffer(send, False, "send buffer"), "send buffer"), _given(
            buffer(recv, True, "receive buffer"), "receive buffer"
        )
        if (send_counts is None) != (recv_counts is None):
            raise argument_error("all-to-all takes both counts or none")
        if send_counts is None or recv_counts is None:
            if a.count % self.size:
                raise argument_error(f"the send buffer's {a.count} elements do not make {self.size} equal blocks: give counts")
            _same(a, b, a.count)
            return "alltoall", (a.address, b.address, a.count // self.size, a.type), a, b
        _length(a, "send buffer", sum(send_counts))
        _same(a, b, sum(recv_counts))
        arguments = (a.address, self._counts(send_counts), b.address, self._counts(recv_counts), a.type)
        return "alltoall_counts", arguments, a, b

    def gather(self, send: Any, recv: Any = None, root: int = 0, counts: Optional[Sequence[int]] = None) -> Any:
        """On rank root, recv = the send buffers of all ranks in their order; elsewhere recv is not looked at."""
        return self._run(self._gather(send, recv, root, counts))

    def gather_init(
        self, send: Any, recv: Any = None, root: int = 0, counts: Optional[Sequence[int]] = None, **keywords: Any
    ) -> Request:
        """:meth:`gather` as a persistent request."""
        return self._make(self._gather(send, recv, root, counts), keywords)

    def _gather(self, send: Any, recv: Any, root: int, counts: Optional[Sequence[int]]) -> _Ask:
        a, b = _given(buffer(send, False, "send buffer"), "send buffer"), NOTHING
        name, count, mine = self._blocks("gather", counts, a.count)
        _length(a, "send buffer", mine)
        if self.rank == root:
            b = _given(buffer(recv, True, "receive buffer"), "receive buffer")
            _same(a, b, self.size * a.count if counts is None else sum(counts))
        return name, (a.address, b.address, count, a.type, root), a, b

    def scatter(self, send: Any, recv: Any, root: int = 0, counts: Optional[Sequence[int]] = None) -> Any:
        """recv of rank r = block r of rank root's send buffer; elsewhere send is not looked at."""
        return self._run(self._scatter(send, recv, root, counts))

    def scatter_init(self, send: Any, recv: Any, root: int = 0, counts: Optional[Sequence[int]] = None, **keywords: Any) -> Request:
        """:meth:`scatter` as a persistent request."""
        return self._make(self._scatter(send, recv, root, counts), keywords)

    def _scatter(self, send: Any, recv: Any, root: int, counts: Optional[Sequence[int]]) -> _Ask:
        a, b = NOTHING, _given(buffer(recv, True, "receive buffer"), "receive buffer")
        name, count, mine = self._blocks("scatter", counts, b.count)
        _length(b, "receive buffer", mine)
        if self.rank == root:
            a = _given(buffer(send, False, "send buffer"), "send buffer")
            _length(a, "send buffer", self.size * b.count if counts is None else sum(counts))
            _same(a, b, mine)
        return name, (a.address, b.address, count, b.type, root), a, b

    def send(self, data: Any, peer: int, tag: int = 0) -> None:
        """Sends data to rank peer. A long message may wait for the receive."""
        self._run(self._send(data, peer, tag))

    def send_init(self, data: Any, peer: int, tag: int = 0, **keywords: Any) -> Request:
        """:meth:`send` as a persistent request: the n-th to a peer with a tag meets the peer's n-th :meth:`recv_init`."""
        return self._make(self._send(data, peer, tag), keywords)

    def _send(self, data: Any, peer: int, tag: int) -> _Ask:
        a = _given(buffer(data, False, "buffer"), "buffer")
        return "send", (a.address, a.count, a.type, peer, tag), a, NOTHING

    def recv(self, data: Any, peer: int, tag: int = 0) -> Any:
        """Receives data from rank peer: as many elements of the same type as it sends."""
        return self._run(self._recv(data, peer, tag))

    def recv_init(self, data: Any, peer: int, tag: int = 0, **keywords: Any) -> Request:
        """:meth:`recv` as a persistent request."""
        return self._make(self._recv(data, peer, tag), keywords)

    def _recv(self, data: Any, peer: int, tag: int) -> _Ask:
        b = _given(buffer(data, True, "buffer"), "buffer")
        return "recv", (b.address, b.count, b.type, peer, tag), NOTHING, b

    # ---- arguments

    def _counts(self, counts: Sequence[int]) -> Any:
        if len(counts) != self.size or min(counts) < 0:
            raise argument_error(f"the counts are {list(counts)}: give one of 0 or more for each of the {self.size} ranks")
        return (ctypes.c_size_t * self.size)(*counts)

    def _blocks(self, name: str, counts: Optional[Sequence[int]], count: int) -> Tuple[str, Any, int]:
        """The call by counts or by equal blocks, its count argument, and how long this rank's block is."""
        if counts is None:
            return name, count, count
        return name + "_counts", self._counts(counts), counts[self.rank]


class _Hashed:
    """Stands for a ctypes array in a WeakSet, which needs a hash; lives as long as the array does."""

    def __init__(self, raw: Any) -> None:
        raw.stands_for = self


def _give_back(comm: "weakref.ref[Comm]", memory: int) -> None:
    alive = comm()
    if alive is not None and alive._handle:
        lib.ddl_mem_free(alive._handle, memory)
        if alive._closing and not len(alive._memory):
            alive._end()


def _given(b: Buffer, what: str) -> Buffer:
    if b.type is None:
        raise argument_error(f"the {what} is missing")
    return b


def _pair(send: Any, recv: Any) -> Tuple[Buffer, Buffer]:
    """Two buffers, or one in place."""
    if recv is None or recv is send:
        a = _given(buffer(send, True, "buffer"), "buffer")
        return a, a
    return _given(buffer(send, False, "send buffer"), "send buffer"), _given(buffer(recv, True, "receive buffer"), "receive buffer")


def _length(b: Buffer, what: str, count: int) -> None:
    if b.count != count:
        raise argument_error(f"the {what} has {b.count} elements where {count} are needed")


def _same(send: Buffer, recv: Buffer, count: int) -> None:
    if send.type != recv.type:
        names = [Type(b.type).name.lower() for b in (send, recv) if b.type is not None]
        raise argument_error(f"the send buffer is {names[0]} and the receive buffer {names[-1]}: give buffers of one type")
    _length(recv, "receive buffer", count)


def _at_exit(owner: int = os.getpid()) -> None:
    """Ends what is left. After an exception that nobody caught, the other ranks hear of it instead of waiting."""
    if os.getpid() != owner:
        return
    cause = getattr(sys, "last_value", None)
    for _, comm in sorted(_all.items()):
        try:
            if cause is not None and comm._handle:
                comm.abort(f"rank {comm.rank} ended with {type(cause).__name__}: {cause}"[:300])
            comm.close(at_exit=True)
        except Error:
            pass  # the process ends anyway


atexit.register(_at_exit)

__all__ = ["Comm", "type_of"]
