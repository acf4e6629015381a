"""ArviZ: effective sample sizes, R-hat, and export, for every supported version."""

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tacthmc._checks import missing_extra


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


def has_arviz() -> bool:
    """Whether ArviZ can be imported."""
    try:
        arviz()
    except ImportError:
        return False
    return True


def ess(values: np.ndarray) -> float:
    """Bulk effective sample size of a (chain, draw) array; NaN if there are too few draws.

    >>> import numpy as np
    >>> bool(3000 < ess(np.random.default_rng(0).normal(size=(4, 1000))) < 5000)
    True
    """
    if values.shape[1] < 4:
        return float("nan")
    return float(arviz().ess(np.asarray(values, float)))


def mean_ess(values: np.ndarray) -> float:
    """Effective sample size of the mean of a (chain, draw) array, without rank normalization.

    >>> import numpy as np
    >>> bool(3000 < mean_ess(np.random.default_rng(0).normal(size=(4, 1000))) < 5000)
    True
    """
    if values.shape[1] < 4:
        return float("nan")
    return float(arviz().ess(np.asarray(values, float), method="mean"))


def rhat(values: np.ndarray) -> float:
    """Rank-normalized split R-hat of a (chain, draw) array; NaN for a single chain.

    >>> import numpy as np
    >>> bool(rhat(np.random.default_rng(0).normal(size=(4, 1000))) < 1.01)
    True
    """
    if values.shape[0] < 2 or values.shape[1] < 4:
        return float("nan")
    return float(arviz().rhat(np.asarray(values, float)))


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
    groups = ("posterior", "sample_stats", "observed_data")
    if int(module.__version__.split(".")[0]) >= 1:
        tree = xarray.open_datatree(root, engine="zarr", chunks=None)
        return xarray.DataTree.from_dict({g: tree[g].to_dataset() for g in groups if g in tree})
    found = {g: xarray.open_zarr(root, group=g, chunks=None) for g in groups if (root / g).exists()}
    return module.InferenceData(**found)
