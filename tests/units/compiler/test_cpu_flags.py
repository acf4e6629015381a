"""What ``configure_cpu`` sets, and what it leaves alone."""

import json

import jaxlib
import pytest

from tacthmc.compiler import _cpu_flags as cpu_flags
from tests.fresh_process import fresh_process

ONE_AFTER_THE_OTHER = """
import json, os, sys, jax
before = dict(os.environ), dict(jax.config.values)
import tacthmc
from tacthmc.compiler._cpu_devices import cores_in_use
from tacthmc.compiler._cpu_flags import program_options, small_loop_bytes
silent = before == (dict(os.environ), dict(jax.config.values))

def configured(environment):
    for name in ("XLA_FLAGS", "TACTHMC_XLA_FLAGS"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    tacthmc.configure_cpu()
    return os.environ.get("XLA_FLAGS"), small_loop_bytes(), program_options()

found = {name: configured(value) for name, value in json.loads(sys.argv[1]).items()}
found["too late"] = len(jax.devices()), cores_in_use(), configured({})[0]
print(json.dumps([silent, found]))
"""

NARROW = f"--{cpu_flags.VECTOR_WIDTH_OPTION}=256"
THEIR_LIMIT = f"--xla_backend_extra_options={cpu_flags.LOOP_BYTES_OPTION}=5000"
OTHER_OPTION = "--xla_backend_extra_options=xla_cpu_fold_all_constants=true"
ENVIRONMENTS = {
    "empty": {},
    "narrow vectors": {"XLA_FLAGS": NARROW},
    "switched off": {"TACTHMC_XLA_FLAGS": "0"},
    "a limit": {"XLA_FLAGS": THEIR_LIMIT},
    "another option": {"XLA_FLAGS": OTHER_OPTION},
}


@pytest.fixture(scope="module")
def child():
    return json.loads(fresh_process(ONE_AFTER_THE_OTHER, json.dumps(ENVIRONMENTS)))


def test_importing_changes_neither_the_environment_nor_jax(child):
    assert child[0]


def test_the_limit_is_raised_unless_the_user_set_it(child):
    loops = (
        f"--xla_backend_extra_options={cpu_flags.LOOP_BYTES_OPTION}={cpu_flags.LOOP_BYTES},"
        f"{cpu_flags.NO_UNROLLING_OPTION}"
    )
    known = cpu_flags.has_vector_width(jaxlib.__version__)
    wide = {cpu_flags.VECTOR_WIDTH_OPTION: cpu_flags.VECTOR_WIDTH_BITS} if known else None
    found = child[1]
    assert found["empty"] == [loops, cpu_flags.LOOP_BYTES, wide]
    assert found["narrow vectors"] == [f"{NARROW} {loops}", cpu_flags.LOOP_BYTES, None]
    assert found["switched off"] == [None, cpu_flags.DEFAULT_LOOP_BYTES, None]
    assert found["a limit"] == [THEIR_LIMIT, 5000, wide]
    assert found["another option"] == [OTHER_OPTION, cpu_flags.DEFAULT_LOOP_BYTES, wide]


def test_nothing_is_set_after_jax_has_computed(child):
    assert child[1]["too late"] == [1, 1, None]
