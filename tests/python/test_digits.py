# SPDX-License-Identifier: Apache-2.0
"""examples/pytorch/train.py on two ranks, from five seeds: with bfloat16 on the wire the network becomes as good as with float32.

As good: the mean over the seeds is not below the worst seed with float32. All is a function of the seed and of the processor's kernels
of convolutions, so a run comes out as the run before.
"""

import os
import re
import statistics
import sys
import unittest

import ranks

ranks.need("torch", "sklearn")

TRAIN = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "pytorch", "train.py")
EPOCHS, RANKS, SEEDS = 4, 2, range(1, 6)


def train(seed, wire):
    """[(loss, accuracy)] of each epoch, as printed."""
    command = [sys.executable, TRAIN, "--epochs", str(EPOCHS), "--seed", str(seed), "--wire", wire]
    output = ranks.launch(command, RANKS, DDL_ALGO="ring")
    epochs = re.findall(rf"loss ([\d.]+), accuracy ([\d.]+), {RANKS} replicas equal to the bit", output)
    assert len(epochs) == EPOCHS, output
    return epochs


class Digits(unittest.TestCase):
    def test_bfloat16_on_the_wire_learns_as_well_as_float32(self):
        found = {wire: [train(seed, wire) for seed in SEEDS] for wire in ("native", "bfloat16")}
        last = {wire: [float(epochs[-1][1]) for epochs in runs] for wire, runs in found.items()}
        told = "; ".join(f"{wire}: {statistics.mean(a):.4f} ({min(a):.4f} to {max(a):.4f})" for wire, a in last.items())
        print(told)
        self.assertNotEqual(found["native"], found["bfloat16"], "the wire made no difference: was it taken?")
        self.assertGreater(min(last["native"]), 0.9, told)
        self.assertGreaterEqual(statistics.mean(last["bfloat16"]), min(last["native"]), told)
        self.assertEqual(train(SEEDS[0], "bfloat16"), found["bfloat16"][0], "the same seed came out otherwise")


if __name__ == "__main__":
    ranks.main({})
