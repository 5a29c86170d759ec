# SPDX-License-Identifier: Apache-2.0
"""Data parallelism without DistributedDataParallel, in which a layer's forward pass waits for that layer's gradients alone.

backward() starts the all-reduce of a bucket of parameters when their last gradient is there, step() returns at once, and the next
forward pass waits, module by module, for the buckets that the module needs, lets the optimizer step their parameters and goes on.
The bucket that forward needs first has the highest priority, so it overtakes those of the later layers that started before it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional, Set

import torch
import torch.distributed as dist

from .._library import Op
from ..errors import argument_error
from . import memory
from .group import element_type
from .hook import group_of


class _Bucket:
    """Parameters that follow one another in the model, with gradients in one memory."""

    def __init__(self, number: int, parameters: List[torch.nn.Parameter]) -> None:
        self.number = number
        self.parameters = parameters
        self.missing = len(parameters)  # gradients that backward has not brought yet
        self.started = False  # the all-reduce is under way or complete
        self.stepping = False  # step() was called, and the optimizer has not stepped these parameters
        self.clear = False  # zero_grad() was called meanwhile
        self.flat: Any = None
        self.request: Any = None


def _difference(first: List[Any], other: List[Any]) -> str:
    """Where the parameters of a rank's model begin to differ from those of rank 0's."""

    def told(parameters: List[Any], at: int) -> str:
        if at >= len(parameters):
            return "nothing more"
        name, shape, dtype, learns = parameters[at]
        return f"{name} of {list(shape)} {dtype.replace('torch.', '')}{'' if learns else ', frozen'}"

    at = next((i for i, (a, b) in enumerate(zip(first, other)) if a != b), min(len(first), len(other)))
    return f"parameter {at} is {told(other, at)}, and {told(first, at)} on rank 0; make the same model on all ranks"


class _Distributed:
    """What a torch.optim.Optimizer becomes; see DistributedOptimizer()."""

    _ddl: "_State"

    def step(self, closure: Any = None) -> None:
        """Returns at once; parameters change when the next forward pass, synchronize() or state_dict() comes to them."""
        if closure is not None:
            raise argument_error("a distributed optimizer takes no closure: call backward() before step()")
        self._ddl.step()

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Gradients become zero (they stay where they are, whatever set_to_none says), those under way once they are used."""
        self._ddl.zero()

    def synchronize(self) -> None:
        """Waits for everything. Before step(): gradients are averaged then, and may be clipped. After it: parameters are new."""
        self._ddl.synchronize()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it backward() adds to the gradients and starts no all-reduce: for gradient accumulation."""
        self._ddl.accumulating = True
        try:
            yield
        finally:
            self._ddl.accumulating = False

    def state_dict(self) -> Dict[str, Any]:
        self._ddl.synchronize()
        return super().state_dict()  # type: ignore[misc]

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._ddl.synchronize()
        super().load_state_dict(state)  # type: ignore[misc]

    def _step_now(self) -> None:
        super().step()  # type: ignore[misc]


class _State:
    def __init__(self, optimizer: Any, model: torch.nn.Module, group: Any, bucket_bytes: int, options: Dict[str, Any]) -> None:
        self._optimizer, self._model, self._group = optimizer, model, group
        self.accumulating = False
        self._settings: List[Dict[str, Any]] = []  # of the parameter groups, when step() was called
        self._learned = False
        self._running: Set[torch.nn.Module] = set()  # modules whose forward the first pass called
        self._bucket_of: Dict[torch.nn.Parameter, _Bucket] = {}
        self._needs: Dict[torch.nn.Module, List[_Bucket]] = {}
        self._accumulators: List[Any] = []  # hooks of autograd live as long as these
        self.buckets = self._cut(bucket_bytes)
        self._check(optimizer)
        self._same_start()
        for bucket in self.buckets:
            self._lay(bucket, options)
        self._hook()

    # ---- making

    def _cut(self, bucket_bytes: int) -> List[_Bucket]:
        lists: List[List[torch.nn.Parameter]] = []
        size = 0
        for p in self._model.parameters():
            if not p.requires_grad:
                continue
            add = p.numel() * p.element_size()
            if not lists or size + add > bucket_bytes or p.dtype != lists[-1][0].dtype:
                lists.append([])
                size = 0
            lists[-1].append(p)
            size += add
        return [_Bucket(i, parameters) for i, parameters in enumerate(lists)]

    def _check(self, optimizer: Any) -> None:
        mine = {p for b in self.buckets for p in b.parameters}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.requires_grad and p not in mine:
                    raise argument_error(
                        "the optimizer has parameters that are not the model's: give the model that they belong to"
                    )

    def _same_start(self) -> None:
        """All ranks begin with rank 0's model, so theirs must be alike."""
        mine = [(name, tuple(p.shape), str(p.dtype), p.requires_grad) for name, p in self._model.named_parameters()]
        models: List[Any] = [None] * self._group.size()
        dist.all_gather_object(models, mine, group=self._group_argument())
        for rank, other in enumerate(models):
            if other != models[0]:
                raise argument_error(f"the model of rank {rank} is not that of rank 0: {_difference(models[0], other)}")
        for tensor in self._model.state_dict().values():
            if isinstance(tensor, torch.Tensor):
                dist.broadcast(tensor, 0, group=self._group_argument())

    def _group_argument(self) -> Any:
        return None if self._group is dist.distributed_c10d._get_default_group() else self._group

    def _lay(self, bucket: _Bucket, options: Dict[str, Any]) -> None:
        first = bucket.parameters[0]
        count = sum(p.numel() for p in bucket.parameters)
        comm = self._group.comm
        bucket.flat = memory.zeros(comm, count, first.dtype)
        begin = 0
        for p in bucket.parameters:
            p.grad = bucket.flat[begin : begin + p.numel()].view(p.shape)
            begin += p.numel()
            self._bucket_of[p] = bucket
        kind, times = element_type(bucket.flat)
        at = bucket.flat.data_ptr()
        priority = len(self.buckets) - bucket.number
        bucket.request = comm.make("allreduce", (at, at, count * times, kind, Op.AVG), **dict(options, priority=priority))

    def _hook(self) -> None:
        for p, bucket in self._bucket_of.items():
            accumulator = p.expand_as(p).grad_fn.next_functions[0][0]
            accumulator.register_hook(lambda *_, bucket=bucket: self._gradient(bucket))
            self._accumulators.append(accumulator)
        for module in self._model.modules():
            own = {self._bucket_of[p].number for p in module.parameters(recurse=False) if p in self._bucket_of}
            self._needs[module] = [self.buckets[i] for i in sorted(own)]
            module.register_forward_pre_hook(self._before_forward)
        self._model.register_forward_hook(self._after_forward)

    # ---- forward

    def _before_forward(self, module: torch.nn.Module, _: Any) -> None:
        if not self._learned:
            self._running.add(module)
        for bucket in self._needs[module]:
            if bucket.stepping:
                self._finish(bucket)

    def _after_forward(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        """What this pass has not come to must not be under way when backward adds to it."""
        if not self._learned:
            self._learn()
        for bucket in self.buckets:
            if bucket.stepping:
                self._finish(bucket)

    def _learn(self) -> None:
        """Some modules use the parameters of others without calling them (attention and its out_proj): then these wait for them."""
        self._learned = True

        def visit(module: torch.nn.Module, runs: torch.nn.Module) -> None:
            runs = module if module in self._running else runs
            if module is not runs:
                have = {b.number for b in self._needs[runs]} | {b.number for b in self._needs[module]}
                self._needs[runs] = [self.buckets[i] for i in sorted(have)]
            for child in module.children():
                visit(child, runs)

        visit(self._model, self._model)
        self._running.clear()

    # ---- backward

    def _gradient(self, bucket: _Bucket) -> None:
        if bucket.stepping or bucket.started:
            raise argument_error(
                "backward() came to parameters whose gradients are still under way: call step() and a whole forward pass between "
                "two backward passes, or use no_sync() to accumulate"
            )
        if self.accumulating:
            return
        bucket.missing -= 1
        if bucket.missing == 0:
            self._start(bucket)

    def _start(self, bucket: _Bucket) -> None:
        bucket.started = True
        bucket.missing = len(bucket.parameters)
        bucket.request.start()

    # ---- step

    def step(self) -> None:
        self._finish_all()
        self._settings = [{k: v for k, v in g.items() if k != "params"} for g in self._optimizer.param_groups]
        for bucket in self.buckets:
            if not bucket.started:
                self._start(bucket)  # backward did not come to all of it
            bucket.stepping = True

    def _finish(self, bucket: _Bucket) -> None:
        """Waits for the bucket's sum, and steps its parameters with the settings that step() saw."""
        bucket.request.wait()
        bucket.started = bucket.stepping = False
        mine = set(bucket.parameters)
        groups = self._optimizer.param_groups
        saved = [dict(g) for g in groups]
        try:
            for group, settings in zip(groups, self._settings):
                group.update(settings, params=[p for p in group["params"] if p in mine])
            self._optimizer._step_now()
        finally:
            for group, before in zip(groups, saved):
                group.update(before)
        if bucket.clear:
            bucket.flat.zero_()
            bucket.clear = False

    def _finish_all(self) -> None:
        for bucket in self.buckets:
            if bucket.stepping:
                self._finish(bucket)

    def synchronize(self) -> None:
        for bucket in self.buckets:
            if bucket.started:
                bucket.request.wait()
        self._finish_all()

    def zero(self) -> None:
        for bucket in self.buckets:
            if bucket.stepping:
                bucket.clear = True
            elif bucket.started:
                raise argument_error("zero_grad() came between backward() and step(): call step() first")
            else:
                bucket.flat.zero_()
                bucket.missing = len(bucket.parameters)


def DistributedOptimizer(  # noqa: N802 (it stands for a class)
    optimizer: torch.optim.Optimizer,
    model: torch.nn.Module,
    *,
    group: Optional[Any] = None,
    bucket_bytes: int = 1 << 20,
    **options: Any,
) -> Any:
    """Makes an optimizer distributed: the same object, which then averages the gradients of all ranks.

    The model is not changed and not wrapped; do not put it into DistributedDataParallel besides. All ranks begin with rank 0's model
    and have bitwise equal parameters ever after. Gradients lie in memory that the ranks of a node reduce in place. Loops stay as they
    are:

        optimizer = ddl.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, wire="bfloat16")
        for x, y in data:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()             # returns at once

    Whoever looks at parameters between step() and the next forward pass calls ``optimizer.synchronize()`` first; state_dict() of
    the optimizer and of the model does so itself. The same call after backward() waits for the averages, for clipping.

    Args:
        optimizer: any whose step() treats each parameter by itself, which is all of torch.optim but LBFGS.
        model: the module that has its parameters; collective: all ranks make the call.
        group: the process group, of backend "ddl"; None: the default one.
        bucket_bytes: parameters are put together up to so many bytes; a larger one is a bucket alone.
        options: of :func:`ddl.options`: wire, accuracy, rounding, seed, error_feedback, algorithm, rings.
    """
    if isinstance(optimizer, _Distributed):
        raise argument_error("the optimizer is distributed already")
    if not isinstance(optimizer, torch.optim.Optimizer) or not isinstance(model, torch.nn.Module):
        raise argument_error(
            f"DistributedOptimizer(optimizer, model) takes an optimizer of torch.optim and a module, and was given "
            f"a {type(optimizer).__name__} and a {type(model).__name__}"
        )
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise argument_error("the model is in DistributedDataParallel, which averages the gradients itself: give model.module alone")
    kind = type(optimizer)
    state = _State(optimizer, model, group_of(group), bucket_bytes, options)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    optimizer._ddl = state  # type: ignore[attr-defined]
    if hasattr(model, "register_state_dict_pre_hook"):
        model.register_state_dict_pre_hook(lambda *_: state.synchronize())
    elif hasattr(
        model, "_register_state_dict_hook"
    ):  # before 2.0 only a hook that comes after, with tensors that are the parameters
        model._register_state_dict_hook(lambda *_: state.synchronize())
    return optimizer
