# SPDX-License-Identifier: Apache-2.0
"""Who takes part in a benchmark: finds ddl and its peers, builds the harness against each, and runs one of them once.

A contestant that is missing, does not build, fails, takes too long or computes something wrong is left out with one sentence.
"""

import ctypes
import dataclasses
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "peers")
PARTS = ("board", "data", "common", "ranks")
FLAGS = ["-O3", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-D_GNU_SOURCE"]

# What --fetch downloads from PyPI: Intel MPI, oneCCL and what oneCCL is linked with, in versions that fit together.
WHEELS = ["impi-rt==2021.18.1", "impi-devel==2021.18.1", "oneccl==2022.1.2", "oneccl-devel==2022.1.2", "intel-sycl-rt==2026.2.0"]
WHEELS += ["intel-cmplr-lib-rt==2026.2.0", "intel-cmplr-lib-ur==2026.2.0", "umf==1.2.0", "tcmlib==1.6.0"]

# Variables of launchers and libraries that would change what is measured; DDL_* stay, for those who want to try them.
FOREIGN = ("SLURM_", "PMI_", "PMIX_", "OMPI_", "OPAL_", "PRTE_", "HYDRA_", "MPICH_", "MPIR_", "I_MPI_", "CCL_", "FI_", "UCX_")


class Failure(Exception):
    """One sentence: why a contestant is left out."""


@dataclasses.dataclass
class Case:
    """What a contestant is asked to measure in one run."""

    ranks: int
    sizes: list
    type: str = "float32"
    wire: str = "native"
    buffers: str = "malloc"
    in_place: bool = False
    fresh: bool = False
    budget_ms: float = 50
    least: int = 3  # timed iterations, however long they take; 0: the time of a checked one will do
    timeout_s: int = 60
    interface: str = ""


@dataclasses.dataclass
class Contestant:
    name: str
    program: str  # built against the library
    launch: object  # function (ranks, command) -> list of commands that are started together
    env: dict = dataclasses.field(default_factory=dict)
    version: str = ""
    launcher: str = ""  # of an MPI: its mpirun
    arguments: list = dataclasses.field(default_factory=list)  # that only this one's program gets


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


def environment(extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    env.update(extra or {})
    return env


def run_main(main):
    """Exits with what main(arguments) returns. Signals are exceptions there, so that what runs is ended, and files and hosts go."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


# --- running ---


def adopt_orphans():
    """Makes processes whose parent ends children of ours, so that stop() finds what a launcher leaves behind."""
    PR_SET_CHILD_SUBREAPER = 36
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # another system than Linux: what is left is left


def children():
    """The numbers of this process's children."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                if f.read().rpartition(")")[2].split()[1] == str(os.getpid()):
                    found.add(int(pid))
        except (OSError, IndexError):
            pass
    return found


def end_orphans(known, patience=3.0):
    """Ends our children but for those known; their own come to us in turn. A child's number stays its own until we reap it."""
    end = time.monotonic() + patience
    left = children() - known
    while left and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass
        time.sleep(0.01)
        left = children() - known


def stop(processes):
    """Ends process groups that execute() made, asking first, so that a launcher can end its ranks."""
    for sig, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        alive = [p for p in processes if p.poll() is None]
        for p in alive:
            try:
                os.killpg(p.pid, sig)
            except ProcessLookupError:
                pass
        end = time.monotonic() + patience
        for p in alive:
            try:
                p.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass


def execute(commands, timeout_s, env=None, cwd=None):
    """Runs commands at the same time to their end. Returns their output together; raises Failure."""
    adopt_orphans()
    processes, others = [], children()
    with tempfile.TemporaryFile() as log:
        try:
            for command in commands:
                processes.append(
                    subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=cwd, start_new_session=True
                    )
                )
            end = time.monotonic() + timeout_s
            while None in [p.poll() for p in processes] and not any(p.returncode for p in processes):
                if time.monotonic() > end:
                    raise Failure(f"was not done after {timeout_s} s")
                time.sleep(0.02)
            bad = [p.returncode for p in processes if p.returncode]  # the others may wait for that one for ever
        except OSError as e:
            raise Failure(f"cannot start {commands[len(processes)][0]}: {e.strerror}") from e
        finally:
            stop(processes)
            end_orphans(others | {p.pid for p in processes})
        log.seek(0)
        output = log.read().decode(errors="replace")
    if bad:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        ours = ("harness:", "ddl:", "mpi:", "gloo:", "oneccl:", "limit:", "stream:", "overlap:", "rdma_write:")
        telling = [line for line in lines if line.startswith(ours)]
        told = (telling or lines[-1:] or ["it said nothing"])[0]
        raise Failure(f"ended with {'signal ' if bad[0] < 0 else 'status '}{abs(bad[0])}: {told[:300]}")
    return output


def read_results(path, case):
    """The harness's lines as {bytes: microseconds}."""
    figures = {}
    with open(path, encoding="ascii") as f:
        for line in f:
            row = json.loads(line)
            if row["correct"] is not True:
                raise Failure(f"computed a wrong result at {row['bytes']} bytes")
            figures[row["bytes"]] = row["us"]
    missing = [size for size in case.sizes if size not in figures]
    if missing:
        raise Failure(f"told nothing of {missing[0]} bytes")
    return figures


def run_program(contestant, ranks, arguments, timeout_s, read):
    """Runs the contestant's program on so many ranks. Returns read(path of what rank 0 wrote); raises Failure."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no disk gets in between
    folder = tempfile.mkdtemp(prefix="ddl-bench-", dir=memory)
    try:
        board, out = os.path.join(folder, "board"), os.path.join(folder, "out")
        meeting = os.path.join(folder, "meeting")
        os.mkdir(meeting)
        for path in (board, out):
            with open(path, "wb"):
                pass
        command = [contestant.program, "--board", board, "--out", out, "--folder", meeting, "--size", str(ranks)]
        command += ["--limit-s", str(timeout_s), *arguments, *contestant.arguments]
        execute(contestant.launch(ranks, command), timeout_s + 5, environment(contestant.env), folder)
        try:
            return read(out)
        except (ValueError, KeyError, OSError) as e:
            raise Failure(f"left no readable results: {e}") from e
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_contestant(contestant, case):
    """One run of the harness: {bytes: microseconds}. Raises Failure."""
    arguments = ["--sizes", ",".join(map(str, case.sizes)), "--type", case.type, "--wire", case.wire]
    arguments += ["--buffers", case.buffers, "--budget-ms", str(case.budget_ms), "--least", str(case.least)]
    arguments += ["--interface", case.interface] if case.interface else []
    arguments += ["--in-place"] if case.in_place else []
    arguments += ["--fresh"] if case.fresh else []
    return run_program(contestant, case.ranks, arguments, case.timeout_s, lambda path: read_results(path, case))


# --- launchers ---


def by(*launcher):
    """A launcher that is told the number of ranks behind -n."""
    return lambda ranks, command: [[*launcher, "-n", str(ranks), *command]]


def directly(ranks, command):
    """Each rank a process of ours, which is told its rank."""
    return [[*command, "--rank", str(rank)] for rank in range(ranks)]


# --- building ---


def compile_to(target, sources, command, log):
    """Compiles unless the target is newer than all sources. Raises Failure with the compiler's first complaint."""
    newest = max(os.path.getmtime(s) for s in [*sources, *glob.glob(os.path.join(PEERS, "*.h"))])
    stamp = target + ".command"
    line = " ".join(command)
    if os.path.exists(target) and os.path.getmtime(target) >= newest and os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as f:
            if f.read() == line:
                return
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False
    )
    with open(log, "wb") as f:
        f.write(line.encode() + b"\n" + done.stdout)
    if done.returncode != 0:
        text = done.stdout.decode(errors="replace").splitlines()
        text = text or ["no reason given"]
        complaint = next((t for t in text if "error" in t or "undefined" in t or "cannot find" in t), text[0])
        raise Failure(f"does not build: {complaint.strip()[:200]} (all of it in {log})")
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(line)


