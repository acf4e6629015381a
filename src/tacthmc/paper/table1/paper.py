"""The numbers of the paper's Table 1."""

SOURCE = (
    "R. Luo, J. Wang, Y. Yang, Z. Zhu, J. Wang. Thermostat-assisted continuously-tempered"
    " Hamiltonian Monte Carlo for Bayesian learning. NeurIPS 2018, Table 1"
)

NOISES = (0.0, 0.2, 0.3)
"""Shares of permuted labels."""

EPOCHS = 1000
"""The epochs of each method, in sampling or in training."""

TITLES = {
    "adam": "Adam",
    "momentum_sgd": "momentum SGD",
    "sghmc": "SGHMC",
    "sgnht": "SGNHT",
    "tact": "TACT-HMC",
}
"""The rows, from top to bottom."""

TASK_TITLES = {
    "mlp": "MLP on EMNIST",
    "rnn": "RNN on Fashion-MNIST",
    "cnn": "CNN on CIFAR-10",
}

ACCURACY: dict[str, dict[str, tuple[float, float, float]]] = {
    "mlp": {
        "adam": (83.39, 80.27, 80.63),
        "momentum_sgd": (83.95, 82.64, 81.70),
        "sghmc": (84.53, 82.62, 81.56),
        "sgnht": (84.48, 82.63, 81.60),
        "tact": (84.85, 82.95, 81.77),
    },
    "rnn": {
        "adam": (88.84, 88.35, 88.25),
        "momentum_sgd": (88.66, 88.91, 88.34),
        "sghmc": (90.25, 88.98, 88.49),
        "sgnht": (90.18, 89.10, 88.58),
        "tact": (90.84, 89.61, 89.01),
    },
    "cnn": {
        "adam": (69.53, 72.39, 71.05),
        "momentum_sgd": (64.25, 65.09, 67.70),
        "sghmc": (76.44, 73.87, 71.79),
        "sgnht": (76.60, 73.86, 71.37),
        "tact": (78.93, 74.88, 73.22),
    },
}
"""Test accuracies in percent by task and method, one for each of :data:`NOISES`."""


def accuracy(task: str, method: str, noise: float) -> float | None:
    """The paper's accuracy as a share; None where the paper has none.

    >>> accuracy("cnn", "tact", 0.2), accuracy("cnn", "tact", 0.5)
    (0.7488, None)
    """
    if noise not in NOISES:
        return None
    return round(ACCURACY[task][method][NOISES.index(noise)] / 100, 6)
