"""Every sampler's step: jit, vmap, sweeps, dtypes.

``make test`` takes samplers that have different code; ``make test-slow`` takes the others.
"""

import pytest

from tests import properties
from tests.table import SAMPLERS, every_sampler

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("name", every_sampler("tact", "sgnht", "adam"))
def test_step(name):
    properties.check_step(SAMPLERS[name])


@pytest.mark.parametrize("name", every_sampler("tact", "tact-linear", "psgld", "restarted"))
def test_half_precision_positions_are_kept_in_single(name):
    properties.check_half_precision(SAMPLERS[name])


@pytest.mark.parametrize(
    "name", every_sampler("tact", "tact-matrix", "tact-linear", "psgld", "replica-exchange", "adam")
)
def test_double_precision(name, x64):
    properties.check_double_precision(SAMPLERS[name])
