"""The networks of ``tacthmc.paper.networks`` as a PyTorch user writes them.

They have the same parameters, except for ``nn.LSTM``'s second vector of biases, which is added to
the first and cannot be left out.
"""

from typing import Any

import numpy as np

SECOND_BIASES = {"lstm": 4 * 128}
"""Parameters that a module has and our network has not."""


def module(torch: Any, name: str) -> Any:
    """``mlp``, ``cnn`` or ``lstm``; a batch of bytes in, logits out."""
    return {"mlp": _mlp, "cnn": _cnn, "lstm": _lstm}[name](torch.nn)


def arranged(images: np.ndarray) -> np.ndarray:
    """Images as PyTorch likes them: channels, where there are any, before rows and columns."""
    return np.ascontiguousarray(np.moveaxis(images, 3, 1)) if images.ndim == 4 else images


def _mlp(nn: Any) -> Any:
    layers = (nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 47))
    return _from_bytes(nn, nn.Sequential(*layers))


def _cnn(nn: Any) -> Any:
    layers = (
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )
    return _from_bytes(nn, nn.Sequential(*layers))


def _lstm(nn: Any) -> Any:
    class Last(nn.Module):
        """The last hidden state of an LSTM over an image's rows."""

        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(28, 128, batch_first=True)

        def forward(self, rows: Any) -> Any:
            return self.lstm(rows)[1][0][0]

    layers = (Last(), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    return _from_bytes(nn, nn.Sequential(*layers))


def _from_bytes(nn: Any, network: Any) -> Any:
    class FromBytes(nn.Module):
        """Bytes to numbers from 0 to 1, batch by batch, as ours does it."""

        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, images: Any) -> Any:
            return self.network(images.float() / 255)

    return FromBytes()
