# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' own logic: the harness finds wrong results, what fails is left out and nothing of it stays, rows hold what was
measured.

    DDL_BUILD=build python3 tests/bench/bench.py
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "bench")
NETWORKS = os.path.join(HERE, "..", "..", "tools", "data", "networks.py")
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True

import contestants  # noqa: E402 (the path comes first)
import fabric  # noqa: E402
import network  # noqa: E402
import node  # noqa: E402
import overlap  # noqa: E402
import precision  # noqa: E402
import rdma  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
from contestants import Case, Contestant, Failure  # noqa: E402

WORK = tempfile.mkdtemp(prefix="ddl-bench-test-")
BUILDER = None
PROGRAM = None


def setUpModule():
    global BUILDER, PROGRAM
    BUILDER = contestants.Builder(WORK)
    BUILDER.prepare()
    PROGRAM = BUILDER.program("fake", os.path.join(HERE, "fake.c"), BUILDER.cc, "-std=gnu11", f"-I{contestants.PEERS}")


def tearDownModule():
    shutil.rmtree(WORK, ignore_errors=True)


def call(command, env=None):
    return subprocess.run(command, capture_output=True, timeout=120, check=False, env=env)


def fake(fault="", name="fake"):
    return Contestant(name, PROGRAM, contestants.directly, {"FAKE": fault})


def row(**changes):
    base = {"what": "allreduce", "ranks": 2, "bytes": 8, "type": "float32", "wire": "float32", "buffers": "malloc"}
    base.update({"ours_us": 2.0, "limit_us": 1.0, "peers": {"a": 3.0, "b": 5.0}, "rounds": 1})
    return {**base, **changes}


class Harness(unittest.TestCase):
    sizes = [4, 8, 20, 4096, 1 << 20]

    def test_a_right_library_gets_a_time_for_every_size(self):
        for kind in ("float32", "bfloat16"):
            for ranks in (1, 2, 3):
                for more in ({}, {"in_place": True}, {"fresh": True}):
                    with self.subTest(kind=kind, ranks=ranks, **more):
                        case = Case(ranks, self.sizes, kind, budget_ms=0.1, **more)
                        figures = contestants.run_contestant(fake(), case)
                        self.assertEqual(sorted(figures), self.sizes)
                        self.assertGreater(min(figures.values()), 0)

    def test_every_kind_of_wrong_result_is_found(self):
        for fault in ("nothing", "forget", "one", "move"):
            for kind in ("float32", "bfloat16"):
                for in_place in (False, True):
                    with self.subTest(fault=fault, kind=kind, in_place=in_place):
                        case = Case(3, [4096], kind, budget_ms=0.1, in_place=in_place)
                        with self.assertRaisesRegex(Failure, "wrong result at 4096 bytes"):
                            contestants.run_contestant(fake(fault), case)

    def test_a_library_that_cannot_be_opened_is_told(self):
        with self.assertRaisesRegex(Failure, "ended with status 1: fake: refuses"):
            contestants.run_contestant(fake("refuse"), Case(1, [8]))

    def test_a_rank_that_dies_ends_the_run_with_its_status_and_the_others(self):
        with self.assertRaisesRegex(Failure, "ended with status 3"):
            contestants.run_contestant(fake("die"), Case(3, [8], timeout_s=50))
        self.assertEqual(running(), [])

    def test_a_run_that_hangs_ends_at_its_limit_and_leaves_no_process(self):
        with self.assertRaisesRegex(Failure, "signal 14|not done"):
            contestants.run_contestant(fake("hang"), Case(2, [8], timeout_s=1))
        self.assertEqual(running(), [])

    def test_what_a_launcher_leaves_behind_is_ended_and_no_other_child(self):
        bystander = subprocess.Popen(["sleep", "60"])
        try:
            orphan = ["sh", "-c", f"FAKE=hang setsid {PROGRAM} --sizes 8 --rank 0 --size 2 --limit-s 50 --folder . & exit $0"]
            for status in ("0", "3"):
                with self.subTest(status=status):
                    try:
                        contestants.execute([[*orphan, status]], 20, cwd=WORK)
                    except Failure:
                        pass
                    self.assertEqual(running(), [])
            with self.assertRaisesRegex(Failure, "not done"):
                contestants.execute([["sh", "-c", "setsid sleep 61 & setsid setsid sleep 61 & wait"]], 0.3)
            self.assertEqual(contestants.children(), {bystander.pid})
            self.assertIsNone(bystander.poll())
        finally:
            bystander.kill()
            bystander.wait()

    def test_a_run_leaves_no_file(self):
        before = set(os.listdir("/dev/shm")) | set(os.listdir(tempfile.gettempdir()))
        for fault in ("", "die"):
            try:
                contestants.run_contestant(fake(fault), Case(2, [8], budget_ms=0.1))
            except Failure:
                pass
        after = set(os.listdir("/dev/shm")) | set(os.listdir(tempfile.gettempdir()))
        self.assertEqual([name for name in after - before if name.startswith("ddl-bench-")], [])

    def test_what_takes_longer_than_the_budget_is_timed_as_often_as_wanted(self):
        for least in (0, 1, 4):
            case = Case(2, [1 << 20], budget_ms=1e-3, least=least)
            self.assertGreater(contestants.run_contestant(fake(), case)[1 << 20], 0)

    def test_wrong_calls_get_a_sentence(self):
        calls = {
            ("--sizes", "0"): "no option, or not with that value",
            ("--sizes", "8,x"): "no option, or not with that value",
            ("--type", "float8"): "no option, or not with that value",
            ("--sizes", "8", "--rank", "2", "--size", "2"): "rank 2 of 2",
            ("--sizes", "8", "--rank", "0", "--size", "65"): "1 to 64 are possible",
            ("--rank", "0", "--size", "1"): "are needed",
        }
        for arguments, sentence in calls.items():
            with self.subTest(arguments=arguments):
                done = call([PROGRAM, *arguments], contestants.environment())
                self.assertEqual(done.returncode, 2)
                self.assertIn(sentence, done.stderr.decode())


