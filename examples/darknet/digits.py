#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""digits.py FOLDER - writes scikit-learn's digits as darknet reads them: an image a file with its label in its name, and lists."""

import pathlib
import sys

import numpy
from sklearn.datasets import load_digits

folder = pathlib.Path(sys.argv[1])
(folder / "images").mkdir(parents=True, exist_ok=True)
data = load_digits()
names = []
for number in numpy.random.RandomState(0).permutation(len(data.target)):
    name = f"images/{number}-digit{data.target[number]}.pgm"
    pixels = (data.images[number] * 255 / 16).astype(numpy.uint8)
    (folder / name).write_bytes(b"P5 8 8 255\n" + pixels.tobytes())
    names.append(name + "\n")
(folder / "test.list").write_text("".join(names[:360]))
(folder / "train.list").write_text("".join(names[360:]))
