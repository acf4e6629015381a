"""The contestants of ``modes``, by the names that its options take."""

from benchmarks.modes.rivals.blackjax_gradients import SGHMC, SGNHT
from benchmarks.modes.rivals.nested import NESTED
from benchmarks.modes.rivals.nuts import NUTS
from benchmarks.modes.rivals.parallel_tempering import PARALLEL_TEMPERING
from benchmarks.modes.rivals.posteriors_sghmc import POSTERIORS
from benchmarks.modes.rivals.replicas import REPLICAS
from benchmarks.modes.rivals.restarts import RESTARTS
from benchmarks.modes.rivals.rival import Rival as Rival
from benchmarks.modes.rivals.smc import SMC
from benchmarks.modes.rivals.tact import TACT

OURS = "tact"
"""The contestant that the others are compared with."""
RIVALS: dict[str, Rival] = {
    OURS: TACT,
    "smc": SMC,
    "parallel-tempering": PARALLEL_TEMPERING,
    "nuts": NUTS,
    "nested": NESTED,
    "replicas": REPLICAS,
    "restarts": RESTARTS,
    "sgnht": SGNHT,
    "sghmc": SGHMC,
    "posteriors": POSTERIORS,
}