class Builder:
    """Builds into BUILD/bench/peers: the programs whose main is peers/MAIN.c."""

    def __init__(self, build, main="harness"):
        self.main, self.parts = main, (main, *PARTS)
        self.build = os.path.abspath(build)
        self.folder = os.path.join(self.build, "bench", "peers")
        self.wheels = os.path.join(self.build, "bench", "wheels")
        self.cc = os.environ.get("CC") or ("gcc" if shutil.which("gcc") else "cc")
        self.cxx = os.environ.get("CXX") or ("g++" if shutil.which("g++") else "c++")
        self.flags = FLAGS
        os.makedirs(self.folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def prepare(self):
        """The parts that all programs share."""
        probe = [self.cc, "-march=native", "-x", "c", "-fsyntax-only", os.devnull]
        if shutil.which(self.cc) is None:
            raise Failure(f"there is no C compiler \"{self.cc}\"; install gcc, or say CC=...")
        if subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode == 0:
            self.flags = [*FLAGS, "-march=native"]
        for part in self.parts:
            source = os.path.join(PEERS, part + ".c")
            command = [self.cc, "-std=gnu11", *self.flags, "-c", source, "-o", self.path(part + ".o")]
            compile_to(self.path(part + ".o"), [source], command, self.path(part + ".log"))

    def program(self, name, source, compiler, *more):
        objects = [self.path(part + ".o") for part in self.parts]
        name = name if self.main == "harness" else f"{self.main}-{name}"
        source = os.path.join(PEERS, source)
        command = [compiler, *self.flags, source, *objects, *more, "-o", self.path(name)]
        compile_to(self.path(name), [source, *objects], command, self.path(name + ".log"))
        return self.path(name)

    def alone(self, name, *parts, more=()):
        """A program that is none of the harness's: peers/NAME.c and other parts."""
        sources = [os.path.join(PEERS, part + ".c") for part in (name, *parts)]
        command = [self.cc, "-std=gnu11", *self.flags, *sources, *more, "-o", self.path(name)]
        compile_to(self.path(name), sources, command, self.path(name + ".log"))
        return self.path(name)

    def stream(self):
        return self.alone("stream")

    def limit(self):
        more = ["-pthread"]
        if "clang" not in first_line([self.cc, "--version"]):
            more.append("-fno-tree-loop-distribute-patterns")  # a loop that copies shall stay one
        return self.alone("limit", "common", more=more)

    def rdma_write(self):
        return self.alone("rdma_write", "common", more=["-libverbs"])


def has_header(compiler, header, *flags):
    command = [compiler, *flags, "-include", header, "-fsyntax-only", "-x", "c++", os.devnull]
    return shutil.which(compiler) and subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


# --- who there is ---


def find_ddl(builder):
    build = builder.build
    library, header = os.path.join(build, "lib", "libddl.so"), os.path.join(HERE, "..", "include", "ddl", "ddl.h")
    tool = os.path.join(build, "bin", "ddl")
    if not os.path.exists(library) or not os.path.exists(tool):
        raise Failure(f"there is no libddl.so and bin/ddl in {build}; build them with \"make\"")
    with open(header, "rb") as h, open(library, "rb") as b:
        memory = ["-DHAVE_DDL_MEM_ALLOC"] if b"ddl_mem_alloc(" in h.read() and b"ddl_mem_alloc" in b.read() else []
    include = [f"-I{os.path.join(HERE, '..', 'include')}", f"-I{os.path.join(build, 'include')}"]
    folder = os.path.dirname(library)
    link = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lddl"]
    program = builder.program("ddl", "ddl.c", builder.cc, "-std=gnu11", *memory, *include, *link)

    def launch(ranks, command):
        return [[tool, "run", "-n", str(ranks), "--", *command]]

    return Contestant("ddl", program, launch, version=first_line([tool, "--version"]))


def has_ddl_memory(contestant):
    with open(contestant.program + ".command", encoding="utf-8") as f:
        return "-DHAVE_DDL_MEM_ALLOC" in f.read()


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False, env=environment())
        return done.stdout.decode(errors="replace").strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return ""


