"""Numbers keep their values, or a warning or an error says that they do not."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import _checks as checks
from tacthmc.potentials import PrecisionWarning

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)


def log_likelihood(theta, x):
    return -0.5 * jnp.sum((x - theta) ** 2)


def posterior(data):
    return tacthmc.posterior(lambda theta: -0.5 * jnp.sum(theta**2), log_likelihood, data, 2)


def quadratic(x):
    return 0.5 * sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(x))


def run(potential=None, init=0.0, **more):
    target = tacthmc.potential(quadratic) if potential is None else potential
    return tacthmc.sample(KEY, tacthmc.sgnht(0.01), target, init, 100, progress=False, **more)


def test_data_in_double_precision_are_used_in_single_precision_with_a_word():
    with pytest.warns(PrecisionWarning, match=r"data\['x'\] is float64 and is used as float32"):
        posterior({"x": np.arange(5.0)})


def test_positions_in_another_precision_are_used_in_single_precision_with_a_word():
    with pytest.warns(PrecisionWarning, match="leaf 'b' is float64 and is used as float32"):
        run(init={"b": np.zeros(2)})
    with pytest.warns(PrecisionWarning, match="leaf 'theta' is bfloat16 and is used as float32"):
        found = run(init=jnp.zeros(2, jnp.bfloat16))
    assert found.draws.dtype == np.float32


def test_the_warning_points_to_the_users_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(init=np.zeros(2))
        posterior(np.arange(5.0))
    assert [each.filename for each in caught] == [__file__] * 2


def test_a_loader_in_double_precision_gets_one_word():
    batches = [np.full(2, float(k)) for k in range(5)]
    model = tacthmc.streamed(lambda m: -0.5 * m**2, log_likelihood, batches, 10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(model)
    assert [each.category for each in caught] == [PrecisionWarning]


@pytest.mark.parametrize("init", [0.0, [0.0, 1.0], np.zeros(2, np.float32), jnp.zeros(2)])
def test_pythons_own_numbers_and_single_precision_need_no_word(init):
    run(init=init)


def test_double_precision_stays_double():
    with jax.enable_x64(True):
        assert posterior(np.arange(5.0)).data.dtype == jnp.float64
        assert run(init=np.zeros(2)).draws.dtype == np.float64


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (np.array([1, 2**40, 3]), r"data must have numbers that int32 can hold; got 1099511627776"),
        (np.array([1, -(2**31) - 1]), r"int32 can hold; got -2147483649"),
        (np.array([1, 2**32], np.uint64), r"uint32 can hold; got 4294967296"),
        (np.array([1.0, 1e39]), r"data must have numbers that float32 can hold; got 1e\+39"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        posterior(numbers)
    loader = [numbers] * 3
    with pytest.raises(ValueError, match=message.replace("data", "loader")):
        run(tacthmc.streamed(lambda m: -0.5 * m**2, log_likelihood, loader, 6))


def test_integers_that_fit_are_the_same_integers():
    data = posterior(np.array([1, 2**31 - 1, -(2**31)])).data
    assert data.tolist() == [1, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize(
    "data",
    [
        np.array(["a", "b"]),
        np.array([1.0, None], object),
        {"x": np.zeros(2, np.float32), "y": np.array(["a", "b"])},
        np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
    ],
)
def test_data_that_are_no_numbers_are_refused_by_name(data):
    with pytest.raises(TypeError, match=r"data.* must be an array of numbers; got an array"):
        posterior(data)


def test_keys_of_several_types_are_refused():
    mixed = {"a": jnp.zeros(2), 1: jnp.zeros(2)}
    with pytest.raises(TypeError, match="data has a dictionary whose keys are of several types"):
        posterior(mixed)
    with pytest.raises(TypeError, match="position has a dictionary whose keys are of several"):
        run(init=mixed)


@pytest.mark.parametrize("make", [tacthmc.tact, tacthmc.sgnht, tacthmc.sghmc, tacthmc.sgld])
def test_a_step_that_single_precision_cannot_hold_is_refused(make):
    with pytest.raises(ValueError, match=r"step_size must be .* float32 can hold.*1e-40"):
        make(1e-40)
    with jax.enable_x64(True):
        make(1e-40)


@pytest.mark.parametrize("size", [1j, None, "0.1", True, [], [0.1, [0.2]], np.array([0.1, 0.2])])
def test_a_number_must_be_one_real_number(size):
    with pytest.raises(TypeError, match="step_size must be a finite number > 0; got"):
        checks.positive("step_size", size)


@pytest.mark.parametrize("key", [0, None, "a", jnp.zeros(2), np.zeros((2, 2), np.uint32)])
def test_a_key_must_be_a_key(key):
    # Directly, because the types of ``sample`` are checked first in tests.
    with pytest.raises(TypeError, match=r"key must be a JAX key, such as jax.random.key\(0\); got"):
        checks.key("key", key)


def test_the_words_of_an_old_key_are_a_key():
    old = jax.random.PRNGKey(0)
    found = tacthmc.sample(old, tacthmc.sgnht(0.01), tacthmc.potential(quadratic), 0.0, 100)
    np.testing.assert_array_equal(found.draws, run().draws)


def test_callbacks_cannot_change_what_is_kept():
    def overwrite(snapshot):
        for kept in snapshot.draws.values():
            kept.position[:] = 7.0

    with pytest.raises(ValueError, match="read-only"):
        run(callbacks=[overwrite])

    def overwrite_rows(snapshot):
        snapshot.rows["energy"][:] = 7.0

    with pytest.raises(ValueError, match="read-only"):
        run(callbacks=[overwrite_rows])


@pytest.mark.parametrize(
    "sampler",
    [
        tacthmc.cyclical(0.1, cycle_steps=50),
        tacthmc.restarted(tacthmc.sgnht(0.1), 50, lambda key: jax.random.normal(key, ())),
    ],
)
def test_draws_without_a_known_temperature_cannot_all_be_kept(sampler):
    keep = tacthmc.Keep(temperatures="all")
    with pytest.raises(ValueError, match=r"Keep\.temperatures='all' weighs draws by"):
        tacthmc.sample(KEY, sampler, tacthmc.potential(quadratic), 0.0, 100, keep=keep)
