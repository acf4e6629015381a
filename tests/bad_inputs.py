"""Bad inputs for every public function, generated from signatures: what each of them raises.

A case is a function, valid arguments, and one of them replaced by a bad value of its kind. Kinds
are told by the names of arguments. ``python -m tests.bad_inputs 500`` prints what is unclear. It
runs without the type checks that the tests switch on, because users do not have them.
"""

import inspect
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc import diagnostics, dynamics, potentials, predict, run, samplers, targets, tuning
from tests.bad_values import BY_NAME, KEY, OTHERWISE


def quadratic(x):
    return 0.5 * sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(x))


def log_likelihood(theta, x):
    return -0.5 * jnp.sum((x[0] - theta) ** 2)


def network(weights, x):
    return x @ weights


def valid():
    """Valid values of required arguments, by name or by function and name."""
    full = tacthmc.potential(quadratic)
    data = (np.linspace(-1, 1, 20, dtype=np.float32), np.arange(20) % 3)
    batches = tacthmc.posterior(lambda t: -0.5 * jnp.sum(t**2), log_likelihood, data, 5)
    halves = np.array([[0.5, 0.5], [0.9, 0.1]])
    prediction = predict.Prediction(halves, np.zeros(2), 1.0)
    short = tacthmc.sample(KEY, tacthmc.sgnht(0.1), full, jnp.zeros(2), 200, 2, progress=False)
    program = tacthmc.Program(tacthmc.sgnht(0.1), full)
    return {
        "step_size": 0.1,
        "cycle_steps": 100,
        "sampler": tacthmc.sgnht(0.1),
        "every": 100,
        "restarted.start": lambda key: jnp.zeros(2),
        "potential": full,
        "energy": quadratic,
        "posterior_temperature": 1.0,
        "control_variates.potential": batches,
        "label_noise.potential": batches,
        "loss_table.potential": batches,
        "center": np.zeros((), np.float32),
        "share": 0.5,
        "position": jnp.zeros(2),
        "subset.position": {"a": jnp.zeros(2), "b": jnp.zeros(2)},
        "sampled": {"a": True, "b": False},
        "log_prior": lambda t: -0.5 * jnp.sum(t**2),
        "log_likelihood": log_likelihood,
        "data": data,
        "batch_size": 5,
        "num_data": 20,
        "loader": [data] * 2,
        "key": KEY,
        "init": jnp.zeros(2),
        "num_steps": 100,
        "tune.sampler": tacthmc.tact(),
        "draws": 100,
        "transform": __import__("optax").scale_by_adam(),
        "learning_rate": 0.1,
        "num_leapfrog": 3,
        "boost": 10.0,
        "period": 1000,
        "function": lambda xi: 1.0 + 0.0 * xi,
        "plateau": 0.3,
        "wall": 1.6,
        "temperatures": np.array([1.0, 2.0, 4.0]),
        "fluctuations": np.array([1.0, 1.0, 1.0]),
        "modes": dynamics.Modes(np.zeros((1, 2)), np.ones((1, 2)), np.ones(1)),
        "centers": np.zeros((1, 2)),
        "scales": np.ones((1, 2)),
        "Modes.weights": np.ones(1),
        "hyperparameters": [*[0.1] * 6, 50],
        "base": samplers.gaussian_base(),
        "starts": jnp.zeros((1, 2)),
        "max_gradients": 1000,
        "probabilities": halves,
        "labels": [0, 1],
        "expected_entropy": np.zeros(2),
        "inside": np.array([0.1, 0.2]),
        "outside": np.array([0.3, 0.2]),
        "out_of_distribution.inside": prediction,
        "out_of_distribution.outside": prediction,
        "find_modes.draws": np.random.default_rng(0).normal(size=(300, 1)),
        "values": np.random.default_rng(0).normal(size=(2, 100)),
        "lags": 5,
        "logits": network,
        "averaged.model": network,
        "averaged.draws": jnp.ones((2, 1, 2)),
        "averaged.images": jnp.ones((3, 1)),
        "per_draw.draws": jnp.ones((2, 1, 2)),
        "inputs": jnp.ones((3, 1)),
        "over_run.inputs": jnp.ones((3, 2)),
        "run": short,
        "over_run.logits": lambda w, x: x * w,
        "predictions": [prediction],
        "program": program,
        "chains": program.start(KEY, jnp.zeros(2)),
        "mean": np.zeros(2),
        "covariance": np.eye(2),
        "means": np.zeros((1, 2)),
        "GaussianMixture.weights": np.ones(1),
        "scale": 1.0,
        "xi": np.random.default_rng(0).uniform(-1, 1, (2, 100)),
        "HostBatches.data": np.zeros(20, np.float32),
        "Store.path": Path("run"),
    }


