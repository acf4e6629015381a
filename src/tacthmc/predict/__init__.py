"""Predictions averaged over draws and chains, and how good they are."""

from tacthmc.predict.calibration import Reliability as Reliability
from tacthmc.predict.calibration import calibration_error as calibration_error
from tacthmc.predict.calibration import plot_reliability as plot_reliability
from tacthmc.predict.calibration import reliability as reliability
from tacthmc.predict.out_of_distribution import auroc as auroc
from tacthmc.predict.out_of_distribution import out_of_distribution as out_of_distribution
from tacthmc.predict.over_run import over_run as over_run
from tacthmc.predict.prediction import Prediction as Prediction
from tacthmc.predict.prediction import pooled as pooled
from tacthmc.predict.predictive import Predictive as Predictive
from tacthmc.predict.scores import Scores as Scores
from tacthmc.predict.scores import accuracy as accuracy
from tacthmc.predict.scores import brier as brier
from tacthmc.predict.scores import log_loss as log_loss
from tacthmc.predict.uncertainty import entropy as entropy
from tacthmc.predict.uncertainty import mutual_information as mutual_information
