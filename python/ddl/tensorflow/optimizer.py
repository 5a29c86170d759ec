# SPDX-License-Identifier: Apache-2.0
"""Keras' optimizers, made distributed: gradients are averaged over all ranks before they are applied.

The graph has an operation for each bucket of gradients that starts its all-reduce, from the last layer to the first, which is the
order in which backward makes them: so a bucket is under way while TensorFlow computes the gradients before it. Others wait for
them, from the first layer on, which has the highest priority.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy
import tensorflow as tf

from .._library import Op
from ..comm import Comm
from ..errors import argument_error
from .graph import Sum, ordered, ranks_of


class _State:
    def __init__(self, comm: Comm, bucket_bytes: int, options: Dict[str, Any]) -> None:
        self.comm, self.bucket_bytes, self.options = comm, bucket_bytes, options
        self._sums: Dict[Any, Sum] = {}  # by number of the bucket and what is in it

    def _cut(self, gradients: List[Any]) -> List[List[int]]:
        """Buckets of gradients that follow one another, the first layers' first."""
        buckets: List[List[int]] = []
        size = 0
        for i, gradient in enumerate(gradients):
            if not gradient.shape.is_fully_defined():
                raise argument_error(f"gradient {i} has an open dimension: a distributed optimizer needs variables of fixed shapes")
            add = gradient.shape.num_elements() * gradient.dtype.size
            if not buckets or size + add > self.bucket_bytes or gradient.dtype != gradients[i - 1].dtype:
                buckets.append([])
                size = 0
            buckets[-1].append(i)
            size += add
        return buckets

    def _sum(self, number: int, buckets: int, gradients: List[Any]) -> Sum:
        kind = (number, tuple((g.dtype, tuple(g.shape)) for g in gradients))
        if kind not in self._sums:
            self._sums[kind] = Sum(self.comm, Op.AVG, gradients, dict(self.options, priority=buckets - number))
        return self._sums[kind]

    def average(self, given: List[Any]) -> List[Any]:
        """The gradients' averages; None stays None."""
        there = [i for i, g in enumerate(given) if g is not None]
        gradients = [tf.convert_to_tensor(given[i]) for i in there]  # sparse ones become dense
        buckets = self._cut(gradients)
        sums = [self._sum(n, len(buckets), [gradients[i] for i in bucket]) for n, bucket in enumerate(buckets)]
        for work, bucket in reversed(list(zip(sums, buckets))):
            ordered(_starter(work), [gradients[i] for i in bucket], [tf.constant(0)])
        results = list(given)
        for work, bucket in zip(sums, buckets):
            for i, result in zip(bucket, ordered(work.finish, [], [gradients[i] for i in bucket])):
                results[there[i]] = result
        return results


def _starter(work: Sum) -> Any:
    def start(*arrays: Any) -> Any:
        work.start(arrays)
        return numpy.int32(0)

    return start


class _Distributed:
    """What an optimizer of Keras becomes; see DistributedOptimizer()."""

    _ddl: _State

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        return super().apply(self._ddl.average(list(grads)), trainable_variables)  # type: ignore[misc]


def DistributedOptimizer(  # noqa: N802 (it stands for a class)
    optimizer: Any, *, comm: Optional[Comm] = None, bucket_bytes: int = 1 << 20, **options: Any
) -> Any:
    """Makes an optimizer of Keras 3 distributed: the same object, whose apply() and apply_gradients() average over all ranks first.

    For fit() and for loops of one's own, inside tf.function and outside. A model that is saved with it is loaded with
    the plain optimizer.
    Give jit_compile=False to compile(), and call :func:`broadcast` on the model's variables before the first step.

    Args:
        optimizer: any of keras.optimizers.
        comm: the ranks; None: those of :func:`ddl.init`.
        bucket_bytes: gradients are put together up to so many bytes; a larger one is a bucket alone.
        options: of :func:`ddl.options`: wire, accuracy, rounding, seed, error_feedback, algorithm, rings.
    """
    if isinstance(optimizer, _Distributed):
        raise argument_error("the optimizer is distributed already")
    kind = type(optimizer)
    if not hasattr(kind, "apply"):
        raise argument_error(f"{kind.__name__} has no apply(): give an optimizer of Keras 3")
    optimizer._ddl = _State(ranks_of(comm), bucket_bytes, options)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {"__module__": kind.__module__})
    return optimizer
