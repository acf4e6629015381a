"""Choosing a sampler's numbers: short runs, what they showed, and what follows from it."""

from tacthmc.tuning._choices import Choice as Choice
from tacthmc.tuning._choices import Tuning as Tuning
from tacthmc.tuning._choices import TuningError as TuningError
from tacthmc.tuning._warmup import tune as tune
