"""Export to ArviZ, for every supported version."""

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tacthmc._checks import missing_extra

STORED_GROUPS = ("posterior", "sample_stats", "observed_data")
"""The groups of a stored run that ArviZ knows."""


def arviz() -> ModuleType:
    """The ArviZ module, imported when first needed."""
    try:
        with warnings.catch_warnings():
            # ArviZ 0.23 warns of its successor on import.
            warnings.simplefilter("ignore", FutureWarning)
            import arviz as module
    except ImportError as error:
        raise missing_extra("this diagnostic", "ArviZ", "report") from error
    return module


def export(
    posterior: dict[str, np.ndarray],
    sample_stats: dict[str, np.ndarray],
    observed: dict[str, np.ndarray],
) -> Any:
    """An InferenceData (ArviZ < 1) or DataTree (ArviZ >= 1) of (chain, draw, …) arrays."""
    module = arviz()
    groups = {"posterior": posterior, "sample_stats": sample_stats}
    if observed:
        groups["observed_data"] = observed
    if int(module.__version__.split(".")[0]) >= 1:
        return module.from_dict(groups)
    return module.from_dict(**groups)


def open_store(root: Path) -> Any:
    """The groups of a stored run, read lazily, in the format of the installed ArviZ."""
    module = arviz()
    try:
        import xarray
        import zarr  # noqa: F401
    except ImportError as error:
        raise missing_extra("opening a stored run in ArviZ", "Zarr", "store") from error
    # One file has the metadata of all groups, and it has a checksum.
    tree = xarray.open_datatree(root, engine="zarr", chunks=None)
    found = {group: tree[group].to_dataset() for group in STORED_GROUPS if group in tree}
    if int(module.__version__.split(".")[0]) >= 1:
        return xarray.DataTree.from_dict(found)
    return module.InferenceData(**found)
