"""The paper's networks as functions of their parameters, fast alone and under ``vmap``."""

from tacthmc.paper.networks.convolutional import cnn as cnn
from tacthmc.paper.networks.likelihood import categorical as categorical
from tacthmc.paper.networks.likelihood import gaussian_prior as gaussian_prior
from tacthmc.paper.networks.model import Model as Model
from tacthmc.paper.networks.perceptron import mlp as mlp
from tacthmc.paper.networks.recurrent import lstm as lstm
