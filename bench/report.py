# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks write: rows as JSON, a table of ratios, a plot.

A row is {what, ranks, bytes, type, wire, buffers, ours_us, limit_us, peers: {name: us}, rounds}, and whatever a benchmark adds.
Times are microseconds; null where there is none.
"""

import json
import os
import shutil
import statistics
import subprocess
import tempfile

OURS = ("#d62728", "#ff9896")  # a color for each kind of buffers
OTHERS = ("#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#17becf", "#bcbd22", "#7f7f7f")
LIMIT = "#000000"


def median(values):
    """Of the numbers among them; None if there are none."""
    numbers = [v for v in values if v is not None]
    return round(statistics.median(numbers), 4) if numbers else None


def fastest(row):
    """Name and time of the fastest peer, or (None, None)."""
    times = {name: us for name, us in row["peers"].items() if us is not None}
    return min(times.items(), key=lambda item: item[1]) if times else (None, None)


def ratio(a, b):
    return None if a is None or b is None or b == 0 else a / b


def show_bytes(n):
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size and n % size == 0:
            return f"{n // size} {unit}"
    return f"{n} B"


def show_us(us):
    if us is None:
        return "-"
    return f"{us:.2f}" if us < 100 else f"{us:,.0f}"


def show_ratio(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def groups(rows):
    """Rows that share everything but the size, in the order in which they come."""
    found = {}
    for row in rows:
        found.setdefault((row["what"], row["ranks"], row["type"], row["wire"], row["buffers"]), []).append(row)
    return found


def title(key):
    what, ranks, kind, wire, buffers = key
    travelling = "" if wire in ("native", kind) else f" as {wire} on the wire"
    return f"{what}, {ranks} ranks, {kind}{travelling}, our buffers from {buffers}"


def table(rows):
    """The text of the tables, one a group."""
    lines = ["times in microseconds; in brackets the peer's time divided by ours: above 1 ours is faster"]
    for key, members in groups(rows).items():
        names = list(dict.fromkeys(name for row in members for name in row["peers"]))
        lines += ["", title(key)]
        head = f"{'size':>8}{'ours':>12}{'limit':>12}{'ours/limit':>12}"
        lines.append(head + "".join(f"{name:>20}" for name in names) + f"{'fastest peer':>22}")
        for row in members:
            ours, name = row["ours_us"], fastest(row)[0]
            cells = [f"{show_bytes(row['bytes']):>8}", f"{show_us(ours):>12}", f"{show_us(row['limit_us']):>12}"]
            cells.append(f"{show_ratio(ratio(ours, row['limit_us'])):>12}")
            for peer in names:
                us = row["peers"].get(peer)
                cells.append(f"{show_us(us) + ' (' + show_ratio(ratio(us, ours)) + ')':>20}")
            cells.append(f"{(name or '-') + ' (' + show_ratio(ratio(fastest(row)[1], ours)) + ')':>22}")
            lines.append("".join(cells))
    return "\n".join(lines) + "\n"


def write_json(path, value):
    """Whole or not at all."""
    text = json.dumps(value, indent=1)
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path) or ".", delete=False, encoding="ascii") as f:
        f.write(text + "\n")
    os.chmod(f.name, 0o644)
    os.replace(f.name, path)


def series(members):
    """The curves of a panel that have points: (label, color, dash, [(bytes, us)])."""
    names = list(dict.fromkeys(name for row in members for name in row["peers"]))
    buffers = list(dict.fromkeys(row["buffers"] for row in members))
    one = [row for row in members if row["buffers"] == buffers[0]]
    curves = []
    for i, kind in enumerate(buffers):
        mine = [(row["bytes"], row["ours_us"]) for row in members if row["buffers"] == kind]
        curves.append((f"ddl ({kind})", OURS[i % len(OURS)], 1, mine))
    for i, name in enumerate(names):
        curves.append((name, OTHERS[i % len(OTHERS)], 1, [(row["bytes"], row["peers"].get(name)) for row in one]))
    curves.append(("limit", LIMIT, 2, [(row["bytes"], row["limit_us"]) for row in one]))
    curves = [(label, color, dash, [p for p in points if p[1] is not None]) for label, color, dash, points in curves]
    return [curve for curve in curves if curve[3]]


def gnuplot_script(rows, svg, heading):
    """One panel below the other: a group of rows each, whatever the buffers."""
    panels = {}
    for key, members in groups(rows).items():
        panels.setdefault(key[:4], []).extend(members)
    lines = [
        f"set terminal svg size 800,{480 * len(panels)} background rgb 'white' font 'sans,12'",
        f"set output '{svg}'",
        f"set multiplot layout {len(panels)},1 title '{heading}'",
        "set logscale xy; set key left top; set grid; set ylabel 'microseconds'; set format y '%g'",
    ]
    for number, (key, members) in enumerate(panels.items()):
        what, ranks, kind, wire = key
        travelling = "" if wire in ("native", kind) else f", {wire} on the wire"
        sizes = sorted({row["bytes"] for row in members})
        lines.append(f"set title '{what}, {ranks} ranks, {kind}{travelling}'")
        lines.append("set xtics rotate by -45 (" + ", ".join(f"'{show_bytes(size)}' {size}" for size in sizes) + ")")
        plots = []
        for i, (label, color, dash, points) in enumerate(series(members)):
            lines += [f"$c{number}_{i} << EOD", *(f"{x} {y}" for x, y in points), "EOD"]
            style = f"with linespoints lc rgb '{color}' dt {dash} lw 2 pt 7 ps 0.5"
            plots.append(f"$c{number}_{i} using 1:2 {style} title '{label}' noenhanced")
        if plots:
            lines.append("plot " + ", ".join(plots))
    lines.append("unset multiplot")
    return "\n".join(lines) + "\n"


def plot(rows, svg, heading):
    """Writes the SVG. Returns "" or why not."""
    return draw(gnuplot_script(rows, svg, heading), svg) if rows else "no plot: nothing was measured"


def draw(script, svg):
    """Has gnuplot carry out a script that writes the SVG. Returns "" or why not."""
    if not shutil.which("gnuplot"):
        return "no plot: gnuplot is not here; Debian: gnuplot-nox"
    try:
        done = subprocess.run(["gnuplot"], input=script.encode(), capture_output=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "no plot: gnuplot was not done after a minute"
    if done.returncode != 0 or not os.path.exists(svg):
        return f"no plot: gnuplot says: {done.stderr.decode(errors='replace').strip()[:200]}"
    return ""
