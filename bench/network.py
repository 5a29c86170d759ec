#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""network.py - all-reduce over TCP between hosts in network namespaces: ddl, its peers, and the rate of one plain TCP stream.

Writes OUT/network.json (rows), OUT/network.svg (plot), and prints tables of ratios. Needs root and iproute2. See bench/README.md.
Exit status: 0; 1 if ddl failed or computed something wrong, or nothing could be measured; 2 for a wrong call.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import time

import report
import rounds
from contestants import PEERS_OF_A_NODE, Builder, Case, Contestant, Failure
from contestants import execute, fetch, find_ddl, find_peers, run_contestant, run_main, say
from fabric import Fabric, on_loopback, spread
from node import numbers, words

KIB, MIB = 1 << 10, 1 << 20
SHORT = [KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB]
STREAM_MS = 1500  # a rate is measured for so long
PORT = 17017  # of the stream's receiver, in a namespace of ours; on the loopback: PORT and this process's number


@dataclasses.dataclass
class Shape:
    """Hosts and links, and what is measured on them."""

    key: str  # its name on the command line
    what: str  # its name in the rows
    ranks: int
    sizes: list
    leaves: int = 0  # switches; 0: the loopback of this machine
    rails: int = 1
    rate: int = 0  # of a host's link and rail, Mbit/s
    uplink: int = 0  # of a switch's link and rail; 0: no limit
    interleaved: bool = False  # neighbours in the order of ranks hang at different switches
    rounds: int = 2
    least: int = 3  # timed iterations of ours
    peers_least: int = 0  # and of each peer, of which several are many times slower
    peers: tuple = tuple(PEERS_OF_A_NODE)
    needs_s: int = 0  # left out where less time is left

    def order(self):
        """The host of each rank."""
        a_leaf = self.ranks // self.leaves
        hosts = range(self.ranks)
        return [i % self.leaves * a_leaf + i // self.leaves for i in hosts] if self.interleaved else list(hosts)

    def fabric(self):
        rate, uplink = (f"{figure}mbit" if figure else "" for figure in (self.rate, self.uplink))
        return Fabric(f"dbn{os.getpid() % 100000}", self.leaves, self.ranks // self.leaves, self.rails, rate, uplink)


def make_shapes(a):
    """rate: of a host over all of its rails."""
    judged = tuple(name for name in ("openmpi", "mpich", "gloo") if name in a.peers)
    rate, half = a.rate, a.rate // 2
    shapes = [
        Shape("switch", "allreduce, one switch", 8, [*SHORT, MIB], 1, 1, rate),
        Shape("switch", "allreduce, one switch", 8, [16 * MIB, 64 * MIB], 1, 1, rate, rounds=1),
        Shape("rails", "allreduce, two rails", 8, [16 * MIB], 1, 2, half, rounds=1),
        Shape("oversubscribed", "allreduce, oversubscribed", 8, [16 * MIB], 2, 1, rate, rate, True, peers=judged),
        Shape("loopback", "allreduce, loopback TCP", 2, [64 * MIB], rounds=3, peers_least=3),
        Shape("loopback", "allreduce, loopback TCP", 4, [64 * MIB], rounds=3, peers_least=3),
        Shape("oversubscribed", "allreduce, oversubscribed", 8, [64 * MIB], 2, 1, rate, rate, True, 1, peers=judged, needs_s=100),
    ]
    if a.sizes:  # of the parts of a shape the first one has them all
        shapes = list({(shape.what, shape.ranks): shape for shape in reversed(shapes)}.values())[::-1]
    for shape in shapes:
        shape.sizes = [size for size in a.sizes or shape.sizes if not a.short or size <= 16 * MIB or not shape.leaves]
        shape.rounds = a.rounds or (1 if a.short else shape.rounds)
        shape.peers = tuple(name for name in shape.peers if name in a.peers)
    return [shape for shape in shapes if shape.sizes and shape.key in a.shapes]


def measure_stream(program, fabric, case):
    """What collectives cannot beat: {bytes: microseconds} of 2(N-1)/N times the bytes at the rate of one stream."""
    port = PORT if fabric else PORT + os.getpid() % 10000
    receive, send = [program, "receive", str(port)], [program, "send", "127.0.0.1", str(port), str(STREAM_MS)]
    if fabric:
        send[2] = fabric.address(1)
        receive, send = fabric.on(1, receive), fabric.on(0, send)
    else:
        receive, send = [*receive, "0"], [*send, "1"]
    output = execute([receive, send], 30)
    try:
        rate = next(json.loads(line)["bytes_per_s"] for line in output.splitlines() if line.startswith("{"))
    except (ValueError, KeyError, StopIteration) as e:
        raise Failure(f"told no rate: {output[:200]}") from e
    return {size: 2 * (case.ranks - 1) / case.ranks * size / rate * 1e6 for size in case.sizes}


def make_entries(shape, fabric, ours, peers, stream):
    """[(role, entry)]: role ours, one (ours over one rail of several), limit, or a peer's name."""
    rails = range(shape.rails)
    chosen = [peer for peer in peers if peer.name in shape.peers]
    if not fabric:
        found = [("ours", on_loopback(ours))] if ours else []
        found += [("limit", stream)] + [(peer.name, on_loopback(peer)) for peer in chosen]
    else:
        order = shape.order()
        found = [("ours", spread(ours, fabric, order, rails))] if ours else []
        if ours and shape.rails > 1:
            found.append(("one", spread(ours, fabric, order)))
        found += [("limit", stream)] + [(peer.name, spread(peer, fabric, order, rails)) for peer in chosen]
    return [(role, rounds.Entry(contestant)) for role, contestant in found]


def unite(rows):
    """Shapes that are measured in parts are one group in what is written."""
    return sorted(rows, key=lambda row: [r["what"] for r in rows].index(row["what"]))


def make_rows(shape, case, roles, figures, done):
    """A row a size; over several rails another one for ours over one of them."""
    rows = []
    for size in case.sizes:
        figure = {role: report.median(figures.get(0, e, size)) for e, role in enumerate(roles)}
        limit = figure.get("limit")
        row = {
            "what": shape.what,
            "ranks": shape.ranks,
            "bytes": size,
            "type": case.type,
            "wire": case.type,
            "buffers": case.buffers,
            "ours_us": figure.get("ours"),
            "limit_us": limit / shape.rails if limit else None,
            "peers": {name: figure.get(name) for name in shape.peers},
            "rounds": done,
            "rails": shape.rails,
            "link_mbit": shape.rate or None,
            "uplink_mbit": shape.uplink or None,
            "interleaved": shape.interleaved,
        }
        rows.append(row)
        if "one" in figure:
            row["one_rail_us"] = figure["one"]
            what = shape.what.replace("two rails", "one of two rails")
            rows.append({**row, "what": what, "rails": 1, "ours_us": figure["one"], "limit_us": limit, "peers": {}})
    return rows


def measure(shape, a, ours, peers, stream, seconds):
    """Returns (rows, whether ours failed)."""
    case = Case(shape.ranks, shape.sizes, budget_ms=a.budget_ms, timeout_s=a.timeout)
    case.interface = "rail0" if shape.leaves else "lo"
    with shape.fabric() if shape.leaves else contextlib.nullcontext() as fabric:
        found = make_entries(shape, fabric, ours, peers, stream)
        roles, entries = [role for role, _ in found], [entry for _, entry in found]

        def run(contestant, one):
            if contestant is stream:
                return measure_stream(stream.program, fabric, one)
            least = shape.least if contestant.name == "ddl" else shape.peers_least
            return run_contestant(contestant, dataclasses.replace(one, least=least))

        say(f"{shape.what}, {shape.ranks} ranks: {', '.join(entry.label() for entry in entries)}")
        figures, _, _, done = rounds.run_rounds(shape.rounds, seconds, [case], entries, None, run)
    failed = not ours or any(roles[e] in ("ours", "one") for _, e in figures.left_out)
    return make_rows(shape, case, roles, figures, done), failed


def parse_arguments(argv):
    shapes = ("switch", "rails", "oversubscribed", "loopback")
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    p.add_argument("--short", action="store_true", help="one round, and no more than 16 MiB between hosts")
    p.add_argument("--build", default="build", help="folder that ddl was built in, and where the programs are built (build)")
    p.add_argument("--out", help="folder for the results (BUILD/bench)")
    p.add_argument("--fetch", action="store_true", help="download Intel MPI and oneCCL from PyPI first, into BUILD/bench/wheels")
    p.add_argument("--shapes", type=words(shapes), default=list(shapes), help=f"some of {','.join(shapes)}")
    p.add_argument("--sizes", type=numbers, help="bytes, in place of the shapes' own")
    p.add_argument("--rounds", type=int, help="rounds at most, in place of the shapes' own")
    p.add_argument("--seconds", type=float, default=360.0, help="but for a shape's first no round begins that would end later")
    p.add_argument("--budget-ms", type=float, default=150.0, help="timed iterations of one size take about so long (150)")
    p.add_argument("--timeout", type=int, default=120, help="seconds that one run may take (120)")
    p.add_argument("--rate", type=int, default=400, help="Mbit/s of a host, all its rails together (400)")
    p.add_argument("--peers", type=words(("none", *PEERS_OF_A_NODE)), default=list(PEERS_OF_A_NODE), help="some of their names")
    a = p.parse_args(argv)
    a.out = a.out or os.path.join(a.build, "bench")
    return a


def find_all(a, builder):
    """(ours or None, peers, stream)."""
    builder.prepare()
    if a.fetch:
        fetch(builder)
    stream = Contestant("limit", builder.stream(), None)
    try:
        ours = find_ddl(builder)
        ours.env = {**ours.env, "XDG_CACHE_HOME": "/dev/null"}  # what an earlier run measured is not for this one
    except Failure as e:
        say(f"ddl: {e}")
        ours = None
    return ours, find_peers(builder, [name for name in a.peers if name != "none"]), stream


def main(argv):
    a = parse_arguments(argv)
    begin = time.monotonic()
    os.makedirs(a.out, exist_ok=True)
    rows, bad = [], False
    try:
        ours, peers, stream = find_all(a, Builder(a.build))
        for shape in make_shapes(a):
            left = max(0.0, a.seconds - (time.monotonic() - begin))
            if shape.needs_s > left:
                sizes = ", ".join(map(report.show_bytes, shape.sizes))
                say(f"{shape.what}: {sizes} would take too long; --shapes {shape.key} or --seconds for more measures it")
                continue
            more, failed = measure(shape, a, ours, peers, stream, left)
            rows, bad = unite(rows + more), bad or failed
            report.write_json(os.path.join(a.out, "network.json"), rows)
    except Failure as e:
        say(str(e))
        bad = True
    report.write_json(os.path.join(a.out, "network.json"), rows)
    print(report.table(rows))
    sentence = report.plot(rows, os.path.join(a.out, "network.svg"), "between hosts: ddl, its peers, and one TCP stream")
    if sentence:
        say(sentence)
    say(f"wrote {os.path.join(a.out, 'network.json')} after {time.monotonic() - begin:.0f} s")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    run_main(main)
