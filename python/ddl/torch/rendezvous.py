# SPDX-License-Identifier: Apache-2.0
"""Where a job's ranks meet without MASTER_ADDR: through PMIx, as srun --ddl and ddl run offer it.

torch.distributed needs a store besides (its own barrier at start, new_group, elastic). Rank 0 opens torch's TCPStore at a free
port, and tells the others where through the communicator that PMIx made.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import socket
import struct
import time
from datetime import timedelta
from typing import Any, Dict, Iterator, List, Tuple

import numpy
import torch.distributed as dist

from .. import init
from .._progress import progress  # noqa: F401 (of use to the module above)
from ..comm import Comm
from ..errors import argument_error, error

_SIOCGIFADDR = 0x8915
_TRY_SECONDS = 5.0  # for one address
used = False  # the first process group of the job was made


def offered() -> bool:
    """Whether torch's own variables are not set, and PMIx is there or this process is alone."""
    if "MASTER_ADDR" in os.environ or "RANK" in os.environ:
        return False
    if "PMIX_RANK" not in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1 and "SLURM_PROCID" in os.environ:
        raise argument_error("the ranks of this step cannot find each other: start it with srun --mpi=pmix, or set MASTER_ADDR")
    return True


def _addresses() -> List[str]:
    """The IPv4 addresses of this machine, those of interfaces that DDL_NET names first; the loopback last."""
    named = [n for n in os.environ.get("DDL_NET", "").split(",") if n]
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(s.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # has none
            address = socket.inet_ntoa(answer[20:24])
            found.append((address.startswith("127."), name not in named, address))
    return [address for _, _, address in sorted(found)]


def _tell(comm: Comm, text: str) -> str:
    """Rank 0's text on every rank."""
    length = numpy.array([len(text.encode())], numpy.int64)
    comm.broadcast(length)
    data = numpy.zeros(int(length[0]), numpy.uint8)
    if comm.rank == 0:
        data[:] = numpy.frombuffer(text.encode(), numpy.uint8)
    comm.broadcast(data)
    return data.tobytes().decode()


def _reach(addresses: List[str], port: int, here: bool) -> str:
    """The first address that answers. The loopback counts only on rank 0's own node."""
    deadline = time.monotonic() + 60
    candidates = ["127.0.0.1"] if here else [a for a in addresses if not a.startswith("127.")]
    while True:
        for address in candidates:
            try:
                socket.create_connection((address, port), _TRY_SECONDS).close()
                return address
            except OSError:
                continue
        if time.monotonic() > deadline:
            raise error(
                -110, f"rank 0's store at port {port} of {', '.join(candidates)} does not answer: set MASTER_ADDR and MASTER_PORT"
            )
        time.sleep(0.1)


def meet(timeout: timedelta) -> Tuple[Any, int, int]:
    """The store, this rank and the number of ranks. Collective."""
    comm = init(timeout=timeout.total_seconds(), **progress()) if world() is None else world()
    assert comm is not None
    store = None
    told = ""
    if comm.rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, comm.size, True, timeout, False)
        told = json.dumps({"port": store.port, "at": _addresses()})
    where = json.loads(_tell(comm, told))
    if store is None:
        here = comm.node_name(0) == comm.node_name(comm.rank)
        store = dist.TCPStore(_reach(where["at"], where["port"], here), where["port"], comm.size, False, timeout, False)
    return store, comm.rank, comm.size


def world() -> Any:
    """The communicator of ddl.init(), None where there is none."""
    from .. import _world

    return _world if _world is not None and _world._handle else None


def install() -> None:
    """Puts us before torch's env:// where PMIx is offered and MASTER_ADDR is not set, and answers ddl://."""
    torchs = importlib.import_module("torch.distributed.rendezvous")  # a function of this name hides it

    before = torchs._rendezvous_handlers["env"]

    def env(url: str, timeout: timedelta = timedelta(minutes=30), **keywords: Any) -> Iterator[Any]:
        if not offered():
            yield from before(url, timeout=timeout, **keywords)
            return
        yield meet(timeout)
        raise RuntimeError("torch.distributed cannot meet again through PMIx; start the job anew")

    def ours(url: str, timeout: timedelta = timedelta(minutes=30), **keywords: Any) -> Iterator[Any]:
        if "PMIX_RANK" not in os.environ:
            raise argument_error("ddl:// needs PMIx: start the job with srun --mpi=pmix or ddl run")
        yield meet(timeout)
        raise RuntimeError("torch.distributed cannot meet again through PMIx; start the job anew")

    torchs._rendezvous_handlers["env"] = env
    torchs._rendezvous_handlers.setdefault("ddl", ours)
