"""A recurrent network that reads an image row by row."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from tacthmc.paper import checks
from tacthmc.paper.networks import lstm_scan, lstm_unrolled
from tacthmc.paper.networks.accelerator import has_room_for_weights
from tacthmc.paper.networks.dense import dense
from tacthmc.paper.networks.model import Leaf, Model, as_floats
from tacthmc.paper.networks.products import Compute, check_compute

Recurrence: TypeAlias = Literal["scan", "unrolled", "pallas"]


class LSTM(Model):
    """An LSTM over the rows, and two dense layers on its last state."""

    classes: int = eqx.field(static=True)
    compute: Compute = eqx.field(static=True)
    recurrence: Recurrence | None = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "lstm"

    @property
    def image(self) -> tuple[int, ...]:
        return (28, 28)

    @property
    def leaves(self) -> dict[str, Leaf]:
        """LSTM weights [in, (i, f, g, o)] and dense weights [out, in]."""
        return {
            "lstm.input": Leaf((28, 512), 128),
            "lstm.recurrent": Leaf((128, 512), 128),
            "lstm.bias": Leaf((512,), 128),
            "hidden.weight": Leaf((64, 128), 128),
            "hidden.bias": Leaf((64,), 128),
            "out.weight": Leaf((self.classes, 64), 64),
            "out.bias": Leaf((self.classes,), 64),
        }

    def scores(
        self, params: Mapping[str, Array], images: Num[Array, "n 28 28"]
    ) -> Float[Array, "classes n"]:
        x = as_floats(jnp.transpose(images, (2, 1, 0)), params["lstm.input"])
        weights = params["lstm.input"], params["lstm.recurrent"], params["lstm.bias"]
        last = jax.nn.relu(self._last_state(x, *weights))
        hidden = dense(
            params["hidden.weight"], params["hidden.bias"], last, self.compute, features=1
        )
        return dense(params["out.weight"], params["out.bias"], jax.nn.relu(hidden), self.compute)

    def _last_state(self, x: Array, w_x: Array, w_h: Array, bias: Array) -> Float[Array, "n h"]:
        form, backend = self.recurrence, jax.default_backend()
        if form is None:
            single = all(weights.dtype == jnp.float32 for weights in (w_x, w_h, bias))
            fits = self.compute == "bfloat16" and single and has_room_for_weights()
            form = "pallas" if fits else "scan" if backend == "cpu" else "unrolled"
        if form == "pallas":
            # Imported only if needed, because importing Pallas is slow.
            from tacthmc.paper.networks import lstm_pallas

            return lstm_pallas.last_state(x, w_x, w_h, bias, interpret=backend == "cpu")
        run = lstm_scan.last_state if form == "scan" else lstm_unrolled.last_state
        return run(x, w_x, w_h, bias, self.compute)


def lstm(
    classes: int = 10, *, compute: Compute = "float32", recurrence: Recurrence | None = None
) -> LSTM:
    """A network that reads 28×28 images row by row, with 89,290 parameters.

    The layers are LSTM 28 → 128 with one bias per gate; ReLU of the last hidden state; dense
    128 → 64, ReLU; dense 64 → classes.

    Args:
        classes: the number of classes.
        compute: the precision of products, see :mod:`tacthmc.paper.networks.products`.
        recurrence: "scan" (:mod:`tacthmc.paper.networks.lstm_scan`), "unrolled"
            (:mod:`tacthmc.paper.networks.lstm_unrolled`) or "pallas"
            (:mod:`tacthmc.paper.networks.lstm_pallas`, for NVIDIA GPUs and
            ``compute="bfloat16"``; on a CPU it is interpreted, which is slow and for tests). The
            numbers are equal up to rounding at ``compute``. The default is the fastest: "scan" on
            a CPU, and on a GPU "pallas" if the weights fit (NVIDIA Hopper, and Blackwell for data
            centers) or "unrolled".

    >>> import jax, jax.numpy as jnp
    >>> model = lstm()
    >>> model.num_parameters
    89290
    >>> params = model.init(jax.random.key(0))
    >>> model.logits(params, jnp.zeros((2, 28, 28), jnp.uint8)).shape
    (2, 10)
    """
    checks.whole("classes", classes, 1)
    check_compute(compute)
    if recurrence not in (None, *get_args(Recurrence)):
        raise ValueError(f"recurrence must be one of {get_args(Recurrence)}; got {recurrence!r}")
    if recurrence == "pallas" and compute != "bfloat16":
        # In higher precision the weights and the state do not fit into shared memory.
        raise ValueError(f'recurrence="pallas" needs compute="bfloat16"; got {compute!r}')
    return LSTM(classes=classes, compute=compute, recurrence=recurrence)
