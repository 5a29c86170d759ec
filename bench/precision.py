#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""precision.py - what low precision on the wire saves and what it costs: time and bytes between hosts, errors by number of ranks.

Writes OUT/precision.json (rows), OUT/precision.svg (errors), and prints both. Hosts are network namespaces: root and iproute2 are
needed. See bench/README.md. Exit status: 0; 1 if ddl failed or a part could not be measured; 2 for a wrong call.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import report
from contestants import Failure, environment, execute, run_main, say
from fabric import Fabric
from node import numbers, words

MIB = 1 << 20
HOSTS = 8
WIRES = ["native", "bf16", "f16", "i8"]
ITERATIONS, WARMUP = 3, 1
COLORS = {"ring": "#d62728", "multiring": "#1f77b4", "direct": "#2ca02c"}


# ---- between hosts ----


def sent(fabric):
    """Bytes that all hosts' interfaces have sent."""
    return sum(int(fabric.call("sent", str(host))) for host in range(fabric.size()))


def perf(tool, fabric, wire, size, timeout_s):
    """One run of `ddl perf`, a rank a host. Returns (its row, bytes that the interfaces sent for one start and all ranks)."""
    with tempfile.TemporaryDirectory() as store:
        call = [tool, "perf", "allreduce", "--json", "--sizes", str(size), "--wire", wire, "--iters", str(ITERATIONS)]
        call += ["--warmup", str(WARMUP), "--store", store, "--ranks", str(fabric.size())]
        # What measures when a communicator is made would be counted too.
        env = environment({"DDL_PLAN": fabric.plan(), "DDL_NET": "rail0", "DDL_MEASURE": "0"})
        before = sent(fabric)
        output = execute([fabric.on(host, [*call, "--rank", str(host)]) for host in range(fabric.size())], timeout_s, env)
        after = sent(fabric)
    try:
        row = next(json.loads(line) for line in output.splitlines() if line.startswith("{"))
        return row, (after - before) / row["starts"]
    except (ValueError, KeyError, StopIteration) as e:
        raise Failure(f"ddl perf told no row: {output[:200]}") from e


def measure_size(tool, fabric, size, n_rounds, timeout_s):
    """{wire: [(row, bytes)]}, one a round; each round begins with another wire."""
    figures = {wire: [] for wire in WIRES}
    for number in range(n_rounds):
        for i in range(len(WIRES)):
            wire = WIRES[(i + number) % len(WIRES)]
            figures[wire].append(perf(tool, fabric, wire, size, timeout_s))
    return figures


def network_rows(size, figures):
    """A row of time and one of bytes for each wire that rounds. Ratios are of one round: what disturbs it disturbs both."""
    rows = []
    ranks = HOSTS
    payload = 2 * (ranks - 1) * size
    native = figures["native"]
    for wire in WIRES[1:]:
        ones = figures[wire]
        speedups = [a["median_us"] / b["median_us"] for (a, _), (b, _) in zip(native, ones)]
        shares = [b / a for (_, a), (_, b) in zip(native, ones)]
        common = {"ranks": ranks, "bytes": size, "rounds": len(ones)}
        rows.append(
            {
                "what": f"speedup {wire} wire",
                **common,
                "ratio": round(statistics.median(speedups), 4),
                "float32_us": report.median([row["median_us"] for row, _ in native]),
                "wire_us": report.median([row["median_us"] for row, _ in ones]),
                "algorithm": ones[0][0]["algorithm"],
                "float32_algorithm": native[0][0]["algorithm"],
            }
        )
        rows.append(
            {
                "what": f"bytes {wire} wire",
                **common,
                "ratio": round(statistics.median(shares), 4),
                "sent": round(statistics.median(b for _, b in ones)),
                "float32_sent": round(statistics.median(b for _, b in native)),
                "float32_payload": payload,
            }
        )
    return rows


def measure_network(a):
    rows = []
    with Fabric(f"dbp{os.getpid() % 100000}", 1, HOSTS, 1, f"{a.rate}mbit") as fabric:
        for size in a.sizes:
            n_rounds = a.rounds if size <= 16 * MIB else max(1, a.rounds - 1)
            rows += network_rows(size, measure_size(a.tool, fabric, size, n_rounds, a.timeout))
            say(f"{report.show_bytes(size)} between hosts: done")
    for row in rows:
        row["link_mbit"] = a.rate
    return rows


# ---- errors ----


def error_what(line):
    """bfloat16 to nearest goes without saying."""
    what = "error " + line["how"]
    if line["wire"] != "bf16":
        what += f" {line['wire']} wire"
    return what + (", stochastic" if line["rounding"] != "nearest" else "")


def measure_errors(a):
    rows = []
    for ranks in a.ranks:
        command = [os.path.join(a.build, "bench", "precision-error"), str(ranks), str(a.count)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=a.timeout, check=False)
        except OSError as e:
            raise Failure(f"cannot start {command[0]}: {e.strerror}; build it with \"make\"") from e
        except subprocess.TimeoutExpired as e:
            raise Failure(f"the errors of {ranks} ranks were not known after {a.timeout} s") from e
        if done.returncode != 0:
            raise Failure(f"{ranks} ranks: {done.stderr.decode(errors='replace').strip()[:300]}")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        rows += [{"what": error_what(line), **line, "count": a.count} for line in lines]
    return rows


