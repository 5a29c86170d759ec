#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of torch.distributed, on backend "ddl".

    python3 tests/python/c10d_torch.py [--ranks 3] [--backend gloo] [--list] [PART-OF-A-NAME ...]

They come with PyTorch (torch.testing._internal.distributed.distributed_test; nothing of them is copied here). Those are run that apply
to a backend of the CPU: what torch skips for gloo on a machine without GPU is left out, and what is in UNFIT. Each test is run by
processes forked for it, so one that fails or hangs harms no other. The exit status is 1 where one fails. It takes two minutes and is
not part of `make check`: `make check-frameworks` runs it with 2, 3 and 4 ranks. By hand PYTHONPATH and DDL_LIBRARY tell where ddl is.
"""

import argparse
import collections
import importlib.util
import os
import shutil
import sys
import tempfile
import time
import types
import unittest

SECONDS = 60  # that a test may take

MONITORED = "monitored_barrier() is gloo's alone: torch refuses it for any other backend, and the test wants gloo's sentences"
ANY_SOURCE = "a receive names its source; there is none from any rank"
UNFIT = {  # tests for gloo, and why they do not apply
    "test_monitored_barrier_failure_order": MONITORED,
    "test_monitored_barrier_gloo": MONITORED,
    "test_monitored_barrier_gloo_rank_0_timeout": MONITORED,
    "test_monitored_barrier_gloo_subgroup": MONITORED,
    "test_monitored_barrier_wait_all_ranks": MONITORED,
    "test_send_recv_any_source": ANY_SOURCE,
    "test_send_recv_any_source_autograd_profiler": ANY_SOURCE,
    "test_send_recv_any_source_torch_profiler": ANY_SOURCE,
}


def without_expecttest():
    """torch's test case derives from that package's, which adds comparisons with kept output that none of these tests uses."""
    if importlib.util.find_spec("expecttest") is None:
        stands_in = types.ModuleType("expecttest")
        stands_in.ACCEPT = False
        stands_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stands_in


def torch_s_tests(backend, ranks, folder):
    """torch's module. Its decorators decide when it is read what to skip, and go by gloo,
    but for what only MPI has of all backends of torch's own; its tests then make groups of ours."""
    without_expecttest()
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(ranks), TEMP_DIR=folder, MASTER_ADDR="127.0.0.1")
    os.environ["INIT_METHOD"] = f"file://{folder}/shared_init_file"
    sys.argv = sys.argv[:1]  # torch reads it too
    import torch
    from torch.nn.parallel import _replicated_tensor_ddp_utils
    from torch.testing._internal import common_utils

    # the tests switch on a part of DDP that PyTorch 1.13 cannot load under Python 3.11, whatever the backend
    _replicated_tensor_ddp_utils._set_ddp_with_replicated_tensor = lambda on: None
    skip_if = common_utils.sandcastle_skip_if
    common_utils.sandcastle_skip_if = lambda so, why: skip_if(so and not why.startswith("Only MPI supports"), why)
    from torch.testing._internal.distributed import distributed_test

    if backend == "ddl":
        import ddl.torch  # noqa: F401 (registers it)

    torch.set_num_threads(1)
    os.environ["BACKEND"] = backend
    distributed_test.BACKEND = LikeGloo(backend)
    return distributed_test


def case(module):
    """A test case whose tests run on processes forked for each."""
    import torch

    class C10d(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self):
            for process in self.processes:
                process.kill()
                process.join()
            super().tearDown()
            if os.path.exists(self.file_name):
                os.unlink(self.file_name)

    module.DEFAULT_TIMEOUT = SECONDS
    C10d._join_processes.__globals__["get_timeout"] = lambda name: SECONDS
    return C10d


class LikeGloo(str):
    """The name of a backend of which torch's tests believe that it is gloo."""

    def __eq__(self, other):
        return other == "gloo" or str(self) == other

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


class Quiet:
    """What this process and its children write, kept in a file."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile()
        sys.stdout.flush()
        sys.stderr.flush()
        self.before = [os.dup(n) for n in (1, 2)]
        for n in (1, 2):
            os.dup2(self.file.fileno(), n)
        return self

    def __exit__(self, *_):
        sys.stdout.flush()
        sys.stderr.flush()
        for n, was in zip((1, 2), self.before):
            os.dup2(was, n)
            os.close(was)
        self.file.seek(0)
        self.text = self.file.read().decode(errors="replace")
        self.file.close()


def run(test):
    """(how it came out, why, seconds)"""
    result = unittest.TestResult()
    began = time.monotonic()
    with Quiet() as quiet:
        test.run(result)
    seconds = time.monotonic() - began
    if result.skipped:
        return "left out", result.skipped[0][1], seconds
    for _, text in result.errors + result.failures:
        return "fails", quiet.text + text, seconds
    return "passes", "", seconds


def main():
    parser = argparse.ArgumentParser(description='PyTorch\'s own tests of torch.distributed, on backend "ddl".')
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--backend", default="ddl", help="gloo: what the tests make of torch's own")
    parser.add_argument("--list", action="store_true", help="also names those that pass and those that are left out")
    parser.add_argument("names", nargs="*", help="parts of the names of tests to run; default: all")
    asked = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("skipped: the Python package torch is not installed (scripts/install-deps test)")
        raise SystemExit(77)
    folder = tempfile.mkdtemp(prefix="ddl-c10d-")
    try:
        tests = case(torch_s_tests(asked.backend, asked.ranks, folder))
        count = collections.Counter()
        for name in unittest.defaultTestLoader.getTestCaseNames(tests):
            if asked.names and not any(part in name for part in asked.names):
                continue
            unfit = asked.backend == "ddl" and UNFIT.get(name)
            how, why, seconds = ("does not apply", unfit, 0) if unfit else run(tests(name))
            count[how] += 1
            if how == "fails":
                print(f"{name} fails ({seconds:.1f} s):\n{why}", flush=True)
            elif asked.list or how == "does not apply":
                print(f"{name}: {how}" + (f": {why}" if why else f" ({seconds:.1f} s)"), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{asked.ranks} ranks, backend {asked.backend}: " + ", ".join(f"{n} {how}" for how, n in sorted(count.items())))
    raise SystemExit(1 if count["fails"] or not count["passes"] else 0)


if __name__ == "__main__":
    main()
