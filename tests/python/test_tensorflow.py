# SPDX-License-Identifier: Apache-2.0
"""ddl.tensorflow: collectives in and outside of tf.function, and Keras' optimizers. `make check-frameworks` brings TensorFlow."""

import os
import re
import sys
import tempfile
import unittest

import ranks

ranks.need("numpy", "tensorflow", "keras")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras  # noqa: E402
import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

import ddl  # noqa: E402
import ddl.tensorflow as dt  # noqa: E402

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def start():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    comm = ddl.init(progress_threads=1)
    return comm.rank, comm.size


def same(tensor, values):
    assert tensor.numpy().tolist() == values, (tensor, values)


def refused(kind, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except kind as e:
        return str(e)
    raise AssertionError(f"{function} did not raise {kind}")


def network(seed=0, **layer):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, "tanh", **layer), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)]
    )


def points(count=64):
    random = numpy.random.RandomState(1)
    x = random.standard_normal((count, 8)).astype(numpy.float32)
    return x, x.sum(1, keepdims=True)


# ---- cases, run by every rank


def collectives():
    me, n = start()
    total = n * (n + 1) // 2
    for kind in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"):
        result = dt.allreduce(tf.fill((2, 3), tf.cast(me + 1, kind)))
        assert result.dtype == kind and result.shape == (2, 3)
        same(tf.cast(result, "float32"), [[float(total)] * 3] * 2)
    for op, value in (("avg", (n + 1) / 2), ("min", 1.0), ("max", float(n)), ("prod", float(numpy.prod(range(1, n + 1))))):
        same(tf.function(lambda x, op=op: dt.allreduce(x, op))(tf.fill(3, me + 1.0)), [value] * 3)
    tree = dt.allreduce({"a": tf.constant(2), "b": [tf.ones((2, 2)), tf.zeros((0, 3))], "c": 1.5})
    same(tree["a"], 2 * n)
    same(tree["b"][0], [[float(n)] * 2] * 2)
    assert tree["b"][1].shape == (0, 3)
    same(tree["c"], 1.5 * n)
    fine = tf.fill(1000, 1 + 2.0**-10)
    same(dt.allreduce(fine, "avg", wire="bfloat16", algorithm="ring")[:2], [1.0, 1.0])
    same(dt.allreduce(fine, "avg", wire="native")[:1], [1 + 2.0**-10])
    part = ddl.init().split(me % 2)
    same(dt.allreduce(tf.constant(float(me)), comm=part), float(sum(range(me % 2, n, 2))))
    # what is returned is the caller's, and stays
    one = dt.allreduce(tf.ones(10))
    dt.allreduce(tf.zeros(10))
    same(one, [float(n)] * 10)


def flow():
    """Loops and branches, lengths that are open, results that nobody uses, independent calls of one shape."""
    me, n = start()

    @tf.function
    def program(x):
        for _ in tf.range(3):
            x = dt.allreduce(x, "avg") + 1
        dt.allreduce(x)
        if x[0] > 0:
            x = dt.allreduce(x)
        return x

    same(program(tf.fill(3, me + 1.0)), [n * ((n + 1) / 2 + 3)] * 3)
    pair = tf.function(lambda a, b: (dt.allreduce(a), dt.allreduce(b)))
    for i in range(50):
        a, b = pair(tf.fill(7, float(i)), tf.fill(7, float(-i)))
        same(a, [float(n * i)] * 7)
        same(b, [float(-n * i)] * 7)
    free = tf.function(lambda x: dt.allreduce(x), input_signature=[tf.TensorSpec([None], tf.float32)])
    for length in (3, 5, 3, 0):
        same(free(tf.ones(length)), [float(n)] * length)