def curves(rows, wire):
    """(label, color, dash, [(ranks, rms)]) of the algorithms that were named."""
    found = []
    for how, color in COLORS.items():
        for rounding, dash in (("nearest", 1), ("stochastic", 2)):
            of = [r for r in rows if (r["how"], r["wire"], r["rounding"]) == (how, wire, rounding)]
            points = sorted((r["ranks"], r["rms"]) for r in of)
            found.append((how + ("" if rounding == "nearest" else ", stochastic"), color, dash, points))
    return found


def error_plot(rows, svg):
    wires = [wire for wire in WIRES[1:] if any(row["wire"] == wire for row in rows)]
    ranks = sorted({row["ranks"] for row in rows})
    lines = [
        f"set terminal svg size {360 * len(wires)},400 background rgb 'white' font 'sans,11'",
        f"set output '{svg}'",
        f"set multiplot layout 1,{len(wires)} title 'error of an all-reduce of float32 against float64 (root of the mean square)'",
        "set logscale xy 2; set grid; set key left top Left reverse samplen 2",
        "set xlabel 'ranks'; set ylabel 'units in the last place'",
        "set xtics (" + ", ".join(map(str, ranks)) + f"); set xrange [{ranks[0]}:{ranks[-1] * 1.05}]; set yrange [0.125:32]",
    ]
    for number, wire in enumerate(wires):
        plots = []
        lines.append(f"set title '{wire} on the wire'")
        for i, (label, color, dash, points) in enumerate(curves(rows, wire)):
            lines += [f"$c{number}_{i} << EOD", *(f"{x} {y}" for x, y in points), "EOD"]
            style = f"with linespoints lc rgb '{color}' dt {dash} lw 2 pt 7 ps 0.4"
            plots.append(f"$c{number}_{i} using 1:2 {style} title '{label}' noenhanced")
        lines.append("plot " + ", ".join(plots))
    return "\n".join([*lines, "unset multiplot", ""])


# ---- all ----


def table(rows):
    lines = []
    for row in rows:
        if "ratio" in row:
            lines.append(f"{row['what']:<24}{report.show_bytes(row['bytes']):>10}{row['ratio']:>10.3f}  of float32's")
        elif row["rounding"] == "nearest":
            lines.append(f"{row['what']:<32}{row['ranks']:>6} ranks{row['rms']:>10.3f} ulp  ({row['algorithm']})")
    return "\n".join(lines) + "\n"


def parse_arguments(argv):
    parts = ("network", "errors")
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0], allow_abbrev=False)
    p.add_argument("--short", action="store_true", help="one round, no more than 16 MiB, up to 64 ranks")
    p.add_argument("--build", default="build", help="folder that ddl was built in (build)")
    p.add_argument("--out", help="folder for the results (BUILD/bench)")
    p.add_argument("--parts", type=words(parts), default=list(parts), help=f"some of {','.join(parts)}")
    p.add_argument("--sizes", type=numbers, default=[MIB, 16 * MIB, 64 * MIB], help="bytes (1, 16 and 64 MiB)")
    p.add_argument("--ranks", type=numbers, default=[2, 4, 8, 16, 32, 64, 128, 256], help="of the errors (2 to 256)")
    p.add_argument("--count", type=int, default=1 << 16, help="elements of the errors (65536)")
    p.add_argument("--rounds", type=int, default=3, help="up to 16 MiB; above one less (3)")
    p.add_argument("--rate", type=int, default=300, help="Mbit/s of a host (300)")
    p.add_argument("--timeout", type=int, default=120, help="seconds that one run may take (120)")
    a = p.parse_args(argv)
    if a.short:
        a.rounds, a.sizes, a.ranks = 1, [size for size in a.sizes if size <= 16 * MIB], [n for n in a.ranks if n <= 64]
    a.out = a.out or os.path.join(a.build, "bench")
    a.tool = os.path.join(os.path.abspath(a.build), "bin", "ddl")
    return a


def main(argv):
    a = parse_arguments(argv)
    begin = time.monotonic()
    os.makedirs(a.out, exist_ok=True)
    rows, bad = [], False
    for part, measure in (("network", measure_network), ("errors", measure_errors)):
        try:
            rows += measure(a) if part in a.parts else []
        except Failure as e:
            say(f"{part}: {e}")
            bad = True
    report.write_json(os.path.join(a.out, "precision.json"), rows)
    print(table(rows))
    errors = [row for row in rows if "rms" in row]
    svg = os.path.join(a.out, "precision.svg")
    sentence = report.draw(error_plot(errors, svg), svg) if errors else ""
    if sentence:
        say(sentence)
    say(f"wrote {os.path.join(a.out, 'precision.json')} after {time.monotonic() - begin:.0f} s")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    run_main(main)
