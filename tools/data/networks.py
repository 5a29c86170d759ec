#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parameters of three networks, computed from their layers: what training sums over the ranks, and how much work lies between.

    networks.py resnet50 > resnet50.sizes     all trainable tensors in the order of the forward pass: name, float32 elements
    networks.py --messages vgg16              weights and biases alone, each a message: also the multiply-adds of a sample behind it

Sources: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2015, Table 1, column "50-layer"; Simonyan and
Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014, Table 1, column D; Szegedy, Vanhoucke, Ioffe,
Shlens and Wojna, "Rethinking the Inception Architecture for Computer Vision", 2015, with the widths of the usual implementations
and without the auxiliary classifier. As in these, convolutions of ResNet-50 and Inception-v3 have no bias, and each is followed by
a batch normalisation (weight and bias). The messages leave the normalisations out, which are folded into the convolutions there:
only the first convolution of ResNet-50 then has a bias. Sums are checked before anything is printed.
"""

import dataclasses
import sys


@dataclasses.dataclass
class Layer:
    """A convolution, or a fully connected layer (one position)."""

    name: str
    inputs: int
    outputs: int
    kernel: tuple = (1, 1)
    positions: int = 1  # pixels of the output
    bias: bool = False
    norm: str = ""  # name of the normalisation behind it
    folded_bias: bool = False  # it has a bias where the normalisation is left out

    def weights(self):
        return self.inputs * self.outputs * self.kernel[0] * self.kernel[1]


def fully_connected(name, inputs, outputs):
    return Layer(name, inputs, outputs, bias=True)


def bottleneck(prefix, inputs, width, before, side):
    """A block of ResNet: the 1x1 before the 3x3 convolution sees `before` pixels a side, what follows `side`."""
    layers = [
        Layer(f"{prefix}.conv1", inputs, width, positions=before**2, norm=f"{prefix}.bn1"),
        Layer(f"{prefix}.conv2", width, width, (3, 3), side**2, norm=f"{prefix}.bn2"),
        Layer(f"{prefix}.conv3", width, 4 * width, positions=side**2, norm=f"{prefix}.bn3"),
    ]
    if inputs != 4 * width or before != side:
        layers.append(Layer(f"{prefix}.downsample.0", inputs, 4 * width, positions=side**2, norm=f"{prefix}.downsample.1"))
    return layers


def resnet50():
    layers = [Layer("conv1", 3, 64, (7, 7), 112**2, norm="bn1", folded_bias=True)]
    inputs, before = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width, side = 64 << stage, 56 >> stage
        for block in range(blocks):
            layers += bottleneck(f"layer{stage + 1}.{block}", inputs, width, before, side)
            inputs, before = 4 * width, side
    return [*layers, fully_connected("fc", inputs, 1000)]


def vgg16():
    layers, inputs = [], 3
    for stage, (width, convolutions) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        for number in range(convolutions):
            name = f"conv{stage + 1}_{number + 1}"
            layers.append(Layer(name, inputs, width, (3, 3), (224 >> stage) ** 2, bias=True))
            inputs = width
    return [
        *layers,
        fully_connected("fc6", inputs * 7 * 7, 4096),
        fully_connected("fc7", 4096, 4096),
        fully_connected("fc8", 4096, 1000),
    ]


def chain(name, inputs, side, *steps):
    """Convolutions behind each other; a step: (outputs, kernel), or (outputs, kernel, side) from where on it is another one."""
    layers = []
    for number, (outputs, kernel, *smaller) in enumerate(steps):
        side = smaller[0] if smaller else side
        full = f"{name}_{number + 1}"
        layers.append(Layer(full, inputs, outputs, kernel, side**2, norm=full + ".bn"))
        inputs = outputs
    return layers


def inception_a(name, inputs, pool):
    layers = chain(f"{name}.1x1", inputs, 35, (64, (1, 1)))
    layers += chain(f"{name}.5x5", inputs, 35, (48, (1, 1)), (64, (5, 5)))
    layers += chain(f"{name}.3x3dbl", inputs, 35, (64, (1, 1)), (96, (3, 3)), (96, (3, 3)))
    return layers + chain(f"{name}.pool", inputs, 35, (pool, (1, 1)))


def inception_c(name, width):
    wide, high = (1, 7), (7, 1)
    layers = chain(f"{name}.1x1", 768, 17, (192, (1, 1)))
    layers += chain(f"{name}.7x7", 768, 17, (width, (1, 1)), (width, wide), (192, high))
    double = [(width, (1, 1)), (width, high), (width, wide), (width, high), (192, wide)]
    return layers + chain(f"{name}.7x7dbl", 768, 17, *double) + chain(f"{name}.pool", 768, 17, (192, (1, 1)))


def inception_e(name, inputs):
    layers = chain(f"{name}.1x1", inputs, 8, (320, (1, 1)))
    layers += chain(f"{name}.3x3", inputs, 8, (384, (1, 1)))
    layers += chain(f"{name}.3x3a", 384, 8, (384, (1, 3))) + chain(f"{name}.3x3b", 384, 8, (384, (3, 1)))
    layers += chain(f"{name}.3x3dbl", inputs, 8, (448, (1, 1)), (384, (3, 3)))
    layers += chain(f"{name}.3x3dbla", 384, 8, (384, (1, 3))) + chain(f"{name}.3x3dblb", 384, 8, (384, (3, 1)))
    return layers + chain(f"{name}.pool", inputs, 8, (192, (1, 1)))


def inception_v3():
    three = (3, 3)
    layers = chain("stem", 3, 149, (32, three), (32, three, 147), (64, three), (80, (1, 1), 73), (192, three, 71))
    layers += inception_a("5b", 192, 32) + inception_a("5c", 256, 64) + inception_a("5d", 288, 64)
    layers += chain("6a.3x3", 288, 17, (384, three)) + chain("6a.3x3dbl", 288, 35, (64, (1, 1)), (96, three), (96, three, 17))
    for name, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        layers += inception_c(name, width)
    layers += chain("7a.3x3", 768, 17, (192, (1, 1)), (320, three, 8))
    layers += chain("7a.7x7x3", 768, 17, (192, (1, 1)), (192, (1, 7)), (192, (7, 1)), (192, three, 8))
    layers += inception_e("7b", 1280) + inception_e("7c", 2048)
    return [*layers, fully_connected("fc", 2048, 1000)]


def tensors(layers):
    """All trainable tensors, forward: (name, elements)."""
    found = []
    for layer in layers:
        found.append((layer.name + ".weight", layer.weights()))
        if layer.bias:
            found.append((layer.name + ".bias", layer.outputs))
        if layer.norm:
            found += [(layer.norm + ".weight", layer.outputs), (layer.norm + ".bias", layer.outputs)]
    return found


def messages(layers):
    """Weights and biases, forward: (name, elements, multiply-adds of a sample)."""
    found = []
    for layer in layers:
        found.append((layer.name + ".weight", layer.weights(), layer.weights() * layer.positions))
        if layer.bias or layer.folded_bias:
            found.append((layer.name + ".bias", layer.outputs, 0))
    return found


# name: (how it is written, what makes it, tensors, their elements, messages, their bytes)
NETWORKS = {
    "resnet50": ("ResNet-50", resnet50, 161, 25_557_032, 56, 102_015_904),
    "vgg16": ("VGG-16", vgg16, 32, 138_357_544, 32, 553_430_176),
    "inception_v3": ("Inception-v3", inception_v3, 284, 23_834_568, 96, 95_200_544),
}


def network(name):
    """(tensors, messages) of a network; ends the program where their sums are wrong."""
    _, make, n_tensors, elements, n_messages, size = NETWORKS[name]
    every, sent = tensors(make()), messages(make())
    seen = (len(every), sum(t[1] for t in every), len(sent), 4 * sum(m[1] for m in sent))
    if seen != (n_tensors, elements, n_messages, size):
        sys.exit(f"networks.py: {name} has {seen}; expected {(n_tensors, elements, n_messages, size)}")
    return every, sent


def main(argv):
    names, short = [a for a in argv if a != "--messages"], "--messages" in argv
    if len(names) != 1 or names[0] not in NETWORKS:
        sys.exit(f"usage: networks.py [--messages] {'|'.join(NETWORKS)}")
    rows = network(names[0])[1 if short else 0]
    elements = sum(row[1] for row in rows)
    what = "weights and biases" if short else "trainable tensors"
    print("# SPDX-License-Identifier: Apache-2.0")
    print(f"# The {what} of {NETWORKS[names[0]][0]} in the order of the forward pass: name and number of elements.")
    print("# Computed by networks.py from the layers.")
    print(f"# {len(rows)} tensors, {elements} elements, {4 * elements} bytes as float32.")
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main(sys.argv[1:])
