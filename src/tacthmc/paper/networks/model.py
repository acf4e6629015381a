"""What the networks have in common: parameters as a dict, images in, logits out."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from tacthmc._typing import PRNGKey
from tacthmc.paper.networks.products import Compute


class Leaf(NamedTuple):
    """A parameter's shape, and the number of inputs that one output of its layer sums over."""

    shape: tuple[int, ...]
    fan_in: int


class Model(eqx.Module):
    """A network: ``init(key)`` gives parameters, ``logits(params, images)`` the class scores.

    Two models made with the same arguments are equal, so that JAX compiles once for both.

    >>> from tacthmc.paper.networks import mlp
    >>> mlp() == mlp(), mlp().name, mlp().num_parameters
    (True, 'mlp', 83247)
    """

    compute: eqx.AbstractVar[Compute]
    classes: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def name(self) -> str:
        """What to call it."""

    @property
    @abstractmethod
    def image(self) -> tuple[int, ...]:
        """The shape of one image."""

    @property
    @abstractmethod
    def leaves(self) -> dict[str, Leaf]:
        """The parameters, by name."""

    @abstractmethod
    def scores(
        self, params: Mapping[str, Array], images: Num[Array, "n ..."]
    ) -> Float[Array, "classes n"]:
        """The logits of images of the natural shape, of which uint8 are not scaled yet."""

    @property
    def num_parameters(self) -> int:
        """How many numbers the parameters have."""
        return sum(int(np.prod(leaf.shape)) for leaf in self.leaves.values())

    def init(self, key: PRNGKey) -> dict[str, Array]:
        """Parameters, uniform within ±1/√(fan in): weights and biases, as PyTorch's defaults."""
        # One draw for all: a draw for each leaf takes several times as long to compile.
        drawn = jax.random.uniform(key, (self.num_parameters,), minval=-1.0, maxval=1.0)
        params, start = {}, 0
        for name, leaf in self.leaves.items():
            stop = start + int(np.prod(leaf.shape))
            params[name] = drawn[start:stop].reshape(leaf.shape) / float(np.sqrt(leaf.fan_in))
            start = stop
        return params

    def logits(
        self, params: Mapping[str, Array], images: Num[Array, "n ..."]
    ) -> Float[Array, "n classes"]:
        """The scores of a batch.

        Args:
            params: as :meth:`init` gives them.
            images: n images, each in its natural shape or flat: uint8 of 0 to 255 (divided by
                255 here, so that data sets may stay small) or floats, taken as they are.
        """
        self._check_params(params)
        size = int(np.prod(self.image))
        if images.ndim < 2 or images.shape[1:] not in (self.image, (size,)):
            raise ValueError(
                f"images of {self.name} must have shape (n, {', '.join(map(str, self.image))}) or"
                f" (n, {size}); got shape {images.shape}"
            )
        if images.dtype != jnp.uint8 and not jnp.issubdtype(images.dtype, jnp.floating):
            raise TypeError(
                f"images must be uint8 (0 to 255) or floating-point; got dtype {images.dtype}"
            )
        images = images.reshape(images.shape[0], *self.image)
        return self.scores(params, images).T

    def _check_params(self, params: Mapping[str, Array]) -> None:
        leaves = self.leaves
        if set(params) != set(leaves):
            raise ValueError(
                f"params of {self.name} must have the names {sorted(leaves)};"
                f" got {sorted(map(str, params))}"
            )
        for name, leaf in leaves.items():
            if params[name].shape != leaf.shape:
                raise ValueError(
                    f"params[{name!r}] of {self.name} must have shape {leaf.shape};"
                    f" got shape {params[name].shape}"
                )


def as_floats(images: Num[Array, "..."], like: Array) -> Float[Array, "..."]:
    """Images as numbers of the parameters' precision; uint8 are divided by 255.

    >>> import jax.numpy as jnp
    >>> as_floats(jnp.array([0, 255], jnp.uint8), jnp.zeros(())).tolist()
    [0.0, 1.0]
    """
    floats = images.astype(like.dtype)
    return floats / jnp.asarray(255, like.dtype) if images.dtype == jnp.uint8 else floats
