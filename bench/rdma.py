#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rdma.py - all-reduce over RDMA (Soft-RoCE, in the guest of tests/rdma): ddl, Open MPI, ddl over TCP, and plain RDMA writes.

Writes OUT/rdma.json (rows) and prints tables of times and of shares of the wire. Needs the guest of tests/rdma. See bench/README.md.
Exit status: 0; 1 if ddl failed or computed something wrong, or nothing was measured; 2 for a wrong call; 77: no guest.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time

import report
import rounds
from contestants import HERE, Builder, Case, Contestant, Failure
from contestants import environment, execute, find_ddl, find_openmpi, find_program, run_contestant, run_main, say, stop
from node import numbers, words

RDMA = os.path.join(HERE, "..", "tests", "rdma")
KIB, MIB = 1 << 10, 1 << 20
PORT = 17200  # of rank 0's listener where plain writes are measured; the namespaces are ours
HOSTS = 4
MTUS = {4096: 4200, 1024: 1500}  # of RDMA, and of the interfaces that it needs
SMALL, SMALL_MOST = 4, 4 * MIB  # links of MTU 1024: so many times as slow, for as many packets a second; messages up to this
BURST, QUEUE = "70000", "4000000"  # bytes, of a link with a rate: all that a few queue pairs have under way fits into the queue
MESSAGE = MIB  # of plain writes
OPENMPI = {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "verbs;ofi_rxm"}
OPENMPI_MOST = 4 * MIB  # bytes; longer messages did not end within a minute
LIBFABRIC = {
    "FI_PROVIDER": "verbs;ofi_rxm",
    "FI_UNIVERSE_SIZE": "8",  # its completion queues would be larger than a Soft-RoCE device's
    "FI_OFI_RXM_MSG_TX_SIZE": "128",
    "FI_OFI_RXM_MSG_RX_SIZE": "128",
}


@dataclasses.dataclass
class Shape:
    """Links, and who sums over them."""

    key: str  # its name on the command line
    what: str  # its name in the rows
    ranks: int
    rate: int = 0  # of a link, Mbit/s; 0: no limit
    mtu: int = 4096  # of RDMA
    most: int = 1 << 40  # bytes of a message


