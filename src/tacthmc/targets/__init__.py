"""Synthetic distributions with exact densities, moments and samples."""

from tacthmc.targets.gaussian import Gaussian as Gaussian
from tacthmc.targets.mixture import GaussianMixture as GaussianMixture
from tacthmc.targets.mixture import grid as grid
from tacthmc.targets.mixture import ring as ring
from tacthmc.targets.mixture import three_gaussians as three_gaussians
