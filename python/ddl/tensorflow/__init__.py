# SPDX-License-Identifier: Apache-2.0
"""DDL for Slurm in TensorFlow and Keras.

    import keras, ddl.tensorflow

    optimizer = ddl.tensorflow.DistributedOptimizer(keras.optimizers.SGD(0.1), wire="bfloat16")
    model.compile(optimizer, loss=..., jit_compile=False)
    ddl.tensorflow.broadcast(model.variables)                # all ranks begin with rank 0's
    model.fit(...)

    ddl.tensorflow.allreduce(tensor, op="avg")               # also inside tf.function

Calls are operations of Python in TensorFlow's graph (tf.numpy_function). They run in the order of the program, also from one
tf.function to the next and inside loops and branches, so all ranks make them in the same order as long as they run one program.
XLA cannot compile them: give jit_compile=False, where Keras would compile by itself. Tensors are of the CPU.
"""

from __future__ import annotations

import hashlib
from typing import Any, Iterable, Optional, Union

import numpy
import tensorflow as tf

from .._library import Op
from ..comm import Comm
from ..errors import argument_error
from ..request import word
from .graph import Sum, ordered, ranks_of
from .optimizer import DistributedOptimizer


@tf.autograph.experimental.do_not_convert  # it is Python, whoever calls it
def allreduce(tensors: Any, op: Union[Op, str] = Op.SUM, *, comm: Optional[Comm] = None, **options: Any) -> Any:
    """The same structure with op over all ranks of each element, in or outside of tf.function. All ranks get the same bits.

    All tensors are under way at once. It has no derivative: take gradients first, then reduce them.

    Args:
        tensors: a tensor or a structure of tensors of float64, float32, float16, bfloat16, int64, int32, int8 or uint8; of the same
            shapes on every rank.
        op: "sum", "avg", "min", "max", "prod".
        comm: the ranks; None: those of :func:`ddl.init`.
        options: of :func:`ddl.options`: wire, accuracy, rounding, seed, algorithm, rings, reproducible.

    Raises:
        ddl.ArgumentError: where an argument is wrong.
        tensorflow.errors.OpError: with the library's sentence, when another rank failed.
    """
    flat = [tf.convert_to_tensor(t) for t in tf.nest.flatten(tensors)]
    if not flat:
        return tensors
    work = Sum.shared(ranks_of(comm), word(Op, op, "operation"), flat, options)

    def run(*values: Any) -> Any:
        work.start(values)
        return work.finish()

    return tf.nest.pack_sequence_as(tensors, ordered(run, flat, flat))


@tf.autograph.experimental.do_not_convert
def broadcast(variables: Iterable[Any], root: int = 0, *, comm: Optional[Comm] = None) -> None:
    """Sets variables to those of rank `root`: before the first step. Not inside tf.function; blocks.

    Args:
        variables: of TensorFlow or Keras, of numbers; as many, of the same shapes and types, on every rank.
        root: the rank whose values count.
        comm: the ranks; None: those of :func:`ddl.init`.
    """
    ranks = ranks_of(comm)
    _outside()
    for variable in variables:
        data = numpy.array(variable.numpy())
        if data.nbytes:
            ranks.broadcast(data.reshape(-1).view(numpy.uint8), root)
            variable.assign(data)


@tf.autograph.experimental.do_not_convert
def replicas_equal(variables: Iterable[Any], *, comm: Optional[Comm] = None) -> bool:
    """Whether the variables of all ranks are the same to the bit. Not inside tf.function; blocks; the same answer on every rank."""
    ranks = ranks_of(comm)
    _outside()
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(variable.numpy().tobytes())
    low = numpy.frombuffer(digest.digest(), numpy.uint8).copy()
    high = low.copy()
    ranks.allreduce(low, op=Op.MIN)
    ranks.allreduce(high, op=Op.MAX)
    return bool((low == high).all())


def _outside() -> None:
    if not tf.executing_eagerly():
        raise argument_error("this call blocks and is of no use inside tf.function: call it outside; inside there is allreduce()")


__all__ = ["DistributedOptimizer", "allreduce", "broadcast", "replicas_equal"]
