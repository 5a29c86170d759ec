# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: functions run on several ranks of this host, and skipping where a package is missing.

A test file is its own worker: `run(__file__, "case", ranks)` starts `ddl run -n RANKS python3 FILE case`, which calls worker(case).
"""

import importlib.util
import os
import signal
import subprocess
import sys
import unittest

BUILD = os.environ.get("DDL_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
SECONDS = 150  # that the ranks of a case may take


def importable(module):
    """Whether a package is installed."""
    return importlib.util.find_spec(module) is not None


def need(*modules):
    """Ends the test file with 77 where one of these is not installed."""
    for module in modules:
        if not importable(module):
            print(f"skipped: the Python package {module} is not installed (scripts/install-deps test)")
            sys.exit(77)


def clean_environment(**more):
    """Nothing of an outer job, launcher or test shines in."""
    foreign = ("SLURM_", "PMI_", "PMIX_", "DDL_", "MASTER_", "TORCHELASTIC_")
    keep = ("DDL_LIBRARY", "DDL_BUILD")
    env = {k: v for k, v in os.environ.items() if k in keep or not k.startswith(foreign)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        env.pop(name, None)
    env.update({k: str(v) for k, v in more.items()})
    return env


def launch(command, n=0, good=True, **env):
    """Runs a command, on n ranks where n is given; its output. Fails where it ends otherwise than `good` says."""
    if n:
        command = [os.path.join(BUILD, "bin", "ddl"), "run", "-n", str(n), "--no-prefix", "--no-kill-on-bad-exit"] + command
    started = subprocess.Popen(
        command, env=clean_environment(**env), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, _ = started.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        output, _ = started.communicate()
        raise AssertionError(f"{' '.join(command)} has not ended within {SECONDS} seconds:\n{output}") from None
    if (started.returncode == 0) != good:
        raise AssertionError(f"{' '.join(command)} ended with {started.returncode}:\n{output}")
    return output


def run(file, case, n, good=True, **env):
    """The case of a test file on n ranks."""
    return launch([sys.executable, file, case], n, good, **env)


def main(worker):
    """The end of a test file: a worker where an argument names a case, else the tests."""
    if len(sys.argv) == 2 and sys.argv[1] in worker:
        worker[sys.argv[1]]()
    else:
        unittest.main(verbosity=2)