def training():
    """As one process that has all the data; replicas equal to the bit; buckets of several sizes; fit() and a loop of one's own."""
    me, n = start()
    x, y = points()
    mine = slice(me * len(x) // n, (me + 1) * len(x) // n)
    for bucket_bytes, eager in ((1 << 20, False), (200, False), (200, True)):
        alone, model = network(), network(seed=me)
        alone.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss="mse", jit_compile=False)
        alone.fit(x, y, epochs=4, batch_size=len(x), verbose=0)
        dt.broadcast(model.variables)
        optimizer = dt.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9), bucket_bytes=bucket_bytes)
        model.compile(optimizer, loss="mse", jit_compile=False, run_eagerly=eager)
        model.fit(x[mine], y[mine], epochs=4, batch_size=len(x), verbose=0)
        assert dt.replicas_equal(model.variables)
        for a, b in zip(alone.get_weights(), model.get_weights()):
            numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert len(optimizer._ddl._sums) > 2
    # a loop of one's own: a sparse gradient, and one that is None
    table, weight, unused = tf.Variable(tf.ones((10, 4))), tf.Variable(tf.ones((4, 1))), tf.Variable(0.0)
    own = dt.DistributedOptimizer(keras.optimizers.SGD(1.0), wire="native")

    @tf.function
    def step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows) @ weight)
        gradients = tape.gradient(loss, [table, weight, unused])
        own.apply_gradients(zip(gradients, [table, weight, unused]))

    step(tf.constant([me, me]))
    same(table[:, 0], [1 - 2 / n] * n + [1.0] * (10 - n))
    same(weight[:, 0], [-1.0] * 4)
    assert dt.replicas_equal([table, weight])


def saving():
    me, n = start()
    x, y = points()
    model = network()
    model.compile(dt.DistributedOptimizer(keras.optimizers.Adam(0.01)), loss="mse", jit_compile=False)
    model.fit(x, y, epochs=1, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "model.keras"))
        loaded = keras.models.load_model(os.path.join(folder, "model.keras"))
    assert type(loaded.optimizer) is keras.optimizers.Adam
    for a, b in zip(model.get_weights(), loaded.get_weights()):
        assert (a == b).all()


def wrong():
    start()
    assert "complex64" in refused(ddl.ArgumentError, dt.allreduce, tf.ones(2, tf.complex64))
    assert "operation" in refused(ddl.ArgumentError, dt.allreduce, tf.ones(2), "mean")
    assert "wire" in refused(ddl.ArgumentError, dt.allreduce, tf.ones(2), wire="float8")
    assert "inside tf.function" in refused(Exception, tf.function(lambda: dt.replicas_equal([tf.Variable(1.0)])))
    optimizer = dt.DistributedOptimizer(keras.optimizers.SGD())
    assert "distributed already" in refused(ddl.ArgumentError, dt.DistributedOptimizer, optimizer)
    assert "Keras 3" in refused(ddl.ArgumentError, dt.DistributedOptimizer, object())
    part = ddl.init().dup()
    dt.allreduce(tf.ones(2), comm=part)
    part.destroy()
    assert "destroyed" in refused(Exception, tf.function(lambda x: dt.allreduce(x, comm=part)), tf.ones(2))


def disagreement():
    me, n = start()
    text = refused((ddl.Error, tf.errors.OpError), dt.allreduce, tf.ones(3 + me))
    assert "ranks disagree" in text, text
    text = refused((ddl.Error, tf.errors.OpError), tf.function(dt.allreduce), tf.ones(5))
    assert "ranks disagree" in text, text


def death():
    me, n = start()
    step = tf.function(dt.allreduce)
    step(tf.ones(10))
    if me == 1:
        os._exit(3)
    text = refused((ddl.Error, tf.errors.OpError), step, tf.ones(10))
    assert "rank 1" in text, text
    print("survivor heard of rank 1")


CASES = {f.__name__: f for f in (collectives, flow, training, saving, wrong, disagreement, death)}


class TensorFlow(unittest.TestCase):
    def test_structures_types_and_options(self):
        ranks.run(__file__, "collectives", 3)

    def test_graphs_run_their_collectives_in_one_order(self):
        ranks.run(__file__, "flow", 2)

    def test_models_train_as_on_one_process_with_all_the_data(self):
        ranks.run(__file__, "training", 2)

    def test_saved_models_are_loaded_with_the_plain_optimizer(self):
        ranks.run(__file__, "saving", 1)

    def test_wrong_arguments(self):
        ranks.run(__file__, "wrong", 2)

    def test_ranks_that_disagree_hear_how(self):
        ranks.run(__file__, "disagreement", 2)

    def test_a_rank_that_dies_is_named(self):
        self.assertEqual(ranks.run(__file__, "death", 3, good=False).count("survivor heard of rank 1"), 2)

    def test_the_example_learns_the_digits(self):
        if not ranks.importable("sklearn"):
            self.skipTest("scikit-learn is not installed")
        output = ranks.launch([sys.executable, os.path.join(TOP, "examples", "keras", "train.py"), "--epochs", "4"], 2)
        self.assertEqual(output.count("2 replicas equal to the bit"), 4, output)
        self.assertGreater(float(re.findall("accuracy ([0-9.]+)", output)[-1]), 0.9, output)


if __name__ == "__main__":
    ranks.main(CASES)
