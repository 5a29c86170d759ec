#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""overlap.py - how much of the sum of the gradients hides behind the compute: ddl and MPI, on hosts with links of a given rate.

Writes OUT/overlap.json (rows) and prints them as tables. See bench/README.md. Needs root (network namespaces).
Exit status: 0; 1 if ddl failed or computed something wrong, or nothing could be measured; 2 for a wrong call.
"""

import argparse
import dataclasses
import json
import os
import re
import sys
import time

import report
import rounds
from contestants import HERE, Builder, Failure, find_ddl, find_mpich, find_openmpi, run_main, run_program, say
from fabric import Fabric, spread

sys.path.insert(0, os.path.join(HERE, "..", "tools", "data"))
import networks  # noqa: E402 (the path comes first)

GOODPUT = 0.956  # of a link's rate, behind the headers of Ethernet, IP and TCP
AHEAD = 0.8  # communication over compute from which on the first layer may wait for others; below all is there when it is
FIGURES = ("alone_us", "compute_us", "total_us", "first_us", "stall_us")
MPI_WAYS = {"": "non-blocking", "persistent": "persistent"}
PEERS = {"openmpi": find_openmpi, "mpich": find_mpich}


@dataclasses.dataclass
class Case:
    """A network and how long its communication is, computed from the links' rate, over the compute time."""

    network: str
    relation: float
    list: str  # file of its messages
    compute_ms: float
    ranks: int
    iterations: int
    busy: bool
    timeout_s: int
    type: str = "float32"
    buffers: str = "malloc"


@dataclasses.dataclass
class Entry:
    """A contestant and how it makes progress."""

    contestant: object  # whose arguments say so
    library: str
    how: str  # "priorities", "first come, first served", "non-blocking", "persistent"
    threads: int  # for progress, in each process
    tests: bool
    buffers: str = "malloc"

    def progress(self):
        return "a progress thread" if self.threads else "test calls" if self.tests else "no test calls"

    def label(self):
        return f"{self.library}, {self.how}, {self.progress()}"


def run_overlap(contestant, case):
    """One run of overlap.c: {name: microseconds}. Raises Failure."""

    def read(path):
        with open(path, encoding="ascii") as f:
            row = json.loads(f.read())
        if row["correct"] is not True:
            raise Failure("computed a wrong result")
        return {name: row[name] for name in FIGURES}

    arguments = ["--list", case.list, "--compute-ms", f"{case.compute_ms:.3f}", "--iterations", str(case.iterations)]
    arguments += ["--busy"] if case.busy else []
    arguments += ["--interface", "rail0"]
    return run_program(contestant, case.ranks, arguments, case.timeout_s, read)


def parse_rate(text):
    """Bit/s of a rate as tc writes it."""
    match = re.fullmatch(r"(\d+)(k|m|g)bit", text)
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a rate such as 400mbit')
    return int(match[1]) * {"k": 10**3, "m": 10**6, "g": 10**9}[match[2]]


def relation(text):
    value = float(text)
    if not 0.01 <= value <= 100:
        raise argparse.ArgumentTypeError("a relation is between 0.01 and 100")
    return value


