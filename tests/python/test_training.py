# SPDX-License-Identifier: Apache-2.0
"""A small network learns scikit-learn's digits on four ranks, from five seeds: with bfloat16 on the wire, and with int8 and error
feedback, it becomes as good as with float32.

As good: the mean over the seeds lies within the spread of the seeds with float32, lowest to highest. What ranks learn alone, each from
its quarter of the data, must lie below it: else the comparison would let everything pass. All is a function of the seeds, so every run
comes out the same.
"""

import json
import statistics
import unittest

import ranks

ranks.need("numpy", "sklearn")
import numpy  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

import ddl  # noqa: E402

RANKS = 4
SEEDS = range(5)
EPOCHS, BATCH, RATE, MOMENTUM, HIDDEN = 20, 128, 0.2, 0.9, 48
WAYS = {
    "float32": {"wire": "native"},
    "bfloat16": {"wire": "bfloat16"},
    "bfloat16, stochastic": {"wire": "bfloat16", "rounding": "stochastic", "seed": 1},
    "float16": {"wire": "float16"},
    "int8, feedback": {"wire": "int8", "error_feedback": True},
    "alone": None,
}


def data():
    """(inputs, labels) to learn from, and to judge by."""
    digits = load_digits()
    order = numpy.random.RandomState(0).permutation(len(digits.target))
    x, y = (digits.data[order] / 16).astype(numpy.float32), digits.target[order]
    return (x[600:], y[600:]), (x[:600], y[:600])


class Network:
    """Two layers; weights and gradients are one vector each, of which the layers are parts."""

    def __init__(self, seed):
        shapes = [(64, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,)]
        count = sum(int(numpy.prod(shape)) for shape in shapes)
        self.weights, self.gradient, self.velocity = (numpy.zeros(count, numpy.float32) for _ in range(3))
        self.w, self.g = self.parts(self.weights, shapes), self.parts(self.gradient, shapes)
        random = numpy.random.RandomState(seed)
        for layer in (0, 2):
            self.w[layer][:] = random.standard_normal(shapes[layer]) * (2 / shapes[layer][0]) ** 0.5

    @staticmethod
    def parts(vector, shapes):
        ends = numpy.cumsum([int(numpy.prod(shape)) for shape in shapes])
        return [part.reshape(shape) for part, shape in zip(numpy.split(vector, ends[:-1]), shapes)]

    def scores(self, x):
        self.hidden = numpy.maximum(x @ self.w[0] + self.w[1], 0)
        return self.hidden @ self.w[2] + self.w[3]

    def differentiate(self, x, y):
        """The gradient of the mean cross entropy."""
        scores = self.scores(x)
        p = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[numpy.arange(len(y)), y] -= 1
        p /= len(y)
        back = (p @ self.w[2].T) * (self.hidden > 0)
        for place, value in zip(self.g, (x.T @ back, back.sum(axis=0), self.hidden.T @ p, p.sum(axis=0))):
            place[...] = value

    def step(self):
        self.velocity *= MOMENTUM
        self.velocity += self.gradient
        self.weights -= RATE * self.velocity

    def accuracy(self, x, y):
        return float((self.scores(x).argmax(axis=1) == y).mean())


def learn(comm, seed, how, learnt, judged):
    """The accuracy on what was not learnt from. Each rank has its quarter of the data, and of each batch."""
    x, y = (part[comm.rank :: comm.size] for part in learnt)
    x, y = x[: len(learnt[0]) // comm.size], y[: len(learnt[0]) // comm.size]  # as many on each rank
    own = BATCH // comm.size
    network = Network(seed)
    request = comm.allreduce_init(network.gradient, op="avg", algorithm="ring", **how) if how else None
    order = numpy.random.RandomState(1000 + seed)
    for _ in range(EPOCHS):
        for batch in numpy.array_split(order.permutation(len(y)), len(y) // own):
            network.differentiate(x[batch], y[batch])
            if request:
                request.run()
            network.step()
    if request:
        request.free()
        digest = numpy.array([int.from_bytes(network.weights.tobytes(), "little") % (2**61 - 1)])
        low, high = comm.allreduce(digest.copy(), op="min"), comm.allreduce(digest.copy(), op="max")
        assert low == high, "the ranks have learnt different weights"
    return network.accuracy(*judged)


def train():
    comm = ddl.init()
    learnt, judged = data()
    found = {name: [learn(comm, seed, how, learnt, judged) for seed in SEEDS] for name, how in WAYS.items()}
    if comm.rank == 0:
        print(json.dumps(found), flush=True)


class Training(unittest.TestCase):
    def test_low_precision_learns_as_well_as_float32(self):
        found = json.loads(ranks.run(__file__, "train", RANKS).splitlines()[-1])
        mean = {name: statistics.mean(accuracies) for name, accuracies in found.items()}
        told = "; ".join(f"{name} {mean[name]:.4f} ({min(a):.4f} to {max(a):.4f})" for name, a in found.items())
        print(told)
        lowest, highest = min(found["float32"]), max(found["float32"])
        self.assertGreater(lowest, 0.95, told)
        for name in WAYS:
            if name == "alone":
                self.assertLess(mean[name], lowest, told)
            else:
                self.assertTrue(lowest <= mean[name] <= highest, f"{name}: {told}")


if __name__ == "__main__":
    ranks.main({"train": train})
