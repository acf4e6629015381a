"""Diagnostics of a run from its draws and traces: sample sizes, weights, modes, laws, evidence."""

from tacthmc.diagnostics._evidence import EvidenceRatio as EvidenceRatio
from tacthmc.diagnostics._laws import Law as Law
from tacthmc.diagnostics._laws import autocorrelation as autocorrelation
from tacthmc.diagnostics._laws import flatness as flatness
from tacthmc.diagnostics._laws import thermostat_laws as thermostat_laws
from tacthmc.diagnostics._mixing import ess as ess
from tacthmc.diagnostics._mixing import mean_ess as mean_ess
from tacthmc.diagnostics._mixing import rhat as rhat
from tacthmc.diagnostics._mixing import tail_ess as tail_ess
from tacthmc.diagnostics._modes import Modes as Modes
from tacthmc.diagnostics._modes import find_modes as find_modes
from tacthmc.diagnostics._plots import plot_draws as plot_draws
from tacthmc.diagnostics._plots import plot_free_energy as plot_free_energy
from tacthmc.diagnostics._plots import plot_xi as plot_xi
from tacthmc.diagnostics._weights import log_weights as log_weights