def find_program(*names):
    return next((path for path in map(shutil.which, names) if path), None)


def find_openmpi(builder):
    cc = find_program("mpicc.openmpi", "/usr/lib64/openmpi/bin/mpicc", "mpicc")
    if not cc or "Open MPI" not in first_line([cc, "--showme:version"]):
        raise Failure("is not here; Debian: libopenmpi-dev openmpi-bin, Fedora: openmpi-devel")
    run = find_program(cc.replace("mpicc", "mpirun"))
    if not run:
        raise Failure("has no mpirun here; Debian: openmpi-bin")
    program = builder.program("openmpi", "mpi.c", cc, "-std=gnu11")
    launch = by(run, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
    return Contestant("openmpi", program, launch, version=first_line([run, "--version"]), launcher=run)


def find_mpich(builder):
    cc = find_program("mpicc.mpich", "/usr/lib64/mpich/bin/mpicc")
    run = cc and find_program(cc.replace("mpicc", "mpirun"))
    if not run:
        raise Failure("is not here; Debian: libmpich-dev mpich, Fedora: mpich-devel")
    program = builder.program("mpich", "mpi.c", cc, "-std=gnu11")
    version = first_line([os.path.join(os.path.dirname(run), "mpichversion")])
    return Contestant("mpich", program, by(run), version=version, launcher=run)


def find_gloo(builder):
    if not has_header(builder.cxx, "gloo/allreduce.h"):
        raise Failure("is not here; Debian: libgloo-dev g++")
    return Contestant("gloo", builder.program("gloo", "gloo.cc", builder.cxx, "-lgloo", "-pthread"), directly)


def wheel_version(builder, package):
    names = glob.glob(os.path.join(builder.wheels, package + "-*.whl"))
    return os.path.basename(names[0]).split("-")[1] if names else ""


def find_impi(builder):
    root = os.path.join(builder.wheels, "root")
    run = os.path.join(root, "bin", "mpiexec.hydra")
    if not os.path.exists(run):
        raise Failure("is not here; --fetch downloads it from PyPI")
    lib = os.path.join(root, "lib")
    more = ["-std=gnu11", "-isystem", os.path.join(root, "include"), f"-L{lib}", f"-Wl,-rpath,{lib}", "-l:libmpi.so.12"]
    program = builder.program("impi", "mpi.c", builder.cc, *more)
    env = {
        "I_MPI_ROOT": root,
        "I_MPI_PIN": "0",  # the harness pins
        "I_MPI_FABRICS": "shm",
        "I_MPI_HYDRA_BOOTSTRAP": "fork",
        "FI_PROVIDER_PATH": lib,
        "PATH": os.path.join(root, "bin") + ":" + os.environ.get("PATH", ""),
    }
    return Contestant("impi", program, by(run), env, "Intel MPI " + wheel_version(builder, "impi_rt"), run)


def find_oneccl(builder):
    root = os.path.join(builder.wheels, "root")
    lib = os.path.join(root, "lib")
    if not os.path.exists(os.path.join(lib, "libccl.so.1")):
        raise Failure("is not here; --fetch downloads it from PyPI")
    if shutil.which(builder.cxx) is None:
        raise Failure("needs a C++ compiler; Debian: g++")
    more = ["-isystem", os.path.join(root, "include"), f"-L{lib}", "-l:libccl.so.1", f"-Wl,-rpath-link,{lib}", "-ldl", "-pthread"]
    env = {
        "LD_LIBRARY_PATH": lib,
        "FI_PROVIDER_PATH": lib,
        "FI_PROVIDER": "shm",
        "CCL_ATL_TRANSPORT": "ofi",
        "CCL_ATL_SHM": "1",
        "CCL_WORKER_OFFLOAD": "0",  # no worker threads: with as many ranks as cores they make it many times slower
    }
    program = builder.program("oneccl", "oneccl.cc", builder.cxx, *more)
    return Contestant("oneccl", program, directly, env, "oneCCL " + wheel_version(builder, "oneccl"))


PEERS_OF_A_NODE = {"openmpi": find_openmpi, "mpich": find_mpich, "impi": find_impi, "oneccl": find_oneccl, "gloo": find_gloo}


def find_peers(builder, names):
    """Those that are here and build; says why the others are not."""
    found = []
    for name in names:
        try:
            found.append(PEERS_OF_A_NODE[name](builder))
        except Failure as e:
            say(f"{name} {e}")
        except subprocess.TimeoutExpired:
            say(f"{name} does not build within five minutes")
    return found


# --- fetching ---


def unpack(wheel, root):
    """The data folder of a wheel, without static libraries and benchmarks of its own; equal files become one."""
    with zipfile.ZipFile(wheel) as z:
        seen = {}
        for info in z.infolist():
            _, mark, name = info.filename.partition(".data/data/")
            if not mark or info.is_dir() or name.endswith(".a") or os.path.basename(name).startswith("IMB-"):
                continue
            path = os.path.normpath(os.path.join(root, name))
            if not path.startswith(root + os.sep):
                raise Failure(f"{wheel} wants to write outside of {root}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.exists(path):
                os.unlink(path)
            first = seen.setdefault((info.CRC, info.file_size), path)
            if first != path:
                os.link(first, path)
                continue
            with z.open(info) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            os.chmod(path, (info.external_attr >> 16 & 0o777) | 0o644)


def fetch(builder):
    """Downloads Intel's wheels into BUILD/bench/wheels and unpacks them there. Says why where it cannot."""
    root, mark = os.path.join(builder.wheels, "root"), os.path.join(builder.wheels, "complete")
    if os.path.exists(mark):
        with open(mark, encoding="ascii") as f:
            if f.read().split() == WHEELS:
                return
    say("downloads Intel MPI and oneCCL from PyPI (half a gigabyte; their licences are Intel's own)")
    shutil.rmtree(builder.wheels, ignore_errors=True)
    os.makedirs(builder.wheels)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    try:
        execute([[*pip, "-d", builder.wheels, *WHEELS]], 600)
        for wheel in sorted(glob.glob(os.path.join(builder.wheels, "*.whl"))):
            unpack(wheel, root)
    except (Failure, OSError, zipfile.BadZipFile) as e:
        say(f"Intel MPI and oneCCL cannot be downloaded: {e}")
        return
    with open(mark, "w", encoding="ascii") as f:
        f.write("\n".join(WHEELS) + "\n")
