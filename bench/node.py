#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""node.py - all-reduce inside one node: ddl, its peers, and what the memory allows.

Writes OUT/node.json (rows), OUT/node.svg (plot), OUT/machine.json (the machine's figures, versions), and prints tables of ratios.
See bench/README.md. Exit status: 0; 1 if ddl failed or computed something wrong, or nothing could be measured; 2 for a wrong call.
"""

import argparse
import os
import platform

import report
import rounds
from contestants import PEERS_OF_A_NODE, Builder, Case, Failure, fetch, find_ddl, find_peers, has_ddl_memory, run_main, say

KIB, MIB = 1 << 10, 1 << 20
SHORT_SIZES = [8, 4 * KIB, 32 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
LONG_SIZES = [8, 64, 512, 4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB]
LONG_SIZES += [MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB]
BUFFERS = ("ddl_mem", "malloc")
TYPES = ("float32", "bfloat16")


def numbers(text):
    values = [int(part) for part in text.split(",")]
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError("numbers above 0, separated by commas")
    return values


def words(allowed):
    def parse(text):
        values = text.split(",")
        for value in values:
            if value not in allowed:
                raise argparse.ArgumentTypeError(f'"{value}" is none of {", ".join(allowed)}')
        return values

    return parse


def parse_arguments(argv):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    p.add_argument("--short", action="store_true", help="fewer sizes and rounds, done in less than five minutes")
    p.add_argument("--build", default="build", help="folder that ddl was built in, and where the programs are built (build)")
    p.add_argument("--out", help="folder for the results (BUILD/bench)")
    p.add_argument("--fetch", action="store_true", help="download Intel MPI and oneCCL from PyPI first, into BUILD/bench/wheels")
    p.add_argument("--rounds", type=int, help="rounds at most (7, short: 3)")
    p.add_argument("--seconds", type=float, help="no round begins that would end later (3600, short: 200)")
    p.add_argument("--budget-ms", type=float, help="timed iterations of one size take about so long (60, short: 25)")
    p.add_argument("--ranks", type=numbers, default=[2, 4], help="numbers of processes (2,4)")
    p.add_argument("--sizes", type=numbers, help="bytes")
    p.add_argument("--types", type=words(TYPES), help="of the data (float32,bfloat16)")
    p.add_argument("--wire", default="native", choices=("native", "bfloat16", "float16"), help="ours: type that travels (native)")
    p.add_argument("--buffers", type=words(BUFFERS), default=list(BUFFERS), help="ours (ddl_mem,malloc)")
    p.add_argument("--peers", type=words(("none", *PEERS_OF_A_NODE)), default=list(PEERS_OF_A_NODE), help="some of their names")
    p.add_argument("--in-place", action="store_true", help="input and output are one buffer")
    p.add_argument("--fresh", action="store_true", help="inputs are written anew before each iteration, untimed")
    a = p.parse_args(argv)
    a.rounds = a.rounds or (3 if a.short else 7)
    a.seconds = a.seconds or (200.0 if a.short else 3600.0)
    a.budget_ms = a.budget_ms or (25.0 if a.short else 60.0)
    a.out = a.out or os.path.join(a.build, "bench")
    return a


def make_cases(a):
    """Short: bfloat16 from 1 MiB on, and with the first number of ranks only, unless told otherwise."""
    cases = []
    for kind in a.types or TYPES:
        for ranks in a.ranks:
            sizes = a.sizes or (SHORT_SIZES if a.short else LONG_SIZES)
            if kind == "bfloat16" and a.short and not a.types:
                if ranks != a.ranks[0]:
                    continue
                sizes = a.sizes or [size for size in sizes if size >= MIB]
            more = {"in_place": a.in_place, "fresh": a.fresh, "budget_ms": a.budget_ms, "timeout_s": 60 if a.short else 120}
            cases.append(Case(ranks, sizes, kind, a.wire, **more))
    return cases


def make_entries(a, builder):
    """Ours first, once for each kind of buffers, then the peers."""
    entries = []
    try:
        ours = find_ddl(builder)
        for buffers in a.buffers:
            if buffers == "ddl_mem" and not has_ddl_memory(ours):
                say("this ddl has no ddl_mem_alloc(): its rows with ddl_mem stay empty")
            else:
                entries.append(rounds.Entry(ours, buffers))
    except Failure as e:
        say(f"ddl: {e}")
    names = [name for name in a.peers if name != "none"]
    return entries + [rounds.Entry(peer) for peer in find_peers(builder, names)]


def make_rows(a, cases, entries, figures, limits, done):
    ours = {entry.buffers: e for e, entry in enumerate(entries) if entry.contestant.name == "ddl"}
    peers = [(e, entry.contestant.name) for e, entry in enumerate(entries) if entry.contestant.name != "ddl"]
    rows = []
    for c, case in enumerate(cases):
        for buffers in a.buffers:
            for size in case.sizes:
                lines = limits.get((c, size), [])
                measured = {name: report.median(figures.get(c, e, size)) for e, name in peers}
                row = {
                    "what": "allreduce",
                    "ranks": case.ranks,
                    "bytes": size,
                    "type": case.type,
                    "wire": case.type if case.wire == "native" else case.wire,
                    "buffers": buffers,
                    "ours_us": report.median(figures.get(c, ours[buffers], size)) if buffers in ours else None,
                    "limit_us": report.median([line["us"] for line in lines]),
                    "peers": {**{name: None for name in a.peers if name != "none"}, **measured},
                    "rounds": done,
                    "exchange_us": report.median([line["exchange_us"] for line in lines]),
                    "in_place": case.in_place,
                    "fresh": case.fresh,
                }
                rows.append(row)
    return rows


def make_machine(entries, machine):
    """What the ratios depend on."""
    keys = ("threads", "read_GBps", "copy_GBps", "nontemporal_copy_GBps", "flag_round_trip_us")
    return {
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "commit": rounds.git_commit(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")),
        "versions": {entry.contestant.name: entry.contestant.version for entry in entries},
        "limits": [
            {"ranks": ranks, **{k: report.median([line[k] for line in lines]) for k in keys}} for ranks, lines in machine.items()
        ],
    }


def failed(entries, figures):
    """Whether ours was left out of anything."""
    return not entries or any(entries[e].contestant.name == "ddl" for _, e in figures.left_out)


def main(argv):
    a = parse_arguments(argv)
    builder = Builder(a.build)
    os.makedirs(a.out, exist_ok=True)
    try:
        builder.prepare()
        if a.fetch:
            fetch(builder)
        limit = builder.limit()
    except Failure as e:
        say(str(e))
        return 1
    cases, entries = make_cases(a), make_entries(a, builder)
    say(f"{', '.join(entry.label() for entry in entries)}; {len(cases)} cases, {a.rounds} rounds")
    figures, limits, machine, done = rounds.run_rounds(a.rounds, a.seconds, cases, entries, limit)
    rows = make_rows(a, cases, entries, figures, limits, done)
    report.write_json(os.path.join(a.out, "node.json"), rows)
    report.write_json(os.path.join(a.out, "machine.json"), make_machine(entries, machine))
    print(report.table(rows))
    sentence = report.plot(rows, os.path.join(a.out, "node.svg"), "one node: ddl, its peers, and the limit of the memory")
    if sentence:
        say(sentence)
    say(f"wrote {os.path.join(a.out, 'node.json')}")
    return 1 if failed(entries, figures) else 0


if __name__ == "__main__":
    run_main(main)
