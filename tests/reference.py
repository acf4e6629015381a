"""The formulas in float64 NumPy, written from the paper and the docstrings, not from the code."""

import numpy as np
from scipy.linalg import expm


def coupling(xi, plateau=1 / 3, unit=1.0, power=3):
    u = (abs(xi) - plateau) / (unit - plateau)
    if u <= 0:
        return 1.0, 0.0
    lam = 1 / (1 + u**power)
    return lam, -np.sign(xi) * power * u ** (power - 1) / (unit - plateau) * lam**2


class Thermostat:
    """Scalar, diagonal or matrix; frictions z/m on r, driven by r² − ηT/m."""

    def __init__(self, kind, gamma):
        self.kind, self.gamma = kind, gamma

    def advance(self, z, r, m, eta, bath, weight, mean_friction=None):
        damping = np.eye(len(m))
        if mean_friction is not None:
            damping = expm(-weight / 2 * self.matrix(mean_friction, m))
        if self.kind == "matrix":
            return z + weight / self.gamma * (np.outer(r, r) - eta * bath * damping / m)
        excess = r**2 - eta * bath * np.diagonal(damping) / m
        if self.kind == "diagonal":
            return z + weight / self.gamma * excess
        if self.kind == "tensor":  # two leaves: all but the last coordinate, and the last
            return z + weight / self.gamma * np.array([excess[:-1].mean(), excess[-1]])
        if self.kind == "none":
            return z
        return z + weight / self.gamma * excess.mean()

    def matrix(self, z, m):
        """The friction as a matrix acting on r."""
        size = len(m)
        if self.kind == "matrix":
            return z / m[:, None]
        if self.kind == "tensor":
            return np.diag(np.concatenate([np.full(size - 1, z[0]), [z[1]]]) / m)
        return np.diag(np.broadcast_to(z, (size,)) / m)


def splitting_step(s, grad, noise, p):
    """One step of the symmetric splitting; s and p are dictionaries."""
    theta, r, xi, rx, z, zx = (s[k] for k in ("theta", "r", "xi", "rx", "z", "zx"))
    eta, ex, c, cx, m, bath = (p[k] for k in ("eta", "ex", "c", "cx", "m", "bath"))
    theta = theta + r / 2
    xi, rx = _mirror(xi + rx / 2, rx, p["wall"])
    lam, slope = (bath * v for v in coupling(xi))
    thermostat, old = p["thermostat"], r
    u, g = grad(theta)
    ahead = thermostat.advance(z, r, m, eta, bath, lam**2 / 2)
    half = expm(-(lam**2) / 2 * thermostat.matrix(ahead, m))
    r = half @ (half @ r - lam * eta / m * g + lam * np.sqrt(2 * c * eta) / m * noise["theta"])
    plain = thermostat.advance(ahead, r, m, eta, bath, lam**2 / 2)
    z = thermostat.advance(z, (old + r) / 2, m, eta, bath, lam**2, s["mean_friction"])
    if thermostat.kind == "matrix":  # off the diagonal by the momenta themselves
        z = np.where(np.eye(len(m), dtype=bool), z, plain)
    theta = theta + r / 2
    push = p["bias"](xi, slope, u)
    zx = zx + slope**2 / 2 * (rx**2 - ex * bath) / p["gamma_xi"]
    half = np.exp(-(slope**2) / 2 * zx)
    rx = half * (half * rx - slope * (ex * u + np.sqrt(2 * cx * ex) * noise["xi"]) + ex * push)
    zx = zx + slope**2 / 2 * (rx**2 - ex * bath) / p["gamma_xi"]
    xi, rx = _mirror(xi + rx / 2, rx, p["wall"])
    return {"theta": theta, "r": r, "xi": xi, "rx": rx, "z": z, "zx": zx}


def euler_step(s, grad, noise, p):
    """One step of Algorithm 1 with masses and bath temperature."""
    theta, r, xi, rx, z, zx = (s[k] for k in ("theta", "r", "xi", "rx", "z", "zx"))
    eta, ex, c, cx, m, bath = (p[k] for k in ("eta", "ex", "c", "cx", "m", "bath"))
    lam, slope = (bath * v for v in coupling(xi))
    zx = zx + slope**2 * (rx**2 - ex * bath) / p["gamma_xi"]
    z = p["thermostat"].advance(z, r, m, eta, bath, lam**2)
    u, g = grad(theta)
    push = p["bias"](xi, slope, u)
    rx = rx - slope * (ex * u + np.sqrt(2 * cx * ex) * noise["xi"]) - slope**2 * zx * rx + ex * push
    r = (
        r
        + lam * (-eta / m * g + np.sqrt(2 * c * eta) / m * noise["theta"])
        - lam**2 * p["thermostat"].matrix(z, m) @ r
    )
    moved = xi + rx
    if abs(moved) > p["wall"]:
        rx = -rx
    else:
        xi = moved
    return {"theta": theta + r, "r": r, "xi": xi, "rx": rx, "z": z, "zx": zx}


def _mirror(xi, r, wall):
    if xi > wall:
        return 2 * wall - xi, -r
    if xi < -wall:
        return -2 * wall - xi, -r
    return xi, r
