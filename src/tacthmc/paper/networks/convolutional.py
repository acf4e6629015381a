"""A small convolutional network."""

from collections.abc import Mapping
from typing import get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from tacthmc.paper import checks
from tacthmc.paper.networks.accelerator import has_tensor_cores, on_cpu
from tacthmc.paper.networks.convolution import Method, convolve
from tacthmc.paper.networks.dense import dense
from tacthmc.paper.networks.model import Leaf, Model, as_floats
from tacthmc.paper.networks.pooling import pool
from tacthmc.paper.networks.products import Compute, check_compute
from tacthmc.paper.networks.winograd import MIN_CHANNELS


class CNN(Model):
    """Two convolutions with pooling, two dense layers."""

    classes: int = eqx.field(static=True)
    compute: Compute = eqx.field(static=True)
    convolution: Method | None = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "cnn"

    @property
    def image(self) -> tuple[int, ...]:
        return (32, 32, 3)

    @property
    def leaves(self) -> dict[str, Leaf]:
        """Kernels [row, column, in, out]; weights [out, in] with in = (channel, row, column)."""
        return {
            "conv1.kernel": Leaf((3, 3, 3, 16), 27),
            "conv1.bias": Leaf((16,), 27),
            "conv2.kernel": Leaf((3, 3, 16, 16), 144),
            "conv2.bias": Leaf((16,), 144),
            "hidden.weight": Leaf((100, 1024), 1024),
            "hidden.bias": Leaf((100,), 1024),
            "out.weight": Leaf((self.classes, 100), 100),
            "out.bias": Leaf((self.classes,), 100),
        }

    def scores(
        self, params: Mapping[str, Array], images: Num[Array, "n 32 32 3"]
    ) -> Float[Array, "classes n"]:
        n = images.shape[0]
        # uint8 images are transposed before the conversion to floats makes them larger.
        x = jnp.transpose(images, (3, 1, 2, 0))
        for layer in ("conv1", "conv2"):
            _, h, w, _ = x.shape
            x = self._layer(params[f"{layer}.kernel"], params[f"{layer}.bias"], x)
            x = x.reshape(16, h // 2, w // 2, n)
        x = x.reshape(-1, n)
        hidden = dense(params["hidden.weight"], params["hidden.bias"], x, self.compute)
        return dense(params["out.weight"], params["out.bias"], jax.nn.relu(hidden), self.compute)

    def _layer(self, kernel: Array, bias: Array, x: Num[Array, "c h w n"]) -> Float[Array, "out m"]:
        method = self.convolution or self._fastest(channels=x.shape[0])
        if method != "fused":
            x = as_floats(x, kernel)
            return pool(convolve(kernel, x, method, self.compute), bias)
        # Imported only if needed, because importing Pallas is slow.
        from tacthmc.paper.networks.fused import fused

        x = x if x.dtype == jnp.uint8 else as_floats(x, kernel)
        interpret = jax.default_backend() == "cpu"
        return fused(kernel, bias, x, self.compute, interpret)

    def _fastest(self, channels: int) -> Method:
        """The fastest method here that rounds no more than ``compute`` allows."""
        # In float32 the fused kernels cannot use tensor cores.
        if self.compute != "float32" and has_tensor_cores():
            return "fused"
        # Winograd multiplies sums, for which bfloat16 loses more digits.
        exact = self.compute != "bfloat16"
        return "winograd" if exact and channels >= MIN_CHANNELS and on_cpu() else "phases"


def cnn(
    classes: int = 10, *, compute: Compute = "float32", convolution: Method | None = None
) -> CNN:
    """A network for CIFAR-10 images, 32×32×3 (height, width, color), with 106,278 parameters.

    The layers are conv 3×3 with 16 channels, ReLU, 2×2 max-pool; the same again; dense 1024 → 100,
    ReLU; dense 100 → classes.

    Args:
        classes: the number of classes.
        compute: the precision of products, see :mod:`tacthmc.paper.networks.products`.
        convolution: how convolutions are computed, see
            :mod:`tacthmc.paper.networks.convolution`. The numbers are equal up to rounding at
            ``compute``. "fused" is for NVIDIA GPUs (on a CPU it is interpreted, which is slow and
            for tests). The default is "fused" on an NVIDIA GPU unless ``compute`` is "float32";
            on a CPU "winograd" for the second layer unless ``compute`` is "bfloat16"; and
            otherwise "phases".

    >>> import jax, jax.numpy as jnp
    >>> model = cnn()
    >>> model.num_parameters
    106278
    >>> params = model.init(jax.random.key(0))
    >>> model.logits(params, jnp.zeros((2, 32, 32, 3), jnp.uint8)).shape
    (2, 10)
    """
    checks.whole("classes", classes, 1)
    check_compute(compute)
    if convolution not in (None, *get_args(Method)):
        raise ValueError(f"convolution must be one of {get_args(Method)}; got {convolution!r}")
    if convolution in ("native", "winograd") and compute == "bfloat16":
        raise ValueError('compute="bfloat16" needs convolution="phases", "patches" or "fused"')
    return CNN(classes=classes, compute=compute, convolution=convolution)
