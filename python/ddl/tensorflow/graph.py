# SPDX-License-Identifier: Apache-2.0
"""All-reduces as operations of TensorFlow's graph: in order, started and finished apart."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy
import tensorflow as tf

import ddl

from .._buffers import type_of
from .._library import Op
from .._progress import progress
from ..comm import Comm

_turn: Any = None  # a variable that every call writes before and after: TensorFlow keeps accesses to a variable in order
_shared: "weakref.WeakKeyDictionary[Comm, Dict[Any, Sum]]" = weakref.WeakKeyDictionary()


def ranks_of(comm: Optional[Comm]) -> Comm:
    """The communicator, or that of ddl.init(), with a service thread where it is made now."""
    if comm is not None:
        return comm
    return ddl.init() if ddl._world is not None else ddl.init(**progress())


def ordered(function: Callable[..., Any], inputs: Sequence[Any], like: Sequence[Any]) -> List[Any]:
    """function(arrays of inputs) as an operation, in the order of the program; its results have the types and shapes of `like`."""
    global _turn
    if _turn is None:
        with tf.init_scope():
            _turn = tf.Variable(0, dtype=tf.int64, trainable=False, name="ddl_turn")
    with tf.control_dependencies([_turn.assign_add(1)]):
        results = tf.numpy_function(function, list(inputs), [t.dtype for t in like])
    if not isinstance(results, (list, tuple)):
        results = [results]
    with tf.control_dependencies(list(results)):
        _turn.assign_add(1)
    for result, t in zip(results, like):
        result.set_shape(t.shape)
    return list(results)


class Sum:
    """One all-reduce of several arrays, which travel together where they have one type. Made when it first runs: there ranks agree
    on the order."""

    def __init__(self, comm: Comm, op: int, tensors: Sequence[Any], options: Dict[str, Any]) -> None:
        for t in tensors:
            type_of(t.dtype.name)
        ddl.options(**options)  # wrong ones are refused now
        self._comm, self._op, self._options = comm, op, options
        self._parts: Dict[Any, Tuple[Any, Any, List[int]]] = {}  # by element type: memory, request, which of the arrays
        self._shapes: List[Tuple[int, ...]] = []
        self._running = False

    @classmethod
    def shared(cls, comm: Comm, op: int, tensors: Sequence[Any], options: Dict[str, Any]) -> "Sum":
        """The one of a blocking call: the same for all calls of a kind."""
        kind = (op, tuple((t.dtype, tuple(t.shape)) if t.shape.rank is not None else None for t in tensors), tuple(options.items()))
        kept = _shared.setdefault(comm, {})
        if kind not in kept:
            kept[kind] = cls(comm, op, tensors, options)
        return kept[kind]

    def _lay(self, arrays: Sequence[Any]) -> None:
        """Memory and requests for arrays of these shapes, which are those of the run before but where a dimension is open."""
        shapes = [a.shape for a in arrays]
        if shapes == self._shapes:
            return
        for _, request, _ in self._parts.values():
            request.free()
        self._parts, self._shapes = {}, shapes
        members: Dict[Any, List[int]] = {}
        for i, a in enumerate(arrays):
            members.setdefault(a.dtype, []).append(i)
        for kind, numbers in members.items():
            memory = numpy.empty(sum(arrays[i].size for i in numbers), kind)
            self._parts[kind] = memory, self._comm.allreduce_init(memory, op=Op(self._op), **self._options), numbers

    def start(self, arrays: Sequence[Any]) -> None:
        """Takes a copy of the arrays and starts; does not block."""
        self._comm._live()
        if self._running:
            self.finish()  # the step before ended with an exception in between
        self._lay(arrays)
        self._running = True
        for memory, request, numbers in self._parts.values():
            begin = 0
            for i in numbers:
                memory[begin : begin + arrays[i].size] = arrays[i].reshape(-1)
                begin += arrays[i].size
            request.start()

    def finish(self) -> List[Any]:
        """Waits; arrays that are the caller's."""
        results: List[Any] = [None] * len(self._shapes)
        try:
            for memory, request, numbers in self._parts.values():
                request.wait()
                begin = 0
                for i in numbers:
                    count = int(numpy.prod(self._shapes[i], dtype=numpy.int64))
                    results[i] = memory[begin : begin + count].reshape(self._shapes[i]).copy()
                    begin += count
        finally:
            self._running = False
        return results
