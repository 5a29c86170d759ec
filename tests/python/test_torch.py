# SPDX-License-Identifier: Apache-2.0
"""Backend "ddl" of torch.distributed: what PyTorch itself calls, what it must do when ranks fail, the hook and the optimizer."""

import concurrent.futures
import os
import signal
import socket
import sys
import unittest
import weakref

import ranks

ranks.need("numpy", "torch")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402,N812

import ddl.torch  # noqa: E402

DDP = nn.parallel.DistributedDataParallel


def start(**keywords):
    dist.init_process_group("ddl", **keywords)
    return dist.get_rank(), dist.get_world_size()


def refused(kind, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except kind as e:
        return str(e)
    raise AssertionError(f"{call} did not raise {kind}")


def same(tensor, values):
    assert tensor.tolist() == list(values), (tensor, values)


# ---- cases, run by every rank


def collectives():
    me, n = start()
    everyone = list(range(n))
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8):
        t = torch.full((5,), me + 1, dtype=dtype)
        dist.all_reduce(t)
        same(t, [n * (n + 1) / 2] * 5)
    t = torch.tensor([me == 0, True, False])
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    same(t, [True, True, False])
    dist.all_reduce(t, op=dist.ReduceOp.MIN)
    t = torch.complex(torch.tensor([1.0]), torch.tensor([float(me)]))
    dist.all_reduce(t)
    assert t.item() == complex(n, n * (n - 1) / 2)
    t = torch.full((4,), float(me))
    dist.all_reduce(t, op=dist.ReduceOp.AVG)
    same(t, [(n - 1) / 2] * 4)
    t = torch.zeros(4, 6)
    t[:, ::2] = me
    dist.all_reduce(t[:, ::2])  # not contiguous
    same(t.sum(0), [4.0 * (n - 1) * n / 2 * (c % 2 == 0) for c in range(6)])
    t = torch.arange(6).reshape(2, 3).t() * (me == 1)
    dist.broadcast(t, 1)
    same(t.reshape(-1), [0, 3, 1, 4, 2, 5])
    t = torch.full((3,), float(me + 1))
    dist.reduce(t, 1, op=dist.ReduceOp.PRODUCT)
    same(t, [float(torch.arange(1, n + 1).prod()) if me == 1 else me + 1.0] * 3)
    outs = [torch.empty(2, dtype=torch.int16) for _ in everyone]
    dist.all_gather(outs, torch.full((2,), me, dtype=torch.int16))
    same(torch.stack(outs)[:, 0], everyone)
    outs = [torch.empty(3) for _ in everyone] if me == 0 else None
    dist.gather(torch.full((3,), float(me)), outs)
    assert me or [o[0].item() for o in outs] == everyone
    out = torch.empty(2)
    dist.scatter(out, [torch.full((2,), float(r)) for r in everyone] if me == n - 1 else None, src=n - 1)
    same(out, [me, me])
    out = torch.empty(2)
    dist.reduce_scatter(out, [torch.full((2,), float(r + me)) for r in everyone])
    same(out, [me * n + n * (n - 1) / 2] * 2)
    # what FullyShardedDataParallel does with flat parameters
    shard, full = torch.full((4,), float(me)), torch.empty(4 * n)
    getattr(dist, "all_gather_into_tensor", dist._all_gather_base)(full, shard)
    same(full, [r for r in everyone for _ in range(4)])
    getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)(shard, full)
    same(shard, [me * n] * 4)
    out = torch.empty(n, dtype=torch.int64)
    dist.all_to_all_single(out, torch.arange(n) * 10 + me)
    same(out, [me * 10 + r for r in everyone])
    for _ in range(3):
        sends, comes = [r + me for r in everyone], [me + r for r in everyone]
        out = torch.empty(sum(comes))
        dist.all_to_all_single(out, torch.full((sum(sends),), float(me)), comes, sends)
        same(out, [float(r) for r in everyone for _ in range(me + r)])
    ins, outs = [torch.full((r + 1,), float(me)) for r in everyone], [torch.empty(me + 1) for _ in everyone]
    dist.all_to_all(outs, ins)
    assert [o[0].item() for o in outs] == everyone
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": me, "text": "x" * me})
    assert [o["rank"] for o in objects] == everyone
    told = [{"from": me}]
    dist.broadcast_object_list(told, 1)
    assert told == [{"from": 1}]
    dist.barrier()
    refused(ddl.Error, dist.all_reduce, torch.ones(2), op=dist.ReduceOp.BXOR)
    dist.all_reduce(torch.ones(2))
    dist.destroy_process_group()


