# SPDX-License-Identifier: Apache-2.0
"""ddl.jax: collectives inside jit, by XLA's custom call and by JAX's callback. `make check-frameworks` brings JAX."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ranks

ranks.need("numpy", "jax")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402

import ddl.jax  # noqa: E402
from ddl.jax import call  # noqa: E402

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def start():
    comm = ddl.init()
    assert call.way() == os.environ.get("WAY", "custom call"), call.way()
    return comm.rank, comm.size


def same(array, values):
    assert numpy.asarray(array).tolist() == values, (array, values)


def refused(kind, function, *arguments, **keywords):
    try:
        jax.block_until_ready(function(*arguments, **keywords))
    except kind as e:
        return str(e)
    raise AssertionError(f"{function} did not raise {kind}")


# ---- cases, run by every rank


def collectives():
    me, n = start()
    total = n * (n + 1) // 2
    for kind in ("float32", "float16", "bfloat16", "int32", "int8", "uint8"):
        result = ddl.jax.allreduce(jnp.full((2, 3), me + 1, kind))
        assert result.dtype == kind and result.shape == (2, 3)
        same(result.astype(jnp.float32), [[float(total)] * 3] * 2)
    for op, value in (("avg", (n + 1) / 2), ("min", 1.0), ("max", float(n)), ("prod", float(numpy.prod(range(1, n + 1))))):
        same(jax.jit(lambda x, op=op: ddl.jax.allreduce(x, op))(jnp.full(3, me + 1.0)), [value] * 3)
    # a tree: small arrays travel together, large ones and empty ones alone, scalars are arrays
    tree = {
        "w": jnp.full((300, 100), me + 1.0),
        "b": [jnp.arange(4.0), jnp.zeros((0, 3))],
        "n": jnp.int32(2),
        "m": 3,
        "s": jnp.ones(5),
    }
    result = jax.jit(ddl.jax.allreduce)(tree)
    assert jax.tree.structure(result) == jax.tree.structure(tree)
    assert result["w"].shape == (300, 100) and bool((result["w"] == total).all()) and result["b"][1].shape == (0, 3)
    same(result["b"][0], [float(n * i) for i in range(4)])
    same(result["n"], 2 * n)
    same(result["m"], 3 * n)
    assert ddl.jax.allreduce({}) == {}
    # options reach the library: a bfloat16 wire rounds 2^-10 away, and by chance up or down
    fine = jnp.full(1000, 1 + 2.0**-10)
    same(ddl.jax.allreduce(fine, "avg", wire="bfloat16", algorithm="ring")[:2], [1.0, 1.0])
    same(ddl.jax.allreduce(fine, "avg", wire="native")[:1], [1 + 2.0**-10])
    chance = ddl.jax.allreduce(fine, "avg", wire="bfloat16", rounding="stochastic", seed=7, algorithm="ring")
    assert len(numpy.unique(chance)) > 1 and ddl.jax.replicas_equal(chance)
    part = ddl.init().split(me % 2)
    same(ddl.jax.allreduce(jnp.float32(me), comm=part), float(sum(range(me % 2, n, 2))))


def flow():
    """Loops, branches and scans: the same request many times; results that nobody uses; programs that are queued."""
    me, n = start()

    @jax.jit
    def program(x):
        x = jax.lax.fori_loop(0, 3, lambda i, x: ddl.jax.allreduce(x, "avg") + i, x)
        x, _ = jax.lax.scan(lambda x, _: (ddl.jax.allreduce(x, "max"), None), x, None, length=2)
        ddl.jax.allreduce(x)
        return jax.lax.cond(x[0] > 0, ddl.jax.allreduce, lambda x: x, x)

    same(program(jnp.full(3, me + 1.0)), [n * ((n + 1) / 2 + 3)] * 3)
    # queued without a wait, each with other shapes and none needed by the next: the ranks come to them in one order
    programs = [jax.jit(lambda x, k=k: ddl.jax.allreduce(x * k)) for k in range(1, 9)]
    results = [programs[(i * 5) % 8](jnp.ones(1 + (i * 5) % 8)) for i in range(64)]
    if me == 0:
        jax.block_until_ready(results[-1])
    for i, result in enumerate(results):
        same(result, [float(n * (1 + (i * 5) % 8))] * (1 + (i * 5) % 8))
    # two of one shape, which depend on nothing: results do not change places
    pair = jax.jit(lambda a, b: (ddl.jax.allreduce(a), ddl.jax.allreduce(b)))
    for i in range(50):
        a, b = pair(jnp.full(7, float(i)), jnp.full(7, float(-i)))
        same(a, [float(n * i)] * 7)
        same(b, [float(-n * i)] * 7)


def outside():
    me, n = start()
    tree = {"w": jnp.full(3, me, jnp.bfloat16), "k": numpy.int32(me), "z": jnp.zeros((0, 2)), "b": jnp.array([me == 1])}
    got = ddl.jax.broadcast(tree, 1)
    same(got["w"].astype(jnp.float32), [1.0] * 3)
    same(got["k"], 1)
    same(got["b"], [True])
    assert got["w"].dtype == jnp.bfloat16 and got["z"].shape == (0, 2)
    assert ddl.jax.replicas_equal(got)
    assert not ddl.jax.replicas_equal(jnp.ones(1000).at[999].set(me))
    assert "inside jit" in refused(ddl.ArgumentError, jax.jit(ddl.jax.broadcast), jnp.ones(2))
    assert "complex64" in refused(ddl.ArgumentError, ddl.jax.allreduce, jnp.ones(2, jnp.complex64))
    assert "operation" in refused(ddl.ArgumentError, ddl.jax.allreduce, jnp.ones(2), "mean")
    # one that was destroyed
    part = ddl.init().dup()
    compiled = jax.jit(lambda x: ddl.jax.allreduce(x, comm=part))
    same(compiled(jnp.ones(2)), [float(n)] * 2)
    part.destroy()
    assert "destroyed" in refused(Exception, compiled, jnp.ones(2))


def queued_at_end():
    """What is queued when the program ends still runs."""
    me, n = start()
    jax.jit(ddl.jax.allreduce)(jnp.ones(1000))
    print("at the end")


def disagreement():
    me, n = start()
    text = refused(jax.errors.JaxRuntimeError, ddl.jax.allreduce, jnp.ones(3 + me))
    assert "ranks disagree" in text, text
    text = refused(jax.errors.JaxRuntimeError, jax.jit(ddl.jax.allreduce), jnp.ones(3))
    assert "ranks disagree" in text, text


def death():
    me, n = start()
    step = jax.jit(ddl.jax.allreduce)
    x = step(jnp.ones(10))
    jax.block_until_ready(x)
    if me == 1:
        os._exit(3)
    text = refused(jax.errors.JaxRuntimeError, step, x)
    assert "rank 1" in text, text
    print("survivor heard of rank 1")


CASES = {f.__name__: f for f in (collectives, flow, outside, queued_at_end, disagreement, death)}


class Jax(unittest.TestCase):
    def both(self, case, n):
        ranks.run(__file__, case, n)
        ranks.run(__file__, case, n, DDL_JAX="callback", WAY="callback")

    def test_trees_types_and_options(self):
        self.both("collectives", 3)

    def test_programs_run_their_collectives_in_one_order(self):
        self.both("flow", 2)

    def test_calls_outside_of_jit_and_wrong_ones(self):
        self.both("outside", 2)

    def test_what_is_queued_at_the_end_runs(self):
        self.assertEqual(ranks.run(__file__, "queued_at_end", 2).count("at the end"), 2)

    def test_ranks_that_disagree_hear_how(self):
        ranks.run(__file__, "disagreement", 2)

    def test_a_rank_that_dies_is_named(self):
        self.assertEqual(ranks.run(__file__, "death", 3, good=False).count("survivor heard of rank 1"), 2)

    def test_derivatives_and_batches_are_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "ddl_allreduce"):
            jax.grad(lambda x: ddl.jax.allreduce(x).sum())(jnp.ones(2))
        with self.assertRaisesRegex(NotImplementedError, "ddl_allreduce"):
            jax.vmap(ddl.jax.allreduce)(jnp.ones((2, 3)))

    def test_the_example_learns_the_digits(self):
        if not ranks.importable("sklearn"):
            self.skipTest("scikit-learn is not installed")
        output = ranks.launch([sys.executable, os.path.join(TOP, "examples", "jax", "train.py"), "--epochs", "4"], 2)
        self.assertEqual(output.count("2 replicas equal to the bit"), 4, output)
        self.assertGreater(float(re.findall("accuracy ([0-9.]+)", output)[-1]), 0.94, output)


# ours: XLA's
STRUCTS = {
    "extension": ("Extension_Base", {"type": "type", "next": "next"}),
    "version": ("Api_Version", {"major_version": "major_version", "minor_version": "minor_version"}),
    "metadata": ("Metadata", {"version": "api_version", "traits": "traits"}),
    "metadata_extension": ("Metadata_Extension", {"metadata": "metadata"}),
    "error_arguments": ("Error_Create_Args", {"message": "message", "code": "errc"}),
    "api": ("Api", {"version": "api_version", "error_create": "XLA_FFI_Error_Create"}),
    "buffer": ("Buffer", {"type": "dtype", "data": "data", "rank": "rank", "dims": "dims"}),
    "span": ("ByteSpan", {"begin": "ptr", "length": "len"}),
    "array": ("Array", {"type": "dtype", "count": "size", "data": "data"}),
    "attributes": ("Attrs", {"count": "size", "types": "types", "names": "names", "values": "attrs"}),
    "call": (
        "CallFrame",
        {
            "extension": "extension_start",
            "api": "api",
            "stage": "stage",
            "arguments": "args",
            "results": "rets",
            "attributes": "attrs",
        },
    ),
}
CONSTANTS = {
    "FFI_MAJOR": "API_MAJOR",
    "FFI_EXTENSION_METADATA": "Extension_Metadata",
    "FFI_EXECUTE": "ExecutionStage_EXECUTE",
    "FFI_ATTRIBUTE_ARRAY": "AttrType_ARRAY",
    "FFI_ATTRIBUTE_STRING": "AttrType_STRING",
    **{f"FFI_{name}": f"DataType_{name}" for name in "S8 S32 S64 U8 F16 F32 F64 BF16 TOKEN".split()},
    **{
        f"FFI_{name}": f"Error_Code_{name}"
        for name in "INVALID_ARGUMENT DEADLINE_EXCEEDED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED INTERNAL UNAVAILABLE".split()
    },
}


class Interface(unittest.TestCase):
    def test_the_declarations_are_those_of_jaxlib(self):
        compiler = shutil.which("cc")
        if not compiler:
            self.skipTest("there is no compiler")
        lines = ["#include <stddef.h>", '#include "xla/ffi/api/c_api.h"', '#include "ffi.h"']
        pairs = [
            (f"offsetof(struct ffi_{a}, {x})", f"offsetof(XLA_FFI_{b}, {y})") for a, (b, f) in STRUCTS.items() for x, y in f.items()
        ]
        for name in ("Args.args", "Rets.rets"):
            struct, field = name.split(".")
            pairs += [("offsetof(struct ffi_buffers, count)", f"offsetof(XLA_FFI_{struct}, size)")]
            pairs += [("offsetof(struct ffi_buffers, buffers)", f"offsetof(XLA_FFI_{struct}, {field})")]
        pairs += [(f"(int){a}", f"(int)XLA_FFI_{b}") for a, b in CONSTANTS.items()]
        lines += [f'_Static_assert({a} == {b}, "{a} is not {b}");' for a, b in pairs]
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "layout.c")
            with open(source, "w") as f:
                f.write("\n".join(lines) + "\n")
            command = [compiler, "-fsyntax-only", "-I", jax.ffi.include_dir(), "-I", os.path.join(TOP, "python", "xla"), source]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    ranks.main(CASES)