MADE_BY_THE_LIBRARY = {
    # Results, and the interfaces of parts: users read or subclass them.
    *("Adjusted", "Chains", "Choice", "Chunk", "Energy", "EvidenceRatio", "Forces", "Info", "Law"),
    *("NoiseLevels", "Observer", "Reliability", "Run", "Scores", "Search", "Snapshot", "Standing"),
    *("State", "StepNoise", "StepRates", "Table", "TemperingState", "Tuning", "XiForce"),
    *("BiasInput", "CovarianceTerm", "Traits", "StreamedPosterior", "SubsetPotential", "Network"),
    *("ConstrainedPotential", "Simplex", "Ordered", "MissedMode", "MissedModes", "read_npz"),
    "npz_headers",
    *("Posterior", "FullPotential", "ResidentBatches", "WithReplacement", "Epochs", "Prediction"),
    # Without arguments, or with files and pictures, which have tests of their own.
    *("configure_cpu", "versions", "grid", "ring", "three_gaussians", "load", "resume"),
    *(
        "load_bias",
        "save_bias",
        "write_report",
        "ReferenceDensity",
        "plot_draws",
        "plot_reliability",
    ),
    *("plot_free_energy", "plot_xi", "thermostat_laws", "NoBias", "NoTempering", "LinearMap"),
    *("LowRank", "PerChain", "forces", "log_weights", "temper_block", "CovarianceCorrection"),
    *("NoBatches", "Splitting", "Euler"),
}
"""Public names without bad inputs here."""

ROOMS = (tacthmc, samplers, dynamics, potentials, predict, diagnostics, targets, run, tuning)


def functions():
    """The public functions, by name."""
    found = {}
    for room in ROOMS:
        for name, value in vars(room).items():
            warns = isinstance(value, type) and issubclass(value, Exception)
            public = callable(value) and not name.startswith("_") and not inspect.ismodule(value)
            if not public or warns or inspect.isabstract(value) or name in MADE_BY_THE_LIBRARY:
                continue
            found.setdefault(name if value not in found.values() else "", value)
    found.pop("", None)
    return found


MODEL = """
import jax.numpy as jnp, tacthmc
def model():
    return tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), jnp.zeros(2)
def one():
    return 3
def strings():
    return tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), "here"
"""

OPTIONS = {
    "--chains": ["0", "-1", "x", "1.5", ""],
    "--steps": ["0", "-5", "x", "1.5", "3000000000"],
    "--until": ["0", "-1", "x", "2"],
    "--sampler": ["nothing", ""],
    "--step-size": ["0", "-1", "nan", "inf", "1e-60", "x"],
    "--noise": ["-1", "nan", "x"],
    "--keep-every": ["0", "-1", "x"],
    "--warmup": ["-1", "x", "1000000"],
    "--keep": ["nothing"],
    "--seed": ["-1", "x", "4294967296"],
}
"""Bad values of the options of ``tacthmc sample``."""

WORDS = {"--until": "draws", "--warmup": "Keep.after", "--steps": "num_steps"}
"""What the library itself calls an option, where the error comes from there."""


