# SPDX-License-Identifier: Apache-2.0
"""The process group of backend "ddl": torch.distributed's collectives on tensors of the CPU."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._library import Op, Type
from ..comm import Comm
from ..errors import argument_error
from ..request import Request
from . import sparse
from .work import Completer, Pool, Several, Work

_TYPES = {
    torch.float64: (Type.FLOAT64, 1),
    torch.float32: (Type.FLOAT32, 1),
    torch.float16: (Type.FLOAT16, 1),
    torch.bfloat16: (Type.BFLOAT16, 1),
    torch.int64: (Type.INT64, 1),
    torch.int32: (Type.INT32, 1),
    torch.int8: (Type.INT8, 1),
    torch.uint8: (Type.UINT8, 1),
    torch.bool: (Type.UINT8, 1),
    torch.complex64: (Type.FLOAT32, 2),
    torch.complex128: (Type.FLOAT64, 2),
}
_OPS = {"SUM": Op.SUM, "AVG": Op.AVG, "MIN": Op.MIN, "MAX": Op.MAX, "PRODUCT": Op.PROD}
_BOOL_OPS = {"SUM": Op.MAX, "MAX": Op.MAX, "BOR": Op.MAX, "MIN": Op.MIN, "BAND": Op.MIN, "PRODUCT": Op.MIN}
_HELD_MAX = 1024  # works that nobody has waited for
_groups: "weakref.WeakSet[ProcessGroup]" = weakref.WeakSet()


def operation(op: Any, dtype: torch.dtype) -> Op:
    """What torch's ReduceOp means for elements of this type."""
    name = str(getattr(op, "op", op)).rpartition(".")[2].rstrip(">:0123456789 ")
    table = _BOOL_OPS if dtype == torch.bool else _OPS
    found = table.get(name)
    if found is None or (dtype.is_complex and found not in (Op.SUM, Op.AVG)):
        raise argument_error(f"backend ddl has no {name} of {dtype}: give one of {', '.join(table)}")
    return found


