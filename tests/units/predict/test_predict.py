"""Predictions averaged over draws, and their scores, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import predict
from tacthmc.paper.networks import mlp
from tacthmc.potentials import subset

pytestmark = pytest.mark.usefixtures("quick_compilation")

# Three examples, three classes; the right classes are 0, 1, 2.
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25], [0.0, 0.05, 0.95]])
LABELS = np.array([0, 1, 2])


def test_scores_by_hand():
    assert predict.accuracy(PROBABILITIES, LABELS) == pytest.approx(2 / 3)
    expected = -(np.log(0.7) + np.log(0.25) + np.log(0.95)) / 3
    assert predict.log_loss(PROBABILITIES, LABELS) == pytest.approx(expected)
    # 0.09 + 0.04 + 0.01; 0.25 + 0.5625 + 0.0625; 0 + 0.0025 + 0.0025.
    assert predict.brier(PROBABILITIES, LABELS) == pytest.approx((0.14 + 0.875 + 0.005) / 3)
    # Confidences 0.7 (right), 0.5 (wrong), 0.95 (right), each alone in its bin of 0.1; with two
    # bins 0.5 belongs to the lower one, (0, 0.5].
    ten = (0.3 + 0.5 + 0.05) / 3
    assert predict.calibration_error(PROBABILITIES, LABELS, bins=10) == pytest.approx(ten)
    two = predict.reliability(PROBABILITIES, LABELS, bins=2)
    assert two.share == pytest.approx([1 / 3, 2 / 3])
    assert two.confidence == pytest.approx([0.5, 0.825])
    assert two.accuracy == pytest.approx([0.0, 1.0])
    assert two.error == pytest.approx(0.5 / 3 + 0.175 * 2 / 3)
    assert predict.log_loss([[1.0, 0.0]], [1]) == np.inf


def test_uncertainty_by_hand():
    """Two draws that contradict each other, and two that agree to be unsure."""
    mean = np.array([[0.5, 0.5], [0.5, 0.5]])
    found = predict.mutual_information(mean, np.array([0.0, np.log(2)]))
    assert found == pytest.approx([np.log(2), 0.0])
    assert predict.entropy(PROBABILITIES)[1] == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(4))
    # Rounding must not make a disagreement negative.
    assert predict.mutual_information([[1.0, 0.0]], np.array([1e-9])) == 0


def test_auroc_against_all_pairs():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 6, 40) / 5, rng.integers(2, 8, 30) / 5
    pairs = outside[None] - inside[:, None]
    expected = np.mean(pairs > 0) + 0.5 * np.mean(pairs == 0)
    assert predict.auroc(inside, outside) == pytest.approx(expected)
    assert predict.auroc([0.0], [1.0]) == 1
    with pytest.raises(ValueError, match="inside must be a vector of finite scores"):
        predict.auroc([np.nan], [1.0])


def test_out_of_distribution_by_either_score():
    agree = predict.Prediction(np.array([[0.9, 0.1]]), predict.entropy([[0.9, 0.1]]), 1)
    differ = predict.Prediction(np.array([[0.9, 0.1]]), np.array([0.0]), 1)
    assert predict.out_of_distribution(agree, differ) == 0.5
    assert predict.out_of_distribution(agree, differ, "mutual information") == 1


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (PROBABILITIES, LABELS[:2], "labels must be 3 whole numbers"),
        (PROBABILITIES, LABELS / 1, "labels must be 3 whole numbers"),
        (PROBABILITIES, LABELS + 1, "labels must be 0 to 2"),
        (2 * PROBABILITIES, LABELS, "sum to 1"),
        (PROBABILITIES[0], LABELS, r"shape \(examples, classes\)"),
    ],
)
def test_bad_probabilities_and_labels(probabilities, labels, message):
    for score in (predict.accuracy, predict.log_loss, predict.brier, predict.calibration_error):
        with pytest.raises(ValueError, match=message):
            score(probabilities, labels)


MODEL = mlp(inputs=4, hidden=3, classes=3)


@pytest.fixture(scope="module")
def draws():
    made = jax.vmap(MODEL.init)(jax.random.split(jax.random.key(0), 7))
    return jax.tree.map(lambda x: np.asarray(3 * x), made)


@pytest.fixture(scope="module")
def inputs():
    return jax.random.normal(jax.random.key(1), (11, 4))


def by_hand(draws, inputs, weights):
    def one(k):
        draw = jax.tree.map(lambda x: jnp.asarray(x[k]), draws)
        return np.asarray(jax.nn.softmax(MODEL.logits(draw, inputs)), float)

    each = np.stack([one(k) for k in range(len(weights))])
    entropies = -np.sum(each * np.log(each), axis=2)
    return np.average(each, 0, weights), np.average(entropies, 0, weights)


@pytest.mark.parametrize(("batch_size", "draws_at_once"), [(4, 1), (11, 3), (100, 7)])
def test_a_running_average(draws, inputs, batch_size, draws_at_once):
    weights = np.array([1.0, 2.0, 0.0, 1.0, 0.5, 3.0, 1.0])
    predictive = predict.Predictive(
        MODEL, inputs, batch_size=batch_size, draws_at_once=draws_at_once
    )
    for part in (slice(0, 1), slice(1, 5), slice(5, 7)):
        some = jax.tree.map(lambda x, p=part: x[p], draws)
        predictive.add(some, weights=weights[part])
    found, (probabilities, entropies) = predictive.prediction, by_hand(draws, inputs, weights)
    assert np.allclose(found.probabilities, probabilities, atol=1e-6)
    assert np.allclose(found.expected_entropy, entropies, atol=1e-6)
    assert found.weight == weights.sum()
    assert np.all(found.mutual_information > 0)


def test_chains_of_their_own_and_together(draws, inputs):
    predictive = predict.Predictive(MODEL, inputs, per_chain=True)
    parts = {0: slice(0, 2), 3: slice(2, 7)}
    for chain, part in parts.items():
        predictive.add(jax.tree.map(lambda x, p=part: x[p], draws), chain=chain)
    assert set(predictive.chains) == {0, 3}
    for chain, part in parts.items():
        some = jax.tree.map(lambda x, p=part: x[p], draws)
        expected = by_hand(some, inputs, np.ones(part.stop - part.start))[0]
        assert np.allclose(predictive.chains[chain].probabilities, expected, atol=1e-6)
    assert np.allclose(
        predictive.prediction.probabilities, by_hand(draws, inputs, np.ones(7))[0], atol=1e-6
    )


def test_what_cannot_be_averaged(draws, inputs):
    predictive = predict.Predictive(MODEL, inputs)
    with pytest.raises(ValueError, match="no draws"):
        _ = predictive.prediction
    with pytest.raises(ValueError, match="leading axis of draws"):
        predictive.add({"a": np.zeros(3), "b": np.zeros(2)})
    with pytest.raises(ValueError, match="weights must be 7 finite numbers"):
        predictive.add(draws, weights=np.full(7, np.nan))
    with pytest.raises(ValueError, match="inputs is empty"):
        predict.Predictive(MODEL, inputs[:0])
    with pytest.raises(ValueError, match=r"shape \(11, classes\)"):
        predict.Predictive(lambda draw, x: x[:, 0], inputs).add(draws)


def posterior():
    rng = np.random.default_rng(0)
    data = (jnp.asarray(rng.normal(size=(40, 2)), jnp.float32), jnp.asarray(rng.integers(0, 3, 40)))

    def likelihood(params, example):
        x, y = example
        return jax.nn.log_softmax(params["w"] @ x + params["b"])[y]

    def prior(params):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    return tacthmc.posterior(prior, likelihood, data, 8)


START = {"w": jnp.zeros((3, 2)), "b": jnp.zeros(3)}
POINTS = jnp.asarray(np.random.default_rng(1).normal(size=(9, 2)), jnp.float32)


def linear(params, x):
    return x @ params["w"].T + params["b"][None]


POSTERIOR, SAMPLER = posterior(), tacthmc.tact(1e-3)


def run(callbacks=(), keep=None, potential=POSTERIOR, start=START, sampler=SAMPLER, **more):
    keep = tacthmc.Keep(every=5, after=100, **(keep or {}))
    return tacthmc.sample(
        jax.random.key(0),
        sampler,
        potential,
        start,
        1_500,
        2,
        keep=keep,
        callbacks=callbacks,
        **more,
    )


def test_of_a_run_as_it_goes_in_memory_and_on_disk(tmp_path):
    """The same prediction from a callback, a finished run, one on disk, and a forgotten one."""
    live = predict.Predictive(linear, POINTS, per_chain=True)
    made = run([live])
    assert len(set(made.counts)) > 1, "chains reach the plateau at times of their own"
    expected = np.concatenate(
        [np.asarray(jax.nn.softmax(jax.vmap(linear, (0, None))(d, POINTS))) for d in made.all_draws]
    ).mean(axis=0)
    finished = predict.over_run(made, linear, POINTS, per_chain=True, block=7)
    folder = tmp_path / "run"
    stored = predict.Predictive(linear, POINTS)
    run([stored], store=folder)
    loaded = predict.over_run(tacthmc.load(folder), linear, POINTS, draws_at_once=5)
    forgotten = predict.Predictive(linear, POINTS)
    nothing = run([forgotten], {"forget": True})
    for found in (live, finished, stored, loaded, forgotten):
        assert np.allclose(found.prediction.probabilities, expected, atol=1e-5)
        assert found.prediction.weight == made.counts.sum()
    assert [p.weight for p in live.chains.values()] == made.counts.tolist()
    assert nothing.counts.tolist() == [0, 0]
    assert np.array_equal(nothing.trace["energy"], made.trace["energy"])
    assert "plateau share" in str(nothing.summary())
    with pytest.raises(ValueError, match="no draws"):
        predict.over_run(nothing, linear, POINTS)


def test_weighted_draws_need_the_end_of_the_run():
    live = predict.Predictive(linear, POINTS)
    with pytest.raises(ValueError, match="weights only at the end of the run"):
        run([live], {"temperatures": "all"})
    made = run(keep={"temperatures": "all"})
    found = predict.over_run(made, linear, POINTS).prediction
    expected = made.expectation(lambda p: jax.nn.softmax(linear(p, POINTS)))
    assert np.allclose(found.probabilities, expected, atol=1e-5)


def test_of_a_subset():
    some, start = subset(POSTERIOR, START, {"w": True, "b": False})
    made = run(potential=some, start=start, sampler=tacthmc.sgnht(1e-3))
    found = predict.over_run(made, linear, POINTS).prediction
    expected = made.expectation(lambda p: jax.nn.softmax(linear(p, POINTS)))
    assert np.allclose(found.probabilities, expected, atol=1e-5)


def test_of_a_model_with_a_state(draws):
    def logits(draw, x, state):
        return state * x @ draw["out.weight"].T

    states, ones = np.arange(7.0, dtype=np.float32), np.ones((2, 3), np.float32)
    predictive = predict.Predictive(logits, ones)
    predictive.add(draws, states=states)
    each = [jax.nn.softmax(states[k] * ones @ draws["out.weight"][k].T) for k in range(7)]
    assert np.allclose(predictive.prediction.probabilities, np.mean(each, axis=0), atol=1e-6)


def test_a_picture():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(4), 200)
    found = predict.reliability(probabilities, probabilities.argmax(axis=1))
    ax = predict.plot_reliability(found)
    assert ax.get_xlabel() == "confidence"
    line = ax.get_lines()[1]
    assert np.allclose(line.get_ydata(), 1)
    import matplotlib.pyplot as plt

    plt.close(ax.figure)


def test_few_programs_for_all_blocks(draws, inputs):
    traces = []

    def counted(params, x):
        traces.append(1)
        return MODEL.logits(params, x)

    predictive = predict.Predictive(counted, inputs, batch_size=11, draws_at_once=4)
    for count in (7, 1, 3, 5, 2, 6, 4):
        predictive.add(jax.tree.map(lambda x, c=count: x[:c], draws))
    # Blocks of 4, of 2 and of 1: one draw is not evaluated four times. Once more to see whether the
    # function is still the same.
    assert len(traces) == 3 + 1
    assert predictive.prediction.weight == 28
