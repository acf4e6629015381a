"""The paper's networks as functions of their parameters, fast alone and under ``vmap``."""

from tacthmc.paper.networks.cnn import cnn as cnn
from tacthmc.paper.networks.likelihood import categorical as categorical
from tacthmc.paper.networks.likelihood import gaussian_prior as gaussian_prior
from tacthmc.paper.networks.lstm import lstm as lstm
from tacthmc.paper.networks.mlp import mlp as mlp
from tacthmc.paper.networks.model import Model as Model
