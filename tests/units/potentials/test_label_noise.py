"""Labels that change: how many, when, which, and that nothing else changes."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

import tacthmc
from tacthmc.potentials import label_noise
from tests.budget import PER_CHECK

pytestmark = pytest.mark.usefixtures("quick_compilation")

N, BATCH = 23, 5
LABELS = jnp.arange(N, dtype=jnp.uint8)


def log_prior(theta):
    return -0.5 * jnp.sum(theta**2)


def log_likelihood(theta, example):
    x, y = example
    return -0.5 * jnp.sum((x + 0.1 * y.astype(theta.dtype) - theta) ** 2)


def clean(batches="replacement", labels=LABELS):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(labels.shape[0], 2)), jnp.float32)
    return tacthmc.posterior(
        log_prior,
        log_likelihood,
        (x, labels),
        min(BATCH, labels.shape[0]),
        batches=batches,
    )


def steps(potential, count, seed=0):
    """The batches of one chain, and their labels' memory."""
    keys = jax.random.split(jax.random.key(seed), count + 1)

    def one(memory, key):
        after, selection = batches.select(memory, key, jnp.zeros(2))
        return after, (memory, selection, batches.fetch(selection))

    batches = potential.batches
    return jax.lax.scan(one, batches.init(keys[0]), keys[1:])[1]


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize("batches", ["replacement", "epochs"])
def test_labels_last_an_epoch(batches):
    potential = label_noise(clean(batches), 0.5)
    memory, (chosen, _), (x, y) = steps(potential, 60)
    labels = np.asarray(memory.labels)
    # With replacement ⌈23/5⌉ = 5 steps; else whenever 23 more examples have been seen.
    seen = BATCH * np.arange(60)
    epoch = np.arange(60) // 5 if batches == "replacement" else seen // N
    for e in range(epoch.max() + 1):
        rows = labels[epoch == e]
        assert np.array_equal(rows, np.broadcast_to(rows[0], rows.shape))
        # Half of them changed places, except for those that came back to their own.
        assert sorted(rows[0]) == list(range(N))
        assert 6 <= (rows[0] != np.arange(N)).sum() <= 12
    firsts = {tuple(labels[epoch == e][0]) for e in range(epoch.max() + 1)}
    assert len(firsts) == epoch.max() + 1
    assert y.dtype == jnp.uint8
    for row, places, seen_labels in zip(labels, np.asarray(chosen), np.asarray(y), strict=True):
        assert np.array_equal(row[places], seen_labels)
    # Everything else is as without noise: the same batches under the same keys.
    _, indices, (x_clean, y_clean) = steps(clean(batches), 60)
    assert np.array_equal(indices, chosen)
    assert np.array_equal(x, x_clean)
    assert not np.array_equal(y, y_clean)


@pytest.mark.parametrize("kind", ["permutation", "random per batch"])
def test_no_share_is_no_noise(kind):
    potential = label_noise(clean(), 0.0, kind)
    assert np.array_equal(steps(potential, 20)[2][1], steps(clean(), 20)[2][1])


def test_every_permutation_of_every_choice_is_as_likely():
    """3 of 4 labels: 4 choices with 6 orders each, of which some are the same arrangement."""
    labels = jnp.arange(4, dtype=jnp.int32)
    potential = label_noise(clean(labels=labels), 0.75)
    keys = jax.random.split(jax.random.key(1), 24_000)
    drawn = np.asarray(jax.jit(jax.vmap(potential.batches.init))(keys).labels)
    expected = dict.fromkeys(permutations(range(4)), 0.0)
    for left in range(4):
        others = [i for i in range(4) if i != left]
        for order in permutations(others):
            arrangement = list(range(4))
            for place, label in zip(others, order, strict=True):
                arrangement[place] = label
            expected[tuple(arrangement)] += 1 / 24
    counts = dict.fromkeys(expected, 0)
    for row in drawn:
        counts[tuple(row.tolist())] += 1
    possible = [a for a in expected if expected[a]]
    assert all(counts[a] == 0 for a in expected if not expected[a])
    found = chisquare([counts[a] for a in possible], [len(keys) * expected[a] for a in possible])
    assert found.pvalue > PER_CHECK


def test_random_labels_per_batch():
    potential = label_noise(clean(), 0.4, "random per batch", classes=50)
    _, (_, wrong, others), (_, y) = steps(potential, 2000)
    wrong, others, y = np.asarray(wrong), np.asarray(others), np.asarray(y)
    assert set(wrong.sum(axis=1)) == {2}
    right = np.asarray(steps(clean(), 2000)[2][1])
    assert np.array_equal(y, np.where(wrong, others, right))
    assert chisquare(np.bincount(others[wrong], minlength=50)).pvalue > PER_CHECK
    assert chisquare(wrong.sum(axis=0)).pvalue > PER_CHECK
    assert label_noise(clean(), 0.4, "random per batch").classes == N


