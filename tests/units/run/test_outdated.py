"""Functions that read something that changes: no run uses the program of another one."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler import _async_jit
from tacthmc.potentials import Potential, control_variates, measure_noise
from tacthmc.run._start import check_code, trace_once

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
CENTER = 0.0


def draws(potential, sampler=None):
    sampler = tacthmc.sgnht(0.1) if sampler is None else sampler
    init = jnp.zeros(2)
    return tacthmc.sample(KEY, sampler, potential, init, 200, progress=False).draws


class Settings:
    """An object whose attributes a user changes."""

    center = 0.0

    def energy(self, x):
        return 0.5 * jnp.sum((x - self.center) ** 2)


class Called(Settings):
    """The same as an object that is called, and that equals itself after a change."""

    def __call__(self, x):
        return self.energy(x)


class Own(Potential):
    """A potential of one's own, whose method reads a global."""

    def estimate(self, position, batch, model=None, correction=None):
        return self.full(position)

    def full(self, position):
        energy = 0.5 * jnp.sum((position - CENTER) ** 2)
        return tacthmc.potentials.Energy.all_tempered(energy)


def of_a_global():
    def put(value):
        global CENTER
        CENTER = value

    def energy(x):
        return 0.5 * jnp.sum((x - CENTER) ** 2)

    return tacthmc.potential(energy), put


def of_a_global_compiled_by_the_user():
    potential, put = of_a_global()
    return tacthmc.potential(jax.jit(potential.function)), put


def of_an_attribute():
    settings = Settings()
    return tacthmc.potential(settings.energy), functools.partial(setattr, settings, "center")


def of_an_object():
    settings = Called()
    return tacthmc.potential(settings), functools.partial(setattr, settings, "center")


def of_a_closed_over_array():
    center = np.zeros(2, np.float32)
    potential = tacthmc.potential(lambda x: 0.5 * jnp.sum((x - center) ** 2))
    return potential, functools.partial(np.copyto, center)


def of_a_closed_over_name():
    center = 0.0

    def put(value):
        nonlocal center
        center = value

    return tacthmc.potential(lambda x: 0.5 * jnp.sum((x - center) ** 2)), put


def of_a_default_argument():
    def energy(x, center=[0.0]):  # noqa: B006
        return 0.5 * jnp.sum((x - center[0]) ** 2)

    def put(value):
        energy.__defaults__[0][0] = value

    return tacthmc.potential(energy), put


def of_a_potential_of_ones_own():
    return Own(), of_a_global()[1]


def of_a_likelihood():
    _, put = of_a_global()

    def log_likelihood(theta, x):
        return -0.5 * jnp.sum((x - theta + CENTER) ** 2)

    data = jnp.zeros((20, 2))
    return tacthmc.posterior(lambda theta: -0.05 * jnp.sum(theta**2), log_likelihood, data, 5), put


MAKERS = [
    of_a_global,
    of_a_global_compiled_by_the_user,
    of_an_attribute,
    of_an_object,
    of_a_closed_over_array,
    of_a_closed_over_name,
    of_a_default_argument,
    of_a_potential_of_ones_own,
    of_a_likelihood,
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_change_is_seen(make, monkeypatch):
    cleared = []
    monkeypatch.setattr(_async_jit.jax, "clear_caches", lambda: cleared.append(1))
    potential, put = make()
    seen = []
    for value in (0.0, 0.0, 5.0, 5.0, 0.0):
        put(value)
        trace_once(potential, jnp.zeros(2))
        seen.append(len(cleared))
    assert seen == [0, 0, 1, 1, 2]


def check_draws(make):
    potential, put = make()
    put(0.0)
    first = draws(potential)
    put(5.0)
    second = draws(potential)
    assert not np.array_equal(first, second)
    fresh, put = make()
    put(5.0)
    np.testing.assert_array_equal(second, draws(fresh))


def test_a_change_between_two_runs_counts():
    check_draws(of_a_global_compiled_by_the_user)


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS)
def test_any_change_between_two_runs_counts(make):
    check_draws(make)


def test_a_schedule_that_changes_is_seen(monkeypatch):
    cleared = []
    monkeypatch.setattr(_async_jit.jax, "clear_caches", lambda: cleared.append(1))
    size, seen = {"now": 0.1}, []
    samplers = [
        tacthmc.sgnht(lambda step: size["now"]),
        tacthmc.restarted(tacthmc.sgnht(0.1), 50, lambda key: jnp.full(2, size["now"])),
    ]
    for now in (0.1, 0.1, 0.2):
        size["now"] = now
        for sampler in samplers:
            check_code(sampler, jnp.zeros((1, 2)))
        seen.append(len(cleared))
    assert seen == [0, 0, 2]


