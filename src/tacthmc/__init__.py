"""TACT-HMC: sampling multimodal posteriors with mini-batches.

Thermostat-assisted continuously-tempered Hamiltonian Monte Carlo and its family, in JAX.
"""

from tacthmc import cores as cores
from tacthmc import data as data
from tacthmc import predict as predict
from tacthmc import targets as targets
from tacthmc import xla as xla
from tacthmc.bias import AdaptiveBiasingForce as AdaptiveBiasingForce
from tacthmc.bias import LiteralAdaptiveBiasingForce as LiteralAdaptiveBiasingForce
from tacthmc.bias import Metadynamics as Metadynamics
from tacthmc.bias import NoBias as NoBias
from tacthmc.bias import well_tempered as well_tempered
from tacthmc.bias_file import load_bias as load_bias
from tacthmc.control_variates import control_variates as control_variates
from tacthmc.cores import use_cores as use_cores
from tacthmc.coupling import CustomCoupling as CustomCoupling
from tacthmc.coupling import PowerCoupling as PowerCoupling
from tacthmc.family import Langevin as Langevin
from tacthmc.family import Refresh as Refresh
from tacthmc.frame import Frame as Frame
from tacthmc.heated_block import HeatedBlock as HeatedBlock
from tacthmc.integrator import Euler as Euler
from tacthmc.integrator import Splitting as Splitting
from tacthmc.label_noise import label_noise as label_noise
from tacthmc.loss_table import loss_table as loss_table
from tacthmc.low_rank import LowRank as LowRank
from tacthmc.matrix_thermostat import MatrixThermostat as MatrixThermostat
from tacthmc.modes import find_modes as find_modes
from tacthmc.noise import measure_noise as measure_noise
from tacthmc.noise import noisy as noisy
from tacthmc.part import part as part
from tacthmc.posterior import posterior as posterior
from tacthmc.potential import potential as potential
from tacthmc.potential import tempered as tempered
from tacthmc.relaxed import Relaxed as Relaxed
from tacthmc.report.page import write_report as write_report
from tacthmc.report.shown import Truth as Truth
from tacthmc.run.failure import DivergedWarning as DivergedWarning
from tacthmc.run.monitor import Snapshot as Snapshot
from tacthmc.run.result import Run as Run
from tacthmc.run.resume import OtherVersionWarning as OtherVersionWarning
from tacthmc.run.resume import load as load
from tacthmc.run.resume import resume as resume
from tacthmc.run.sample import sample as sample
from tacthmc.samplers.cyclical import cyclical as cyclical
from tacthmc.samplers.optimiser import adam as adam
from tacthmc.samplers.optimiser import momentum_sgd as momentum_sgd
from tacthmc.samplers.optimiser import optimiser as optimiser
from tacthmc.samplers.replica_exchange import replica_exchange as replica_exchange
from tacthmc.samplers.restarted import restarted as restarted
from tacthmc.samplers.sghmc import sghmc as sghmc
from tacthmc.samplers.sgld import psgld as psgld
from tacthmc.samplers.sgld import sgld as sgld
from tacthmc.samplers.sgnht import sgnht as sgnht
from tacthmc.samplers.sgnht import without_tempering as without_tempering
from tacthmc.samplers.tact import tact as tact
from tacthmc.samplers.tact import tact_from_tuple as tact_from_tuple
from tacthmc.samplers.tact import tact_per_datum as tact_per_datum
from tacthmc.samplers.tact import without_thermostat as without_thermostat
from tacthmc.shaped_coupling import ShapedCoupling as ShapedCoupling
from tacthmc.split import temper_block as temper_block
from tacthmc.split import temper_likelihood as temper_likelihood
from tacthmc.store.errors import StoreError as StoreError
from tacthmc.store.program import NotPortableWarning as NotPortableWarning
from tacthmc.streamed import HostBatches as HostBatches
from tacthmc.streamed import streamed as streamed
from tacthmc.sweep import Sweep as Sweep
from tacthmc.thermostat import DiagonalThermostat as DiagonalThermostat
from tacthmc.thermostat import NoThermostat as NoThermostat
from tacthmc.thermostat import ScalarThermostat as ScalarThermostat
from tacthmc.thermostat import TensorThermostat as TensorThermostat
from tacthmc.tuning.choices import Choice as Choice
from tacthmc.tuning.choices import Tuning as Tuning
from tacthmc.tuning.choices import TuningError as TuningError
from tacthmc.tuning.untuned import Untuned as Untuned
from tacthmc.tuning.warmup import warmup as warmup

__version__ = "0.1.0"

xla.prepare()
cores.from_environment()
