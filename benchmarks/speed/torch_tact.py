"""Algorithm 1 in eager PyTorch as a user would write it: the peer of ``tact`` on networks.

One module a chain, one call of autograd a step, a loop over parameters under ``no_grad``; what
is scalar (ξ and its thermostat, the bias) is plain Python, which is the fastest there.
"""

import importlib
import math
import random
from typing import Any

from benchmarks.speed.clock import Skipped

PLATEAU, UNIT, WALL, BINS = 1 / 3, 1.0, 5 / 3, 60


def load_torch() -> Any:
    """PyTorch, if it is there."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise Skipped("PyTorch is not installed: pip install torch==2.13.0") from error
    return torch


def coupling(xi: float) -> tuple[float, float]:
    """λ(ξ) and λ′(ξ) of the paper's Appendix A.

    >>> value, slope = coupling(-1.0)
    >>> value, round(slope, 3)
    (0.5, 1.125)
    """
    u = max(abs(xi) - PLATEAU, 0.0) / (UNIT - PLATEAU)
    value = 1 / (1 + u**3)
    return value, -math.copysign(3 * u**2 * value**2 / (UNIT - PLATEAU), xi) + 0.0


class TorchTact:
    """One chain: a module's parameters, their momenta, and what tempers them."""

    def __init__(
        self,
        torch: Any,
        module: Any,
        data: tuple[Any, Any],
        batch_size: int,
        *,
        precision: float,
        step_size: float,
        noise: float = 0.1,
        gamma: float = 1.0,
    ):
        """``precision`` is the Gaussian prior's 1/σ²; rates are in full-data units."""
        self.torch, self.module, self.data, self.batch_size = torch, module, data, batch_size
        self.precision, self.eta, self.c, self.gamma = precision, step_size, noise, gamma
        self.parameters = list(module.parameters())
        self.dimension = sum(p.numel() for p in self.parameters)
        self.momenta = [torch.randn_like(p) * math.sqrt(step_size) for p in self.parameters]
        self.z, self.z_xi, self.steps = noise, noise, 0
        self.xi, self.r_xi = 0.0, random.gauss(0.0, math.sqrt(step_size))
        self.bias = [0.0] * BINS

    def energy(self) -> Any:
        """Ũ on a batch drawn with replacement."""
        torch, (images, labels) = self.torch, self.data
        chosen = torch.randint(0, len(labels), (self.batch_size,))
        loss = torch.nn.functional.cross_entropy(
            self.module(images[chosen]), labels[chosen], reduction="sum"
        )
        prior = sum((p.square().sum() for p in self.parameters), torch.zeros(()))
        return loss * (len(labels) / self.batch_size) + 0.5 * self.precision * prior

    def step(self) -> float:
        """Thermostats, the gradient with momentum, friction and noise, then ξ."""
        self.module.zero_grad(set_to_none=True)
        energy = self.energy()
        energy.backward()
        lam, slope = coupling(self.xi)
        with self.torch.no_grad():
            square = float(sum(r.square().sum() for r in self.momenta)) / self.dimension
            self.z += lam**2 * (square - self.eta) / self.gamma
            scale = lam * math.sqrt(2 * self.c * self.eta)
            for p, r in zip(self.parameters, self.momenta, strict=True):
                r.mul_(1 - lam**2 * self.z)
                r.add_(p.grad, alpha=-lam * self.eta)
                r.add_(self.torch.randn_like(p), alpha=scale)
                p.add_(r)
        value = energy.item()
        self._temper(value, slope)
        return value

    def _temper(self, energy: float, slope: float) -> None:
        """ξ's thermostat, momentum and bias; a step over the wall is taken back."""
        self.steps += 1
        self.z_xi += slope**2 * (self.r_xi**2 - self.eta) / self.gamma
        place = min(max(int((self.xi + WALL) / (2 * WALL) * BINS), 0), BINS - 1)
        random_part = random.gauss(0.0, math.sqrt(2 * self.c * self.eta))
        kick = self.eta * self.bias[place] - slope * (self.eta * energy + random_part)
        self.r_xi += kick - slope**2 * self.z_xi * self.r_xi
        self.bias[place] += (slope * energy - self.bias[place]) / self.steps
        if abs(self.xi + self.r_xi) > WALL:
            self.r_xi = -self.r_xi
        else:
            self.xi += self.r_xi