def running():
    """Processes of the fake library."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                state = f.read().rpartition(")")[2].split()[0]
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(PROGRAM) and state != "Z":
                found.append(int(pid))
        except OSError:
            pass
    return found


class Limit(unittest.TestCase):
    def test_it_tells_every_size_and_the_machine(self):
        case = Case(2, [8, 4096, 100000], budget_ms=0.5)
        lines, machine = rounds.measure_limit(BUILDER.limit(), case)
        self.assertEqual(sorted(lines), sorted(case.sizes))
        for line in lines.values():
            self.assertGreater(line["us"], machine["flag_round_trip_us"] / 2)
            self.assertGreater(line["exchange_us"], 0)
        for figure in ("read_GBps", "copy_GBps"):
            self.assertGreater(machine[figure], 0)

    def test_wrong_calls_get_a_sentence(self):
        for arguments in (["--ranks", "0", "--sizes", "8"], ["--ranks", "2"], ["--ranks", "2", "--sizes", "8,"], ["--what"]):
            done = call([BUILDER.limit(), *arguments])
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("usage: limit", done.stderr.decode())


class Networks(unittest.TestCase):
    def test_the_list_that_is_installed_is_what_the_layers_add_up_to(self):
        with open(os.path.join(os.path.dirname(NETWORKS), "resnet50.sizes"), "rb") as f:
            self.assertEqual(call([sys.executable, NETWORKS, "resnet50"]).stdout, f.read())

    def test_messages_and_their_bytes_are_those_known_of_each_network(self):
        for name, known in (("resnet50", (56, 102015904)), ("vgg16", (32, 553430176)), ("inception_v3", (96, 95200544))):
            lines = call([sys.executable, NETWORKS, "--messages", name]).stdout.decode().splitlines()
            rows = [line.split() for line in lines if not line.startswith("#")]
            self.assertEqual((len(rows), 4 * sum(int(row[1]) for row in rows)), known)


class Overlap(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        builder = contestants.Builder(WORK, "overlap")
        builder.prepare()
        source = os.path.join(HERE, "fake.c")
        cls.program = builder.program("fake", source, builder.cc, "-std=gnu11", f"-I{contestants.PEERS}")
        cls.list = os.path.join(WORK, "list")
        with open(cls.list, "w", encoding="ascii") as f:
            f.write("# name elements work\nfirst 100 5\nbias 3 0\nlast 5000 1\n")

    def case(self, **changes):
        base = {"network": "few", "relation": 1.0, "list": self.list, "compute_ms": 6.0, "ranks": 3, "iterations": 2, "busy": False}
        return overlap.Case(**{**base, "timeout_s": 50, **changes})

    def fake(self, fault="", test_us=1000):
        arguments = ["--test-us", str(test_us)]
        return Contestant("fake", self.program, contestants.directly, {"FAKE": fault}, arguments=arguments)

    def test_a_step_takes_its_compute_time_and_its_waits(self):
        for busy in (False, True):
            for test_us in (0, 500):
                with self.subTest(busy=busy, test_us=test_us):
                    f = overlap.run_overlap(self.fake(test_us=test_us), self.case(busy=busy))
                    self.assertGreater(f["alone_us"], 0)
                    self.assertGreater(f["compute_us"], 0)
                    self.assertGreater(f["stall_us"], 0)
                    self.assertLessEqual(f["first_us"], f["stall_us"])
                    self.assertGreater(f["total_us"], f["stall_us"])

    def test_a_wrong_sum_is_found(self):
        for fault in ("nothing", "forget", "one", "move"):
            with self.subTest(fault=fault), self.assertRaisesRegex(Failure, "wrong result"):
                overlap.run_overlap(self.fake(fault), self.case())

    def test_ours_hides_on_this_host_what_the_network_would_carry(self):
        build = os.environ.get("DDL_BUILD", "")
        if not os.path.exists(os.path.join(build, "lib", "libddl.so")):
            self.skipTest("DDL_BUILD names no folder that ddl was built in")
        builder = contestants.Builder(WORK, "overlap")
        builder.prepare()
        builder.build = os.path.abspath(build)
        base = contestants.find_ddl(builder)
        path, _ = overlap.write_list(WORK, "resnet50", 0.01)
        options = overlap.parse_arguments(["--out", WORK])
        for entry in overlap.entries_of(options, base, "ddl"):
            with self.subTest(entry.label()):
                f = overlap.run_overlap(entry.contestant, self.case(list=path, ranks=2, compute_ms=20))
                self.assertEqual(sorted(f), sorted(overlap.FIGURES))

    def test_rows_say_what_is_hidden_and_what_others_wait_over_ours(self):
        options = overlap.parse_arguments(["--hosts", "3", "--peers", "none"])
        ours = overlap.entries_of(options, Contestant("ddl", "", None), "ddl")
        peers = overlap.entries_of(options, Contestant("mpich", "", None), "mpich")
        figures = rounds.Figures()
        for e in range(len(ours + peers)):
            waits = {"first_us": 10.0 * (e + 1), "stall_us": 30.0}
            figures.add(0, e, {"alone_us": 100.0, "compute_us": 200.0, "total_us": 230.0, **waits})
        figures.leave_out(0, len(ours), "it fails")
        rows = overlap.make_rows(options, [self.case(relation=1.0)], ours + peers, figures, 1)
        self.assertEqual(rows[0]["hidden"], 0.7)
        self.assertEqual((rows[0]["library"], rows[0]["progress"], rows[0]["tests"]), ("ddl", 1, False))
        self.assertIsNone(rows[len(ours)]["hidden"])
        first = [row for row in rows if row["what"].startswith("first-layer")]
        self.assertEqual([row["ratio"] for row in first], [2.0, None, 7.0, 1.3333, None, 2.3333])
        shorter = overlap.make_rows(options, [self.case(relation=0.5)], ours + peers, figures, 1)
        judged = [row for row in shorter if row["what"].startswith("hidden")]
        self.assertEqual([(row["progress"], row["tests"]) for row in judged], [(1, False), (1, False), (0, True), (0, True)])
        self.assertNotIn("first-layer", "".join(row["what"] for row in shorter))
        self.assertIn("0.700", overlap.table(rows))

    def test_a_wrong_call_is_told(self):
        script = os.path.join(BENCH, "overlap.py")
        for arguments in (["--networks", "lenet"], ["--rate", "fast"], ["--relations", "0"], ["--hosts", "1"], ["--peers", "x"]):
            done = call([sys.executable, script, *arguments])
            self.assertEqual(done.returncode, 2)
            self.assertIn(arguments[1] if arguments[0] != "--relations" else "relation", done.stderr.decode())


class Rounds(unittest.TestCase):
    def measure(self, entries, n_rounds, run, seconds=1000.0):
        cases = [Case(2, [8]), Case(4, [8])]
        figures, _, _, done = rounds.run_rounds(n_rounds, seconds, cases, entries, None, run)
        return figures, done

    def test_every_contestant_runs_once_a_round_and_each_round_begins_with_another(self):
        order = []

        def run(contestant, case):
            order.append((case.ranks, contestant.name))
            return {8: 1.0}

        self.measure([rounds.Entry(fake(name=name)) for name in "abc"], 2, run)
        self.assertEqual(order, [(n, name) for sequence in ("abc", "bca") for n in (2, 4) for name in sequence])

    def test_the_figure_is_the_median_over_the_rounds(self):
        times = iter([5.0, 1.0, 3.0])
        figures, done = self.measure([rounds.Entry(fake())], 3, lambda c, case: {8: next(times) if case.ranks == 2 else 7.0})
        self.assertEqual(done, 3)
        self.assertEqual(report.median(figures.get(0, 0, 8)), 3.0)
        self.assertEqual(report.median(figures.get(1, 0, 8)), 7.0)

    def test_who_fails_once_is_left_out_of_that_case_and_not_run_again(self):
        calls = []

        def run(contestant, case):
            calls.append((contestant.name, case.ranks))
            if contestant.name == "a" and case.ranks == 4 and len(calls) > 4:
                raise Failure("ended with status 1: nothing")
            return {8: 1.0}

        figures, _ = self.measure([rounds.Entry(fake(name=name)) for name in "ab"], 3, run)
        self.assertEqual(report.median(figures.get(0, 0, 8)), 1.0)
        self.assertIsNone(report.median(figures.get(1, 0, 8)))
        self.assertEqual(len(figures.get(1, 1, 8)), 3)
        self.assertEqual(calls.count(("a", 4)), 2)

    def test_no_round_begins_that_would_end_too_late(self):
        figures, done = self.measure([rounds.Entry(fake())], 5, lambda c, case: {8: 1.0}, seconds=-1.0)
        self.assertEqual((done, len(figures.get(0, 0, 8))), (1, 1))

    def test_ours_is_run_with_its_buffers(self):
        seen = []

        def run(contestant, case):
            seen.append(case.buffers)
            return {8: 1.0}

        self.measure([rounds.Entry(fake(), "ddl_mem"), rounds.Entry(fake())], 1, run)
        self.assertEqual(seen, ["ddl_mem", "malloc"] * 2)


class Node(unittest.TestCase):
    def test_rows_hold_what_was_measured_and_null_where_nothing_was(self):
        a = node.parse_arguments(["--ranks", "2", "--sizes", "8", "--types", "float32", "--peers", "openmpi,mpich,gloo"])
        cases = node.make_cases(a)
        entries = [rounds.Entry(fake(name="ddl")), rounds.Entry(fake(name="openmpi")), rounds.Entry(fake(name="gloo"))]
        figures = rounds.Figures()
        for us in (4.0, 2.0):
            figures.add(0, 0, {8: us})
            figures.add(0, 1, {8: us * 10})
            figures.add(0, 2, {8: us})
        figures.leave_out(0, 2, "ended")
        limits = {(0, 8): [{"us": 1.0, "exchange_us": 1.5}]}
        rows = node.make_rows(a, cases, entries, figures, limits, 2)
        self.assertEqual([r["buffers"] for r in rows], ["ddl_mem", "malloc"])
        self.assertIsNone(rows[0]["ours_us"])
        for r in rows:
            self.assertEqual(r["peers"], {"openmpi": 30.0, "mpich": None, "gloo": None})
            keys = ("what", "ranks", "bytes", "type", "wire", "rounds")
            self.assertEqual([r[key] for key in keys], ["allreduce", 2, 8, "float32", "float32", 2])
            self.assertEqual((r["limit_us"], r["exchange_us"]), (1.0, 1.5))
        self.assertEqual(rows[1]["ours_us"], 3.0)

    def test_the_short_form_measures_bfloat16_of_one_number_of_ranks(self):
        cases = node.make_cases(node.parse_arguments(["--short"]))
        self.assertEqual([(c.type, c.ranks) for c in cases], [("float32", 2), ("float32", 4), ("bfloat16", 2)])
        self.assertEqual(min(cases[2].sizes), 1 << 20)

    def test_wrong_words_are_refused(self):
        for arguments in (["--peers", "nccl"], ["--sizes", "8,0"], ["--ranks", "two"], ["--types", "int8"], ["--what"]):
            done = call([sys.executable, os.path.join(BENCH, "node.py"), *arguments])
            self.assertEqual(done.returncode, 2, arguments)

    def test_without_ddl_it_fails_and_still_writes_rows(self):
        with tempfile.TemporaryDirectory(dir=WORK) as out:
            command = [sys.executable, os.path.join(BENCH, "node.py"), "--build", WORK, "--out", out, "--peers", "none"]
            done = call([*command, "--sizes", "8", "--ranks", "2", "--rounds", "1", "--budget-ms", "1"])
            self.assertEqual(done.returncode, 1)
            self.assertIn("build them with", done.stderr.decode())
            with open(os.path.join(out, "node.json"), encoding="ascii") as f:
                rows = json.load(f)
        self.assertEqual([(r["ours_us"], r["peers"]) for r in rows], [(None, {})] * 4)
        self.assertGreater(min(r["limit_us"] for r in rows), 0)

    def test_ddl_is_measured_and_right(self):
        build = os.environ.get("DDL_BUILD", "")
        if not os.path.exists(os.path.join(build, "bin", "ddl")):
            self.skipTest("DDL_BUILD names no folder that ddl was built in")
        builder = contestants.Builder(WORK)
        builder.build = os.path.abspath(build)
        ours = contestants.find_ddl(builder)
        for kind in ("float32", "bfloat16"):
            for buffers in ["malloc"] + ["ddl_mem"] * contestants.has_ddl_memory(ours):
                for in_place in (False, True):
                    case = Case(2, [8, 4096, 1 << 20], kind, buffers=buffers, budget_ms=1, in_place=in_place)
                    self.assertGreater(min(contestants.run_contestant(ours, case).values()), 0)


class Rdma(unittest.TestCase):
    def shapes(self, *arguments):
        return rdma.make_shapes(rdma.parse_arguments(list(arguments)))

    def test_every_kind_of_links_is_measured_with_every_number_of_ranks(self):
        self.assertEqual([(s.key, s.ranks) for s in self.shapes("--shapes", "shaped,unshaped", "--ranks", "2,3")],
                         [("shaped", 2), ("shaped", 3), ("unshaped", 2), ("unshaped", 3)])
        for shape in self.shapes("--rate", "300", "--shapes", "shaped,small-mtu,small-mtu-fast,unshaped"):
            self.assertEqual(shape.mtu, 1024 if shape.key.startswith("small-mtu") else 4096)
            self.assertEqual(shape.rate, {"small-mtu": 75, "unshaped": 0}.get(shape.key, 300))
            self.assertTrue(shape.key == "unshaped" or f" {shape.rate} Mbit/s" in shape.what)

    def test_messages_that_slow_links_take_too_long_for_are_left_out_there(self):
        self.assertEqual({s.key for s in self.shapes("--sizes", "16777216")}, {"shaped", "unshaped"})
        self.assertEqual([s.ranks for s in self.shapes("--sizes", "16777216,1048576", "--shapes", "small-mtu")], [2, 4])

    def test_each_rank_is_started_on_its_host_with_the_device_of_that_host(self):
        for rank, command in enumerate(rdma.over_verbs(fake(name="ddl")).launch(3, ["x"])):
            self.assertIn(f"--net=/run/netns/h{rank + 1}", command)
            self.assertIn(f"DDL_RDMA=rxh{rank + 1}r0:1", command)
            self.assertEqual(command[-5:], ["x", "--rank", str(rank), "--size", "3"])
        self.assertEqual(rdma.over_verbs(fake()).env["DDL_TRANSPORTS"], "verbs")
        tcp = rdma.over_tcp(fake())
        self.assertEqual((tcp.env["DDL_TRANSPORTS"], tcp.env["DDL_NET"]), ("tcp", "mgmt"))
        self.assertNotIn("DDL_RDMA", " ".join(tcp.launch(2, ["x"])[0]))

    def test_ranks_of_open_mpi_take_the_device_of_their_rank(self):
        peer = rdma.openmpi_over_verbs(Contestant("openmpi", "p", None, launcher="mpirun"))
        command = peer.launch(2, ["sh", "-c", "echo $FI_VERBS_DEVICE_NAME"])[0]
        shell = command[command.index("sh"):]
        done = call(shell, {**os.environ, "OMPI_COMM_WORLD_RANK": "1"})
        self.assertEqual(done.stdout.decode().strip(), "rxh2r0")

    def test_rows_hold_rates_of_the_bytes_that_each_rank_sends(self):
        shape = self.shapes("--shapes", "shaped", "--ranks", "4")[0]
        case, figures = Case(4, [1000000]), rounds.Figures()
        roles = ["write", "ring", "ours", "openmpi", "tcp", "ib_write_bw"]
        for e, us in enumerate((rdma.at_rate(case, 50e6)[1000000], rdma.at_rate(case, 40e6)[1000000], 60000.0, None, 75000.0)):
            figures.add(0, e, {1000000: us})
        figures.leave_out(0, 5, "is not here")
        row = rdma.make_rows(shape, case, roles, figures, 2)[0]
        self.assertEqual((row["limit_us"], row["ring_us"], row["ours_us"]), (30000.0, 37500.0, 60000.0))
        self.assertEqual(row["peers"], {"openmpi": None, "tcp": 75000.0})
        rates = {"write": 50.0, "ring": 40.0, "ours": 25.0, "openmpi": None, "tcp": 20.0, "ib_write_bw": None}
        self.assertEqual(row["MBps"], rates)
        line = rdma.table([row]).splitlines()[-1].split()
        self.assertEqual(line[-2:], ["0.50", "0.62"])

    def test_wrong_calls_get_a_sentence(self):
        for arguments in (["--shapes", "ring"], ["--ranks", "5"], ["--ranks", "1"], ["--peers", "ucx"], ["--what"]):
            done = call([sys.executable, os.path.join(BENCH, "rdma.py"), *arguments])
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("error: ", done.stderr.decode())

    def test_plain_writes_tell_what_is_wrong_with_a_call_or_a_device(self):
        if not contestants.has_header(BUILDER.cxx, "infiniband/verbs.h"):
            self.skipTest("the headers of libibverbs are not here")
        program = BUILDER.rdma_write()
        right = ["--rank", "0", "--size", "2", "--next", "127.0.0.1", "--port", "17", "--device", "no such device"]
        for arguments in ([], right[2:], [*right, "--rank", "2"], [*right, "--wait", "long"], [*right, "--bytes", "0"]):
            done = call([program, *arguments])
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("usage: rdma_write", done.stderr.decode())
        done = call([program, *right])
        self.assertEqual(done.returncode, 1)
        self.assertIn('there is no device "no such device"', done.stderr.decode())


class Network(unittest.TestCase):
    def shapes(self, *arguments):
        return network.make_shapes(network.parse_arguments(list(arguments)))

    def test_interleaved_neighbours_hang_at_different_switches(self):
        for shape in self.shapes("--shapes", "oversubscribed"):
            order = shape.order()
            self.assertEqual(sorted(order), list(range(8)))
            self.assertEqual([host // 4 for host in order], [0, 1] * 4)
            self.assertEqual(shape.uplink, shape.rate)
        self.assertEqual(self.shapes("--shapes", "switch")[0].order(), list(range(8)))

    def test_a_size_is_measured_once_in_each_shape(self):
        seen = [(s.what, s.ranks, size) for s in self.shapes("--sizes", "4096") for size in s.sizes]
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(len(seen), 5)
        self.assertEqual([s.sizes for s in self.shapes("--shapes", "oversubscribed", "--short")], [[16 << 20]])

    def test_rows_of_two_rails_come_with_ours_over_one(self):
        shape = self.shapes("--shapes", "rails", "--peers", "gloo")[0]
        figures = rounds.Figures()
        for e, us in enumerate((10.0, 19.0, 16.0, 40.0)):
            figures.add(0, e, {16 << 20: us})
        two, one = network.make_rows(shape, Case(8, shape.sizes), ["ours", "one", "limit", "gloo"], figures, 1)
        self.assertEqual((two["ours_us"], two["limit_us"], two["one_rail_us"], two["rails"]), (10.0, 8.0, 19.0, 2))
        self.assertEqual((one["ours_us"], one["limit_us"], one["rails"], one["peers"]), (19.0, 16.0, 1, {}))
        self.assertEqual(two["peers"], {"gloo": 40.0})

    def test_parts_of_a_shape_become_one_group(self):
        rows = [{"what": what, "n": n} for n, what in enumerate("abab")]
        self.assertEqual([r["n"] for r in network.unite(rows)], [0, 2, 1, 3])

    def test_each_rank_is_started_on_its_host(self):
        hosts = fabric.Fabric("x", leaves=2, hosts=2)
        ours = fabric.spread(fake(name="ddl"), hosts, [0, 2, 1, 3], (0, 1))
        self.assertEqual([command[4] for command in ours.launch(4, ["x"])], ["0", "2", "1", "3"])
        self.assertEqual(ours.env["DDL_NET"], "rail0,rail1")
        self.assertTrue(ours.env["DDL_PLAN"].endswith("tree=spine(leaf0(h[0-1]),leaf1(h[2-3]))"))
        mpi = fabric.spread(Contestant("mpich", "p", None, launcher="mpirun"), hosts, [0, 2, 1, 3])
        self.assertIn("10.128.0.1,10.128.0.3,10.128.0.2,10.128.0.4", mpi.launch(4, ["x"])[0])

    def test_one_stream_tells_the_limit(self):
        limits = network.measure_stream(BUILDER.stream(), None, Case(4, [1000, 2000]))
        self.assertGreater(limits[1000], 0)
        self.assertAlmostEqual(limits[2000], 2 * limits[1000])

    def test_wrong_calls_get_a_sentence(self):
        for arguments in (["--shapes", "ring"], ["--sizes", "0"], ["--peers", "nccl"], ["--what"]):
            done = call([sys.executable, os.path.join(BENCH, "network.py"), *arguments])
            self.assertEqual(done.returncode, 2, arguments)
        for arguments in ([], ["receive"], ["send", "127.0.0.1", "1"], ["listen", "1"]):
            done = call([BUILDER.stream(), *arguments])
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("usage: stream", done.stderr.decode())
        done = call([fabric.AGENT, "-x", "h3", "true"], {**os.environ, "BENCH_FABRIC": "x"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("is no address of a host", done.stderr.decode())


class Report(unittest.TestCase):
    def test_a_table_tells_ratios(self):
        text = report.table([row(), row(bytes=1 << 20, ours_us=None, peers={"a": 300.0, "b": None})])
        lines = [" ".join(line.split()) for line in text.splitlines()]
        self.assertEqual(lines[2], "allreduce, 2 ranks, float32, our buffers from malloc")
        self.assertEqual(lines[3], "size ours limit ours/limit a b fastest peer")
        self.assertEqual(lines[4], "8 B 2.00 1.00 2.00 3.00 (1.50) 5.00 (2.50) a (1.50)")
        self.assertEqual(lines[5], "1 MiB - 1.00 - 300 (-) - (-) a (-)")

    def test_groups_differ_in_all_but_the_size(self):
        rows = [row(), row(bytes=16), row(buffers="ddl_mem"), row(ranks=4), row(wire="bfloat16")]
        self.assertEqual([len(members) for members in report.groups(rows).values()], [2, 1, 1, 1])

    def test_sizes_are_shown_in_whole_units(self):
        shown = {8: "8 B", 1024: "1 KiB", 1500: "1500 B", 1 << 20: "1 MiB", 3 << 19: "1536 KiB"}
        self.assertEqual({n: report.show_bytes(n) for n in shown}, shown)

    def test_json_comes_back_as_it_was(self):
        path = os.path.join(WORK, "rows.json")
        report.write_json(path, [row(ours_us=None)])
        with open(path, encoding="ascii") as f:
            text = f.read()
        self.assertEqual(json.loads(text), [row(ours_us=None)])
        self.assertIn("null", text)

    def test_a_plot_is_an_svg_with_every_curve(self):
        if not shutil.which("gnuplot"):
            self.skipTest("gnuplot is not here")
        svg = os.path.join(WORK, "x.svg")
        self.assertEqual(report.plot([row(), row(bytes=1 << 20), row(buffers="ddl_mem", ours_us=None)], svg, "title"), "")
        text = xml.dom.minidom.parse(svg).toxml()
        for label in ("ddl (malloc)", ">a<", ">b<", "limit", "1 MiB"):
            self.assertIn(label, text)
        self.assertNotIn("ddl (ddl_mem)", text)

    def test_nothing_measured_is_no_plot(self):
        self.assertIn("no plot", report.plot([], os.path.join(WORK, "y.svg"), "title"))


class Contestants(unittest.TestCase):
    def test_variables_of_launchers_do_not_come_through(self):
        os.environ["SLURM_JOB_ID"], os.environ["DDL_ALGO"] = "7", "ring"
        env = contestants.environment({"I_MPI_PIN": "0"})
        del os.environ["SLURM_JOB_ID"], os.environ["DDL_ALGO"]
        self.assertNotIn("SLURM_JOB_ID", env)
        self.assertEqual((env["DDL_ALGO"], env["I_MPI_PIN"]), ("ring", "0"))

    def test_what_does_not_build_is_told_with_the_compilers_complaint(self):
        source = os.path.join(WORK, "bad.c")
        with open(source, "w", encoding="ascii") as f:
            f.write("int main(void) { return unheard_of; }\n")
        with self.assertRaisesRegex(Failure, "does not build: .*unheard_of"):
            BUILDER.program("bad", source, BUILDER.cc)

    def test_a_program_that_is_not_there_is_told(self):
        with self.assertRaisesRegex(Failure, "cannot start /nonexistent/program"):
            contestants.execute([["/nonexistent/program"]], 5)

    def wheel(self, files):
        path = os.path.join(WORK, "some-1.0.whl")
        with zipfile.ZipFile(path, "w") as z:
            for name, text in files.items():
                z.writestr("some-1.0.data/data/" + name, text)
        return path

    def test_wheels_are_unpacked_without_static_libraries_and_with_equal_files_once(self):
        root = os.path.join(WORK, "root")
        files = {"lib/libx.so": "same", "lib/libx.so.1": "same", "lib/libx.a": "static", "bin/IMB-MPI1": "b"}
        contestants.unpack(self.wheel(files), root)
        self.assertEqual(sorted(os.listdir(os.path.join(root, "lib"))), ["libx.so", "libx.so.1"])
        self.assertEqual(os.stat(os.path.join(root, "lib", "libx.so")).st_nlink, 2)
        self.assertFalse(os.path.exists(os.path.join(root, "bin")))

    def test_a_wheel_cannot_write_elsewhere(self):
        with self.assertRaisesRegex(Failure, "outside"):
            contestants.unpack(self.wheel({"../../evil": "x"}), os.path.join(WORK, "root2"))


class Precision(unittest.TestCase):
    def test_ratios_are_of_one_round_and_the_median_over_the_rounds(self):
        def one(us, sent):
            return {"median_us": us, "algorithm": "ring", "starts": 4}, sent

        figures = {"native": [one(100.0, 1000), one(300.0, 1000), one(100.0, 1000)]}
        for wire in precision.WIRES[1:]:
            figures[wire] = [one(50.0, 500), one(100.0, 510), one(25.0, 490)]
        rows = {r["what"]: r for r in precision.network_rows(1 << 20, figures)}
        self.assertEqual(rows["speedup bf16 wire"]["ratio"], 3.0)
        self.assertEqual(rows["bytes i8 wire"]["ratio"], 0.5)
        self.assertEqual(rows["speedup f16 wire"]["bytes"], 1 << 20)
        self.assertIn("speedup bf16 wire", precision.table(list(rows.values())))

    def test_flat_errors_stay_and_those_of_a_ring_grow(self):
        build = os.environ.get("DDL_BUILD", "")
        if not os.path.exists(os.path.join(build, "bench", "precision-error")):
            self.skipTest("DDL_BUILD names no folder that ddl was built in")
        a = precision.parse_arguments(["--build", build, "--ranks", "4,32"])
        rows = precision.measure_errors(a)
        rms = {(r["what"], r["ranks"]): r["rms"] for r in rows}
        for suffix in ("", " f16 wire", " i8 wire", ", stochastic", " i8 wire, stochastic"):
            self.assertLess(rms[("error flat" + suffix, 32)], 1.3 * rms[("error flat" + suffix, 4)])
            self.assertGreater(rms[("error ring" + suffix, 32)], 2 * rms[("error ring" + suffix, 4)])
            self.assertGreater(rms[("error multiring" + suffix, 32)], rms[("error flat" + suffix, 32)])
        if shutil.which("gnuplot"):
            svg = os.path.join(WORK, "p.svg")
            self.assertEqual(report.draw(precision.error_plot(rows, svg), svg), "")
            text = xml.dom.minidom.parse(svg).toxml()
            for label in ("ring, stochastic", "multiring", "direct", "i8 on the wire"):
                self.assertIn(label, text)

    def test_a_program_that_is_missing_is_named(self):
        a = precision.parse_arguments(["--build", WORK, "--ranks", "4"])
        with self.assertRaisesRegex(Failure, "precision-error.*build it"):
            precision.measure_errors(a)


if __name__ == "__main__":
    unittest.main(verbosity=1)
