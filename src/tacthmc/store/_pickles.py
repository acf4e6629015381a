"""What a run was made of, so that it can go on without the script that began it.

Sampler, potential and the shapes of its state are pickled by value where they come from a
script. A posterior's data are not in the pickle but in the store's ``observed_data``, once,
where other tools find them too. Unpickling runs code: resume only what you trust.
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
from tacthmc.store._errors import StoreError

FILE = "program.pkl"
SHAPES = "shapes.pkl"


class NotPortableWarning(UserWarning):
    """A run's functions cannot be pickled: to go on, ``resume`` has to be given them again."""


def observed(potential: Potential) -> dict[str, Any]:
    """The data of a posterior by name, or nothing."""
    inner = innermost(potential)
    if not isinstance(inner, Posterior):
        return {}
    names = [f"data.{n}" if n != "theta" else "data" for n in leaf_names(inner.data)]
    return dict(zip(names, jax.tree.leaves(inner.data), strict=True))


def data_specs(data: dict[str, Any]) -> dict[str, ArraySpec]:
    """How data lie in the store."""
    return {
        name: ArraySpec("observed_data", name, tuple(value.shape), str(value.dtype))
        for name, value in data.items()
    }


def write_program(
    folder: Path, parts: dict[str, Any], structure: dict[str, Any], data: dict[str, Any]
) -> None:
    """Pickle what the run is made of, warning where that cannot be done, and its shapes."""
    base: Any = pickle.Pickler
    try:
        import cloudpickle

        base = cloudpickle.Pickler
    except ImportError:
        # Plain pickling keeps what comes from modules; what comes from a script it refuses.
        pass
    names = {id(value): name for name, value in data.items()}

    class Pickler(base):
        def persistent_id(self, obj: Any) -> Any:
            return names.get(id(obj))

    buffer = io.BytesIO()
    base(buffer).dump(structure)
    (folder / SHAPES).write_bytes(buffer.getvalue())
    buffer = io.BytesIO()
    try:
        Pickler(buffer).dump(parts)
    except Exception as error:
        warnings.warn(
            f"the run in {folder} cannot be resumed by its folder alone ({error}): to go on, call"
            " tacthmc.resume(folder, sampler=…, potential=…)",
            NotPortableWarning,
            stacklevel=4,
        )
        return
    (folder / FILE).write_bytes(buffer.getvalue())


def read_structure(folder: Path) -> dict[str, Any]:
    """The shapes of a run's chains and draws."""
    try:
        return pickle.loads((folder / SHAPES).read_bytes())
    except Exception as error:
        raise StoreError(f"{folder / SHAPES} cannot be read: {error}") from error


def read_program(folder: Path, root: Path, specs: dict[str, ArraySpec]) -> dict[str, Any]:
    """What :func:`write_program` wrote, with the data read back from the store."""

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
            f"{folder} has no {FILE} (the run's functions could not be pickled): give"
            " sampler= and potential= as they were"
        )
    try:
        with path.open("rb") as file:
            return Unpickler(file).load()
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"{path} cannot be read ({type(error).__name__}: {error}): make the modules of the"
            " run's functions importable, or give sampler= and potential= as they were"
        ) from error
