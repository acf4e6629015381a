"""The interface of the networks: parameters as a dict, images in, logits out."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from tacthmc.paper.networks.products import Compute
from tacthmc.paper.types import PRNGKey


class Leaf(NamedTuple):
    """The shape of a parameter, and the fan in of its layer."""

    shape: tuple[int, ...]
    fan_in: int


class Model(eqx.Module):
    """A network: ``init(key)`` gives parameters, ``logits(params, images)`` the class scores.

    Two models with the same arguments are equal, so JAX compiles once for both.

    >>> from tacthmc.paper.networks import mlp
    >>> mlp() == mlp(), mlp().name, mlp().num_parameters
    (True, 'mlp', 83247)
    """

    compute: eqx.AbstractVar[Compute]
    classes: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the network."""

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
        """The logits of images in their natural shape; uint8 images are not scaled yet."""

    @property
    def num_parameters(self) -> int:
        """The total number of values in the parameters."""
        return sum(int(np.prod(leaf.shape)) for leaf in self.leaves.values())

    def init(self, key: PRNGKey) -> dict[str, Array]:
        """Weights and biases, uniform within ±1/√(fan in), as is the default of PyTorch."""
        # One draw for all leaves, because a draw for each takes several times as long to compile.
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
                255 here, so that data sets stay small), or floats, which are not scaled.
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
    """Images in the dtype of the parameters; uint8 images are divided by 255.

    >>> import jax.numpy as jnp
    >>> as_floats(jnp.array([0, 255], jnp.uint8), jnp.zeros(())).tolist()
    [0.0, 1.0]
    """
    floats = images.astype(like.dtype)
    return floats / jnp.asarray(255, like.dtype) if images.dtype == jnp.uint8 else floats
