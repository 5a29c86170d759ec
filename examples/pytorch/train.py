#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.py - a small residual network learns scikit-learn's digits, on as many ranks as the job has.

    srun --ddl=multiring --mpi=pmix python3 train.py                     DistributedDataParallel, its gradients over ddl
    ... train.py --wire bfloat16                                         which travel as bfloat16
    ... train.py --way optimizer                                         no DDP: a layer waits for its own gradients alone
    torchrun --nproc_per_node=2 train.py                                 without Slurm

After each epoch rank 0 prints the loss, the accuracy on digits that nobody has learnt from, and whether all replicas are the same
to the bit. The exit status is 1 where they are not.
"""

import argparse
import hashlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_digits

import ddl.torch

BATCH = 64  # images a step, of all ranks together


class Block(nn.Module):
    """Two convolutions and what goes past them."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.first(x))))


class Network(nn.Module):
    def __init__(self, channels=24, blocks=2):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(channels) for _ in range(blocks)])
        self.head = nn.Linear(channels * 16, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return self.head(F.avg_pool2d(x, 2).flatten(1))


def digits():
    """(images, labels) to learn from and to judge by, the same on every rank."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor(data.images, dtype=torch.float32)[order].unsqueeze(1) / 16, torch.tensor(data.target)[order]
    return (x[360:], y[360:]), (x[:360], y[:360])


def replicas_equal(model):
    """Whether the parameters of all ranks are the same to the bit."""
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.contiguous().numpy().tobytes())
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest.hexdigest())
    return len(set(digests)) == 1


def main():
    parser = argparse.ArgumentParser(description="A small residual network learns scikit-learn's digits.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--way", choices=["ddp", "optimizer"], default="ddp", help="how gradients come together")
    parser.add_argument("--wire", default="auto", help="type in which they travel: auto, native, bfloat16, float16, int8")
    asked = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("ddl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(asked.seed)
    model = net = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if asked.way == "ddp":
        net = nn.parallel.DistributedDataParallel(model)
        ddl.torch.comm_hook(net, wire=asked.wire)
    else:
        ddl.torch.DistributedOptimizer(optimizer, model, wire=asked.wire)
    epochs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, asked.epochs)

    (x, y), (test_x, test_y) = digits()
    for epoch in range(1, asked.epochs + 1):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(asked.seed * 1000 + epoch))
        order = order[: len(y) // BATCH * BATCH]
        loss_sum = torch.zeros(1)
        for batch in order.split(BATCH):
            mine = batch[rank::ranks]
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[mine]), y[mine])
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
        epochs.step()
        equal = replicas_equal(model)  # state_dict() waits for what is under way
        dist.all_reduce(loss_sum, op=dist.ReduceOp.AVG)
        with torch.no_grad():
            accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
        if rank == 0:
            same = f"{ranks} replicas equal to the bit" if equal else "REPLICAS DIFFER"
            print(f"epoch {epoch}: loss {loss_sum.item() / (len(order) // BATCH):.4f}, accuracy {accuracy:.4f}, {same}", flush=True)
        if not equal:
            raise SystemExit(1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
