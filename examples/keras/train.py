#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train.py - a small convolutional network in Keras learns scikit-learn's digits, on as many ranks as the job has.

    srun --ddl=multiring --mpi=pmix python3 train.py [--wire bfloat16]

The model and fit() are as for one process; the optimizer is made distributed, and each rank has its part of the data. After each
epoch rank 0 prints the loss, the accuracy on digits that nobody has learnt from, and whether all replicas are the same to the bit.
The exit status is 1 where they are not.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras  # noqa: E402
import numpy  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

import ddl  # noqa: E402
import ddl.tensorflow  # noqa: E402

BATCH = 64  # images a step, of all ranks together


def digits():
    """(images, labels) to learn from and to judge by, the same on every rank."""
    data = load_digits()
    order = numpy.random.RandomState(0).permutation(len(data.target))
    x, y = (data.images[order, :, :, None] / 16).astype(numpy.float32), data.target[order]
    return (x[360:], y[360:]), (x[:360], y[:360])


def network():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )


class Report(keras.callbacks.Callback):
    def __init__(self, comm, judged):
        super().__init__()
        self.comm, self.judged = comm, judged

    def on_epoch_end(self, epoch, logs=None):
        equal = ddl.tensorflow.replicas_equal(self.model.variables)
        loss = float(ddl.tensorflow.allreduce(numpy.float32(logs["loss"]), op="avg"))
        if self.comm.rank == 0:
            x, y = self.judged
            accuracy = float((self.model(x, training=False).numpy().argmax(1) == y).mean())
            same = f"{self.comm.size} replicas equal to the bit" if equal else "REPLICAS DIFFER"
            print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy:.4f}, {same}", flush=True)
        if not equal:
            raise SystemExit(1)


def main():
    parser = argparse.ArgumentParser(description="A small network in Keras learns scikit-learn's digits.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wire", default="auto", help="type in which gradients travel: auto, native, bfloat16, float16, int8")
    asked = parser.parse_args()

    optimizer = ddl.tensorflow.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), wire=asked.wire)
    comm = ddl.init()
    keras.utils.set_random_seed(asked.seed + comm.rank)
    model = network()
    ddl.tensorflow.broadcast(model.variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    (x, y), judged = digits()
    count = len(y) // BATCH * BATCH // comm.size  # as many on each rank
    x, y = x[comm.rank :: comm.size][:count], y[comm.rank :: comm.size][:count]
    model.fit(x, y, BATCH // comm.size, asked.epochs, verbose=0, callbacks=[Report(comm, judged)])


if __name__ == "__main__":
    main()
