#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""training.py - steps a second of DistributedDataParallel over ddl against the same over gloo: between the nodes of a Slurm cluster
in network namespaces (links and uplinks limited, node names dealt out over the switches), and of two ranks on one node. Also a
blocking all-reduce of 4 MB of these two, and what the hook costs for a bucket.

Every process trains the same model over both, in turn (training_ranks.py); a ratio is that of the medians over the rounds, and
beside it that of the fastest rounds, which other work on the machine has disturbed the least. Needs PyTorch; without root or Slurm
the rows of the cluster are left out. Writes BUILD/bench/training.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

from contestants import HERE, Failure, execute, run_main, say
from report import write_json

SCRIPT = os.path.join(HERE, "..", "tests", "cluster", "cluster.sh")
SOURCE = os.path.join(HERE, "..")
WORKER = os.path.join(HERE, "training_ranks.py")
PREFIX = "train"  # of the cluster's names
TIMEOUT_S = 400
GOALS = {  # of 8 ranks, and of 2 on a node: at least so many times gloo
    (8, "ddp f32"): 1.5,
    (8, "ddp bf16"): 2.5,
    (2, "ddp f32"): 1.0,
    (2, "ddp bf16"): 1.0,
    (2, "all-reduce 4 MB"): 5.0,
}


def parse_arguments(argv):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    p.add_argument("--build", default=os.path.join(SOURCE, "build"), help="folder of the build (default: build)")
    p.add_argument("--python", default="/usr/bin/python3", help="interpreter that has PyTorch (default: /usr/bin/python3)")
    p.add_argument("--nodes", type=int, default=8, help="nodes of the cluster (default 8)")
    p.add_argument("--rate", default="400mbit", help="limit of links and uplinks (default 400mbit)")
    p.add_argument("--rounds", type=int, default=7, help="in which every way is measured once (default 7)")
    p.add_argument("--steps", type=int, default=4, help="that a way makes in a round (default 4)")
    p.add_argument("--no-cluster", action="store_true", help="two ranks on one node only")
    a = p.parse_args(argv)
    a.build = os.path.abspath(a.build)
    return a


def environment(a, interface):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_", "DDL_", "MASTER_", "GLOO_"))}
    paths = [os.path.join(SOURCE, "python"), *filter(None, [env.get("PYTHONPATH")])]
    env.update(DDL_LIBRARY=os.path.join(a.build, "lib", "libddl.so.0"), PYTHONPATH=os.pathsep.join(paths))
    env.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", GLOO_SOCKET_IFNAME=interface)
    env["PATH"] = os.path.join(a.build, "bin") + os.pathsep + env["PATH"]
    return env


def trained(a, launcher, interface, folder, more=None):
    """The ranks' result. Raises Failure."""
    file = os.path.join(folder, "result.json")
    command = [*launcher, a.python, WORKER, file, str(a.rounds), str(a.steps)]
    execute([command], TIMEOUT_S, env={**environment(a, interface), **(more or {})})
    with open(file, encoding="utf-8") as f:
        return json.load(f)


def on_one_node(a):
    with tempfile.TemporaryDirectory() as folder:
        launcher = [os.path.join(a.build, "bin", "ddl"), "run", "-n", "2", "--no-prefix"]
        return trained(a, launcher, "lo", folder)


def cluster(*arguments):
    """The script's output. (execute() would end the daemons that it leaves.)"""
    done = subprocess.run(
        [SCRIPT, "--prefix", PREFIX, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    if done.returncode != 0:
        raise Failure(f"cluster.sh {arguments[0]}: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    return done.stdout


def on_a_cluster(a):
    plugin = os.path.join(a.build, "lib", "slurm", "spank_ddl.so")
    if os.geteuid() != 0 or not os.path.exists(plugin):
        raise Failure("a cluster needs root and the Slurm plugin")
    cluster("down")
    try:
        cluster("up", "--nodes", str(a.nodes), "--plugin", plugin, "--host-rate", a.rate, "--uplink-rate", a.rate)
        conf = cluster("env").split("SLURM_CONF=")[1].split()[0].strip("'\"")
        with tempfile.TemporaryDirectory() as folder:
            launcher = ["srun", f"-N{a.nodes}", "--ntasks-per-node=1", "--mpi=pmix", "--ddl=multiring"]
            return trained(a, launcher, "eth0", folder, {"SLURM_CONF": conf})
    finally:
        cluster("down")


def rows_of(result, where):
    """What is judged, and the other ways beside it."""
    ranks, times = result["ranks"], {name: statistics.median(seconds) for name, seconds in result["ways"].items()}
    rows = []
    for name, seconds in times.items():
        peer_name = "sum gloo" if name.startswith("sum") else "gloo"
        peer = times[peer_name]
        if "gloo" in name:
            continue
        what = "all-reduce 4 MB" if name == "sum ddl" else name
        way, _, rest = what.partition(" ")
        goal = GOALS.get((ranks, what))
        row = {"what": f"{way} {ranks} ranks {rest}", "where": where, "ranks": ranks, "ratio": peer / seconds}
        row.update(ms=seconds * 1e3, gloo_ms=peer * 1e3, goal=goal)
        row["ratio_fastest"] = min(result["ways"][peer_name]) / min(result["ways"][name])
        rows.append(row)
    return rows


def main(argv):
    a = parse_arguments(argv)
    rows, failed, facts = [], False, {}
    for where, measure in (("one node", on_one_node), (f"{a.nodes} nodes, {a.rate}", None if a.no_cluster else on_a_cluster)):
        if measure is None:
            continue
        try:
            result = measure(a)
        except Failure as e:
            say(f"{where} is left out: {e}")
            failed = True
            continue
        rows += rows_of(result, where)
        if where == "one node":
            rows.append({"what": "hook per bucket", "where": where, "us": result["hook_us"], "goal_us": 10.0})
        facts = {"torch": result["torch"], "gradient_bytes": result["bytes"]}
    print(f"{'':34} {'gloo ms':>9} {'ms':>9} {'ratio':>7} {'fastest':>8} {'goal':>6}")
    for row in rows:
        if "us" in row:
            print(f"{row['what']:34} {row['us']:19.1f} us {'':14} {row['goal_us']:6.0f}")
        else:
            goal = f"{row['goal']:6.1f}" if row["goal"] else ""
            print(f"{row['what']:34} {row['gloo_ms']:9.2f} {row['ms']:9.2f} {row['ratio']:7.2f} {row['ratio_fastest']:8.2f} {goal}")
    path = os.path.join(a.build, "bench", "training.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_json(path, {"benchmark": "training", "rounds": a.rounds, "steps": a.steps, **facts, "rows": rows})
    return int(failed)


if __name__ == "__main__":
    run_main(main)
