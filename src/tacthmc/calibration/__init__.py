"""Whether samplers are right: calibration by simulation, and invariance of a known law."""

from tacthmc.calibration._calibrate import calibrate as calibrate
from tacthmc.calibration._invariance import Invariance as Invariance
from tacthmc.calibration._invariance import invariance as invariance
from tacthmc.calibration._known_law import KnownLaw as KnownLaw
from tacthmc.calibration._known_law import example_law as example_law
from tacthmc.calibration._result import Calibration as Calibration