def command_line(folder):
    """Bad calls of the command line: each a name, the arguments, and a word of the error."""
    file = Path(folder) / "model.py"
    file.write_text(MODEL, encoding="utf-8")
    out = ["--out", str(Path(folder) / "run")]
    found = [
        (f"{option} {value!r}", ["sample", str(file), *out, f"{option}={value}"], option)
        for option, values in OPTIONS.items()
        for value in values
    ]
    missing = str(Path(folder) / "missing")
    return [
        *found,
        ("no file", ["sample", missing + ".py"], "there is no file"),
        ("no function", ["sample", f"{file}:other"], "other"),
        ("a function that returns 3", ["sample", f"{file}:one", *out], "one"),
        ("a start that is no number", ["sample", f"{file}:strings", *out, "--step-size=0.1"], "a"),
        ("an unknown option", ["sample", str(file), "--chain=2"], "--chains"),
        ("an unknown command", ["smaple"], "smaple"),
        *((f"{name} of nothing", [name, missing], "missing") for name in ("report", "resume")),
        ("summary of nothing", ["summary", missing], "missing"),
        ("demo --steps", ["demo", "--steps=3"], "--steps"),
        ("new --force of a text", ["new", missing + ".txt"], ".py"),
        ("reproduce nothing", ["reproduce", "fig9"], "fig9"),
    ]


def command_verdict(arguments, word):
    """Empty for a clear error of the command line; otherwise what is wrong."""
    from typer.testing import CliRunner

    from tacthmc.cli._app import app

    done = CliRunner().invoke(app, arguments)
    known = [word, word.strip("-").replace("-", "_"), WORDS.get(word, word)]
    if done.exit_code == 0:
        return "was accepted"
    if "Traceback" in done.output or not isinstance(done.exception, SystemExit):
        return f"ended in a traceback: {done.exception!r}"
    if not any(one in done.output for one in known):
        return f"the error does not name {word}: {done.output[:200]}"
    return ""


def cases():
    """Every case: a name, a function, its valid arguments, the bad argument, and its value."""
    good, found = valid(), []
    for name, function in functions().items():
        parameters = inspect.signature(function).parameters
        required = [p.name for p in parameters.values() if p.default is p.empty]
        arguments = {p: good.get(f"{name}.{p}", good.get(p)) for p in required}
        for p, parameter in parameters.items():
            bad = OTHERWISE.get(f"{name}.{p}", BY_NAME.get(p, []))
            for number, value in enumerate(bad):
                allowed = value is None and parameter.default is None
                if not allowed:
                    found.append((f"{name}({p})[{number}]", function, arguments, p, value))
    return found


EXPECTS = (
    "must",
    "needs",
    "expected",
    "give",
    "only",
    "is for",
    "goes",
    "is the number",
    "not an",
    "nothing",
    "not finite",
)
GOT = ("got", "Got", " is ", " has ")
"""Words of an error that say what was expected, and what came."""


def verdict(function, arguments, name, value):
    """Empty for a clear error; otherwise what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**{**arguments, name: value})
    except (TypeError, ValueError) as error:
        text = str(error)
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        if f"{Path('src') / 'tacthmc'}" not in last and "site-packages/tacthmc" not in last:
            return f"raised outside of the library: {type(error).__name__}: {text[:150]}"
        known_as = {"init": "position", "data": "data", "sampler": "sampler"}
        if name not in text and known_as.get(name, name) not in text:
            return f"the error does not name {name}: {text[:150]}"
        if not any(word in text for word in EXPECTS):
            return f"the error does not say what was expected: {text[:150]}"
        if not any(word in text for word in GOT):
            return f"the error does not say what came: {text[:150]}"
        return ""
    except Exception as error:
        return f"raised {type(error).__name__}: {str(error)[:150]}"
    return "was accepted"


def chosen(count, seed=0):
    """``count`` of all cases, spread over functions and arguments."""
    every = cases()
    order = np.random.default_rng(seed).permutation(len(every))
    return [every[i] for i in order[:count]]


def shown(value):
    text = repr(value).replace("\n", " ")
    return text if len(text) < 50 else text[:47] + "…"


def main(count):
    """Print what is unclear, and how many cases were tried."""
    found, tried = [], chosen(count)
    for label, function, arguments, name, value in tried:
        found.append((f"{label} = {shown(value)}", verdict(function, arguments, name, value)))
    with tempfile.TemporaryDirectory() as folder:
        for label, arguments, word in command_line(folder):
            found.append((f"tacthmc {label}", command_verdict(arguments, word)))
    unclear = [f"{label}: {wrong}" for label, wrong in found if wrong]
    print(*unclear, sep="\n")
    print(f"{len(unclear)} of {len(found)} are unclear")
    return int(bool(unclear))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**9))
