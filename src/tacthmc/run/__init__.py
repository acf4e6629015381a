"""The driver and what it returns."""

from tacthmc.run._failure import DivergedWarning as DivergedWarning
from tacthmc.run._monitor import Snapshot as Snapshot
from tacthmc.run._result import Run as Run
from tacthmc.run._resume import OtherVersionWarning as OtherVersionWarning
from tacthmc.run._resume import load as load
from tacthmc.run._resume import resume as resume
