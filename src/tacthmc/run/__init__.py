"""Programs of chains, the driver that runs them, and finished runs."""

from tacthmc.run._effective import Effective as Effective
from tacthmc.run._effective import Standing as Standing
from tacthmc.run._failure import DivergedWarning as DivergedWarning
from tacthmc.run._keep import Keep as Keep
from tacthmc.run._load import load as load
from tacthmc.run._monitor import Observer as Observer
from tacthmc.run._monitor import Snapshot as Snapshot
from tacthmc.run._program import Chains as Chains
from tacthmc.run._program import Chunk as Chunk
from tacthmc.run._program import Program as Program
from tacthmc.run._result import Run as Run
from tacthmc.run._resume import OtherVersionWarning as OtherVersionWarning
from tacthmc.run._resume import resume as resume
from tacthmc.run._sample import drive as drive
from tacthmc.run._start import PerChain as PerChain
