# SPDX-License-Identifier: Apache-2.0
"""ddl from Python: communicators, every collective on every kind of memory, persistent requests, what fails and how it says so."""

import array
import os
import signal
import tempfile
import threading
import time
import unittest

import ranks

ranks.need("numpy")
import numpy  # noqa: E402

import ddl  # noqa: E402

COUNT = 1000


def same(have, want):
    numpy.testing.assert_array_equal(numpy.asarray(have), numpy.asarray(want))


def mine(comm, count=COUNT, dtype=numpy.float32):
    """What a rank contributes: small whole numbers, so that sums are exact."""
    return (numpy.arange(count) % 7 + comm.rank).astype(dtype)


def total(comm, count=COUNT, dtype=numpy.float32):
    return ((numpy.arange(count) % 7) * comm.size + comm.size * (comm.size - 1) // 2).astype(dtype)


def refused(kind, call, *arguments, **keywords):
    """The sentence with which a call is refused."""
    try:
        call(*arguments, **keywords)
    except kind as e:
        assert str(e), repr(e)
        return str(e)
    raise AssertionError(f"{call} did not raise {kind}")


# ---- cases, run by every rank


def collectives():
    comm = ddl.init()
    n, me = comm.size, comm.rank
    x = mine(comm)
    same(comm.allreduce(x, numpy.empty_like(x)), total(comm))
    same(x, mine(comm))
    same(comm.allreduce(x), total(comm))
    same(comm.allreduce(mine(comm), op="avg"), total(comm) / n)
    same(comm.allreduce(mine(comm), op=ddl.Op.MAX), numpy.arange(COUNT) % 7 + n - 1)
    same(comm.broadcast(mine(comm), root=n - 1), numpy.arange(COUNT) % 7 + n - 1)
    comm.barrier()
    same(comm.reduce_scatter(mine(comm, n * 5), numpy.empty(5, numpy.float32)), total(comm, n * 5)[5 * me : 5 * me + 5])
    counts = [r + 1 for r in range(n)]
    begin = sum(counts[:me])
    block = numpy.empty(counts[me], numpy.float32)
    same(comm.reduce_scatter(mine(comm, sum(counts)), block, counts=counts), total(comm, sum(counts))[begin : begin + me + 1])
    same(comm.allgather(numpy.full(3, me, numpy.int32), numpy.empty(3 * n, numpy.int32)), numpy.repeat(numpy.arange(n), 3))
    gathered = numpy.empty(sum(counts), numpy.int64)
    same(comm.allgather(numpy.full(me + 1, me, numpy.int64), gathered, counts), numpy.repeat(numpy.arange(n), counts))
    result = comm.reduce(mine(comm), numpy.zeros(COUNT, numpy.float32), root=1)
    if me == 1:
        same(result, total(comm))
    same(comm.alltoall(numpy.arange(n) * 10 + me, numpy.empty(n, numpy.int64)), me * 10 + numpy.arange(n))
    to, come = [r + me for r in range(n)], [me + r for r in range(n)]
    out, back = numpy.repeat(numpy.arange(n) * 10 + me, to), numpy.empty(sum(come), numpy.int64)
    same(comm.alltoall(out, back, to, come), numpy.repeat(me * 10 + numpy.arange(n), come))
    result = comm.gather(numpy.full(2, me, numpy.uint8), numpy.empty(2 * n, numpy.uint8) if me == 0 else None)
    if me == 0:
        same(result, numpy.repeat(numpy.arange(n), 2))
    whole = numpy.arange(sum(counts), dtype=numpy.float64) if me == 0 else None
    same(comm.scatter(whole, numpy.empty(me + 1), counts=counts), numpy.arange(begin, begin + me + 1))
    after, before, got = (me + 1) % n, (me - 1) % n, numpy.empty(4, numpy.int32)
    with comm.recv_init(got, before, tag=7) as receive, comm.send_init(numpy.full(4, me, numpy.int32), after, tag=7) as send:
        receive.start()
        send.run()
        receive.wait()
    same(got, [before] * 4)


def memory():
    comm = ddl.init()
    n = comm.size
    for dtype in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8"):
        same(comm.allreduce(mine(comm, 50, dtype)), total(comm, 50, dtype))
    words = array.array("i", [comm.rank] * 3)
    comm.allreduce(words)
    assert list(words) == [n * (n - 1) // 2] * 3, words
    raw = bytearray([1, 2, comm.rank])
    comm.allreduce(memoryview(raw), op="max")
    assert raw == bytes([1, 2, n - 1]), raw
    fixed = comm.broadcast(b"constant" if comm.rank == 0 else bytearray(8))
    assert bytes(fixed) == b"constant"

    class Speaks:  # DLPack and nothing else
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **keywords):
            return self.inner.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    inner = mine(comm, 64).reshape(8, 8)
    comm.allreduce(Speaks(inner))
    same(inner.reshape(-1), total(comm, 64))
    assert "contiguous" in refused(ddl.ArgumentError, comm.allreduce, Speaks(inner[:, ::2]))
    try:
        import ml_dtypes

        same(comm.allreduce(mine(comm, 50, ml_dtypes.bfloat16)), total(comm, 50, ml_dtypes.bfloat16))
    except ImportError:
        pass
    try:
        import torch

        t = torch.ones(9, dtype=torch.bfloat16)
        comm.allreduce(t)
        assert t.tolist() == [n] * 9
    except ImportError:
        pass


def wrong_arguments():
    comm = ddl.init()
    x = mine(comm)
    say = lambda *a, **k: refused(ddl.ArgumentError, *a, **k)  # noqa: E731
    assert "float32 and the receive buffer float64" in say(comm.allreduce, x, numpy.empty(COUNT))
    assert "3 elements where 1000" in say(comm.allreduce, x, x[:3].copy())
    assert "not contiguous" in say(comm.allreduce, x[::2])
    assert "complex64" in say(comm.allreduce, numpy.zeros(3, numpy.complex64))
    assert "read-only" in say(comm.allreduce, b"12345678")
    x.flags.writeable = False
    assert "read-only" in say(comm.allreduce, x)
    assert '"median" is unknown' in say(comm.allreduce, mine(comm), op="median")
    assert '"fp4" is unknown' in say(comm.allreduce_init, mine(comm), wire="fp4")
    assert "no-such" in refused(ddl.UnsupportedError, comm.allreduce_init, mine(comm), algorithm="no-such")
    assert "is a dict" in say(comm.allreduce, {})
    assert "missing" in say(comm.allgather, mine(comm), None)
    assert "root 99" in say(comm.broadcast_init, mine(comm), root=99)
    assert "equal blocks" in say(comm.alltoall, numpy.zeros(comm.size + 1), numpy.zeros(comm.size + 1))
    assert "give one of 0 or more" in say(comm.allgather, mine(comm), mine(comm), [1])
    whole = numpy.zeros(COUNT + 1, numpy.float32)
    assert "overlap" in say(comm.allreduce_init, whole[:-1], whole[1:])
    same(comm.allreduce(mine(comm)), total(comm))  # none of it has done harm


def persistent():
    comm = ddl.init()
    x, y = mine(comm), numpy.empty(COUNT, numpy.float32)
    request = comm.allreduce_init(x, y, priority=3, wire="native", algorithm="ring", rings=2)
    for _ in range(3):
        request.start()
        request.wait()
        assert request.test()
        same(y, total(comm))
    if comm.rank == 0:  # active for sure: nothing was sent yet
        got = numpy.empty(3, numpy.int32)
        message = comm.recv_init(got, 1)
        message.start()
        for call in (message.start, message.free, lambda: message.set_buffers(None, got)):
            assert "active" in refused(ddl.ArgumentError, call)
        assert not message.test()
        comm.barrier()
        message.wait()
        same(got, [1, 2, 3])
    else:
        comm.barrier()
        if comm.rank == 1:
            comm.send_init(numpy.array([1, 2, 3], numpy.int32), 0).run()
    z = mine(comm)
    if comm.rank % 2:  # by itself
        request.set_buffers(z, z)
    request.run()
    same(z if comm.rank % 2 else y, total(comm))
    assert "other lengths" in refused(ddl.ArgumentError, request.set_buffers, x[:5], y[:5])
    request.free()
    request.free()
    assert "freed" in refused(ddl.ArgumentError, request.start)
    first, second = comm.allreduce_init(mine(comm)), comm.allreduce_init(mine(comm, 7))
    order = (first, second) if comm.rank % 2 else (second, first)  # any order of starts
    for r in order:
        r.start()
    for r in order:
        r.wait()
    rounded = comm.allreduce_init(numpy.full(COUNT, 1.001, numpy.float32), wire="bfloat16", error_feedback=True)
    rounded.run()
    residual = numpy.zeros(COUNT, numpy.float32)
    rounded.get_feedback(residual)
    assert residual.any() == (comm.size > 1)
    rounded.set_feedback(residual)
    rounded.reset_feedback()


def parts():
    comm = ddl.init()
    half = comm.split(comm.rank % 2, key=-comm.rank)
    assert half is not None and half.size == (comm.size + 1 - comm.rank % 2) // 2
    members = numpy.empty(half.size, numpy.int64)
    half.allgather(numpy.array([comm.rank]), members)
    same(members, sorted(range(comm.rank % 2, comm.size, 2), reverse=True))
    assert comm.split(0 if comm.rank == 0 else None) is None or comm.rank == 0
    twin = comm.dup()
    assert (twin.rank, twin.size, twin.node_name(0)) == (comm.rank, comm.size, comm.node_name(0))
    same(twin.allreduce(mine(twin)), total(twin))
    assert sorted(twin.order()) == list(range(comm.size)) and twin.plan.startswith("1;")
    half.destroy()
    half.destroy()
    assert "destroyed" in refused(ddl.ArgumentError, half.barrier)
    window = twin.alloc((4, 250))
    assert window.shape == (4, 250) and not window.any()
    window[:] = mine(comm).reshape(4, 250)
    same(twin.allreduce(window).reshape(-1), total(comm))
    assert "still in use" in refused(ddl.ArgumentError, twin.destroy)
    del window
    twin.destroy()


# A rank may hear of another's failure while it still makes the communicator.


def abort():
    def body():
        comm = ddl.init()
        if comm.rank == 0:
            comm.abort("the loss is not a number")
        comm.allreduce(mine(comm))

    sentence = refused(ddl.AbortedError, body)
    assert "the loss is not a number" in sentence, sentence


def disagree():
    def body():
        comm = ddl.init()
        comm.allreduce_init(mine(comm, COUNT + comm.rank)).run()

    refused(ddl.DisagreementError, body)


def death():
    def body():
        comm = ddl.init()
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.allreduce(mine(comm))

    print("survivor:", refused(ddl.PeerError, body))


def deadline():
    comm = ddl.init(timeout=6.0)
    told = os.environ["TOLD"]
    if comm.rank == 0:
        refused(ddl.DeadlineError, comm.allreduce, mine(comm))
        open(told, "x").close()
    while not os.path.exists(told):  # it does not come as long as it is missed
        time.sleep(0.05)


def fork():
    comm = ddl.init()
    comm.barrier()
    child = os.fork()
    if child == 0:
        try:
            refused(ddl.Error, comm.barrier)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    same(comm.allreduce(mine(comm)), total(comm))


def threads():
    """The interpreter runs while a thread waits: what is waited for comes only after another thread has done its work."""
    comm = ddl.init()
    twin, word = comm.dup(), numpy.zeros(1, numpy.int32)

    def exchange(first, second):
        for _ in range(100):
            first(word, 1 - comm.rank)
            second(word, 1 - comm.rank)

    if comm.rank == 0:
        exchange(twin.recv, twin.send)
        comm.barrier()
    else:
        other = threading.Thread(target=exchange, args=(twin.send, twin.recv))
        other.start()
        comm.barrier()
        other.join()


WORKERS = {
    f.__name__: f
    for f in (collectives, memory, wrong_arguments, persistent, parts, abort, disagree, death, deadline, fork, threads)
}


class OnSeveralRanks(unittest.TestCase):
    def test_every_collective_gives_what_numpy_gives(self):
        for n in (2, 3):
            ranks.run(__file__, "collectives", n)

    def test_every_kind_of_memory_and_type(self):
        ranks.run(__file__, "memory", 2)

    def test_wrong_arguments_are_refused_with_a_sentence_and_do_no_harm(self):
        ranks.run(__file__, "wrong_arguments", 2)

    def test_persistent_requests(self):
        ranks.run(__file__, "persistent", 3)

    def test_parts_twins_and_shared_memory(self):
        ranks.run(__file__, "parts", 3)

    def test_an_abort_s_reason_reaches_every_rank(self):
        ranks.run(__file__, "abort", 3)

    def test_ranks_that_disagree_are_told(self):
        ranks.run(__file__, "disagree", 2)

    def test_survivors_are_told_of_a_death(self):
        output = ranks.run(__file__, "death", 3, good=False)
        self.assertEqual(output.count("survivor: "), 2, output)

    def test_a_rank_that_does_not_come_is_missed_after_the_deadline(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(__file__, "deadline", 2, TOLD=os.path.join(folder, "told"))

    def test_a_child_owns_nothing_and_disturbs_nobody(self):
        ranks.run(__file__, "fork", 2)

    def test_other_threads_run_while_one_waits(self):
        ranks.run(__file__, "threads", 2)


class Stores(unittest.TestCase):
    """Bootstrap over a store in Python: ranks of this process, each in a thread."""

    class Memory:
        def __init__(self, values, changed, rank, size, broken=""):
            self.values, self.changed, self.rank, self.size, self.broken = values, changed, rank, size, broken

        def set(self, key, value):
            if self.broken == "set":
                raise OSError("the store is full")
            with self.changed:
                self.values[key] = value
                self.changed.notify_all()

        def get(self, key, timeout):
            with self.changed:
                if not self.changed.wait_for(lambda: key in self.values, timeout):
                    raise TimeoutError
                return self.values[key]

    def run_ranks(self, n, body, **keywords):
        values, changed, failures = {}, threading.Condition(), []

        def one(rank):
            try:
                comm = ddl.Comm.create(store=self.Memory(values, changed, rank, n, **keywords), timeout=20)
                body(comm)
                comm.destroy()
            except BaseException as e:
                failures.append(e)

        each = [threading.Thread(target=one, args=(r,)) for r in range(n)]
        for t in each:
            t.start()
        for t in each:
            t.join()
        return failures

    def test_ranks_find_each_other(self):
        failures = self.run_ranks(3, lambda comm: same(comm.allreduce(mine(comm)), total(comm)))
        self.assertEqual(failures, [])

    def test_a_store_s_exception_is_the_cause(self):
        failures = self.run_ranks(1 + 1, lambda comm: None, broken="set")
        self.assertEqual([type(f.__cause__) for f in failures], [OSError] * 2)

    def test_a_deadline_that_is_none_is_refused(self):
        for seconds in (0, -1, float("nan")):
            with self.assertRaisesRegex(ddl.ArgumentError, "a number of seconds above 0"):
                ddl.Comm.create(timeout=seconds)

    def test_a_process_alone_is_a_communicator_of_one(self):
        comm = ddl.Comm.create()
        self.assertEqual((comm.rank, comm.size), (0, 1))
        same(comm.allreduce(mine(comm)), mine(comm))
        comm.destroy()


if __name__ == "__main__":
    ranks.main(WORKERS)
