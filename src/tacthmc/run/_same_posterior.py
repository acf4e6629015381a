"""Whether a run that goes on samples the posterior with which it was begun.

Two things are compared with what the folder has: a fingerprint of sampler, potential and data
(:mod:`tacthmc.run._fingerprint`), and the energy and gradient of one batch at the checkpoint. The
code of functions is compared within one version of Python only.
"""

import json
import platform
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.compiler._mesh import ambient, on_every_host
from tacthmc.run._feed import Feeder
from tacthmc.run._fingerprint import CODE, fingerprint
from tacthmc.run._plan import Plan
from tacthmc.run._program import Chains
from tacthmc.run._start import first_estimates
from tacthmc.store._arrays import replace_json
from tacthmc.store._errors import StoreError
from tacthmc.store._folder import Folder, device_name, versions

FILE = "posterior.json"

ROUNDING = 1e4
"""The relative difference of two results, in units of rounding, that sums in another order make.
(The error of a sum of n terms is about √n units, and at most n.)"""
DEVICE_ROUNDING = 1e-2
"""The same for single precision on another kind of device, which may multiply with 10 bits."""
MAX_SHOWN = 8
"""The number of differences in a message."""


class ChangedError(StoreError):
    """An error that a run would go on with another posterior or sampler."""


def parts_of(plan: Plan) -> dict[str, Any]:
    """The fingerprint of a plan, as JSON."""
    sampler, potential = plan.program.sampler, plan.potential
    return {
        "python": _minor(platform.python_version()),
        "parts": fingerprint(sampler=sampler, potential=potential),
    }


def write_parts(path: Path, plan: Plan) -> None:
    """Store the fingerprint of a plan in a folder."""
    replace_json(path / FILE, parts_of(plan))


def different_parts(folder: Folder, plan: Plan) -> list[str]:
    """What differs between a plan and that with which the folder was made."""
    file, now = folder.file(FILE), parts_of(plan)
    try:
        stored = json.loads(file.read_text())
        before, python = dict(stored["parts"]), stored["python"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{file} is damaged: {error}") from error
    after = now["parts"]
    same_python = python == now["python"]
    # Another version of the library may have more settings, or fewer.
    here = set(before) & set(after) if _another_library(folder) else set(before) | set(after)
    found = []
    for name in sorted(here):
        was, is_now = before.get(name), after.get(name)
        code = str(was).startswith(CODE) and str(is_now).startswith(CODE)
        if was == is_now or (code and not same_python):
            continue
        found.append(f"{name} (its code)" if code else f"{name}: {_shown(was)} → {_shown(is_now)}")
    return found


def _another_library(folder: Folder) -> bool:
    return folder.config["versions"].get("tacthmc") != versions().get("tacthmc")


def _shown(text: str | None) -> str:
    return "nothing" if text is None else text


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def probe(plan: Plan, chains: Chains, feeder: Feeder | None) -> dict[str, Any] | None:
    """Energy and gradient of one batch of every chain, as JSON; None if they cannot be had.

    Of the batches of a loader only the shapes are used.
    """
    try:
        with ambient(plan.program.mesh):
            positions = chains.each.state.position
            batch = None if feeder is None else jax.tree.map(_made_up, feeder.example)
            energies, gradients = first_estimates(
                plan.program.potential, positions, plan.key, batch
            )
            found = _numbers(energies, gradients, positions)
            found = on_every_host(plan.program.mesh, found)
    except Exception:
        # A potential that only works in its own loop: then its code has to be enough.
        return None
    kind = {"device": device_name(), "precision": str(found["energy"].dtype)}
    return kind | {name: np.asarray(value).tolist() for name, value in found.items()}


@jax.jit
def _numbers(energies: Any, gradients: Any, positions: Any) -> dict[str, jax.Array]:
    def rows(tree: Any) -> jax.Array:
        leaves = jax.tree.leaves(tree)
        return jnp.concatenate(
            [x.reshape(len(energies), -1).astype(energies.dtype) for x in leaves], axis=1
        )

    gradient, position = rows(gradients), rows(positions)
    signs = jnp.cos(jnp.arange(gradient.shape[1], dtype=gradient.dtype))
    return {
        "energy": energies,
        "gradient": jnp.linalg.norm(gradient, axis=1),
        "projection": gradient @ signs,
        "position": jnp.linalg.norm(position, axis=1),
    }


def _made_up(leaf: Any) -> np.ndarray:
    """A batch that is the same whenever it is made: the loader is somewhere else by then."""
    leaf = np.asarray(leaf)
    if not np.issubdtype(leaf.dtype, np.floating):
        return np.zeros_like(leaf)
    return np.cos(np.arange(leaf.size)).reshape(leaf.shape).astype(leaf.dtype)


def different_numbers(before: dict[str, Any] | None, now: dict[str, Any] | None) -> list[str]:
    """What differs between two probes of the same chains, beyond rounding.

    An energy and ‖∇U‖·‖θ‖ are what a relative error of θ acts on, so their sum is the scale.

    >>> one = {"device": "cpu", "energy": [1.0], "gradient": [2.0], "projection": [2.0]}
    >>> one |= {"position": [1.0], "precision": "float32"}
    >>> different_numbers(one, one | {"energy": [1.0001]})
    []
    >>> different_numbers(one, one | {"energy": [1.1]})
    ['energy at the checkpoint of chain 0: 1 → 1.1']
    """
    if before is None or now is None:
        return []
    was, here = _arrays(before), _arrays(now)
    size, slope = np.maximum(was["position"], 1e-300), was["gradient"]
    scale = np.abs(was["energy"]) + slope * size
    tolerance = ROUNDING * np.finfo(before.get("precision", "float32")).eps
    if before["device"] != now["device"] and before.get("precision") != "float64":
        tolerance = max(tolerance, DEVICE_ROUNDING)
    slopes = np.maximum(scale / size, slope)
    found = []
    for name, limit in (("energy", scale), ("gradient", slopes), ("projection", slopes)):
        close = np.abs(here[name] - was[name]) <= tolerance * limit
        away = ~(close | (np.isnan(was[name]) & np.isnan(here[name])) | (was[name] == here[name]))
        if away.any():
            chain = int(np.argmax(away))
            values = f"{was[name][chain]:.7g} → {here[name][chain]:.7g}"
            found.append(f"{name} at the checkpoint of chain {chain}: {values}")
    return found


def _arrays(numbers: dict[str, Any]) -> dict[str, np.ndarray]:
    names = ("energy", "gradient", "projection", "position")
    return {name: np.asarray(numbers[name], float) for name in names}


def refuse(folder: Folder, parts: list[str], numbers: list[str] | None) -> None:
    """Raise an error that lists the differences; ``numbers`` is None if they were not compared."""
    differences = parts + (numbers or [])
    more = len(differences) - MAX_SHOWN
    listed = "; ".join(differences[:MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    agree = " Energies at the checkpoint agree to rounding." if numbers == [] else ""
    raise ChangedError(
        f"the run in {folder.path} was begun with something else: {listed}.{agree} Its draws and"
        " the new ones would be mixed. Go on with what it was begun with, or begin a new run. If"
        " the difference does not matter, insist: changed=True, or tacthmc resume --changed"
    )
