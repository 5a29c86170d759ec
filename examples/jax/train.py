#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.py - a small network in JAX learns scikit-learn's digits, on as many ranks as the job has.

    srun --ddl=multiring --mpi=pmix python3 train.py [--wire bfloat16]

A step is one jitted function: gradients of this rank's part of the batch, their average over all ranks, the new parameters. After
each epoch rank 0 prints the loss, the accuracy on digits that nobody has learnt from, and whether all replicas are the same to the
bit. The exit status is 1 where they are not.
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy
from sklearn.datasets import load_digits

import ddl
import ddl.jax

BATCH, RATE, MOMENTUM = 64, 0.1, 0.9  # a batch is of all ranks together


def digits():
    """(images, labels) to learn from and to judge by, the same on every rank."""
    data = load_digits()
    order = numpy.random.RandomState(0).permutation(len(data.target))
    x, y = (data.data[order] / 16).astype(numpy.float32), data.target[order]
    return (x[360:], y[360:]), (x[:360], y[:360])


def network(seed, sizes=(64, 128, 64, 10)):
    """Weights and biases of each layer."""
    keys = jax.random.split(jax.random.key(seed), len(sizes))
    return [(jax.random.normal(k, (n, m)) * (2 / n) ** 0.5, jnp.zeros(m)) for k, n, m in zip(keys, sizes, sizes[1:])]


def scores(parameters, x):
    for weights, biases in parameters[:-1]:
        x = jax.nn.relu(x @ weights + biases)
    weights, biases = parameters[-1]
    return x @ weights + biases


def loss_of(parameters, x, y):
    return -jnp.mean(jax.nn.log_softmax(scores(parameters, x))[jnp.arange(len(y)), y])


@functools.partial(jax.jit, static_argnames="wire")
def step(parameters, velocity, x, y, wire):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    gradients = ddl.jax.allreduce(gradients, op="avg", wire=wire)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradients)
    return jax.tree.map(lambda p, v: p - RATE * v, parameters, velocity), velocity, loss


@jax.jit
def accuracy_of(parameters, x, y):
    return jnp.mean(scores(parameters, x).argmax(1) == y)


def main():
    parser = argparse.ArgumentParser(description="A small network in JAX learns scikit-learn's digits.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wire", default="auto", help="type in which gradients travel: auto, native, bfloat16, float16, int8")
    asked = parser.parse_args()

    comm = ddl.init()
    parameters = ddl.jax.broadcast(network(asked.seed + comm.rank))
    velocity = jax.tree.map(jnp.zeros_like, parameters)
    (x, y), judged = digits()
    for epoch in range(1, asked.epochs + 1):
        order = numpy.random.RandomState(asked.seed * 1000 + epoch).permutation(len(y))[: len(y) // BATCH * BATCH]
        losses = []
        for batch in order.reshape(-1, BATCH):
            mine = batch[comm.rank :: comm.size][: BATCH // comm.size]
            parameters, velocity, loss = step(parameters, velocity, x[mine], y[mine], asked.wire)
            losses.append(loss)
        loss = ddl.jax.allreduce(jnp.mean(jnp.stack(losses)), op="avg")
        equal = ddl.jax.replicas_equal(parameters)
        if comm.rank == 0:
            same = f"{comm.size} replicas equal to the bit" if equal else "REPLICAS DIFFER"
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy_of(parameters, *judged):.4f}, {same}", flush=True)
        if not equal:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
