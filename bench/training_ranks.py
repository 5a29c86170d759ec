# SPDX-License-Identifier: Apache-2.0
"""training_ranks.py FILE ROUNDS STEPS - one rank of bench/training.py: the same model trained over gloo and over ddl, in turn.

In each round every way makes so many steps, beginning with another way each time; its time is that of the slowest rank. Rank 0
writes the times to FILE, as JSON: {"ranks": N, "bytes": of all gradients, "ways": {name: [seconds a step, one a round]}, ...}.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn

import ddl.torch

BATCH = 4
ALLREDUCE_BYTES = 4 << 20
WARM_UP = 3  # steps: DDP makes its buckets anew after the first


def network():
    """Where communication is what there is to wait for: a million parameters, used once a step."""
    torch.manual_seed(1)
    sizes = [256, 640, 640, 512, 10]
    return nn.Sequential(*[layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.Tanh())][:-1])


class Way:
    """A model in training."""

    def __init__(self, wrap):
        self.model = network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.net = wrap(self.model, self.optimizer)
        self.x = torch.randn(BATCH, 256, generator=torch.Generator().manual_seed(dist.get_rank()))

    def steps(self, n):
        for _ in range(n):
            self.optimizer.zero_grad()
            self.net(self.x).pow(2).mean().backward()
            self.optimizer.step()
        if hasattr(self.optimizer, "synchronize"):
            self.optimizer.synchronize()


class Sums:
    """Blocking all-reduces, no training."""

    def __init__(self, group):
        self.group, self.data = group, torch.ones(ALLREDUCE_BYTES // 4)

    def steps(self, n):
        for _ in range(n):
            self.data.fill_(1.0)
            dist.all_reduce(self.data, group=self.group)


def ways():
    gloo = dist.new_group(backend="gloo")
    ddp = lambda model, group=None: nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=1)  # noqa: E731

    def hook(**options):
        def wrap(model, _):
            net = ddp(model)
            ddl.torch.comm_hook(net, **options)
            return net

        return wrap

    def optimizer(**options):
        def wrap(model, optimizer):
            ddl.torch.DistributedOptimizer(optimizer, model, **options)
            return model

        return wrap

    return {
        "gloo": Way(lambda model, _: ddp(model, gloo)),
        "ddp f32": Way(lambda model, _: ddp(model)),
        "ddp f32 hook": Way(hook(wire="native")),
        "ddp bf16": Way(hook(wire="bfloat16")),
        "optimizer f32": Way(optimizer(wire="native")),
        "optimizer bf16": Way(optimizer(wire="bfloat16")),
        "sum gloo": Sums(gloo),
        "sum ddl": Sums(None),
    }


def slowest(seconds):
    told = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return told.item()


def rounds(which, n_rounds, n_steps):
    times = {name: [] for name in which}
    names = list(which)
    for way in which.values():
        way.steps(WARM_UP)
    for number in range(n_rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            dist.barrier()
            begin = time.perf_counter()
            which[name].steps(n_steps)
            times[name].append(slowest(time.perf_counter() - begin) / n_steps)
    return times


class Bucket:
    """What DDP hands to a hook."""

    def __init__(self, index, tensor, last):
        self.index, self.buffer, self.is_last = lambda: index, lambda: tensor, lambda: last


def hook_microseconds():
    """What the hook costs for a bucket: alone, so that the C calls inside find nothing to do."""
    group = [dist.new_group([r]) for r in range(dist.get_world_size())][dist.get_rank()]
    hook = ddl.torch.comm_hook(group=group)
    buckets = [Bucket(i, torch.ones(1000), i == 9) for i in range(10)]
    best = float("inf")
    for _ in range(30):
        begin = time.perf_counter()
        for _ in range(20):
            for bucket in buckets:
                hook(None, bucket)
        best = min(best, (time.perf_counter() - begin) / 200)
    return best * 1e6


def main():
    file, n_rounds, n_steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("ddl")
    which = ways()
    times = rounds(which, n_rounds, n_steps)
    models = [way.model for way in which.values() if isinstance(way, Way)]
    result = {
        "ranks": dist.get_world_size(),
        "bytes": sum(p.numel() * p.element_size() for p in models[0].parameters()),
        "torch": torch.__version__,
        "ways": times,
        "hook_us": hook_microseconds(),
    }
    if dist.get_rank() == 0:
        with open(file + ".part", "w", encoding="utf-8") as f:
            json.dump(result, f)
        os.rename(file + ".part", file)
    dist.barrier()


if __name__ == "__main__":
    main()
