"""Growing Zarr arrays, written so that a reader never sees partial data.

Rows are written first, past the end in the metadata of an array, where no reader looks. Then the
metadata of all arrays are replaced at once. Draws that only some chains have so far also lie past
the end. Every chunk has a checksum. TensorStore writes (it comes with Orbax); Zarr, xarray and
ArviZ read.
"""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacthmc.store._errors import needs

CHUNK_BYTES = 1 << 23
"""The size of a chunk of a growing array."""
WHOLE_CHUNK_BYTES = 1 << 24
"""The size of a chunk of an array that is written once."""
MAX_CHUNK_ROWS = 1 << 12
"""The largest number of rows in a chunk, because each flush writes the last chunk again."""
MAX_LENGTH = 1 << 40
"""A length that no run reaches. Writers open arrays with this length."""


def tensorstore() -> Any:
    """The TensorStore module, imported when first needed."""
    try:
        import tensorstore as module
    except ImportError as error:
        raise needs("TensorStore") from error
    return module


@dataclass(frozen=True)
class ArraySpec:
    """One array of the store, with shape (chain, growing axis, tail)."""

    group: str
    name: str
    tail: tuple[int, ...]
    """The shape of one row."""
    dtype: str
    num_chains: int = 0
    """The number of chains, or 0 if the array has no axis of chains."""
    chains_per_chunk: int = 1
    grows: str | None = None
    """The name of the growing axis, or None if there is none."""

    @property
    def path(self) -> str:
        """The path in the store."""
        return f"{self.group}/{self.name}"

    @property
    def dims(self) -> list[str]:
        """The names of the axes."""
        own = [f"{self.name}_dim_{i}" for i in range(len(self.tail))]
        return [
            *(["chain"] if self.num_chains else []),
            *([self.grows] if self.grows else []),
            *(own if self.name != "chain" else ["chain"]),
        ]

    def metadata(self, length: int) -> dict[str, Any]:
        """The Zarr metadata of the array at this length."""
        shape = [*([self.num_chains] if self.num_chains else []), *([length] if self.grows else [])]
        kind = np.dtype(self.dtype).kind
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [*shape, *self.tail],
            "data_type": self.dtype,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": self._chunk_shape()},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN" if kind == "f" else False if kind == "b" else 0,
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "attributes": {},
            "dimension_names": self.dims,
        }

    def _chunk_shape(self) -> list[int]:
        """Chunks of a few megabytes, which span several chains if draws are small."""
        item, tail = np.dtype(self.dtype).itemsize, self.tail
        if self.grows is None and not self.num_chains and tail:
            # An array that is written once is divided along its first axis only.
            row = item * math.prod(tail[1:])
            tail = (max(1, min(tail[0], WHOLE_CHUNK_BYTES // max(row, 1))), *tail[1:])
        item *= math.prod(tail)
        chains = self.chains_per_chunk
        while chains > 1 and (chains * item > CHUNK_BYTES or self.chains_per_chunk % chains):
            chains -= 1
        rows = max(1, min(MAX_CHUNK_ROWS, CHUNK_BYTES // max(chains * item, 1)))
        lead = [*([chains] if self.num_chains else []), *([rows] if self.grows else [])]
        return [*lead, *(max(1, n) for n in tail)]


def opened(root: Path, path: str, metadata: dict[str, Any]) -> Any:
    """A TensorStore of the array with these ``metadata`` instead of those of the file."""
    ts = tensorstore()
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str((root / path).absolute())},
        "metadata": {k: v for k, v in metadata.items() if k != "attributes"},
        # Everything was written, so a missing chunk is an error and not a fill value.
        "store_data_equal_to_fill_value": True,
        "fill_missing_data_reads": False,
    }
    return ts.open(spec, open=True, assume_metadata=True).result()


def replace_json(path: Path, content: Any, durable: bool = True) -> None:
    """Replace a JSON file atomically: a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w") as file:
        # json.dumps is faster than json.dump, which iterates in Python.
        file.write(json.dumps(content))
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
