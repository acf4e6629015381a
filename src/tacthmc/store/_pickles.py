"""Pickles of the sampler and potential of a run, so that it can be resumed without its script.

Functions and classes from a script are pickled by value. The data of a posterior are not in the
pickle but in ``observed_data`` of the store, once, where other tools find them too. Unpickling runs
code: resume only what you trust.
"""

import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._positions import leaf_names
from tacthmc.potentials._base import Potential, innermost
from tacthmc.potentials._posterior import Posterior
from tacthmc.store._arrays import ArraySpec, opened
from tacthmc.store._errors import StoreError, needs

FILE = "program.pkl"
SHAPES = "shapes.pkl"


class NotPortableWarning(UserWarning):
    """A warning that the functions of a run cannot be pickled. Pass them to ``resume`` again."""


def observed(potential: Potential) -> dict[str, Any]:
    """The data of a posterior by name; empty for other potentials."""
    inner = innermost(potential)
    if not isinstance(inner, Posterior):
        return {}
    names = [f"data.{n}" if n != "theta" else "data" for n in leaf_names(inner.data)]
    return dict(zip(names, jax.tree.leaves(inner.data), strict=True))


def data_specs(data: dict[str, Any]) -> dict[str, ArraySpec]:
    """The arrays of the store for data."""
    return {
        name: ArraySpec("observed_data", name, tuple(value.shape), str(value.dtype))
        for name, value in data.items()
    }


def pickler() -> Any:
    """The pickler that also pickles functions of a script, imported when first needed."""
    try:
        import cloudpickle
    except ImportError as error:
        raise needs("cloudpickle") from error
    return cloudpickle.Pickler


def write_structure(folder: Path, structure: dict[str, Any]) -> None:
    """Pickle the shapes of the chains and draws of a run."""
    buffer = io.BytesIO()
    pickler()(buffer).dump(structure)
    (folder / SHAPES).write_bytes(buffer.getvalue())


def write_program(folder: Path, parts: dict[str, Any], data: dict[str, Any]) -> None:
    """Pickle the sampler and the potential, or warn if that is not possible."""
    base: Any = pickler()
    names = {id(value): name for name, value in data.items()}

    class Pickler(base):
        def persistent_id(self, obj: Any) -> Any:
            return names.get(id(obj))

    buffer = io.BytesIO()
    try:
        Pickler(buffer).dump(parts)
    except Exception as error:
        warnings.warn(
            f"the run in {folder} cannot be resumed from its folder alone ({error}): call"
            " tacthmc.resume(folder, sampler=…, potential=…)",
            NotPortableWarning,
            stacklevel=4,
        )
        return
    (folder / FILE).write_bytes(buffer.getvalue())


def read_structure(folder: Path) -> dict[str, Any]:
    """The shapes of the chains and draws of a run."""
    try:
        return pickle.loads((folder / SHAPES).read_bytes())
    except Exception as error:
        raise StoreError(f"{folder / SHAPES} cannot be read: {error}") from error


def read_program(folder: Path, root: Path, specs: dict[str, ArraySpec]) -> dict[str, Any]:
    """The parts from :func:`write_program`, with the data read from the store."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            spec = specs[pid]
            try:
                array = opened(root, spec.path, spec.metadata(0))
                return jnp.asarray(np.asarray(array.read().result()))
            except ValueError as error:
                raise StoreError(f"{root / spec.path}: the data cannot be read: {error}") from error

    path = folder / FILE
    if not path.exists():
        raise StoreError(
            f"{folder} has no {FILE} (the functions of the run could not be pickled, or"
            " Store.with_program was False): pass the sampler= and potential= of the run"
        )
    try:
        with path.open("rb") as file:
            return Unpickler(file).load()
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"{path} cannot be read ({type(error).__name__}: {error}): make the modules of its"
            " functions importable, or pass the sampler= and potential= of the run"
        ) from error
