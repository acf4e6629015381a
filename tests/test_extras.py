"""Sampling needs the hard dependencies alone, and what needs more says which extra has it."""

import subprocess
import sys

HEAVY = {"arviz", "cloudpickle", "matplotlib", "orbax", "plotly", "tensorstore", "typer", "zarr"}

WITHOUT_EXTRAS = """
import importlib.abc, os, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
before = dict(os.environ)
import jax, jax.numpy as jnp
settings = dict(jax.config.values)
import tacthmc
assert dict(os.environ) == before, "import changed the environment"
assert dict(jax.config.values) == settings, "import changed JAX's settings"
assert not jax.live_arrays(), "import made arrays"
target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
key, start = jax.random.key(0), jnp.zeros(2)
run = tacthmc.sample(key, tacthmc.tact(0.1), target, start, 20_000, 2, progress=False)
assert run.draws.shape[0] == 2
assert "mean" in str(run.summary())
assert all(p.ess > 0 and p.rhat > 0 for p in run.summary().parameters)

def message(action):
    try:
        action()
    except (ImportError, tacthmc.StoreError, SystemExit) as error:
        return str(error)
    return "nothing was missing"

sys.modules["typer"] = None
import tacthmc.cli
print(message(lambda: tacthmc.sample(key, tacthmc.tact(0.1), target, start, 500, store="x")))
print(message(lambda: tacthmc.write_report(run, "x.html")))
print(message(run.to_arviz))
print(message(run.plot_xi))
print(message(tacthmc.cli.main))
"""


def test_sampling_needs_no_extra_and_what_is_missing_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS.format(missing=HEAVY)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    messages = done.stdout.splitlines()
    for extra, message in zip(
        ("store", "report", "report", "report", "cli"), messages, strict=True
    ):
        assert f"pip install 'tacthmc[{extra}]'" in message