def make_shapes(a):
    slow = max(1, a.rate // SMALL)
    kinds = [
        ("shaped", f"allreduce, RDMA, links of {a.rate} Mbit/s", a.rate, 4096, 1 << 40),
        ("small-mtu", f"allreduce, RDMA, links of {slow} Mbit/s, MTU 1024", slow, 1024, SMALL_MOST),
        ("small-mtu-fast", f"allreduce, RDMA, links of {a.rate} Mbit/s, MTU 1024", a.rate, 1024, 1 << 40),
        ("unshaped", "allreduce, RDMA, no limit on links", 0, 4096, 1 << 40),
    ]
    kinds = [kind for kind in kinds if kind[0] in a.shapes and min(a.sizes) <= kind[-1]]
    return [Shape(key, what, n, *rest) for key, what, *rest in kinds for n in a.ranks]


# --- hosts ---


class Hosts:
    """The hosts of tests/rdma/fabric, inside the guest: host h in namespace hH, with the device rxhHr0 at the interface hHr0."""

    def __init__(self, count):
        self.count, self.limited = count, False
        done = subprocess.run([os.path.join(RDMA, "fabric"), str(count), "1"], capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise Failure(f"the hosts cannot be made: {lines[-1]}")

    def shape(self, rate, mtu):
        """Every link, of RDMA and of TCP, gets this rate (Mbit/s; 0: no limit) and this MTU."""
        switch = ["-n", "switches"]
        for h in range(1, self.count + 1):
            for where, device in (([], f"h{h}r0"), (switch, f"h{h}r0"), (["-n", f"h{h}"], "mgmt"), (switch, f"h{h}")):
                self.call(["ip", *where, "link", "set", device, "mtu", str(MTUS[mtu])])
                if rate:
                    limit = ["tbf", "rate", f"{rate}mbit", "burst", BURST, "limit", QUEUE]
                    self.call(["tc", *where, "qdisc", "replace", "dev", device, "root", *limit])
                elif self.limited:
                    self.call(["tc", *where, "qdisc", "delete", "dev", device, "root"])
        for bridge in ("rail0", "mgmt"):
            self.call(["ip", *switch, "link", "set", bridge, "mtu", str(MTUS[mtu])])
        self.limited = rate > 0

    @staticmethod
    def call(command):
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
        if done.returncode != 0:
            raise Failure(f"\"{' '.join(command)}\" failed: {done.stderr.decode(errors='replace').strip()}")

    @staticmethod
    def on(host, command, **env):
        """The command on a host (from 1), with its name."""
        words = [f"{name}={value}" for name, value in env.items()]
        name = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"h{host}"]
        return ["nsenter", f"--net=/run/netns/h{host}", *name, "env", *words, *command]

    @staticmethod
    def address(host):
        return f"10.1.0.{host}"


# --- contestants ---


def over_verbs(ours):
    def launch(ranks, command):
        each = [(r + 1, [*command, "--rank", str(r), "--size", str(ranks)]) for r in range(ranks)]
        return [Hosts.on(host, words, DDL_RDMA=f"rxh{host}r0:1") for host, words in each]

    return dataclasses.replace(ours, launch=launch, env={**ours.env, "DDL_TRANSPORTS": "verbs"})


def over_tcp(ours):
    def launch(ranks, command):
        return [Hosts.on(r + 1, [*command, "--rank", str(r), "--size", str(ranks)]) for r in range(ranks)]

    return dataclasses.replace(ours, name="tcp", launch=launch, env={**ours.env, "DDL_TRANSPORTS": "tcp", "DDL_NET": "mgmt"})


def openmpi_over_verbs(peer):
    """By libfabric: openib takes no RoCE without rdma_cm, which Debian's lacks, and UCX does not get over connecting to itself."""
    words = [word for key, value in OPENMPI.items() for word in ("--mca", key, value)]
    device = "h=h$((OMPI_COMM_WORLD_RANK + 1))r0; export FI_VERBS_IFACE=$h FI_VERBS_DEVICE_NAME=rx$h; exec \"$@\""

    def launch(ranks, command):
        run = [peer.launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *words, "-n", str(ranks)]
        return [[*run, "sh", "-c", device, "sh", *command]]

    return dataclasses.replace(peer, launch=launch, env={**peer.env, **LIBFABRIC})


# --- limits: bytes per second that plain writes move ---


def measure_writes(program, ranks, senders, ms):
    """The mean over the senders."""
    lines = []
    for r in range(ranks):
        host, after = r + 1, (r + 1) % ranks + 1
        command = [program, "--rank", str(r), "--size", str(ranks), "--next", Hosts.address(after), "--port", str(PORT)]
        command += ["--device", f"rxh{host}r0", "--gid-index", "1", "--bytes", str(MESSAGE), "--senders", str(senders)]
        lines.append(Hosts.on(host, [*command, "--milliseconds", str(ms), "--wait", "yield"]))
    output = execute(lines, 60)
    rates = [json.loads(line)["bytes_per_s"] for line in output.splitlines() if line.startswith("{")]
    if len(rates) != min(ranks, senders):
        raise Failure(f"told {len(rates)} rates: {output[:200]}")
    return sum(rates) / len(rates)


def packets_sent(device):
    with open(f"/sys/class/net/{device}/statistics/tx_packets", encoding="ascii") as f:
        return int(f.read())


def measure_perftest(mtu, ms):
    """What ib_write_bw gets. Its own clock stands still in the guest; so its packets are counted, each as long as the MTU."""
    if not find_program("ib_write_bw"):
        raise Failure("is not here; Debian, Fedora: perftest")
    words = ["ib_write_bw", "-F", "-x", "1", "-s", str(MESSAGE), "-t", "8", "--qp-timeout", "18", "-n", "1000000"]
    commands = [Hosts.on(2, [*words, "-d", "rxh2r0"])]
    commands.append(Hosts.on(1, ["sh", "-c", 'sleep 0.4; exec "$@"', "sh", *words, "-d", "rxh1r0", Hosts.address(2)]))
    begin, give_up, processes = packets_sent("h1r0"), time.monotonic() + 20, []
    try:
        for command in commands:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            processes.append(subprocess.Popen(command, start_new_session=True, **quiet))
        while packets_sent("h1r0") < begin + MESSAGE // mtu:
            if time.monotonic() > give_up or any(p.poll() is not None for p in processes):
                raise Failure("sent nothing")
            time.sleep(0.02)
        time.sleep(ms / 3e3)
        begin, at = packets_sent("h1r0"), time.monotonic()
        time.sleep(ms / 1e3)
        return (packets_sent("h1r0") - begin) * mtu / (time.monotonic() - at)
    finally:
        stop(processes)


# --- measuring ---


def at_rate(case, rate):
    """{bytes: microseconds} of 2(N-1)/N times the bytes."""
    return {size: 2 * (case.ranks - 1) / case.ranks * size / rate * 1e6 for size in case.sizes}


def make_runner(program, mtu, a):
    """run(contestant, case) for the rounds. The three limits are contestants too, so they have their turn in every round."""

    def run(contestant, case):
        if contestant.name in ("write", "ring"):
            senders = 1 if contestant.name == "write" else case.ranks
            return at_rate(case, measure_writes(program, case.ranks, senders, a.limit_ms))
        if contestant.name == "ib_write_bw":
            return at_rate(case, measure_perftest(mtu, a.limit_ms))
        if contestant.name == "openmpi":
            case = dataclasses.replace(case, sizes=[size for size in case.sizes if size <= OPENMPI_MOST])
        return run_contestant(contestant, case) if case.sizes else {}

    return run


def make_rows(shape, case, roles, figures, done):
    rows = []
    for size in case.sizes:
        us = {role: report.median(figures.get(0, e, size)) for e, role in enumerate(roles)}
        moved = 2 * (case.ranks - 1) / case.ranks * size  # bytes that each rank must send
        rates = {role: round(moved / time, 2) if time else None for role, time in us.items()}
        row = {
            "what": shape.what,
            "ranks": shape.ranks,
            "bytes": size,
            "type": case.type,
            "wire": case.type,
            "buffers": case.buffers,
            "ours_us": us.get("ours"),
            "limit_us": us.get("write"),
            "peers": {name: us.get(name) for name in ("openmpi", "tcp") if name in roles},
            "rounds": done,
            "ring_us": us.get("ring"),
            "MBps": rates,
            "link_mbit": shape.rate or None,
            "mtu": shape.mtu,
        }
        rows.append(row)
    return rows


def table(rows):
    """Bus bandwidths, and ours as a share of what plain writes get."""
    lines = ["bus bandwidth in MB/s; shares: ours of what plain writes get over one link at a time (as ib_write_bw), and over all"]
    for key, members in report.groups(rows).items():
        names = ["ours", "write", "ring", "ib_write_bw", *members[0]["peers"]]
        lines += ["", report.title(key)]
        lines.append(f"{'size':>8}" + "".join(f"{name:>13}" for name in names) + f"{'share of one':>14}{'share of all':>14}")
        for row in members:
            rates = row["MBps"]
            cells = [f"{rates[name]:>13.1f}" if rates.get(name) else f"{'-':>13}" for name in names]
            shares = [report.ratio(rates.get("ours"), rates.get(of)) for of in ("write", "ring")]
            cells += [f"{report.show_ratio(share):>14}" for share in shares]
            lines.append(f"{report.show_bytes(row['bytes']):>8}" + "".join(cells))
    return "\n".join(lines) + "\n"


def measure(shape, a, ours, peers, program, seconds):
    """Returns (rows, whether ours failed)."""
    sizes = [size for size in a.sizes if size <= shape.most]
    case = Case(shape.ranks, sizes, budget_ms=a.budget_ms, timeout_s=60, least=3)
    found = [("write", Contestant("write", program, None)), ("ring", Contestant("ring", program, None))]
    found += [("ours", over_verbs(ours))] if ours else []
    found += [(peer.name, peer) for peer in peers]
    found += [("ib_write_bw", Contestant("ib_write_bw", program, None))] if "ib_write_bw" in a.peers else []
    roles, entries = [role for role, _ in found], [rounds.Entry(contestant) for _, contestant in found]
    say(f"{shape.what}, {shape.ranks} ranks: {', '.join(roles)}")
    figures, _, _, done = rounds.run_rounds(a.rounds, seconds, [case], entries, None, make_runner(program, shape.mtu, a))
    failed = not ours or any(roles[e] in ("ours", "write") for _, e in figures.left_out)
    return make_rows(shape, case, roles, figures, done), failed


def find_all(a, builder):
    """(ours or None, peers, program of plain writes); builds them where they are not up to date."""
    builder.prepare()
    program, ours, peers = builder.rdma_write(), None, []
    try:
        ours = find_ddl(builder)
        ours.env = {**ours.env, "XDG_CACHE_HOME": "/dev/null"}  # what an earlier run measured is not for this one
    except Failure as e:
        say(f"ddl: {e}")
    if "openmpi" in a.peers:
        try:
            peers.append(openmpi_over_verbs(find_openmpi(builder)))
        except Failure as e:
            say(f"openmpi {e}")
    if "tcp" in a.peers and ours:
        peers.append(over_tcp(ours))
    return ours, peers, program


def measure_all(a, builder):
    """Inside the guest."""
    begin = time.monotonic()
    ours, peers, program = find_all(a, builder)
    rows, bad = [], False
    hosts, shapes = Hosts(HOSTS), make_shapes(a)
    for i, shape in enumerate(shapes):
        hosts.shape(shape.rate, shape.mtu)
        left = max(0.0, a.seconds - (time.monotonic() - begin)) / (len(shapes) - i)
        more, failed = measure(shape, a, ours, peers, program, left)
        rows, bad = rows + more, bad or failed
        report.write_json(os.path.join(a.out, "rdma.json"), rows)
    print(report.table(rows))
    print(table(rows))
    say(f"wrote {os.path.join(a.out, 'rdma.json')} after {time.monotonic() - begin:.0f} s")
    return 1 if bad or not rows else 0


def start_guest(a, argv):
    """Runs this program in the guest, with the folder of the results as the only one that can be written to."""
    limit = int(a.seconds * 2 + 120)
    command = [os.path.join(RDMA, "guest"), "--timeout", str(limit), "--write", a.out]
    command += ["--", sys.executable, os.path.abspath(__file__), "--inside", *argv]
    env = environment({"DDL_BUILD": a.build})  # the guest shows that folder wherever it lies
    try:
        done = subprocess.run(command, cwd=a.out, env=env, timeout=limit + 60, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Failure(f"the guest cannot be run: {e}") from e
    return done.returncode


def parse_arguments(argv):
    shapes, peers = ("shaped", "small-mtu", "unshaped", "small-mtu-fast"), ("openmpi", "tcp", "ib_write_bw")
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0], allow_abbrev=False)
    p.add_argument("--build", default="build", help="folder that ddl was built in, and where the programs are built (build)")
    p.add_argument("--out", help="folder for the results (BUILD/bench)")
    p.add_argument("--shapes", type=words(shapes), default=list(shapes[:3]), help=f"some of {','.join(shapes)}; all but the last")
    p.add_argument("--ranks", type=numbers, default=[2, 4], help="numbers of ranks, up to 4 (2,4)")
    p.add_argument("--sizes", type=numbers, default=[MIB, 4 * MIB, 16 * MIB], help="bytes (1 MiB, 4 MiB, 16 MiB)")
    p.add_argument("--rounds", type=int, default=3, help="rounds at most (3)")
    p.add_argument("--seconds", type=float, default=420.0, help="but for a shape's first no round begins that would end later")
    p.add_argument("--budget-ms", type=float, default=1000.0, help="timed iterations of one size take about so long (1000)")
    p.add_argument("--limit-ms", type=int, default=1500, help="plain writes are measured for so long (1500)")
    p.add_argument("--rate", type=int, default=200, help="Mbit/s of shaped links (200)")
    p.add_argument("--peers", type=words(("none", *peers)), default=list(peers), help=f"some of {','.join(peers)}")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args(argv)
    if not all(2 <= n <= HOSTS for n in a.ranks):
        p.error(f"--ranks: there are {HOSTS} hosts; 2 to {HOSTS} are possible")
    a.build = os.path.abspath(a.build)
    a.out = os.path.abspath(a.out or os.path.join(a.build, "bench"))
    return a


def main(argv):
    a = parse_arguments(argv)
    try:
        builder = Builder(a.build)
        if a.inside:
            return measure_all(a, builder)
        os.makedirs(a.out, exist_ok=True)
        find_all(a, builder)
        return start_guest(a, [*argv, "--build", a.build, "--out", a.out])
    except Failure as e:
        say(str(e))
        return 1


if __name__ == "__main__":
    run_main(main)
