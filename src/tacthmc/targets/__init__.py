"""Synthetic distributions with exact densities, moments and samples."""

from tacthmc.targets.gaussian import Gaussian as Gaussian
from tacthmc.targets.mixture import GaussianMixture as GaussianMixture
from tacthmc.targets.mixture import three_gaussians as three_gaussians
