"""Tuning: choosing the numbers of a sampler by short runs."""

from tacthmc.tuning._choices import Choice as Choice
from tacthmc.tuning._choices import Tuning as Tuning
from tacthmc.tuning._choices import TuningError as TuningError
from tacthmc.tuning._tune import tune as tune
