"""A network with one hidden layer."""

from collections.abc import Mapping

import equinox as eqx
import jax
from jaxtyping import Array, Float, Num

from tacthmc.paper import checks
from tacthmc.paper.networks.dense import dense
from tacthmc.paper.networks.model import Leaf, Model, as_floats
from tacthmc.paper.networks.products import Compute, check_compute


class MLP(Model):
    """W₂·relu(W₁·x + b₁) + b₂."""

    inputs: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    compute: Compute = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "mlp"

    @property
    def image(self) -> tuple[int, ...]:
        return (self.inputs,)

    @property
    def leaves(self) -> dict[str, Leaf]:
        """Two dense layers, weights [out, in]."""
        return {
            "hidden.weight": Leaf((self.hidden, self.inputs), self.inputs),
            "hidden.bias": Leaf((self.hidden,), self.inputs),
            "out.weight": Leaf((self.classes, self.hidden), self.hidden),
            "out.bias": Leaf((self.classes,), self.hidden),
        }

    def logits(
        self, params: Mapping[str, Array], images: Num[Array, "n ..."]
    ) -> Float[Array, "n classes"]:
        """The scores of a batch. Images with more than one axis are flattened."""
        return super().logits(params, images.reshape(images.shape[0], -1))

    def scores(
        self, params: Mapping[str, Array], images: Num[Array, "n in"]
    ) -> Float[Array, "classes n"]:
        x = as_floats(images, params["hidden.weight"])
        hidden = dense(params["hidden.weight"], params["hidden.bias"], x, self.compute, features=1)
        return dense(params["out.weight"], params["out.bias"], jax.nn.relu(hidden), self.compute)


def mlp(
    inputs: int = 784, hidden: int = 100, classes: int = 47, *, compute: Compute = "float32"
) -> MLP:
    """A dense network: inputs → hidden, ReLU → classes.

    Args:
        inputs: the number of pixels of an image. Images of any shape are flattened.
        hidden: the width of the hidden layer.
        classes: the number of classes.
        compute: the precision of products, see :mod:`tacthmc.paper.networks.products`.

    >>> import jax, jax.numpy as jnp
    >>> model = mlp(inputs=4, hidden=3, classes=2)
    >>> params = model.init(jax.random.key(0))
    >>> sorted(params)
    ['hidden.bias', 'hidden.weight', 'out.bias', 'out.weight']
    >>> model.logits(params, jnp.zeros((5, 2, 2), jnp.uint8)).shape
    (5, 2)
    """
    checks.whole("inputs", inputs, 1)
    checks.whole("hidden", hidden, 1)
    checks.whole("classes", classes, 1)
    check_compute(compute)
    return MLP(inputs=inputs, hidden=hidden, classes=classes, compute=compute)
