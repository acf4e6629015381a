"""The sampler for a user's model: the file's own, or what the command line asks for."""

from collections.abc import Callable
from typing import Any

import jax

import tacthmc
from tacthmc._typing import PRNGKey
from tacthmc.cli._model_file import Model
from tacthmc.dynamics import Sampler
from tacthmc.potentials import StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.run._start import chain_positions
from tacthmc.samplers import Untuned
from tacthmc.tuning._curvature import first_step_size


def chosen_sampler(
    key: PRNGKey,
    model: Model,
    name: str | None,
    settings: dict[str, Any],
    chains: int,
    tune: bool,
    say: Callable[[str], Any],
) -> Sampler | Untuned:
    """A sampler by its name and settings, with a first guess of a step size where none is given.

    >>> import jax, jax.numpy as jnp
    >>> model = Model(tacthmc.potential(lambda x: jnp.sum(x**2)), jnp.zeros(2), None)
    >>> chosen_sampler(jax.random.key(0), model, None, {"noise": 0.2}, 4, True, print)
    Untuned(noise=0.2)
    """
    if model.sampler is not None:
        asked = ["sampler"] * (name is not None) + list(settings) + ["tune"] * tune
        if asked:
            flags = ", ".join("--" + flag.replace("_", "-") for flag in asked)
            raise ValueError(
                f"the file returns a sampler of its own, so {flags} would do nothing: leave it out"
                " here, or there"
            )
        return model.sampler
    name = name or "tact"
    if tune:
        if name != "tact":
            raise ValueError(f"--tune chooses numbers for tact, not for {name}")
        return Untuned(**settings)
    if "step_size" not in settings:
        settings = settings | {"step_size": _first_guess(key, model, name, chains)}
        say(f"step size {settings['step_size']:.3g}, from the curvature at the start")
    if "noise" in settings and name == "sghmc":
        settings = {"friction" if k == "noise" else k: v for k, v in settings.items()}
    if "noise" in settings and name in ("sgld", "psgld"):
        raise ValueError(f"--noise does nothing with {name}: its step size sets its noise")
    return getattr(tacthmc, name)(**settings)


def _first_guess(key: PRNGKey, model: Model, name: str, chains: int) -> float:
    if name == "psgld":
        raise ValueError("psgld's step size is in units of its own scaling: give --step-size")
    if isinstance(innermost(model.potential), StreamedPosterior):
        raise ValueError("data from a loader have no batch to guess with: give --step-size")
    # A stream of its own: chains fold their index into the same key.
    own = jax.random.fold_in(key, 2**31 + 1)
    positions = chain_positions(model.potential, model.start, chains)
    first = jax.tree.map(lambda leaf: leaf[0], positions)
    return first_step_size(own, model.potential, first)
