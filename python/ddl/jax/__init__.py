# SPDX-License-Identifier: Apache-2.0
"""DDL for Slurm in JAX: collectives that may stand inside jit.

    import jax, ddl.jax

    parameters = ddl.jax.broadcast(parameters)               # all ranks begin with rank 0's
    @jax.jit
    def step(parameters, x, y):
        gradients = jax.grad(loss)(parameters, x, y)
        gradients = ddl.jax.allreduce(gradients, op="avg", wire="bfloat16")
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

A process is a rank and has one device, the CPU. Collectives are ordered side effects: they run once for every time that the program
comes to them, whether results are used or not, in the order of the program, also across calls of jitted functions that JAX has only
queued. So all ranks make them in the same order, as long as they run the same program, and none waits for ever.
"""

from __future__ import annotations

import atexit
import hashlib
import sys
from typing import Any, Dict, List, Optional, Union

import jax
import jax.numpy as jnp
import numpy

from .. import init
from .._buffers import type_of
from .._library import Accuracy, Op, Rounding, Wire
from ..comm import Comm
from ..errors import argument_error
from ..request import word
from . import call

SMALL = 1 << 16  # bytes below which arrays travel together


def allreduce(
    tree: Any,
    op: Union[Op, str] = Op.SUM,
    *,
    comm: Optional[Comm] = None,
    wire: Union[Wire, str] = Wire.AUTO,
    rings: int = 0,
    algorithm: Optional[str] = None,
    rounding: Union[Rounding, str] = Rounding.NEAREST,
    seed: int = 0,
    accuracy: Union[Accuracy, str] = Accuracy.AUTO,
    reproducible: Optional[bool] = None,
) -> Any:
    """The same tree with op over all ranks of each element, in or outside of jit. All ranks get the same bits.

    All arrays are under way at once; those below 64 KiB travel together. It has no derivative: take gradients first.

    Args:
        tree: arrays of float64, float32, float16, bfloat16, int64, int32, int8 or uint8; of the same shapes on every rank.
        op: "sum", "avg", "min", "max", "prod".
        comm: the ranks; None: those of :func:`ddl.init`.
        wire, rings, algorithm, rounding, seed, accuracy, reproducible: as in :func:`ddl.options`.

    Raises:
        ddl.ArgumentError: while tracing, where an argument is wrong.
        jax.errors.JaxRuntimeError: where the result is waited for, with the library's sentence, when another rank failed.
    """
    leaves, shape = jax.tree.flatten(tree)
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    for array in arrays:
        type_of(array.dtype.name)
    if not arrays:
        return tree
    numbers = (
        call.number_of(comm if comm is not None else init()),
        word(Op, op, "operation"),
        word(Wire, wire, "wire"),
        rings,
        word(Rounding, rounding, "rounding"),
        seed,
        word(Accuracy, accuracy, "accuracy"),
        -1 if reproducible is None else int(reproducible),
    )
    packed = _Packed(arrays)
    return jax.tree.unflatten(shape, packed.unpack(call.allreduce(packed.arrays, numbers, algorithm or "")))


class _Packed:
    """Arrays of which the small ones of a type are one vector, which saves a collective each."""

    def __init__(self, arrays: List[Any]) -> None:
        self._shapes = [array.shape for array in arrays]
        small: Dict[Any, List[int]] = {}
        for i, array in enumerate(arrays):
            if array.size * array.dtype.itemsize < SMALL:
                small.setdefault(array.dtype, []).append(i)
        together = [members for members in small.values() if len(members) > 1]
        alone = set(range(len(arrays))) - {i for members in together for i in members}
        self._parts = together + [[i] for i in sorted(alone)]
        self.arrays = [
            jnp.concatenate([arrays[i].reshape(-1) for i in members]) if len(members) > 1 else arrays[members[0]]
            for members in self._parts
        ]

    def unpack(self, arrays: List[Any]) -> List[Any]:
        found: Dict[int, Any] = {}
        for members, array in zip(self._parts, arrays):
            begin = 0
            for i in members:
                count = int(numpy.prod(self._shapes[i], dtype=numpy.int64))
                found[i] = array.reshape(-1)[begin : begin + count].reshape(self._shapes[i])
                begin += count
        return [found[i] for i in range(len(self._shapes))]


def broadcast(tree: Any, root: int = 0, *, comm: Optional[Comm] = None) -> Any:
    """The tree of rank `root` on every rank: for parameters before the first step. Not inside jit; blocks.

    Args:
        tree: arrays of any type, of the same shapes and types on every rank.
        root: the rank whose arrays count.
        comm: the ranks; None: those of :func:`ddl.init`.
    """
    comm = comm if comm is not None else init()
    finish()

    def one(leaf: Any) -> Any:
        data = numpy.array(leaf)  # a copy, which may be written to
        if data.nbytes:
            comm.broadcast(data.reshape(-1).view(numpy.uint8), root)
        return jnp.asarray(data)

    return jax.tree.map(one, _outside(tree))


def replicas_equal(tree: Any, *, comm: Optional[Comm] = None) -> bool:
    """Whether the trees of all ranks are the same to the bit. Not inside jit; blocks; the same answer on every rank."""
    comm = comm if comm is not None else init()
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(_outside(tree)):
        digest.update(numpy.asarray(leaf).tobytes())
    finish()
    low = numpy.frombuffer(digest.digest(), numpy.uint8).copy()
    high = low.copy()
    comm.allreduce(low, op=Op.MIN)
    comm.allreduce(high, op=Op.MAX)
    return bool((low == high).all())


def finish() -> None:
    """Waits for all collectives that JAX has queued. The other functions here do it themselves; call it before you use a
    communicator of this module by other means. Raises what they failed with."""
    jax.effects_barrier()


def _outside(tree: Any) -> Any:
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree)):
        raise argument_error(
            "this call blocks and is of no use inside jit: call it outside; inside jit there is ddl.jax.allreduce()"
        )
    return tree


def _at_exit() -> None:
    """What is queued runs before the communicators end, unless the program has failed and the others are to hear of it."""
    if getattr(sys, "last_value", None) is None:
        try:
            finish()
        except Exception:  # noqa: B902 (whoever waited for the result has been told)
            pass


atexit.register(_at_exit)

__all__ = ["allreduce", "broadcast", "finish", "replicas_equal"]
