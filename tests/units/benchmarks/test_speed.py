"""The cases of ``python -m benchmarks speed`` on tiny sizes; no test depends on how fast."""

import builtins
import importlib
import json
import math
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from benchmarks.speed import (
    bare,
    blackjax_loops,
    clock,
    contestants,
    growth,
    mixture,
    networks,
    overhead,
    plain,
    torch_networks,
    torch_tact,
)
from benchmarks.speed.catalog import CASES
from benchmarks.speed.clock import Contestant, Lap, Ready, Skipped
from benchmarks.speed.problems import SHAPES, Problem, problem
from tacthmc.dynamics import PowerCoupling

pytestmark = pytest.mark.usefixtures("quick_compilation")

SMALL = {
    "mixture": replace(
        mixture.QUICK, chains=2, seconds=1e-3, blackjax_steps=100, heats=1, repeats=2
    ),
    "networks": replace(
        networks.QUICK, networks=(("mlp", 4),), chains=(2,), num_data=8, seconds=1e-3, repeats=1
    ),
    "overhead": replace(
        overhead.QUICK, networks=(("mlp", 4),), chains=(2,), num_data=8, seconds=1e-3, repeats=1
    ),
    "growth": replace(
        growth.QUICK,
        dimensions=(1, 20),
        chains=(2,),
        keep_every=(50,),
        kept_chains=2,
        seconds=1e-3,
        repeats=1,
    ),
}


