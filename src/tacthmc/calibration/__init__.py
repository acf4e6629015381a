"""Whether samplers are right: calibration by simulation, and invariance of a known law."""

from tacthmc.calibration._calibrate import calibrate as calibrate
from tacthmc.calibration._result import Calibration as Calibration
