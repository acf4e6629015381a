"""Tuning: choosing the numbers of a sampler by short runs."""

from tacthmc.tuning._choices import Choice as Choice
from tacthmc.tuning._choices import Tuning as Tuning
from tacthmc.tuning._choices import TuningError as TuningError
from tacthmc.tuning._missed_modes import MissedMode as MissedMode
from tacthmc.tuning._missed_modes import MissedModes as MissedModes
from tacthmc.tuning._missed_modes import missed_modes as missed_modes
from tacthmc.tuning._mode_search import Search as Search
from tacthmc.tuning._mode_search import search_modes as search_modes
from tacthmc.tuning._tune import tune as tune
