"""Predictions averaged over draws and chains, and their quality."""

from tacthmc.predict._averaged import averaged as averaged
from tacthmc.predict._calibration import Reliability as Reliability
from tacthmc.predict._calibration import calibration_error as calibration_error
from tacthmc.predict._calibration import plot_reliability as plot_reliability
from tacthmc.predict._calibration import reliability as reliability
from tacthmc.predict._classifier import Logits as Logits
from tacthmc.predict._classifier import Network as Network
from tacthmc.predict._out_of_distribution import auroc as auroc
from tacthmc.predict._out_of_distribution import out_of_distribution as out_of_distribution
from tacthmc.predict._over_run import over_run as over_run
from tacthmc.predict._prediction import Prediction as Prediction
from tacthmc.predict._prediction import pooled as pooled
from tacthmc.predict._predictive import Predictive as Predictive
from tacthmc.predict._scores import Scores as Scores
from tacthmc.predict._scores import accuracy as accuracy
from tacthmc.predict._scores import brier as brier
from tacthmc.predict._scores import log_loss as log_loss
from tacthmc.predict._softmax import per_draw as per_draw
from tacthmc.predict._uncertainty import entropy as entropy
from tacthmc.predict._uncertainty import mutual_information as mutual_information