def parse_arguments(argv):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    p.add_argument("--build", default="build", help="folder that ddl was built in, and where the programs are built (build)")
    p.add_argument("--out", help="folder for the results (BUILD/bench)")
    p.add_argument("--networks", default="resnet50", help=f"of {','.join(networks.NETWORKS)}, separated by commas (resnet50)")
    p.add_argument("--relations", default="0.5,1", help="communication over compute; below 1 it can be hidden (0.5,1)")
    p.add_argument("--hosts", type=int, default=8, help="one rank each (8); not more than cores: compute is arithmetic, else sleep")
    p.add_argument("--rate", default="400mbit", help="of each host's link (400mbit)")
    p.add_argument("--scale", type=float, default=1, help="part of each message's elements, for a try (1)")
    p.add_argument("--test-us", type=float, default=1000, help="a test call after so much compute, where there are any (1000)")
    p.add_argument("--all", action="store_true", help="the peers also without test calls, and where nobody need wait")
    p.add_argument("--iterations", type=int, default=1, help="timed, in each run (1)")
    p.add_argument("--rounds", type=int, default=1, help="rounds at most (1)")
    p.add_argument("--seconds", type=float, default=3600, help="no round begins that would end later (3600)")
    p.add_argument("--peers", default=",".join(PEERS), help=f"of {','.join(PEERS)}, or none")
    p.add_argument("--timeout-s", type=int, help="of one run (computed from the case)")
    p.add_argument("--name", default="ddlovl", help="of the hosts in the network namespaces (ddlovl)")
    a = p.parse_args(argv)
    a.networks = a.networks.split(",")
    a.peers = [name for name in a.peers.split(",") if name != "none"]
    for name, known in [(n, networks.NETWORKS) for n in a.networks] + [(n, PEERS) for n in a.peers]:
        if name not in known:
            p.error(f'"{name}" is none of {", ".join(known)}')
    try:
        a.bits = parse_rate(a.rate)
        a.relations = [relation(text) for text in a.relations.split(",")]
    except (ValueError, argparse.ArgumentTypeError) as e:
        p.error(str(e))
    if not 2 <= a.hosts <= 64 or not 0 < a.scale <= 1 or not 1 <= a.iterations <= 64 or a.test_us <= 0 or a.rounds < 1:
        p.error("2 to 64 hosts, a scale above 0 and at most 1, 1 to 64 iterations, a test interval above 0, at least one round")
    a.out = a.out or os.path.join(a.build, "bench")
    return a


def write_list(folder, name, scale):
    """The messages of a network for overlap.c. Returns (path, bytes)."""
    path, size = os.path.join(folder, f"overlap-{name}.list"), 0
    with open(path, "w", encoding="ascii") as f:
        for message, elements, work in networks.network(name)[1]:
            elements = max(1, int(elements * scale))
            size += 4 * elements
            f.write(f"{message} {elements} {work}\n")
    return os.path.abspath(path), size


def make_cases(a):
    cases = []
    for name in a.networks:
        path, size = write_list(a.out, name, a.scale)
        wire_ms = 2 * (a.hosts - 1) / a.hosts * size * 8 / (a.bits * GOODPUT) * 1e3
        for value in a.relations:
            compute_ms = wire_ms / value
            slow = 4 * (a.iterations + 2) * (wire_ms + compute_ms) / 1e3  # four times as slow as the links allow
            limit = a.timeout_s or int(slow) + 60
            case = Case(name, value, path, compute_ms, a.hosts, a.iterations, a.hosts <= cores(), limit)
            cases.append(case)
    return cases


def cores():
    return len(os.sched_getaffinity(0))


def variant(base, library, how, way, threads, test_us):
    arguments = ["--way", way, "--test-us", str(test_us)]
    env = {**base.env, "DDL_PROGRESS": str(threads)} if library == "ddl" else base.env
    contestant = dataclasses.replace(base, arguments=arguments, env=env)
    return Entry(contestant, library, how, threads, test_us > 0)


def entries_of(a, base, library):
    if library == "ddl":
        entries = []
        for threads, test_us in ((1, 0), (0, a.test_us)):
            entries.append(variant(base, library, "priorities", "", threads, test_us))
            entries.append(variant(base, library, "first come, first served", "fcfs", threads, test_us))
        return [*entries, variant(base, library, "priorities", "", 0, 0)]
    entries = [variant(base, library, how, way, 0, a.test_us) for way, how in MPI_WAYS.items()]
    return entries + ([variant(base, library, MPI_WAYS[""], "", 0, 0)] if a.all else [])


def make_entries(a, builder, fabric):
    entries = []
    for library, find in {"ddl": find_ddl, **{name: PEERS[name] for name in a.peers}}.items():
        try:
            entries += entries_of(a, spread(find(builder), fabric), library)
        except Failure as e:
            say(f"{library} {e}")
    return entries


def hidden(f):
    """The share of the communication that the compute hides; what the communication costs the compute counts against it."""
    if None in f.values() or not f["alone_us"]:
        return None
    return (f["alone_us"] + f["compute_us"] - f["total_us"]) / f["alone_us"]


def rounded(value):
    return None if value is None else round(value, 4)