def test_the_energy_that_is_sampled_on_average():
    """(1 − s)·right labels + s·labels by their frequencies, as the module says."""
    labels = jnp.asarray([0, 0, 1, 2, 2, 2], jnp.int32)
    data = (jnp.arange(6, dtype=jnp.float32), labels)

    def likelihood(theta, example):
        x, y = example
        return jax.nn.log_softmax(theta * (1 + x))[y]

    potential = tacthmc.posterior(lambda theta: -jnp.sum(theta**2), likelihood, data, 6)
    theta, share = jnp.asarray([0.3, -0.2, 0.5]), 0.5
    each = np.array(
        [[likelihood(theta, (x, jnp.asarray(c))) for c in range(3)] for x in data[0]], float
    )
    frequencies = {"permutation": np.array([2, 1, 3]) / 6, "random per batch": np.ones(3) / 3}
    for kind, shares in frequencies.items():
        noisy = label_noise(potential, share, kind)

        def estimate(key, noisy=noisy):
            return noisy.estimate(theta, noisy.batch(key, theta)).total

        values = jax.jit(jax.vmap(estimate))(jax.random.split(jax.random.key(2), 20_000))
        values = np.asarray(values, float)
        own = each[np.arange(6), np.asarray(labels)]
        others = each @ shares
        if kind == "permutation":
            # Of 3 labels that change places, one in three meets its own again.
            others = own / 3 + 2 / 3 * (6 * others - own) / 5
        mixed = (1 - share) * own + share * others
        expected = float(jnp.sum(theta**2)) - mixed.sum()
        assert abs(values.mean() - expected) < 6 * values.std() / np.sqrt(len(values))


SAMPLER = tacthmc.sgld(1e-3)
EVERY_TENTH = tacthmc.Keep(every=10, after=0)


def run(potential, steps=60, chains=2, keep=EVERY_TENTH, store=None):
    key, start = jax.random.key(0), jnp.zeros(2)
    return tacthmc.sample(key, SAMPLER, potential, start, steps, chains, keep=keep, store=store)


def test_another_share_is_the_same_program():
    traces = []
    plain = clean()

    def counted(theta, example):
        traces.append(1)
        return log_likelihood(theta, example)

    inner = tacthmc.posterior(log_prior, counted, plain.data, BATCH)
    draws, counts = [], []
    for share in (0.2, 0.2, 0.9):
        draws.append(run(label_noise(inner, share)).draws)
        counts.append(len(traces))
    # Before a run the potential is looked at; compiling would add more.
    first, again, other = np.diff([0, *counts])
    assert first > again == other
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


@pytest.mark.parametrize(
    ("batches", "kind"),
    [
        ("epochs", "permutation"),
        slow("replacement", "permutation"),
        slow("epochs", "random per batch"),
    ],
)
def test_resumed_is_uninterrupted(batches, kind, tmp_path):
    potential = label_noise(clean(batches), 0.5, kind)
    run(potential, store=tmp_path / "run")
    longer = tacthmc.resume(tmp_path / "run", num_steps=130)
    assert np.array_equal(longer.draws, run(potential, 130).draws)
    # Chains have labels of their own.
    assert not np.array_equal(*longer.draws)


def test_no_energy_to_weigh_draws_with():
    potential = label_noise(clean(), 0.5)
    with pytest.raises(ValueError, match="full-data energy, which this potential does not have"):
        run(potential, keep=tacthmc.Keep(temperatures="all"))
    with pytest.raises(ValueError, match="no full-data energy"):
        potential.energy(jnp.zeros(2))
    assert np.isfinite(potential.inner.energy(jnp.zeros(2)))


@pytest.mark.parametrize(
    ("arguments", "more", "error", "message"),
    [
        ((clean(), 1.5), {}, ValueError, "share must be a number from 0 to 1; got 1.5"),
        ((clean(), 0.2), {"labels": lambda d: d[0]}, ValueError, "a label for each of 23"),
        ((clean(), 0.2), {"labels": lambda d: d["y"]}, ValueError, "labels must pick"),
        ((clean(), 0.2), {"classes": 3}, ValueError, "classes must be left out"),
        (
            (tacthmc.potentials.at_temperature(clean(), 0.5), 0.2),
            {},
            TypeError,
            "potential must be made by",
        ),
        ((clean(labels=jnp.zeros(6)), 0.2), {}, TypeError, "labels must be integers"),
    ],
)
def test_bad_arguments(arguments, more, error, message):
    with pytest.raises(error, match=message):
        label_noise(*arguments, **more)


@pytest.mark.parametrize("kind", ["permutation", slow("random per batch")])
def test_each_chain_may_have_its_own_share(kind):
    """Chains of one program, each as in a run in which all have its share."""
    inner, shares = clean(), [0.0, 0.5, 1.0]

    def draws(share):
        return np.asarray(run(label_noise(inner, share, kind), chains=3).draws)

    together = draws(shares)
    for chain, share in enumerate(shares):
        assert np.array_equal(together[chain], draws(share)[chain])


def test_shares_are_as_many_as_chains():
    potential = label_noise(clean(), [0.0, 0.5])
    with pytest.raises(ValueError, match="num_chains is 3, but the potential has numbers for 2"):
        run(potential, chains=3)
    with pytest.raises(ValueError, match="a share of wrong labels for each chain"):
        potential.batches.init(jax.random.key(0))
    with pytest.raises(ValueError, match="share must be a number from 0 to 1; got None"):
        label_noise(clean(), [])


def labeled(labels):
    def log_likelihood(theta, example):
        return jax.nn.log_softmax(theta)[example[1]]

    data = (jnp.zeros((4, 1)), jnp.asarray(labels))
    return tacthmc.posterior(lambda theta: -jnp.sum(theta**2), log_likelihood, data, 2)


def test_labels_are_classes():
    with pytest.raises(ValueError, match="labels must be whole numbers from 0; got -1"):
        label_noise(labeled([0, 1, 2, -1]), 0.5)
    with pytest.raises(ValueError, match="classes must be more than the largest label, 2"):
        label_noise(labeled([0, 1, 2, 2]), 0.5, "random per batch", classes=2)
