"""Bad values of every kind of argument, and which of them an argument gets by its name."""

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc

KEY = jax.random.key(0)
NAN, INF = float("nan"), float("inf")
NONE = [None]

MIXED = {"a": jnp.zeros(1), 1: jnp.zeros(1)}
OBJECTS = np.array([1.0, None], object)

NUMBER = [NAN, INF, -INF, 1j, "0.1", [0.1], {}, True, np.array([0.1, 0.2]), 1e60, OBJECTS]
POSITIVE = [0.0, -1.0, 1e-60, *NUMBER]
NON_NEGATIVE = [-1.0, *NUMBER]
WHOLE = [-1, 1.5, "3", True, NAN, 2**31, 2**70, [1], 1j, np.float64(3), np.ones(2, int), {}]
FROM_ONE = [0, *WHOLE]
SHARE = [0.0, 1.5, *NUMBER]
CHOICE = ["nothing", 3, ["unit"], {}]
FUNCTION = [3, "f", None, np.zeros(2), [], {}]
KEYS = [0, 1.5, None, "k", jnp.zeros(2), np.zeros(3, np.uint32), jax.random.split(KEY), [0, 1]]
POTENTIAL = [None, 3, "u", jnp.zeros(2), abs]
SAMPLER = [None, 3, "tact", [], [None], tacthmc.tact]
POSITION = [
    None,
    "a",
    {},
    np.zeros(2, int),
    OBJECTS,
    MIXED,
    np.full(2, NAN, np.float32),
    1j,
    [1, "a"],
]
DATA = [None, (), "ab", OBJECTS, MIXED, np.array(["a", "b"]), np.array([1.0, NAN], np.float32)]
DATA += [np.array([2**40, 1]), np.array([1e300, 1.0]), (np.zeros(2), np.zeros(3)), 3.0]
FLAG = ["yes", 2, NAN, [], {}]
PART = [3, "part", [], {}, object]
ARRAY = [None, "ab", OBJECTS, 3.0, np.full(2, NAN), np.zeros((0, 2)), {}, np.array(["a", "b"])]
LABELS = [None, "ab", [0.5, 1.0], [0, 7], [0, -1], [0], OBJECTS, np.zeros((0,), int), [True, "a"]]
LIST = [3, "ab", [3], abs]
NAMES = [3, [3], "missing"]