def make_rows(a, cases, entries, figures, done):
    """A row for each case and entry; then, with `ratio`, of every other's first-layer wait and stall over ours with priorities."""
    rows = []
    for c, case in enumerate(cases):
        got = [{name: report.median(figures.get(c, e, name)) for name in FIGURES} for e in range(len(entries))]
        common = {"network": case.network, "relation": case.relation, "ranks": case.ranks, "rate": a.rate, "rounds": done}
        common["compute"] = "arithmetic" if case.busy else "sleep"
        text = f"{case.network}, communication {case.relation:g} of compute"
        for e, entry in enumerate(entries):
            told = {"library": entry.library, "how": entry.how, "progress": entry.threads, "tests": entry.tests, **got[e]}
            # "hidden" is what must be: ours, shorter than compute, with something that makes progress
            judged = entry.library == "ddl" and case.relation < 1 and (entry.threads or entry.tests)
            what = ("hidden" if judged else "share hidden") + f" {text}: {entry.label()}"
            rows.append({"what": what, **common, **told, "hidden": rounded(hidden(got[e]))})
        for e, entry in enumerate(entries):
            if entry.library == "ddl" and entry.how == "priorities" and (entry.threads or entry.tests):
                rows += ratios(case, entries, got, e, {**common, "progress": entry.threads, "tests": entry.tests}, text)
    return rows


def ratios(case, entries, got, mine, common, text):
    """Waits of the others over ours: ours without priorities and with the same progress; the peers as well as they can."""
    rows = []
    for e, other in enumerate(entries):
        alike = (other.threads, other.tests) == (entries[mine].threads, entries[mine].tests)
        if (other.how == "priorities" or not alike) if other.library == "ddl" else not other.tests:
            continue
        for what, key in (("first-layer", "first_us"), ("stall", "stall_us")):
            if what == "first-layer" and case.relation < AHEAD:
                continue
            ratio = report.ratio(got[e][key], got[mine][key])
            row = {"what": f"{what} {text}: {other.label()} over {entries[mine].label()}", **common}
            row.update({"ours_us": got[mine][key], "other_us": got[e][key], "ratio": rounded(ratio)})
            if ratio is not None:
                row["more_of_step"] = rounded((got[mine][key] - got[e][key]) / got[mine]["total_us"])
            rows.append(row)
    return rows


def table(rows):
    head = f"{'':<110}" + "".join(f"{key[:-3]:>9}" for key in FIGURES) + f"{'hidden':>9}"
    lines = ["milliseconds; first: the wait for the first layer; hidden: share of the communication alone", head]
    for row in rows:
        if "hidden" in row:
            times = "".join(f"{'-' if row[key] is None else format(row[key] / 1e3, '.0f'):>9}" for key in FIGURES)
            share = "-" if row["hidden"] is None else f"{row['hidden']:.3f}"
            lines.append(f"{row['what']:<110}{times}{share:>9}")
    lines += ["", "ratios: above 1 ours, with priorities, waits less"]
    lines += [f"{row['what']:<146}{report.show_ratio(row['ratio']):>9}" for row in rows if "ratio" in row]
    return "\n".join(lines) + "\n"


def measure(a, builder, fabric):
    """One case after the other, so that what is done stands in the file when a later one is cut short."""
    cases, entries = make_cases(a), make_entries(a, builder, fabric)
    say(f"{'; '.join(entry.label() for entry in entries)}; {len(cases)} cases")
    path, rows, good, end = os.path.join(a.out, "overlap.json"), [], False, time.monotonic() + a.seconds
    for case in cases:
        # where all is there when the first layer is, nobody is compared
        here = [entry for entry in entries if entry.library == "ddl" or a.all or case.relation >= AHEAD]
        figures, _, _, done = rounds.run_rounds(a.rounds, end - time.monotonic(), [case], here, None, run_overlap)
        rows += make_rows(a, [case], here, figures, done)
        report.write_json(path, rows)
        ours = [e for e, entry in enumerate(here) if entry.library == "ddl"]
        good = bool(ours) and not any(e in ours for _, e in figures.left_out) and (good or case is cases[0])
    print(table(rows))
    say(f"wrote {path}")
    return 0 if good else 1


def main(argv):
    a = parse_arguments(argv)
    os.makedirs(a.out, exist_ok=True)
    builder = Builder(a.build, "overlap")
    try:
        builder.prepare()
        with Fabric(a.name, leaves=1, hosts=a.hosts, rate=a.rate) as fabric:
            return measure(a, builder, fabric)
    except Failure as e:
        say(str(e))
        return 1


if __name__ == "__main__":
    run_main(main)
