#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the trainable tensors of ResNet-50 in the order of the forward pass: name and number of float32 elements.

The layers are those of He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2015, Table 1, column "50-layer":
a 7x7 convolution of 64 channels, four stages of 3, 4, 6 and 3 bottleneck blocks (1x1, 3x3, 1x1 convolutions; the last has four
times the width), and a fully connected layer of 1000 classes. As in the usual implementations convolutions have no bias, each is
followed by a batch normalisation (weight and bias), and the first block of a stage has a projection (convolution and
normalisation) on its shortcut. The sums are checked before anything is printed.

    python3 resnet50.py > resnet50.sizes
"""
import sys

TENSORS = 161
PARAMETERS = 25_557_032


def convolution(name, norm, inputs, outputs, kernel):
    """A convolution without bias and the batch normalisation behind it."""
    return [(f"{name}.weight", inputs * outputs * kernel * kernel), (f"{norm}.weight", outputs), (f"{norm}.bias", outputs)]


def bottleneck(prefix, inputs, width, project):
    tensors = convolution(f"{prefix}.conv1", f"{prefix}.bn1", inputs, width, 1)
    tensors += convolution(f"{prefix}.conv2", f"{prefix}.bn2", width, width, 3)
    tensors += convolution(f"{prefix}.conv3", f"{prefix}.bn3", width, 4 * width, 1)
    if project:
        tensors += convolution(f"{prefix}.downsample.0", f"{prefix}.downsample.1", inputs, 4 * width, 1)
    return tensors


def resnet50():
    tensors = convolution("conv1", "bn1", 3, 64, 7)
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            tensors += bottleneck(f"layer{stage + 1}.{block}", inputs, width, block == 0)
            inputs = 4 * width
    return tensors + [("fc.weight", inputs * 1000), ("fc.bias", 1000)]


def main():
    tensors = resnet50()
    total = sum(count for _, count in tensors)
    if len(tensors) != TENSORS or total != PARAMETERS:
        sys.exit(f"resnet50.py: {len(tensors)} tensors and {total} parameters; expected {TENSORS} and {PARAMETERS}")
    print("# SPDX-License-Identifier: Apache-2.0")
    print("# The trainable tensors of ResNet-50 in the order of the forward pass: name and number of elements.")
    print("# Computed by resnet50.py from Table 1 (50-layer) of He, Zhang, Ren and Sun, \"Deep Residual Learning for Image")
    print("# Recognition\", 2015: convolutions without bias, each with a batch normalisation; projections where a stage begins.")
    print(f"# {len(tensors)} tensors, {total} elements, {4 * total} bytes as float32.")
    for name, count in tensors:
        print(name, count)


main()