BY_NAME = {
    "step_size": POSITIVE,
    "noise": NON_NEGATIVE,
    "friction": NON_NEGATIVE,
    "mass": [*POSITIVE[:5], "a"],
    "noise_estimate": [-1.0, NAN, 1j, "a"],
    "bath_temperature": POSITIVE,
    "tempering_step_size": POSITIVE,
    "tempering_noise": NON_NEGATIVE,
    "learning_rate": POSITIVE,
    "momentum": NON_NEGATIVE,
    "decay": SHARE,
    "floor": POSITIVE,
    "adapt_steps": FROM_ONE,
    "explore": [1.0, *NON_NEGATIVE],
    "cycle_steps": FROM_ONE,
    "every": FROM_ONE,
    "burn": WHOLE,
    "after": WHOLE,
    "start": WHOLE,
    "period": FROM_ONE,
    "rest": SHARE,
    "bins": FROM_ONE,
    "spread": WHOLE,
    "memory": POSITIVE,
    "window": POSITIVE,
    "height": POSITIVE,
    "boost": POSITIVE,
    "gamma": POSITIVE,
    "steps": POSITIVE,
    "shape": CHOICE,
    "plateau": POSITIVE,
    "unit": POSITIVE,
    "wall": POSITIVE,
    "power": FROM_ONE,
    "knots": FROM_ONE,
    "keep_within": SHARE,
    "max_speed": POSITIVE,
    "low": NUMBER,
    "high": NUMBER,
    "transforms": [None, 3, "positive", {"x": 3}, abs, [1]],
    "largest": FROM_ONE,
    "num_leapfrog": FROM_ONE,
    "swap_every": FROM_ONE,
    "log_evidence": NUMBER,
    "temperatures": [[2.0, 1.0], [1.0], [], "ab", 3, [1.0, NAN], [1.0, "a"], [1.0, 1j]],
    "inverse_temperatures": [[0.0, 1.0], [1.0], [], "ab", 3, [1.0, NAN], [1.0, "a"]],
    "num_data": FROM_ONE,
    "batch_size": FROM_ONE,
    "batches": CHOICE,
    "batched": FLAG,
    "forget": FLAG,
    "everywhere": FLAG,
    "per_chain": FLAG,
    "feed_per_chain": FLAG,
    "relaxation_window": FROM_ONE,
    "num_chains": FROM_ONE,
    "num_steps": FROM_ONE,
    "room": FROM_ONE,
    "num_batches": FROM_ONE,
    "draws_at_once": FROM_ONE,
    "block": FROM_ONE,
    "rhat": [1.0, 0.5, *NUMBER[:1], *NUMBER[3:8]],
    "posterior_temperature": POSITIVE,
    "force": [-1.0, NAN, 1j, "a"],
    "energy": NON_NEGATIVE,
    "covariance": ["a", 3.0, np.zeros((2, 3)), np.array([[1.0, 2.0], [0.0, 1.0]]), OBJECTS],
    "log_prior": FUNCTION,
    "log_likelihood": FUNCTION,
    "function": FUNCTION,
    "logits": FUNCTION,
    "loader": [3, None, 1.5],
    "data": DATA,
    "key": KEYS,
    "potential": POTENTIAL,
    "sampler": SAMPLER,
    "init": POSITION,
    "position": POSITION,
    "center": POSITION,
    "starts": [*POSITION[:7], jnp.zeros(())],
    "max_gradients": POSITIVE,
    "sampled": ["w", {"z": True}, 3, None, {"a": "yes"}],
    "keep": PART,
    "store": [3, 1.5, []],
    "mesh": [3, "cores", []],
    "progress": ["yes", 2, []],
    "callbacks": LIST,
    "until": [3, 400, "long", 1.5],
    "thermostat": PART,
    "tempering": PART,
    "coordinates": PART,
    "integrator": PART,
    "refresh": PART,
    "jumps": PART,
    "coupling": PART,
    "bias": PART,
    "base": PART,
    "transform": FUNCTION,
    "hyperparameters": [None, "ab", [0.1] * 6, [NAN] * 7, ["a"] * 7, 3],
    "variant": CHOICE,
    "share": [-0.1, 1.1, NAN, "a", True, [0.5, 2.0], []],
    "kind": CHOICE,
    "by": CHOICE,
    "classes": FROM_ONE,
    "modes": PART,
    "centers": ["a", 3.0, np.zeros((0, 2)), np.full((1, 2), NAN), OBJECTS],
    "scales": ["a", 3.0, np.zeros((1, 2)), np.full((1, 2), NAN), OBJECTS],
    "weights": ["a", -1.0, np.zeros(1), np.full(1, NAN), np.ones(3), OBJECTS],
    "probabilities": [*ARRAY, [[0.5, 0.6]], [[-0.5, 1.5]]],
    "labels": LABELS,
    "expected_entropy": [None, "ab", OBJECTS, np.full(2, NAN), np.zeros(3), {}],
    "inside": ARRAY,
    "outside": ARRAY,
    "inputs": [None, "ab", OBJECTS, np.zeros((0, 2)), {}],
    "draws": [None, "ab", OBJECTS, {}, 3.0],
    "ratio": [1.0, *POSITIVE],
    "least": [1.0, *NON_NEGATIVE],
    "neighbors": FROM_ONE,
    "most": FROM_ONE,
    "values": ARRAY,
    "lags": WHOLE,
    "parameters": NAMES,
    "predictions": [None, 3, [], [3], "ab"],
    "run": [None, 3, "folder"],
    "program": [None, 3, "folder"],
    "scale": [0.0, -1.0, NAN, "a", 1j],
    "mean": [NAN, "a", 1j, None],
    "means": ["a", 3.0, np.zeros((0, 2)), np.full((1, 2), NAN), OBJECTS],
    "xi": ARRAY,
    "path": [3, None, []],
    "checkpoint_seconds": POSITIVE,
    "checkpoint_steps": FROM_ONE,
    "with_program": FLAG,
    "count": FROM_ONE,
    "energies": FUNCTION,
}
"""Bad values by the name of an argument."""

OTHERWISE = {
    "restarted.start": FUNCTION,
    "effective.draws": FROM_ONE,
    "Effective.draws": FROM_ONE,
    "Keep.temperatures": CHOICE,
    "Program.num_chains": FROM_ONE,
    "find_modes.draws": ARRAY,
    "ct_hmc.plateau": [1.0, *NON_NEGATIVE],
    **{f"{name}.values": [*ARRAY[:5], *ARRAY[6:]] for name in ("ess", "mean_ess", "rhat")},
    "potential.energy": FUNCTION,
    "Inertia.steps": POSITIVE,
    "optimizer.learning_rate": [],
    "Coordinates.center": [],
    "ShapedCoupling.temperatures": ["ab", [], [2.0, 1.0], [1.0, NAN], 3.0],
    "accuracy.labels": LABELS,
    "label_noise.labels": FUNCTION,
    "GaussianMixture.scale": [0.0, -1.0, NAN, "a", 1j],
    "CustomCoupling.wall": POSITIVE,
    "adam.num_data": [0, -1, NAN, "a", 1j],
    "momentum_sgd.num_data": [0, -1, NAN, "a", 1j],
    "optimizer.num_data": [0, -1, NAN, "a", 1j],
    "Untuned.step_size": POSITIVE,
    "Predictive.batch_size": FROM_ONE,
    "flatness.wall": POSITIVE,
    "Store.path": [3, None, []],
    # These give their own numbers of processors, and change the process.
    "use_cpu_devices.count": [],
}
"""Bad values of arguments whose name means something else elsewhere."""
