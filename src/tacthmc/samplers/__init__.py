"""The samplers. Each has its own file, and all have ``init`` and ``step``."""

from tacthmc.samplers._adjusted_langevin import adjusted_langevin as adjusted_langevin
from tacthmc.samplers._base_density import gaussian_base as gaussian_base
from tacthmc.samplers._base_density import with_base as with_base
from tacthmc.samplers._ct_hmc import ct_hmc as ct_hmc
from tacthmc.samplers._ctld import ctld as ctld
from tacthmc.samplers._cyclical import cyclical as cyclical
from tacthmc.samplers._optimizer import adam as adam
from tacthmc.samplers._optimizer import momentum_sgd as momentum_sgd
from tacthmc.samplers._optimizer import optimizer as optimizer
from tacthmc.samplers._replica_exchange import replica_exchange as replica_exchange
from tacthmc.samplers._restarted import restarted as restarted
from tacthmc.samplers._sghmc import sghmc as sghmc
from tacthmc.samplers._sgld import psgld as psgld
from tacthmc.samplers._sgld import sgld as sgld
from tacthmc.samplers._sgnht import sgnht as sgnht
from tacthmc.samplers._sgnht import without_tempering as without_tempering
from tacthmc.samplers._tact import per_datum as per_datum
from tacthmc.samplers._tact import tact as tact
from tacthmc.samplers._tact import tact_from_tuple as tact_from_tuple
from tacthmc.samplers._tact import without_thermostat as without_thermostat
from tacthmc.samplers._untuned import Untuned as Untuned
from tacthmc.samplers._untuned_replicas import UntunedReplicas as UntunedReplicas
