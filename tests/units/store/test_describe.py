"""Trees and samplers as JSON: exact for what the library has, a stand-in for what it has not."""

import json
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc._positions import leaf_names
from tacthmc.run._program import one_sampler
from tacthmc.store._describe import describe, restored
from tacthmc.store._parts import known_parts
from tests import table


class Params(NamedTuple):
    w: object
    b: object


class Net(eqx.Module):
    weight: object
    _hidden: object
    name: str = eqx.field(static=True, default="net")


def through_json(value):
    return restored(json.loads(json.dumps(describe(value))))


def same(left, right):
    """The same structure and the same bits, weakly typed or not."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert type(a) is type(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        assert getattr(a, "weak_type", None) == getattr(b, "weak_type", None)


@pytest.mark.parametrize("name", table.SAMPLERS)
def test_samplers_come_back_as_they_were(name):
    sampler = one_sampler(table.SAMPLERS[name](0.01), 1)[0]
    found = through_json(sampler)
    own = {"adam", "momentum-sgd", "optimizer", "restarted", "adjusted", "replica-path", "ct-hmc"}
    assert found.is_whole == (name not in own)
    if found.is_whole:
        same(sampler, found.value)


def test_one_sampler_for_each_chain():
    several = one_sampler([tacthmc.tact(0.1), tacthmc.tact(0.2)], 2)[0]
    same(several, through_json(several).value)


def test_what_is_not_of_this_library_is_named():
    class Own(tacthmc.dynamics.PowerCoupling):
        pass

    found = through_json(one_sampler(tacthmc.sgld(lambda k: 0.1 / (k + 1)), 1)[0])
    assert found.functions == ["test_what_is_not_of_this_library_is_named.<locals>.<lambda>"]
    assert not found.objects
    with pytest.raises(tacthmc.StoreError, match="trust=True"):
        found.value.step_size(3)
    own = tacthmc.dynamics.ContinuousTempering(coupling=Own.up_to(4.0))
    assert through_json(tacthmc.tact(0.1, tempering=own)).objects == [
        "test_what_is_not_of_this_library_is_named.<locals>.Own"
    ]


def test_containers_of_positions():
    one, two = jax.ShapeDtypeStruct((2,), jnp.float32), jax.ShapeDtypeStruct((), jnp.bfloat16)
    exact = {
        "plain": [one, (two, None), {3: one, 1: two}, {("a", 0): one}],
        "order": OrderedDict(b=one, a=two),
    }
    found = through_json(exact)
    assert found.is_whole
    assert found.value == exact
    own = {"a": Params(one, [two]), "n": Net(one, two), "d": defaultdict(list, z=one, y=two)}
    found = through_json(own)
    assert set(found.containers) == {"Params", "Net", "defaultdict"}
    assert leaf_names(found.value) == leaf_names(own)
    assert jax.tree.leaves(found.value) == jax.tree.leaves(own)
    assert found.value["a"].w == one
    assert found.value["a"][1] == [two]
    assert found.value["n"].weight == one
    assert found.value["n"]["_hidden"] == two
    again = through_json(own)
    assert jax.tree.structure(again.value) == jax.tree.structure(found.value)


@pytest.mark.parametrize(
    "value", [np.float32("nan"), np.arange(6.0)[::2], np.zeros((2, 0)), np.arange(3, dtype=">i4")]
)
def test_arrays(value):
    found = through_json(value)
    assert found.is_whole
    assert np.array_equal(found.value, value, equal_nan=True)
    assert np.shape(found.value) == np.shape(value)


@pytest.mark.parametrize(
    "bad",
    [
        {"part": "os.system", "fields": {}},
        {"part": "dynamics.__init__", "fields": {}},
        {"part": "dynamics.PowerCoupling", "fields": {"plateau": 1}},
        {"part": "store.Lock", "fields": {}},
        {"named": "A", "fields": [["x y", 1]]},
        {"named": "A(object): import os\nclass B", "fields": [["x", 1]]},
        {"named": "A", "fields": [["__import__('os').system('x')", 1]]},
        {"array": "AAAA", "dtype": "object", "shape": [1], "of": "numpy"},
        {"array": "AAAA", "dtype": "float32", "shape": [10**12], "of": "numpy"},
        {"array": "?", "dtype": "float32", "shape": [], "of": "numpy"},
        {"shape": [-1], "dtype": "float32"},
        {"shape": [1], "dtype": "O"},
        {"dict": [[{"list": []}, 1]]},
        {"eval": "1"},
        {"tuple": 3},
        [1],
    ],
)
def test_what_is_malformed_is_refused(bad):
    with pytest.raises(tacthmc.StoreError):
        restored(bad)


def test_a_description_of_any_depth():
    deep = 1
    for _ in range(100_000):
        deep = {"list": [deep]}
    with pytest.raises(tacthmc.StoreError, match="RecursionError"):
        restored(deep)


def test_only_classes_of_the_library_have_names():
    assert all(kind.__module__.startswith("tacthmc.") for kind in known_parts().values())
    rooms = {name.partition(".")[0] for name in known_parts()}
    assert rooms <= {
        "potentials",
        "targets",
        "dynamics",
        "samplers",
        "diagnostics",
        "run",
        "tuning",
    }