def messages():
    me, n = start()
    after, before = (me + 1) % n, (me - 1) % n
    for size in (1, 100, 300000):
        got = torch.empty(size)
        works = [dist.isend(torch.full((size,), float(me)), after), dist.irecv(got, before)]
        for work in works:
            work.wait()
        same(got[:3], [before] * min(size, 3))
    # more under way than there are requests of a kind, received in another order than collectives come
    mine = [torch.full((1000,), float(i * 10 + me)) for i in range(20)]
    got = [torch.empty(1000) for _ in range(20)]
    comes = [dist.irecv(t, before) for t in got]
    dist.all_reduce(torch.ones(3))
    for work in [dist.isend(t, after) for t in mine] + comes:
        work.wait()
    assert [t[-1].item() for t in got] == [i * 10 + before for i in range(20)]
    ops = [dist.P2POp(dist.isend, mine[0], after), dist.P2POp(dist.irecv, got[0], before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert "named" in refused(ddl.Error, dist.recv, torch.empty(1))
    dist.barrier()


def asynchronous():
    me, n = start()
    total = n * (n + 1) / 2
    tensors = [torch.full((1000,), float(me + 1)) for _ in range(30)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for work in reversed(works):
        work.wait()
        assert work.is_completed() and work.is_success()
    for t in tensors:
        same(t[:2], [total] * 2)
    futures = [dist.all_reduce(torch.full((10,), float(me + 1)), async_op=True).get_future() for _ in range(30)]
    for f in futures:
        same(f.wait()[0][:2], [total] * 2)
    for _ in range(10):  # dropped
        dist.all_reduce(torch.full((10,), 1.0), async_op=True)
    # ranks wait for works of two groups in different orders
    a, b = dist.new_group(list(range(n))), dist.new_group(list(range(n)))
    t, u = torch.ones(10), torch.ones(10)
    works = [dist.all_reduce(t, group=a, async_op=True), dist.all_reduce(u, group=b, async_op=True)]
    for work in works if me % 2 else reversed(works):
        work.wait()
    same(t, [n] * 10)
    # many groups, of some of the ranks
    for first in range(n):
        members = sorted({first, (first + 1) % n})
        g = dist.new_group(members)
        if me in members:
            t = torch.tensor([float(me)])
            dist.all_reduce(t, group=g)
            assert t.item() == sum(members)
    dist.barrier()


class Net(nn.Module):
    """Layers in the order of forward, one whose parameters another module uses, one that is used twice, one that is not used."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 64)
        self.attention = nn.MultiheadAttention(64, 4)
        self.norm = nn.LayerNorm(64)
        self.twice = nn.Linear(64, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.first(x))
        x = self.norm(x + self.attention(x, x, x)[0])
        return self.last(self.twice(F.relu(self.twice(x))))


def data(rank, steps):
    g = torch.Generator().manual_seed(rank)
    return [torch.randn(3, 4, 20, generator=g) for _ in range(steps)]


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def fresh(kind="adam"):
    torch.manual_seed(7)
    model = Net()
    if kind == "adam":
        return model, torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def alone(n, steps, kind):
    """What n ranks must come to, computed by one process: the gradients of all, averaged."""
    model, optimizer = fresh(kind)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for batches in zip(*[data(r, steps) for r in range(n)]):
        optimizer.zero_grad()
        for x in batches:
            (model(x).pow(2).mean() / n).backward()
        optimizer.step()
        schedule.step()
    return flat(model)


def train(rank, steps, kind, wrap, accumulate=False):
    model, optimizer = fresh(kind)
    net = wrap(model, optimizer) or model
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for x in data(rank, steps):
        optimizer.zero_grad()
        if accumulate:  # the same gradient in two halves
            quiet = net.no_sync if isinstance(net, DDP) else optimizer.no_sync
            with quiet():
                (net(x).pow(2).mean() / 2).backward()
            (net(x).pow(2).mean() / 2).backward()
        else:
            net(x).pow(2).mean().backward()
        optimizer.step()
        schedule.step()
    if hasattr(optimizer, "synchronize"):
        optimizer.synchronize()
    return flat(model)


def replicas_equal(values):
    others = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(others, values)
    assert all(torch.equal(o, values) for o in others), "replicas differ"


def ddp(model, _):
    return DDP(model, bucket_cap_mb=0.02)


def hooked(**options):
    def wrap(model, _):
        net = DDP(model, bucket_cap_mb=0.02)
        ddl.torch.comm_hook(net, **options)
        return net

    return wrap


def own_optimizer(**options):
    def wrap(model, optimizer):
        ddl.torch.DistributedOptimizer(optimizer, model, bucket_bytes=9000, **options)

    return wrap


def training():
    me, n = start()
    for kind in ("adam", "sgd"):
        want = alone(n, 6, kind)
        for wrap in (ddp, hooked(), own_optimizer()):
            for accumulate in (False, True):
                got = train(me, 6, kind, wrap, accumulate)
                replicas_equal(got)
                torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5)
        for wrap in (hooked(wire="bfloat16", error_feedback=True), own_optimizer(wire="bfloat16")):
            got = train(me, 6, kind, wrap)
            replicas_equal(got)
            assert not torch.equal(got, want)
            torch.testing.assert_close(got, want, rtol=0, atol=2e-2)
    unused = DDP(Net(), find_unused_parameters=True)
    unused.module.first(torch.randn(2, 20)).sum()
    unused(data(me, 1)[0]).sum().backward()


def sparse():
    me, n = start()
    for counts in ([r for r in range(n)], [5] * n, [0] * n):  # elements of each rank, the first of them in all that have some
        rows = [torch.arange(c).reshape(1, c) * (r + 1) for r, c in enumerate(counts)]
        parts = [torch.sparse_coo_tensor(at, torch.ones(at.shape[1], 4), (5 * n, 4)) for at in rows]
        for op, divisor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, n)):
            t = parts[me].clone()
            dist.all_reduce(t, op=op)
            assert torch.equal(t.to_dense(), sum(p.to_dense() for p in parts) / divisor)
    shape = (3, 2 + (me == 1))
    assert "of one shape" in refused(ddl.ArgumentError, dist.all_reduce, torch.ones(shape).to_sparse())
    torch.manual_seed(7)
    dense, sparse = (nn.Sequential(nn.Embedding(50, 8, sparse=s), nn.Linear(8, 1)) for s in (False, True))
    sparse.load_state_dict(dense.state_dict())
    words = torch.arange(me, 40, 1 + me)
    for net in (dense, sparse):
        model = DDP(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(4):
            optimizer.zero_grad()
            model(words).pow(2).sum().backward()
            optimizer.step()
    assert sparse[0].weight.grad.is_sparse
    replicas_equal(flat(sparse))
    torch.testing.assert_close(flat(sparse), flat(dense))


def optimizer_edges():
    me, n = start()
    model, optimizer = fresh()
    assert ddl.torch.DistributedOptimizer(optimizer, model) is optimizer
    assert isinstance(optimizer, torch.optim.Adam)
    assert "already" in refused(ddl.Error, ddl.torch.DistributedOptimizer, optimizer, model)
    x = data(me, 1)[0]
    model(x).sum().backward()
    optimizer.synchronize()  # averaged: may be clipped
    norms = torch.tensor([float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))])
    other = norms.clone()
    dist.broadcast(other, 0)
    assert torch.equal(norms, other)
    optimizer.step()
    assert "no closure" in refused(ddl.Error, optimizer.step, lambda: 0)
    before = flat(model).clone()
    state = {k: v.clone() for k, v in model.state_dict().items()}  # waits
    assert not torch.equal(before, flat(model)) and torch.equal(state["first.weight"], model.first.weight)
    optimizer.zero_grad()
    assert all(not p.grad.any() for p in model.parameters())
    model(x).sum().backward()
    refused(ddl.Error, lambda: model(x).sum().backward())
    other = nn.Linear(2, 2)
    stray = torch.optim.SGD(other.parameters(), lr=0.1)
    assert "not the model's" in refused(ddl.Error, ddl.torch.DistributedOptimizer, stray, Net())
    assert "give model.module" in refused(ddl.Error, ddl.torch.DistributedOptimizer, stray, DDP(other))
    assert "a Linear and a SGD" in refused(ddl.Error, ddl.torch.DistributedOptimizer, other, stray)


def mistakes():
    """What a hook or an optimizer is given by mistake is refused where it is given, with what to give."""
    me, n = start()
    assert "this is a Linear: wrap" in refused(ddl.Error, ddl.torch.comm_hook, nn.Linear(2, 2))
    ddp = DDP(nn.Linear(2, 2))
    for wrong in (dict(wire="float8"), dict(wire=torch.bfloat16), dict(accuracy="good"), dict(accuracy=-1), dict(rounding=None)):
        told = refused(ddl.Error, ddl.torch.comm_hook, ddp, **wrong)
        assert "is unknown: give one of" in told, told
    ddl.torch.comm_hook(ddp, wire="bfloat16")  # those before left none behind
    ddp(torch.ones(1, 2)).sum().backward()
    for mine, where in (
        (nn.Linear(4, 4 + (me == 1)), "weight of [5, 4] float32, and weight of [4, 4] float32 on rank 0"),
        (nn.Sequential(*[nn.Linear(4, 4)] * 2, *[nn.Linear(4, 4)] * (me == 1)), "parameter 2 is 2.weight of [4, 4] float32, and nothing"),
        (nn.Linear(4, 4).requires_grad_(me == 0), "weight of [4, 4] float32, frozen"),
    ):
        told = refused(ddl.Error, ddl.torch.DistributedOptimizer, torch.optim.SGD(mine.parameters(), lr=0.1), mine)
        assert "rank 1 is not that of rank 0" in told and where in told, told
    dist.barrier()  # all are well


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.full((20,), float(i))


def loader():
    """Worker processes are forked while the group is in use."""
    me, n = start()
    model = DDP(nn.Linear(20, 1))
    for _ in range(2):
        for x in torch.utils.data.DataLoader(Numbers(), batch_size=10, num_workers=2):
            model(x).sum().backward()
    dist.barrier()
    dist.destroy_process_group()


# A rank may hear of another's end while it is still in the call before.


def death_in_backward():
    me, n = start()
    model = DDP(nn.Linear(1000, 100))
    if os.environ.get("HOOK"):
        ddl.torch.comm_hook(model)

    def on():
        for step in range(4):
            if step == 1 and me == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            model(torch.randn(2, 1000)).sum().backward()

    print("survivor:", refused(RuntimeError, on).splitlines()[0], flush=True)


def exception_ends_all():
    me, n = start()
    if me == 1:
        for other in (0, 2):  # they are past the start, which is torch's own
            dist.recv(torch.ones(1), other)
        raise KeyError("the data set has no label 7")

    def on():
        dist.send(torch.ones(1), 1)
        dist.all_reduce(torch.ones(10))

    print("survivor:", refused(ddl.AbortedError, on), flush=True)


def disagreement():
    me, n = start()
    print("told:", refused(ddl.DisagreementError, dist.all_reduce, torch.ones(10 + me)), flush=True)


def devices():
    start()
    kept = torch.ones(1000)
    dist.all_reduce(kept)
    dropped = weakref.ref(kept)
    del kept
    assert dropped() is None, "a tensor is kept after its call"
    assert "sparse" in refused(ddl.Error, dist.broadcast, torch.eye(3).to_sparse(), 0)
    assert "sparse" in refused(ddl.Error, dist.all_reduce, torch.eye(3).to_sparse(), op=dist.ReduceOp.MAX)
    assert "device meta" in refused(ddl.Error, dist.all_reduce, torch.ones(2, device="meta"))


def under_torchrun():
    me, n = start()
    t = torch.full((3,), float(me))
    dist.all_reduce(t)
    same(t, [n * (n - 1) / 2] * 3)
    training_step = DDP(nn.Linear(4, 4))
    training_step(torch.randn(2, 4)).sum().backward()
    dist.barrier()
    dist.destroy_process_group()
    print("rank", me, "of", n, "is well", flush=True)


WORKERS = {
    f.__name__: f
    for f in (
        collectives, messages, asynchronous, training, sparse, optimizer_edges, loader, death_in_backward, exception_ends_all,
        disagreement, devices, mistakes, under_torchrun,
    )
}  # fmt: skip


class OnSeveralRanks(unittest.TestCase):
    def test_every_collective_gives_what_torch_says(self):
        ranks.run(__file__, "collectives", 3)

    def test_messages(self):
        ranks.run(__file__, "messages", 3)

    def test_asynchronous_calls_groups_and_futures(self):
        ranks.run(__file__, "asynchronous", 3)

    def test_training_comes_to_what_one_process_comes_to(self):
        ranks.run(__file__, "training", 2)

    def test_sparse_gradients(self):
        ranks.run(__file__, "sparse", 3)

    def test_the_optimizer_s_edges(self):
        ranks.run(__file__, "optimizer_edges", 2)

    def test_data_loaders_fork_workers(self):
        ranks.run(__file__, "loader", 2)

    def test_a_death_is_an_exception_in_backward(self):
        for env in ({}, {"HOOK": 1}):
            output = ranks.run(__file__, "death_in_backward", 3, good=False, **env)
            self.assertEqual(output.count("survivor: "), 2, output)

    def test_an_exception_that_nobody_catches_reaches_the_others(self):
        output = ranks.run(__file__, "exception_ends_all", 3, good=False)
        self.assertEqual(output.count("survivor: "), 2, output)
        self.assertIn("KeyError: 'the data set has no label 7' (seen by", output)

    def test_ranks_that_disagree_are_told(self):
        self.assertEqual(ranks.run(__file__, "disagreement", 2).count("told: ranks disagree"), 2)

    def test_a_mistake_is_told_where_it_is_made(self):
        ranks.run(__file__, "mistakes", 2)

    def test_tensors_of_no_use_are_refused(self):
        ranks.run(__file__, "devices", 2)

    def test_a_process_without_launcher_is_alone_and_one_that_is_not_is_told(self):
        ranks.launch([sys.executable, __file__, "devices"])
        step = {"SLURM_NTASKS": 2, "SLURM_PROCID": 0}
        self.assertIn("start it with srun --mpi=pmix", ranks.launch([sys.executable, __file__, "devices"], good=False, **step))

    def test_the_environment_of_torchrun_without_pmix(self):
        """torchrun itself, as 1.13 has it, starts nothing under Python 3.11; this is what it tells the processes."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        env = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            command = [sys.executable, __file__, "under_torchrun"]
            outputs = list(pool.map(lambda r: ranks.launch(command, RANK=r, LOCAL_RANK=r, **env), range(2)))
        self.assertIn("rank 0 of 2 is well", outputs[0])
        self.assertIn("rank 1 of 2 is well", outputs[1])


if __name__ == "__main__":
    ranks.main(WORKERS)
