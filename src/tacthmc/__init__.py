"""TACT-HMC: sampling multimodal posteriors with mini-batches.

Thermostat-assisted continuously-tempered Hamiltonian Monte Carlo and its family, in JAX.
"""

from tacthmc import calibration as calibration
from tacthmc import compiler as compiler
from tacthmc import diagnostics as diagnostics
from tacthmc import dynamics as dynamics
from tacthmc import potentials as potentials
from tacthmc import predict as predict
from tacthmc import report as report
from tacthmc import run as run
from tacthmc import samplers as samplers
from tacthmc import store as store
from tacthmc import targets as targets
from tacthmc import tuning as tuning
from tacthmc._sample import sample as sample
from tacthmc.calibration._calibrate import calibrate as calibrate
from tacthmc.compiler._cpu_devices import use_cpu_devices as use_cpu_devices
from tacthmc.compiler._cpu_flags import configure_cpu as configure_cpu
from tacthmc.potentials._base import potential as potential
from tacthmc.potentials._constrained import constrained as constrained
from tacthmc.potentials._energy_terms import temper_likelihood as temper_likelihood
from tacthmc.potentials._noisy import noisy as noisy
from tacthmc.potentials._posterior import posterior as posterior
from tacthmc.potentials._streamed import streamed as streamed
from tacthmc.report._page import write_report as write_report
from tacthmc.run._effective import effective as effective
from tacthmc.run._failure import DivergedWarning as DivergedWarning
from tacthmc.run._keep import Keep as Keep
from tacthmc.run._load import load as load
from tacthmc.run._program import Program as Program
from tacthmc.run._result import Run as Run
from tacthmc.run._resume import resume as resume
from tacthmc.run._start import PerChain as PerChain
from tacthmc.samplers._cyclical import cyclical as cyclical
from tacthmc.samplers._optimizer import optimizer as optimizer
from tacthmc.samplers._replica_exchange import replica_exchange as replica_exchange
from tacthmc.samplers._restarted import restarted as restarted
from tacthmc.samplers._sghmc import sghmc as sghmc
from tacthmc.samplers._sgld import sgld as sgld
from tacthmc.samplers._sgnht import sgnht as sgnht
from tacthmc.samplers._tact import tact as tact
from tacthmc.store._errors import StoreError as StoreError
from tacthmc.store._store import Store as Store
from tacthmc.tuning._choices import TuningError as TuningError
from tacthmc.tuning._tune import tune as tune

__version__ = "0.1.0"