def missing(monkeypatch, *names):
    """As if these packages were not installed."""
    found, loaded = builtins.__import__, importlib.import_module

    def guarded(import_it, name, *rest, **more):
        if name.split(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return import_it(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", partial(guarded, found))
    monkeypatch.setattr(importlib, "import_module", partial(guarded, loaded))


# --- The clock.


def test_contestants_take_turns_and_one_that_fails_stops_nobody():
    order = []

    def lap(name, work):
        order.append(name)
        if name == "falls" and order.count(name) == 2:
            raise FloatingPointError("not finite")
        return Lap(2.0, work)

    def absent():
        raise Skipped("not installed: pip install it")

    def broken():
        raise RuntimeError("no idea")

    contestants = [
        Contestant("ours", lambda: Ready(lambda: lap("ours", 8.0), 1.5, {"steps": 4})),
        Contestant("falls", lambda: Ready(lambda: lap("falls", 2.0))),
        Contestant("theirs", lambda: Ready(lambda: lap("theirs", 2.0))),
        Contestant("absent", absent),
        Contestant("broken", broken),
    ]
    said = []
    ready, without = clock.made_ready(contestants, said.append)
    assert without == {
        "absent": {"skipped": "not installed: pip install it"},
        "broken": {"failed": "RuntimeError: no idea"},
    }
    assert any("pip install it" in text for text in said)
    results = clock.by_turns(ready, 3, said.append) | without
    assert order == ["ours", "falls", "theirs"] * 2 + ["ours", "theirs"]
    assert results["ours"]["rate"] == {"median": 4.0, "min": 4.0, "max": 4.0}
    assert results["ours"]["compile_seconds"] == 1.5
    assert results["ours"]["steps"] == 4
    assert results["falls"] == {"failed": "FloatingPointError: not finite"}
    pair = clock.ratio(results, "ours", "theirs")
    assert (pair["ratio"], pair["by_round"]["median"]) == (4.0, 4.0)
    assert "pip install it" in clock.ratio(results, "ours", "absent")["skipped"]
    assert "not measured" in clock.ratio(results, "nobody", "ours")["skipped"]


@pytest.mark.parametrize("start", [0.0, 0.1])
def test_the_number_of_steps_is_found_in_spite_of_fixed_costs(start):
    asked = []

    def go(steps):
        asked.append(steps)
        return start + steps * 1e-4

    steps = clock.enough(go, 2.0, 50)
    assert steps % 50 == 0
    assert 0.6 * 2.0 <= start + steps * 1e-4 <= 1.4 * 2.0
    assert len(asked) < 8


# --- Peers' updates.


@pytest.mark.parametrize("way", blackjax_loops.WAYS, ids=blackjax_loops.way_name)
def test_every_way_to_write_blackjax_samples_a_gaussian(way):
    kernel = blackjax_loops.kernel("sgnht", lambda x: 0.5 * jnp.sum(x**2), force_noise=1.0)
    chain = jax.jit(jax.vmap(blackjax_loops.loop(kernel, way, 5_000, 50)))
    kept = chain(jax.random.split(jax.random.key(0), 32), jnp.zeros((32, 1)))
    assert kept.shape == (32, 100 if way.nested else 5_000, 1)
    assert jnp.isfinite(kept).all()
    assert 0.8 < float(kept[:, kept.shape[1] // 5 :].std()) < 1.2
    # Chains and steps are not copies of each other.
    assert len(np.unique(np.asarray(kept[:, -1]))) == 32


@pytest.mark.parametrize(("name", "gradients"), [("sghmc", 10), ("sgld", 1)])
def test_the_other_blackjax_samplers_count_their_gradients(name, gradients):
    kernel = blackjax_loops.kernel(name, lambda x: 0.5 * jnp.sum(x**2), force_noise=0.0)
    assert kernel.gradients == gradients
    for way in blackjax_loops.WAYS:
        chain = blackjax_loops.loop(kernel, way, 500, 50)
        kept = jax.eval_shape(chain, jax.random.key(0), jnp.zeros(1))
        assert kept.shape == (10 if way.nested else 500 // gradients, 1), way
    # Compiling takes the time: one of them runs.
    assert jnp.isfinite(jax.jit(chain)(jax.random.key(0), jnp.zeros(1))).all()


def test_posteriors_in_every_way_if_it_is_installed():
    pytest.importorskip("posteriors")
    from benchmarks.speed import posteriors_loops

    torch, sgnht = posteriors_loops.load()
    target = tacthmc.targets.three_gaussians()
    for way in posteriors_loops.WAYS:
        state, step = posteriors_loops.stepper(torch, sgnht, target, way, 3.0, 8)
        for _ in range(50):
            state = step(state)
        assert state.params.numel() == 8
        assert bool(torch.isfinite(state.params).all())
        assert state.xi.numel() == (8 if way == "vmap" else 1)


def test_the_coupling_in_python_is_ours():
    ours = PowerCoupling()
    for xi in (-1.6, -0.5, -0.2, 0.0, 0.3, 0.9, 1.6):
        expected = ours.value_and_slope(jnp.array(xi))
        assert np.allclose(torch_tact.coupling(xi), expected, atol=1e-6), xi


# --- Cases.


# Functions of the module, so that all tests share one compiled program.
def log_likelihood(theta, batch):
    return -0.5 * (batch[0].astype(jnp.float32) / 255 @ theta["w"] + theta["b"]) ** 2


def log_prior(theta):
    return -0.5 * (jnp.sum(theta["w"] ** 2) + theta["b"] ** 2)


def toy(name, num_data, batch_size, seed):
    """A regression on pixels in place of a network: what a case does with it is the same."""
    images = np.random.default_rng(seed).integers(0, 256, (num_data, 3), dtype=np.uint8)
    labels = np.zeros(num_data, np.int32)
    data = (images, labels)
    target = tacthmc.posterior(log_prior, log_likelihood, data, batch_size, batched=True)
    init = {"w": jnp.full(3, 0.1), "b": jnp.array(0.1)}
    return Problem(name, target, init, images, labels, batch_size)


def test_parts_of_the_bare_loop_are_parts():
    made = toy("mlp", 8, 4, 0)

    def loop(part, steps):
        key = jax.random.key(0)
        return bare.bare_loop(made.potential, key, made.init, jnp.asarray(steps), part, 2)

    for part in ("all", "gradient", "normals"):
        theta, total = loop(part, 3)
        assert theta["w"].shape == (2, 3)
        assert jnp.isfinite(total).all()
        assert (theta["w"] != made.init["w"][None]).all(), part
        # Chains have batches and random numbers of their own.
        assert len(np.unique(np.asarray(theta["b"]))) == 2
    theta, total = loop("all", 0)
    assert (theta["w"] == made.init["w"][None]).all()
    assert (total == 0).all()


def test_overhead_is_a_ratio_of_times():
    fast, slow = ({"rate": {"median": r}, "rates": [r]} for r in (10.0, 5.0))
    found = overhead.overhead(
        {"bare loop": fast, overhead.STEPS: slow, overhead.RUN: {"failed": "no"}}
    )
    assert found["steps"]["ratio"] == 2.0
    assert "failed" in found["run"]["skipped"]


def test_steps_alone_are_those_of_a_run():
    made = toy("mlp", 8, 4, 0)
    run = made.driven(2, 5)
    steps = run.steps()
    steps.run(3)
    steps.run(1)
    trace = run.run(4 * steps.every).trace
    xi = steps.chains.each.state.tempering.xi
    np.testing.assert_allclose(xi, trace["xi"][:, -1], rtol=1e-5)


def test_steps_of_a_chain_that_is_lost_are_not_timed():
    made = toy("mlp", 8, 4, 0)
    broken = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), made.init)
    with pytest.raises(FloatingPointError, match="finite"):
        replace(made, init=broken).driven(2, 0).steps().run(1)


def test_steps_are_timed_on_one_core():
    with pytest.raises(ValueError, match="one core"):
        toy("mlp", 8, 4, 0).driven(2, 0, cores=2).steps()


def test_the_fastest_number_of_threads_counts():
    results = {"one": {"rate": {"median": 2.0}}, "two": {"rate": {"median": 1.0}}, "no": {}}
    assert networks.fastest(results, ["two", "one", "no"]) == "one"
    assert networks.fastest(results, ["no"]) == "no"
    assert 1 in networks.thread_counts()


@pytest.mark.parametrize("name", SHAPES)
def test_networks_are_those_of_the_package(name):
    pytest.importorskip("tacthmc.paper.networks")
    made = problem(name, 8, 4, 0)
    batch = jax.tree.map(lambda x: x[:4], made.potential.data)
    value, gradient = eqx.filter_jit(made.potential.value_and_grad)(made.init, batch)
    assert jnp.isfinite(value)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    torch = pytest.importorskip("torch")
    parameters = torch_networks.module(torch, name).parameters()
    theirs = sum(p.numel() for p in parameters) - torch_networks.SECOND_BIASES.get(name, 0)
    assert theirs == made.dimension


@pytest.mark.parametrize("name", SHAPES)
def test_algorithm_1_in_pytorch_if_it_is_installed(name):
    torch = pytest.importorskip("torch")
    shape, classes = SHAPES[name]
    images = np.random.default_rng(0).integers(0, 256, (8, *shape), dtype=np.uint8)
    data = torch.from_numpy(torch_networks.arranged(images)), torch.arange(8)
    module = torch_networks.module(torch, name)
    assert module(data[0][:2]).shape == (2, classes)
    chain = torch_tact.TorchTact(torch, module, data, 4, precision=1.0, step_size=1e-6)
    before = [p.detach().clone() for p in chain.parameters]
    energies = [chain.step() for _ in range(5)]
    assert all(map(math.isfinite, energies))
    assert all(bool((a != b).any()) for a, b in zip(before, chain.parameters, strict=True))
    assert abs(chain.xi) <= torch_tact.WALL


def in_no_child(config, say):
    """What the process without configure_cpu would measure."""
    say("a process of its own")
    rates = {name: {"rate": {"median": 2.0}} for name in ("tact", "sgnht", "sghmc", "sgld")}
    return {"ours": rates, "heats": {"BlackJAX sgnht": {"way": {"rate": {"median": 1.0}}}}}


@pytest.fixture(scope="module", params=list(SMALL))
def measured(request):
    case, said = CASES[request.param], []
    small = replace(case, quick=SMALL[request.param])
    with pytest.MonkeyPatch.context() as patch:
        # Two ways of seven and two samplers of four: compiling takes the time of these tests.
        patch.setattr(blackjax_loops, "WAYS", blackjax_loops.WAYS[-2:])
        some = {name: contestants.OURS[name] for name in ("tact", "sgnht")}
        patch.setattr(contestants, "OURS", some)
        patch.setattr(mixture, "PAIRS", [pair for pair in mixture.PAIRS if pair[0] in some])
        patch.setattr(plain, "in_a_child", in_no_child)
        for module in (networks, overhead):
            patch.setattr(module, "problem", toy)
        return case, small.results(True, None, 3, said.append), said


def test_a_case_gives_plain_numbers_and_tables(measured):
    case, results, said = measured
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    assert results["config"]["seed"] == 3
    assert results["about"] == case.about
    assert said
    for title, table in case.tables(results):
        assert title.startswith(case.name)
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)


def leaves_with_rates(value):
    if isinstance(value, dict):
        if "rate" in value:
            yield value
        for item in value.values():
            yield from leaves_with_rates(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves_with_rates(item)


def test_every_rate_is_positive_with_its_range(measured):
    _, results, _ = measured
    # What the other process measured is not real here.
    found = list(leaves_with_rates({k: v for k, v in results.items() if k != "alone"}))
    assert found
    for result in found:
        rate = result["rate"]
        assert 0 < rate["min"] <= rate["median"] <= rate["max"] < math.inf
        assert result["steps"] > 0


def test_the_fastest_way_meets_ours_by_turns(measured):
    case, results, _ = measured
    if case.name != "mixture":
        pytest.skip("about the mixture")
    for peer, heat in results["heats"].items():
        raced = [r for r in heat.values() if "rate" in r]
        if raced:
            best = max(raced, key=lambda r: r["rate"]["median"])
            assert results["results"][peer]["way"] == best["way"]
    assert {name for name in results["heats"] if name.startswith("BlackJAX")} == {
        "BlackJAX sgnht",
        "BlackJAX sghmc",
        "BlackJAX sgld",
    }
    names = [name for name in results["results"] if "rate" in results["results"][name]]
    assert names[:4] == ["tact", "BlackJAX sgnht", "sgnht", "BlackJAX sghmc"]


def test_a_missing_peer_is_told_and_skipped(monkeypatch):
    missing(monkeypatch, "blackjax", "torch", "posteriors")
    said = []
    monkeypatch.setattr(contestants, "OURS", {"sgld": tacthmc.sgld})
    monkeypatch.setattr(mixture, "PAIRS", (("sgld", "BlackJAX sgld"), ("sgld", "posteriors sgnht")))
    monkeypatch.setattr(plain, "in_a_child", in_no_child)
    results = mixture.measure(replace(SMALL["mixture"], repeats=1), said.append)
    assert "pip install" in results["results"]["BlackJAX sgnht"]["skipped"]
    assert "pip install torch" in results["results"]["posteriors sgnht"]["skipped"]
    assert any("pip install" in text for text in said)
    assert "rate" in results["results"]["sgld"]
    assert all("skipped" in pair for pair in results["ratios"])
    text = str(mixture.tables(results))
    assert "pip install" in text


def test_a_process_without_our_settings_measures_the_same(monkeypatch):
    flags = f"--xla_cpu_multi_thread_eigen=false --{plain.SETTINGS[1]}=256"
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert plain.configured()
    said = []
    # Nobody can run minus one chain, so that nothing is compiled.
    found = plain.in_a_child(replace(SMALL["mixture"], chains=-1), said.append)
    assert set(found["ours"]) == set(contestants.OURS)
    assert set(found["heats"]) == {"BlackJAX sgnht", "BlackJAX sghmc", "BlackJAX sgld"}
    assert all("failed" in result for result in found["ours"].values())
    assert said


def test_a_process_that_fails_leaves_its_last_words(monkeypatch):
    monkeypatch.setattr(plain.sys, "executable", "false")
    found = plain.in_a_child(SMALL["mixture"], lambda text: None)
    assert found == {"failed": "no message"}
    assert mixture.without_configure_cpu({}, found)["ratios"] == []


def test_ratios_are_ours_with_and_without_our_settings():
    ours = {name: {"rate": {"median": 4.0}} for name in ("tact", "sgnht", "sghmc", "sgld")}
    alone = in_no_child(None, lambda text: None)
    found = mixture.without_configure_cpu(ours, alone)["ratios"]
    assert found == [
        {"ours": name, "peer": "BlackJAX sgnht", "ratio": 4.0, "ratio_without": 2.0}
        for name in ("tact", "sgnht")
    ]


def test_what_is_measured_without_our_settings(monkeypatch):
    monkeypatch.setattr(contestants, "OURS", {"sgld": tacthmc.sgld})
    monkeypatch.setattr(blackjax_loops, "WAYS", blackjax_loops.WAYS[-1:])
    found = plain.measured(SMALL["mixture"])
    assert found["ours"]["sgld"]["rate"]["min"] > 0
    fastest = plain.fastest(found["heats"])
    assert set(fastest) == set(found["heats"])
    assert all(rate > 0 for rate in fastest.values())


def test_the_slope_is_of_the_upper_half():
    assert growth.slope([(1, 3.0), (10, 3.0), (100, 3.0), (1_000, 30.0), (10_000, 300.0)]) == 1.0
    assert growth.slope([(1, 3.0)]) is None
