"""The sampler for a user's model: that of the file, or that of the command line."""

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
from tacthmc.samplers import Untuned, UntunedReplicas
from tacthmc.tuning._first_step_size import FirstStep, first_step_size

DEFAULT_NOISE = 0.1
"""The injected noise c, or the friction, that the samplers have by default."""


def chosen_sampler(
    key: PRNGKey,
    model: Model,
    name: str | None,
    settings: dict[str, Any],
    chains: int,
    tune: bool,
    say: Callable[[str], Any],
) -> Sampler | Untuned | UntunedReplicas:
    """A sampler by its name and settings, with a guess of the step size if none is given.

    >>> import jax, jax.numpy as jnp
    >>> model = Model(tacthmc.potential(lambda x: jnp.sum(x**2)), jnp.zeros(2), None)
    >>> chosen_sampler(jax.random.key(0), model, None, {"noise": 0.2}, 4, True, print)
    Untuned(noise=0.2)
    """
    if model.sampler is not None:
        _refuse_flags(["sampler"] * (name is not None) + list(settings) + ["tune"] * tune)
        return model.sampler
    name = name or "tact"
    if tune:
        if name != "tact":
            raise ValueError(f"--tune chooses numbers for tact, not for {name}")
        return Untuned(**settings)
    if "step_size" not in settings:
        first = _first_guess(key, model, name, chains, settings)
        settings = settings | {"step_size": first.eta}
        say(f"step size {first.eta:.3g}, from {first.reason}")
    return getattr(tacthmc.samplers, name)(**_arguments(name, settings))


def _refuse_flags(given: list[str]) -> None:
    if given:
        flags = ", ".join("--" + flag.replace("_", "-") for flag in given)
        raise ValueError(
            f"the file returns a sampler, so {flags} would do nothing: leave out one of them"
        )


def _arguments(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings by the names of the arguments of the sampler."""
    if "noise" not in settings:
        return settings
    if name in ("sgld", "psgld"):
        raise ValueError(f"--noise does nothing with {name}: its step size sets its noise")
    if name == "sghmc":
        return {"friction" if k == "noise" else k: v for k, v in settings.items()}
    return settings


def _first_guess(
    key: PRNGKey, model: Model, name: str, chains: int, settings: dict[str, Any]
) -> FirstStep:
    if name == "psgld":
        raise ValueError("the step size of psgld depends on its own scaling: give --step-size")
    if isinstance(innermost(model.potential), StreamedPosterior):
        raise ValueError("data from a loader have no batch for a guess: give --step-size")
    # A key of its own: chains fold their numbers into the same key.
    own = jax.random.fold_in(key, 2**31 + 1)
    positions = chain_positions(model.potential, model.start, chains)
    first = jax.tree.map(lambda leaf: leaf[0], positions)
    noise = settings.get("noise", DEFAULT_NOISE)
    # Langevin dynamics without momenta has a friction of 1 in the units of c.
    constant = {"sghmc": noise, "sgld": 1.0}.get(name)
    return first_step_size(own, model.potential, first, noise, constant_friction=constant)
