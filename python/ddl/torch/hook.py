# SPDX-License-Identifier: Apache-2.0
"""A communication hook for DistributedDataParallel: each bucket is a persistent request.

DDP calls the hook for its buckets in order, the last one when every gradient is there. So the hook starts a bucket's request and
returns, and in the call for the last bucket it waits for all of them: no thread has to run and no Future is left to be waited for.
"""

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._library import Op
from ..errors import argument_error
from ..request import Request
from ..request import options as check_options
from .group import ProcessGroup, element_type

Future = torch.futures.Future


def group_of(group: Optional[Any]) -> ProcessGroup:
    """The process group, or the default one. Raises ddl.ArgumentError where it is not of backend "ddl"."""
    found = group if group is not None else dist.distributed_c10d._get_default_group()
    if not isinstance(found, ProcessGroup):
        raise argument_error(
            'this needs a process group of backend "ddl": call init_process_group("ddl") or new_group(backend="ddl")'
        )
    return found


class _Buckets:
    """The requests of a hook, by the number of the bucket."""

    def __init__(self, options: Dict[str, Any]) -> None:
        self._options = options
        self._known: Dict[int, Tuple[Request, int, torch.dtype, int]] = {}
        self._started: List[Tuple[Request, Any, torch.Tensor]] = []

    def request(self, group: ProcessGroup, index: int, tensor: torch.Tensor) -> Request:
        """The bucket's request. DDP makes its buckets anew once, after the first step: with other lengths, on all ranks alike."""
        at, count, dtype = tensor.data_ptr(), tensor.numel(), tensor.dtype
        known = self._known.get(index)
        if known is not None:
            request, has_count, has_dtype, has_at = known
            if has_count == count and has_dtype == dtype:
                if has_at != at:
                    request.lay(at, at, tensor)
                    if self._options.get("error_feedback"):
                        request.reset_feedback()
                    self._known[index] = (request, count, dtype, at)
                return request
            request.free()
        kind, times = element_type(tensor)
        options = dict(
            self._options, priority=index
        )  # backward reaches the first layers last, and the next forward needs them first
        request = group.comm.make("allreduce", (at, at, count * times, kind, Op.AVG), **options)
        self._known[index] = (request, count, dtype, at)
        return request

    def start(self, group: ProcessGroup, index: int, tensor: torch.Tensor) -> Any:
        if index == 0:
            self._started.clear()  # left by a backward pass that failed
        request, future = self.request(group, index, tensor), Future()
        request.start()
        self._started.append((request, future, tensor))
        return future

    def wait(self) -> None:
        started, self._started = self._started, []
        for request, _, _ in reversed(started):  # in the order of priorities
            request.wait()
        for _, future, tensor in started:
            future.set_result(tensor)


def comm_hook(
    model: Optional[Any] = None,
    *,
    group: Optional[Any] = None,
    wire: str = "auto",
    accuracy: str = "auto",
    rounding: str = "nearest",
    seed: int = 0,
    error_feedback: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """A hook for ``model.register_comm_hook(None, hook)``; registered at once where a DistributedDataParallel model is given.

    Gradients are averaged over the ranks by persistent requests, one a bucket, in place; the division is part of the reduction.
    All ranks get the same bits. An error raises :class:`ddl.Error` from backward().

    Args:
        model: a DistributedDataParallel; None: the caller registers the hook.
        group: the process group, of backend "ddl"; None: the model's, else the default one.
        wire: the type in which float32 gradients travel: "auto" (what --ddl says), "native", "bfloat16", "float16", "int8".
        accuracy: "auto" (what --ddl says), "fast", "flat" or "exact"; see doc/precision.md.
        rounding, seed: "nearest", or "stochastic" with a seed.
        error_feedback: what rounding takes away in one step is added in the next; this costs a copy of the gradients.
        options: others of :func:`ddl.options`.
    """
    if model is not None and not hasattr(model, "register_comm_hook"):
        raise argument_error(
            f"comm_hook() is for a DistributedDataParallel, and this is a {type(model).__name__}: wrap the model in one first, "
            "or use ddl.torch.DistributedOptimizer"
        )
    options.update(wire=wire, accuracy=accuracy, rounding=rounding, seed=seed, error_feedback=error_feedback)
    check_options(**options)  # here, and not from within the first backward()
    buckets = _Buckets(options)
    group = group if group is not None else getattr(model, "process_group", None)
    ours = group_of(group) if group is not None or dist.is_initialized() else None

    def ddl_hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        nonlocal ours
        if ours is None:
            ours = group_of(None)
        future = buckets.start(ours, bucket.index(), bucket.buffer())
        if bucket.is_last():
            buckets.wait()
        return future

    if model is not None:
        model.register_comm_hook(None, ddl_hook)
    return ddl_hook
