"""A run goes on with the posterior and sampler with which it was begun, or says what differs."""

import json
import shutil
import sys
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tacthmc
from tacthmc.run._fingerprint import fingerprint
from tacthmc.run._same_posterior import different_numbers
from tacthmc.store import _pickles
from tests import stored_run

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY, START = jax.random.key(0), jnp.ones(2)
DATA = np.random.default_rng(0).normal(1.0, 1.0, (40, 2)).astype(np.float32)


def model(data=DATA, scale=1.0, batch_size=10, prior=0.5):
    def log_likelihood(t, x):
        return -0.5 * jnp.sum((x - t) ** 2) / scale

    return tacthmc.posterior(lambda t: -prior * jnp.sum(t**2), log_likelihood, data, batch_size)


SAMPLER = tacthmc.sgnht(1e-3)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("same") / "run"
    tacthmc.sample(KEY, SAMPLER, model(), START, 1_000, store=path)
    return path


@pytest.fixture
def copy(stored, tmp_path):
    return shutil.copytree(stored, tmp_path / "copy")


def one_changed():
    data = DATA.copy()
    data[7, 1] += 1e-3
    return data


CHANGES = {
    "data": ({"potential": model(one_changed())}, r"potential\.data: float32\[40, 2\]"),
    "a closed-over number": ({"potential": model(scale=1.1)}, r"scale: 1\.0 → 1\.1"),
    "a number of the prior": ({"potential": model(prior=0.6)}, r"log_prior\.prior: 0\.5 → 0\.6"),
    "the size of batches": ({"potential": model(batch_size=8)}, r"batch_size: 10 → 8"),
    "a wrapper": (
        {"potential": tacthmc.potentials.at_temperature(model(), 0.9)},
        "potential: Posterior → ",
    ),
    "the step size": ({"sampler": tacthmc.sgnht(2e-3)}, r"step_size: 0\.001 .* → 0\.002"),
    "the friction": ({"sampler": tacthmc.sgnht(1e-3, noise=0.2)}, r"sampler\.injected: 0\.1"),
    "a schedule": ({"sampler": tacthmc.sgnht(lambda k: 1e-3)}, r"sampler\.step_size: 0\.001"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_refused_and_named(copy, name):
    given, why = CHANGES[name]
    before = {f.name: f.read_bytes() for f in copy.iterdir() if f.is_file()}
    for num_steps in (2_000, 1_000):
        with pytest.raises(tacthmc.StoreError, match=rf"begun with something else: .*{why}"):
            tacthmc.resume(copy, num_steps=num_steps, **given)
    after = {f.name: f.read_bytes() for f in copy.iterdir() if f.is_file()}
    assert {n: c for n, c in after.items() if not n.startswith("tacthmc.lock")} == {
        n: c for n, c in before.items() if not n.startswith("tacthmc.lock")
    }


def test_the_same_again_is_not_a_change(stored, copy):
    """Another function of the same code, with other names and comments, after a new start."""

    def log_likelihood(theta, example):
        """With a docstring."""
        # The scale is 1.
        return -0.5 * jnp.sum((example - theta) ** 2) / scale

    scale, prior = 1.0, 0.5
    again = tacthmc.posterior(
        lambda place: -prior * jnp.sum(place**2), log_likelihood, DATA.copy(), 10
    )
    other = tacthmc.resume(copy, num_steps=2_000, sampler=tacthmc.sgnht(1e-3), potential=again)
    whole = tacthmc.sample(KEY, SAMPLER, model(), START, 2_000, keep=tacthmc.Keep(after=100))
    assert np.array_equal(other.draws, whole.draws)


def test_rewritten_code_says_that_the_numbers_agree(copy):
    def log_likelihood(t, x):
        return -jnp.sum(jnp.square(x - t)) / (2.0 * 1.0)

    rewritten = tacthmc.posterior(lambda t: -0.5 * jnp.sum(t**2), log_likelihood, DATA, 10)
    with pytest.raises(tacthmc.StoreError, match=r"its code.*agree to rounding.*changed=True"):
        tacthmc.resume(copy, num_steps=2_000, potential=rewritten)


def test_insisting_is_remembered(copy, monkeypatch):
    """The run goes on with what is new, also when it is resumed again, and says so."""
    new = model(scale=1.5)
    run = tacthmc.resume(copy, num_steps=2_000, potential=new, changed=True)
    for one in (run, tacthmc.load(copy)):
        assert "! from step 1000 on the run went on with something else" in str(one.summary())
        assert "scale: 1.0 → 1.5" in str(one.summary())
    with pytest.raises(tacthmc.StoreError, match=r"scale: 1\.5 → 1\.0"):
        tacthmc.resume(copy, num_steps=3_000, potential=model())
    monkeypatch.setattr(_pickles, "_written", set())
    assert tacthmc.resume(copy, num_steps=3_000, trust=True).num_steps == 3_000
    assert tacthmc.load(copy, trust=True).potential.log_likelihood.__closure__ is not None
    assert len(json.loads((copy / "config.json").read_text())["changes"]) == 1


def _module(text):
    module = types.ModuleType("tests_of_another_day")
    exec(text, module.__dict__)
    return module


def test_a_changed_module(tmp_path, monkeypatch):
    """A pickle names the functions of a module, which may have changed when it is read."""
    source = "import jax.numpy as jnp\nWIDTH = {}\ndef energy(x):\n    return helper(x) / WIDTH\n"
    source += "def helper(x):\n    return {} * jnp.sum(x**2)\n"
    monkeypatch.setitem(sys.modules, "tests_of_another_day", _module(source.format(2.0, 0.5)))
    energy = sys.modules["tests_of_another_day"].energy
    path = tmp_path / "run"
    target = tacthmc.potential(energy)
    tacthmc.sample(KEY, tacthmc.sgnht(0.1), target, START, 500, store=path)
    for width, factor, why in ((3.0, 0.5, r"WIDTH: 2\.0 → 3\.0"), (2.0, 0.7, "helper .its code")):
        changed = _module(source.format(width, factor))
        monkeypatch.setitem(sys.modules, "tests_of_another_day", changed)
        with pytest.raises(tacthmc.StoreError, match=rf"{why}.*energy at the checkpoint of chain"):
            tacthmc.resume(path, num_steps=1_000)
    monkeypatch.setitem(sys.modules, "tests_of_another_day", _module(source.format(2.0, 0.5)))
    assert tacthmc.resume(path, num_steps=1_000).num_steps == 1_000


def test_what_no_fingerprint_sees_the_energy_does(tmp_path, monkeypatch):
    """Something that is installed is compared by its name only."""
    secret = types.ModuleType("installed")
    secret.__file__ = "/lib/site-packages/installed.py"
    exec("def energy(x):\n    return (x * x).sum()", secret.__dict__)
    monkeypatch.setitem(sys.modules, "installed", secret)
    assert secret.energy.__module__ == "installed"
    path, target = tmp_path / "run", tacthmc.potential(secret.energy)
    tacthmc.sample(KEY, tacthmc.sgnht(0.1), target, START, 500, store=path)
    exec("def energy(x):\n    return 1.01 * (x * x).sum()", secret.__dict__)
    with pytest.raises(tacthmc.StoreError, match=r"something else: energy at the checkpoint"):
        tacthmc.resume(path, num_steps=1_000, potential=tacthmc.potential(secret.energy))


def test_another_python_compares_values_but_no_code(copy):
    content = json.loads((copy / "posterior.json").read_text())
    parts = {n: "code of old" if v.startswith("code ") else v for n, v in content["parts"].items()}
    (copy / "posterior.json").write_text(json.dumps({"python": "3.10", "parts": parts}))
    with pytest.raises(tacthmc.StoreError, match=r"scale: 1\.0 → 1\.2"):
        tacthmc.resume(copy, num_steps=2_000, potential=model(scale=1.2))
    assert tacthmc.resume(copy, num_steps=2_000, potential=model()).num_steps == 2_000


def test_fingerprints_look_into_things():
    class Layer(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            return self.weight * x

    array = np.arange(3.0)
    assert fingerprint(a=array) != fingerprint(a=array + 1)
    assert fingerprint(a=array) != fingerprint(a=array.astype(np.float32))
    assert fingerprint(f=Layer(jnp.ones(2))) != fingerprint(f=Layer(jnp.zeros(2)))
    assert fingerprint(f=jax.jit(lambda x: x + 1)) != fingerprint(f=jax.jit(lambda x: x + 2))
    assert fingerprint(f=lambda x, y=1: x) != fingerprint(f=lambda x, y=2: x)
    assert fingerprint(f={"b", "a", "c"}) == fingerprint(f={"c", "b", "a"})
    # A package's function closes over the user's number.
    assert fingerprint(s=optax.adam(1e-3)) != fingerprint(s=optax.adam(2e-3))
    assert fingerprint(s=optax.adam(1e-3)) == fingerprint(s=optax.adam(1e-3))
    itself = []
    itself.append(itself)
    assert "itself" in fingerprint(f=itself).values()

    def recursive(n):
        return 1 if n == 0 else n * recursive(n - 1)

    assert fingerprint(f=recursive) == fingerprint(f=recursive)


def test_a_fingerprint_survives_a_pickle():
    import pickle

    import cloudpickle

    for potential in (
        model(),
        stored_run.POTENTIAL,
        tacthmc.potentials.at_temperature(model(), 0.5),
    ):
        again = pickle.loads(cloudpickle.dumps(potential))
        assert fingerprint(p=potential) == fingerprint(p=again)


@pytest.mark.parametrize(
    ("change", "device", "same"),
    [(1e-5, "cpu", True), (5e-3, "cpu", False), (5e-3, "gpu", True), (5e-2, "gpu", False)],
)
def test_rounding(change, device, same):
    before = {"device": "cpu", "precision": "float32", "energy": [10.0], "position": [1.0]}
    before |= {"gradient": [1.0], "projection": [0.5]}
    after = before | {"device": device, "energy": [10.0 * (1 + change)]}
    assert (not different_numbers(before, after)) is same


def test_numbers_that_are_not_finite():
    nan = float("nan")
    before = {"device": "cpu", "precision": "float32", "energy": [nan], "position": [nan]}
    before |= {"gradient": [nan], "projection": [nan]}
    assert not different_numbers(before, before)
    assert different_numbers(before, before | {"energy": [1.0]})