@pytest.mark.slow
def test_a_resumed_run_uses_the_function_as_it_is(tmp_path):
    potential, put = of_a_global()
    put(0.0)
    key, sampler, keep = KEY, tacthmc.sgnht(0.1), tacthmc.Keep(after=0)
    for name in ("one", "two"):
        tacthmc.sample(key, sampler, potential, jnp.zeros(2), 200, keep=keep, store=tmp_path / name)
    put(0.0)
    one = tacthmc.resume(tmp_path / "one", num_steps=400, sampler=sampler, potential=potential)
    put(5.0)
    two = tacthmc.resume(tmp_path / "two", num_steps=400, sampler=sampler, potential=potential)
    assert not np.array_equal(one.draws[:, -1], two.draws[:, -1])


@pytest.mark.slow
def test_measures_and_predictions_use_the_function_as_it_is():
    scale = {"now": 1.0}
    data = jnp.linspace(-1.0, 1.0, 20)
    model = tacthmc.posterior(
        lambda m: 0.0 * m, lambda m, x: -0.5 * scale["now"] * (x - m) ** 2, data, 5
    )
    weights = jnp.tile(jnp.array([1.0, -1.0]), (3, 1, 1))

    def logits(w, x):
        return scale["now"] * x @ w

    def measured():
        predictive = tacthmc.predict.Predictive(logits, jnp.ones((4, 1)))
        predictive.add(weights)
        return [
            measure_noise(KEY, model, jnp.array(0.1)).mean_force,
            float(control_variates(model, jnp.array(0.0)).center_energy),
            float(predictive.prediction.probabilities[0, 0]),
            float(tacthmc.predict.averaged(logits, weights, jnp.ones((4, 1)))[0, 0]),
            float(tacthmc.predict.per_draw(logits, weights, jnp.ones((4, 1)))[0][0, 0, 0]),
        ]

    before = measured()
    scale["now"] = 2.0
    after = measured()
    assert all(a != b for a, b in zip(before, after, strict=True))
    np.testing.assert_allclose(after[:2], [4 * before[0], 2 * before[1]], rtol=1e-4)


def test_what_does_not_change_the_operations_compiles_nothing_again(monkeypatch):
    """Data, starts, numbers, counters and new objects of equal value."""
    cleared = []
    monkeypatch.setattr(_async_jit.jax, "clear_caches", lambda: cleared.append(1))
    traces = []
    factor = 2.0

    def log_likelihood(theta, x):
        traces.append(1)  # a counter that is no part of what is computed
        return -0.5 * factor * jnp.sum((x - theta) ** 2)

    def log_prior(theta):
        return -0.5 * jnp.sum(theta**2)

    for number in range(3):
        factor = float(str(factor))
        data = jnp.full((20, 2), number + 0.5)
        model = tacthmc.posterior(log_prior, log_likelihood, data, 5)
        trace_once(model, jnp.full(2, float(number)))
        trace_once(tacthmc.potentials.at_temperature(model, 1.0 + number), jnp.zeros(2))
        check_code(tacthmc.sgnht(0.1 * (number + 1)), jnp.zeros((1, 2)))
    trace_once(tacthmc.posterior(log_prior, log_likelihood, jnp.zeros((30, 2)), 5), jnp.zeros(2))
    assert not cleared
    assert len(traces) >= 7


def test_operations_are_told_apart():
    """Constants, operations and their order, also inside of loops and derivatives."""

    def digest(function):
        return _async_jit._digest(jax.make_jaxpr(function)(jnp.ones(2)))

    several = [
        lambda x: x * 2.0,
        lambda x: x * 3.0,
        lambda x: x + 2.0,
        lambda x: jnp.sin(x) - jnp.cos(x),
        lambda x: jnp.cos(x) - jnp.sin(x),
        lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 2.0, x),
        lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 3.0, x),
        lambda x: jax.lax.fori_loop(0, 4, lambda i, y: y * 3.0, x),
        lambda x: x + np.arange(2.0, dtype=np.float32),
        lambda x: x + np.arange(1.0, 3.0, dtype=np.float32),
        lambda x: x + jax.random.normal(jax.random.key(0), (2,)),
        lambda x: x + jax.random.normal(jax.random.key(1), (2,)),
        jax.vmap(lambda x: jax.nn.softplus(x)),
        jax.vmap(jax.grad(lambda x: jax.nn.softplus(x))),
        eqx.filter_jit(lambda x: x / 3.0),
    ]
    found = [digest(function) for function in several]
    assert len(set(found)) == len(several)
    assert found == [digest(function) for function in several]
