# SPDX-License-Identifier: Apache-2.0
"""Hosts in network namespaces for benchmarks (root, iproute2), and how each contestant is started over them, one rank a host.
Also how each is made to use TCP between the processes of one host (on_loopback).

    with Fabric("bench", leaves=2, hosts=4, rate="400mbit", uplink="400mbit") as fabric:
        spread(contestant, fabric, order=[0, 4, 1, 5, 2, 6, 3, 7])

Rank r runs on host order[r]. Host h hangs at leaf h / hosts (tests/fabric/fabric.sh).
"""

import dataclasses
import os
import subprocess

from contestants import HERE, Failure

SCRIPT = os.path.join(HERE, "..", "tests", "fabric", "fabric.sh")
AGENT = os.path.join(HERE, "on-host")


class Fabric:
    """A fabric of tests/fabric/fabric.sh while it is entered. rate, uplink: as tc writes them, "" unlimited."""

    def __init__(self, name, leaves=2, hosts=4, rails=1, rate="", uplink=""):
        self.name, self.leaves, self.hosts, self.rails = name, leaves, hosts, rails
        self.limits = [*(["--rate", rate] if rate else []), *(["--uplink", uplink] if uplink else [])]

    def call(self, *arguments):
        """Raises Failure with the script's sentence."""
        command = [SCRIPT, "--name", self.name, *arguments]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired as e:
            raise Failure(f"fabric.sh {arguments[0]} was not done after a minute") from e
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise Failure(f"the hosts cannot be made: {lines[-1]}")
        return done.stdout.decode()

    def __enter__(self):
        shape = ["--leaves", str(self.leaves), "--hosts", str(self.hosts), "--rails", str(self.rails)]
        self.call("up", *shape, *self.limits)
        return self

    def __exit__(self, *exception):
        self.call("down")

    def size(self):
        return self.leaves * self.hosts

    def on(self, host, command):
        return [SCRIPT, "--name", self.name, "exec", str(host), *command]

    def address(self, host, rail=0):
        return f"10.{128 + rail}.0.{host + 1}"

    def plan(self):
        """The text of DDL_PLAN that names the switches."""
        ends = [(leaf * self.hosts, (leaf + 1) * self.hosts - 1) for leaf in range(self.leaves)]
        leaves = [f"leaf{leaf}(h[{a}-{b}])" if a < b else f"leaf{leaf}(h{a})" for leaf, (a, b) in enumerate(ends)]
        return f"1;job=1.0;mode=multiring;src=env/tree;tree=spine({','.join(leaves)})"


def rail_names(rails):
    return ",".join(f"rail{rail}" for rail in rails)


def spread(contestant, fabric, order=None, rails=(0,)):
    """The same contestant over the fabric's hosts; rails: the numbers of those that it is told to use."""
    order = list(range(fabric.size())) if order is None else list(order)
    names = rail_names(rails)

    def directly(ranks, command):
        return [fabric.on(order[rank], [*command, "--rank", str(rank), "--size", str(ranks)]) for rank in range(ranks)]

    def addresses(ranks):
        return [fabric.address(host) for host in order[:ranks]]

    def openmpi(ranks, command):
        mca = {
            "plm_rsh_agent": AGENT,
            "plm_rsh_no_tree_spawn": "1",
            "pml": "ob1",
            "btl": "tcp,self",
            "btl_tcp_if_include": names,
            "oob_tcp_if_include": "rail0",
        }
        words = [word for key, value in mca.items() for word in ("--mca", key, value)]
        hosts = ",".join(address + ":1" for address in addresses(ranks))
        run = [contestant.launcher, "--allow-run-as-root", "--bind-to", "none", *words, "--host", hosts, "-n", str(ranks)]
        return [fabric.on(order[0], [*run, *command])]

    def hydra(*agent):
        def launch(ranks, command):
            run = [contestant.launcher, *agent, "-iface", "rail0", "-hosts", ",".join(addresses(ranks)), "-ppn", "1"]
            return [fabric.on(order[0], [*run, "-n", str(ranks), *command])]

        return launch

    mpich = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": names}
    tcp = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "rail0"}
    oneccl = {**tcp, "CCL_ATL_SHM": "0", "CCL_KVS_IFACE": "rail0"}
    ways = {
        "ddl": (directly, {"DDL_PLAN": fabric.plan(), "DDL_NET": names}),
        "openmpi": (openmpi, {}),
        "mpich": (hydra("-launcher", "ssh", "-launcher-exec", AGENT), mpich),
        "impi": (hydra("-bootstrap", "ssh", "-bootstrap-exec", AGENT), {**tcp, "I_MPI_FABRICS": "ofi"}),
        "oneccl": (directly, oneccl),
        "gloo": (directly, {}),
    }
    launch, env = ways[contestant.name]
    env = {**contestant.env, **env, "BENCH_FABRIC": fabric.name}
    env.pop("I_MPI_HYDRA_BOOTSTRAP", None)
    return dataclasses.replace(contestant, launch=launch, env=env)


def on_loopback(contestant):
    """The same contestant on this machine, but all of its ranks talk TCP over the loopback."""
    tcp = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
    env = {
        "ddl": {"DDL_TRANSPORTS": "tcp", "DDL_NET": "lo"},
        "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo"},
        "mpich": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "MPIR_CVAR_NOLOCAL": "1"},
        "impi": {**tcp, "I_MPI_FABRICS": "ofi"},
        "oneccl": {**tcp, "CCL_ATL_SHM": "0", "CCL_KVS_IFACE": "lo"},
        "gloo": {},
    }
    return dataclasses.replace(contestant, env={**contestant.env, **env[contestant.name]})
