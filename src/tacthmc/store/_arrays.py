"""Zarr arrays that grow, written so that a reader never sees half of anything.

Rows are written first, past the end that an array's metadata declares, where no reader
looks; then the metadata of all arrays are replaced at once. The rows that no reader sees are
also where draws wait that one chain has and another does not have yet. Every chunk carries a
checksum. TensorStore writes (it comes with Orbax); Zarr, xarray and ArviZ read.
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
# Chunks hold at most so many rows, so that the last one, written again at each flush, is small.
CHUNK_ROWS = 1 << 12
# A length that no run reaches: writers see arrays this long.
ENDLESS = 1 << 40


def tensorstore() -> Any:
    """The TensorStore module, imported when first needed."""
    try:
        import tensorstore as module
    except ImportError as error:
        raise needs("TensorStore") from error
    return module


@dataclass(frozen=True)
class ArraySpec:
    """One array of the store: over chains (unless there are none), along the axis that grows."""

    group: str
    name: str
    tail: tuple[int, ...]
    dtype: str
    num_chains: int = 0
    chains_per_chunk: int = 1
    grows: str | None = None

    @property
    def path(self) -> str:
        """Where it lies in the store."""
        return f"{self.group}/{self.name}"

    @property
    def dims(self) -> list[str]:
        """The names of its axes."""
        own = [f"{self.name}_dim_{i}" for i in range(len(self.tail))]
        return [
            *(["chain"] if self.num_chains else []),
            *([self.grows] if self.grows else []),
            *(own if self.name != "chain" else ["chain"]),
        ]

    def metadata(self, length: int) -> dict[str, Any]:
        """Zarr's description of the array, at one length."""
        item = np.dtype(self.dtype).itemsize
        tail = self.tail
        if self.grows is None and not self.num_chains and tail:
            # Written once: cut along its first axis alone.
            row = item * math.prod(tail[1:])
            tail = (max(1, min(tail[0], (1 << 24) // max(row, 1))), *tail[1:])
        item *= math.prod(tail)
        chains = self.chains_per_chunk
        while chains > 1 and (chains * item > CHUNK_BYTES or self.chains_per_chunk % chains):
            chains -= 1
        rows = max(1, min(CHUNK_ROWS, CHUNK_BYTES // max(chains * item, 1)))
        shape = [*([self.num_chains] if self.num_chains else []), *([length] if self.grows else [])]
        chunk = [*([chains] if self.num_chains else []), *([rows] if self.grows else [])]
        kind = np.dtype(self.dtype).kind
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [*shape, *self.tail],
            "data_type": self.dtype,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": [*chunk, *(max(1, n) for n in tail)]},
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


def opened(root: Path, path: str, metadata: dict[str, Any]) -> Any:
    """A TensorStore of the array as ``metadata`` describes it, whatever the file says."""
    ts = tensorstore()
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str((root / path).absolute())},
        "metadata": {k: v for k, v in metadata.items() if k != "attributes"},
        # What was written is there: a chunk that is missing is an error, not a fill value.
        "store_data_equal_to_fill_value": True,
        "fill_missing_data_reads": False,
    }
    return ts.open(spec, open=True, assume_metadata=True).result()


def replace_json(path: Path, content: Any, durable: bool = True) -> None:
    """Write a JSON file so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w") as file:
        # In one piece: json.dump would go through Python item by item.
        file.write(json.dumps(content))
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
