# SPDX-License-Identifier: Apache-2.0
"""DDL for Slurm as a backend of torch.distributed.

    import torch.distributed as dist
    import ddl.torch

    dist.init_process_group("ddl")            # under srun --ddl=multiring --mpi=pmix; no MASTER_ADDR. Under torchrun as usual
    model = torch.nn.parallel.DistributedDataParallel(model)
    ddl.torch.comm_hook(model, wire="bfloat16")               # gradients travel as bfloat16

Tensors are of the CPU. Failures of other ranks raise :class:`ddl.Error` with the library's sentence.
"""

from __future__ import annotations

import datetime
from typing import Any

import torch.distributed as dist

from ..comm import Comm
from ..store import Store
from . import rendezvous
from .group import ProcessGroup
from .hook import comm_hook
from .optimizer import DistributedOptimizer


class TorchStore(Store):
    """torch's store, for the bootstrap of a group."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size

    def set(self, key: str, value: bytes) -> None:
        self.store.set("ddl/" + key, value)

    def get(self, key: str, timeout: float) -> bytes:
        try:
            self.store.wait(["ddl/" + key], datetime.timedelta(seconds=max(timeout, 0.001)))
        except RuntimeError as e:  # a DistStoreError of later releases is one too
            if "timeout" in str(e).lower() or "timed out" in str(e).lower():
                raise TimeoutError from e
            raise
        return bytes(self.store.get("ddl/" + key))


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> ProcessGroup:
    """torch's call for every new group, on its members only. The first one of a PMIx job is all ranks."""
    world = rendezvous.world()
    if world is not None and not rendezvous.used and (world.rank, world.size) == (rank, size):
        rendezvous.used = True
        return ProcessGroup(world.dup())
    options = rendezvous.progress()
    return ProcessGroup(Comm.create(store=TorchStore(store, rank, size), timeout=timeout.total_seconds(), **options))


def _register() -> None:
    if hasattr(dist.Backend, "DDL"):
        return  # the module was loaded anew
    try:
        dist.Backend.register_backend("ddl", _create, devices=["cpu"])
    except TypeError:  # before 2.0
        dist.Backend.register_backend("ddl", _create)
    rendezvous.install()


_register()

__all__ = ["DistributedOptimizer", "ProcessGroup", "TorchStore", "comm_hook"]
