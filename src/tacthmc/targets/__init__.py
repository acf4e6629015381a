"""Synthetic distributions with exact densities, moments and samples."""

from tacthmc.targets._gaussian import Gaussian as Gaussian
from tacthmc.targets._mixture import GaussianMixture as GaussianMixture
from tacthmc.targets._mixture import grid as grid
from tacthmc.targets._mixture import ring as ring
from tacthmc.targets._mixture import three_gaussians as three_gaussians
