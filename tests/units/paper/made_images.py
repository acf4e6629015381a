"""A few made images of 47 classes, and Table 1's command and records as the tests use them."""

import numpy as np
from typer.testing import CliRunner

from tacthmc.cli._app import app
from tacthmc.paper.data import ImageSet
from tacthmc.paper.table1 import reproduce

CLOCKS = ("wall_seconds", "compile_seconds", "evaluation_share")
"""The fields of a record that are another time's."""


def some_images(count=320, tests=96):
    """Images with a bar whose place tells the class."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 47, count + tests).astype(np.uint8)
    pictures = rng.integers(0, 60, (count + tests, 28, 28))
    pictures[np.arange(count + tests), labels // 2, :] += 120
    pictures[np.arange(count + tests), :, labels % 28] += 60
    pictures = pictures.astype(np.uint8)
    names = tuple(map(str, range(47)))
    parts = pictures[:count], labels[:count], pictures[count:], labels[count:]
    return ImageSet("some", *parts, names, "made")


SOME = some_images()


def call(*words):
    """The command, in this process."""
    return CliRunner().invoke(app, ["reproduce", "table1", *map(str, words)])


def records_of(folder):
    """A folder's records without their clocks."""
    found = reproduce.read_records(folder)
    return [{k: v for k, v in record.items() if k not in CLOCKS} for record in found]