def _check(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        kind = f"on device {tensor.device}" if tensor.device.type != "cpu" else "sparse"
        raise argument_error(f"backend ddl works on dense tensors of the CPU, and this one is {kind}: convert it first")
    return tensor


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class Place:
    """A contiguous tensor to send from or receive into in place of one or several that the caller has."""

    __slots__ = ("tensor", "elements", "bytes", "_to")

    def __init__(self, tensor: torch.Tensor, to: Optional[List[torch.Tensor]] = None, elements: int = -1) -> None:
        self.tensor = tensor
        self.elements = tensor.numel() if elements < 0 else elements
        self.bytes = self.elements * tensor.element_size()
        self._to = to

    @classmethod
    def of(cls, tensor: torch.Tensor, fill: bool = True) -> "Place":
        """fill: its contents count."""
        _check(tensor)
        if tensor.is_contiguous():
            return cls(tensor)
        return cls(tensor.contiguous() if fill else torch.empty(tensor.shape, dtype=tensor.dtype), [tensor])

    @classmethod
    def of_all(cls, tensors: Any, fill: bool) -> "Place":
        """One memory for a list: the tensors' own where they follow one another in one storage."""
        at = None
        for t in tensors:
            _check(t)
            if not t.is_contiguous() or t.dtype != tensors[0].dtype or (at is not None and t.data_ptr() != at):
                break
            at = t.data_ptr() + _bytes(t)
        else:
            return cls(tensors[0], None, sum(t.numel() for t in tensors))  # the address of the first is that of all
        if any(t.dtype != tensors[0].dtype for t in tensors):
            raise argument_error("the tensors of a list differ in type")
        whole = (
            torch.cat([t.reshape(-1) for t in tensors])
            if fill
            else torch.empty(sum(t.numel() for t in tensors), dtype=tensors[0].dtype)
        )
        return cls(whole, tensors)

    @property
    def at(self) -> int:
        return self.tensor.data_ptr()

    def spread(self) -> None:
        """The results to the caller's tensors."""
        if self._to is None:
            return
        begin = 0
        flat = self.tensor.reshape(-1)
        for t in self._to:
            t.copy_(flat[begin : begin + t.numel()].view(t.shape))
            begin += t.numel()

    @property
    def finish(self) -> Optional[Callable[[], None]]:
        return None if self._to is None else self.spread


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Ranks of torch.distributed with a communicator of their own. Calls return a Work at once; failures raise when it is waited
    for."""

    def __init__(self, comm: Comm) -> None:
        super().__init__(comm.rank, comm.size)
        self.comm = comm
        self._me, self._n = comm.rank, comm.size
        self._pool = Pool()
        self._messages: Dict[Tuple[str, int, int], Pool] = {}
        self._lock = threading.RLock()
        self._completer: Optional[Completer] = None
        self._held: Dict[int, Any] = {}  # C++ may hold a Work whose Python half nobody else does
        _groups.add(self)

    # ---- for works

    def hold(self, work: Any) -> None:
        self._held[id(work)] = work
        if len(self._held) > _HELD_MAX:
            for key in [k for k, w in list(self._held.items())[: _HELD_MAX // 2] if w.is_completed()]:
                self._held.pop(key, None)

    def release(self, work: Any) -> None:
        self._held.pop(id(work), None)

    def complete(self, work: Work, told: Any, message: bool) -> None:
        """Has a thread wait for it. Collectives come in one order on all ranks, so one thread does; messages must not block
        each other."""
        if message:
            Completer.once(work, told)
            return
        with self._lock:
            if self._completer is None:
                self._completer = Completer()
        self._completer.add(work, told)

    def _call(
        self,
        name: str,
        arguments: Tuple[Any, ...],
        send: int,
        recv: int,
        keep: Any,
        result: Any,
        finish: Any = None,
        pool: Any = None,
    ) -> Work:
        """arguments: as the C call has them, without the communicator; None stands for the addresses of send and recv in turn."""
        with self._lock:
            slot = (pool or self._pool).take((name, *arguments), lambda: self._make(name, arguments, send, recv))
            work = Work(self, slot, send, recv, keep, result, finish, pool is not None)
        self.hold(work)
        return work

    def _make(self, name: str, arguments: Tuple[Any, ...], send: int, recv: int) -> Request:
        addresses = iter((send, recv) if arguments.count(None) == 2 else (recv or send,))
        size_array = ctypes.c_size_t * self._n
        made = tuple(next(addresses) if a is None else size_array(*a) if isinstance(a, tuple) else a for a in arguments)
        return self.comm.make(name, made)

    def _done(self, result: Any) -> Work:
        work = Work(self, None, result=result)
        self.hold(work)
        return work

    # ---- reductions

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Each element of the tensor becomes the reduction over all ranks; op SUM, AVG, MIN, MAX, PRODUCT."""
        tensor, op = _only(tensors), getattr(opts, "reduceOp", opts)
        op = operation(dist.ReduceOp.SUM if op is None else op, tensor.dtype)
        if tensor.layout == torch.sparse_coo and tensor.device.type == "cpu":
            sparse.allreduce(self, tensor, op)
            return self._done([tensor])
        place = Place.of(tensor)
        kind, times = element_type(tensor)
        at = place.at
        arguments = (None, None, tensor.numel() * times, kind, op)
        return self._call("allreduce", arguments, at, at, place, [tensor], place.finish)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        return Several(self, [self.allreduce([t], opts) for t in tensors], list(tensors))

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None) -> Any:
        """The tensor of rank rootRank becomes the reduction; others keep theirs."""
        tensor, root = _only(tensors), getattr(opts, "rootRank", opts)
        op = getattr(opts, "reduceOp", op)
        place = Place.of(tensor)
        kind, times = element_type(tensor)
        arguments = (
            None,
            None,
            tensor.numel() * times,
            kind,
            operation(dist.ReduceOp.SUM if op is None else op, tensor.dtype),
            root,
        )
        mine = root == self._me
        return self._call("reduce", arguments, place.at, place.at if mine else 0, place, [tensor], place.finish if mine else None)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:  # noqa: A002 (torch's name)
        return self._scatter_sum(Place.of(output, False), Place.of(input), output, opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        output = _only(outputs)
        parts = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
        counts = [t.numel() for t in parts]
        equal = all(c == output.numel() for c in counts)
        return self._scatter_sum(Place.of(output, False), Place.of_all(parts, True), output, opts, None if equal else counts)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return Several(self, [self._reduce_scatter_base(o, i, opts) for o, i in zip(outputs, inputs)], list(outputs))

    def _scatter_sum(self, out: Place, whole: Place, output: torch.Tensor, opts: Any, counts: Optional[List[int]] = None) -> Any:
        kind, times = element_type(output)
        op = getattr(opts, "reduceOp", opts)
        op = operation(dist.ReduceOp.SUM if op is None else op, output.dtype)
        if counts is None and whole.elements != output.numel() * self._n:
            raise argument_error(f"reduce-scatter of {whole.elements} elements to {self._n} ranks gives no {output.numel()} each")
        name = "reduce_scatter" if counts is None else "reduce_scatter_counts"
        count = output.numel() * times if counts is None else tuple(c * times for c in counts)
        return self._call(name, (None, None, count, kind, op), whole.at, out.at, (whole, out), [output], out.finish)

    # ---- copies: of bytes, whatever the type

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        tensor, root = _only(tensors), getattr(opts, "rootRank", opts)
        place = Place.of(tensor)
        finish = None if root == self._me else place.finish
        return self._call("broadcast", (None, place.bytes, Type.UINT8, root), place.at, place.at, place, [tensor], finish)

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:  # noqa: A002 (torch's name)
        out, mine = Place.of(output, False), Place.of(input)
        if out.bytes != mine.bytes * self._n:
            raise argument_error(f"all-gather of {mine.bytes} bytes from {self._n} ranks does not fill {out.bytes} bytes")
        return self._call("allgather", (None, None, mine.bytes, Type.UINT8), mine.at, out.at, (out, mine), output, out.finish)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        parts = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        if len(parts) != self._n:
            raise argument_error(f"all-gather into {len(parts)} tensors: give one for each of the {self._n} ranks")
        out, mine = Place.of_all(parts, False), Place.of(_only(inputs))
        counts = tuple(_bytes(t) for t in parts)
        if counts[self._me] != mine.bytes:
            raise argument_error(f"all-gather of {mine.bytes} bytes into a tensor of {counts[self._me]}")
        equal = all(c == mine.bytes for c in counts)
        arguments = (None, None, mine.bytes if equal else counts, Type.UINT8)
        name = "allgather" if equal else "allgather_counts"
        return self._call(name, arguments, mine.at, out.at, (out, mine), [parts], out.finish)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return Several(self, [self.allgather([list(o)], [i], opts) for o, i in zip(zip(*outputs), inputs)], outputs)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return Several(self, [self._allgather_base(o, i, opts) for o, i in zip(outputs, inputs)], list(outputs))

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        mine, root = Place.of(_only(inputs)), getattr(opts, "rootRank", opts)
        arguments = (None, None, mine.bytes, Type.UINT8, root)
        if root != self._me:
            return self._call("gather", arguments, mine.at, 0, mine, [])
        parts = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        if len(parts) != self._n or any(_bytes(t) != mine.bytes for t in parts):
            raise argument_error(f"gather takes a tensor like the input for each of the {self._n} ranks on the root")
        out = Place.of_all(parts, False)
        return self._call("gather", arguments, mine.at, out.at, (out, mine), [parts], out.finish)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        output, root = _only(outputs), getattr(opts, "rootRank", opts)
        out, whole = Place.of(output, False), None
        if root == self._me:
            parts = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
            if len(parts) != self._n or any(_bytes(t) != out.bytes for t in parts):
                raise argument_error(f"scatter takes a tensor like the output for each of the {self._n} ranks on the root")
            whole = Place.of_all(parts, True)
        arguments = (None, None, out.bytes, Type.UINT8, root)
        return self._call("scatter", arguments, whole.at if whole else 0, out.at, (whole, out), [output], out.finish)

    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, outs: Any, ins: Any, opts: Any = None) -> Any:  # noqa: A002
        out, mine = Place.of(output, False), Place.of(input)
        if not outs and not ins:
            if mine.bytes != out.bytes or input.shape[0] % self._n:
                raise argument_error(f"all-to-all of {tuple(input.shape)} to {self._n} ranks needs split sizes")
            return self._exchange(mine, out, None, None, output)
        row = [t[0].numel() * t.element_size() if t.shape[0] else 0 for t in (input, output)]
        sends = [s * row[0] for s in ins] if ins else [mine.bytes // self._n] * self._n
        comes = [s * row[1] for s in outs] if outs else [out.bytes // self._n] * self._n
        return self._exchange(mine, out, sends, comes, output)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        out, mine = Place.of_all(outputs, False), Place.of_all(inputs, True)
        return self._exchange(mine, out, [_bytes(t) for t in inputs], [_bytes(t) for t in outputs], list(outputs))

    def _exchange(self, mine: Place, out: Place, sends: Optional[List[int]], comes: Optional[List[int]], result: Any) -> Any:
        if sends is None or comes is None:
            arguments: Tuple[Any, ...] = (None, None, mine.bytes // self._n, Type.UINT8)
            return self._call("alltoall", arguments, mine.at, out.at, (mine, out), result, out.finish)
        if len(sends) != self._n or len(comes) != self._n or sum(sends) != mine.bytes or sum(comes) != out.bytes:
            raise argument_error(f"all-to-all: the split sizes are not {self._n}, or do not add up to the tensors")
        # counts differ from rank to rank, so the request cannot be kept by them: one for the call, which ends with it
        pool = Pool()
        arguments = (None, tuple(sends), None, tuple(comes), Type.UINT8)
        work = self._call("alltoall_counts", arguments, mine.at, out.at, (mine, out, pool), result, out.finish, pool)
        return work

    def barrier(self, opts: Any = None) -> Any:
        return self._call("barrier", (), 0, 0, None, [])

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier; when a rank does not come before the group's deadline, the exception names it."""
        self.barrier().wait()

    # ---- messages

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        place = Place.of(_only(tensors))
        return self._call(
            "send", (None, place.bytes, Type.UINT8, peer, tag), place.at, 0, place, [], None, self._between("send", peer, tag)
        )

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        tensor = _only(tensors)
        place = Place.of(tensor, False)
        arguments = (None, place.bytes, Type.UINT8, peer, tag)
        return self._call("recv", arguments, 0, place.at, place, [tensor], place.finish, self._between("recv", peer, tag))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        raise argument_error("backend ddl receives from a rank that is named: give recv() a source")

    def _between(self, way: str, peer: int, tag: int) -> Pool:
        if peer == self._me or not 0 <= peer < self._n:
            raise argument_error(
                f"rank {self._me} cannot send to or receive from rank {peer}: name another one, 0 to {self._n - 1}"
            )
        return self._messages.setdefault((way, peer, tag), Pool())

    # ---- the names that PyTorch 2.15 has for some of them

    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # ---- what torch asks of a group

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "ddl"

    def name(self) -> str:
        return "ddl"

    def _get_backend(self, device: Any) -> Any:
        """What PyTorch 2 asks for the properties of: the group is its own backend, whatever the device."""
        return self

    def abort(self) -> None:
        """Every rank's calls on this group raise from now on."""
        self.comm.abort("torch.distributed aborted the process group")

    def shutdown(self) -> None:
        """Ends the group: its works are waited for, its communicator says goodbye."""
        if self._completer is not None:
            self._completer.stop()
            self._completer = None
        for pool in (self._pool, *self._messages.values()):
            pool.clear()
        self._held.clear()
        self.comm.close()

    def __del__(self) -> None:
        try:
            self.shutdown()
        except Exception:  # the interpreter may be half gone
            pass


def _only(tensors: Any) -> torch.Tensor:
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise argument_error(f"{len(tensors)} tensors at once: backend ddl takes one a call")
    return tensors[0]


def element_type(tensor: torch.Tensor) -> Tuple[Type, int]:
    """The element type to reduce in, and how many of it an element is."""
    found = _TYPES.get(tensor.dtype)
    if found is None:
        raise argument_error(f"backend ddl reduces no {tensor.dtype}: give one of {', '.join(map(str, _TYPES))}")
    return found
