"""Networks as plain functions of their parameters, quick for one chain and under ``vmap``."""

from tacthmc.models.cnn import cnn as cnn
from tacthmc.models.likelihood import categorical as categorical
from tacthmc.models.likelihood import gaussian_prior as gaussian_prior
from tacthmc.models.lstm import lstm as lstm
from tacthmc.models.mlp import mlp as mlp
from tacthmc.models.model import Model as Model
from tacthmc.models.predictions import averaged as averaged
