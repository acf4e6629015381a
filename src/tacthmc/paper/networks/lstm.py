"""A recurrent network that reads an image row by row."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from tacthmc import _checks as checks
from tacthmc.paper.networks import recurrence, written_out
from tacthmc.paper.networks.accelerator import has_room_for_a_network
from tacthmc.paper.networks.dense import dense
from tacthmc.paper.networks.model import Leaf, Model, as_floats
from tacthmc.paper.networks.products import Compute, check_compute

Recurrence: TypeAlias = Literal["loop", "written out", "one kernel"]


class LSTM(Model):
    """An LSTM over the rows, two dense layers on its last state."""

    classes: int = eqx.field(static=True)
    compute: Compute = eqx.field(static=True)
    recurrence: Recurrence | None = eqx.field(static=True)

    @property
    def name(self) -> str:
        """lstm."""
        return "lstm"

    @property
    def image(self) -> tuple[int, ...]:
        """Rows of a digit."""
        return (28, 28)

    @property
    def leaves(self) -> dict[str, Leaf]:
        """LSTM weights [in, (i, f, g, o)], dense weights [out, in]."""
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
        """The logits."""
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
            whole = self.compute == "bfloat16" and single and has_room_for_a_network()
            form = "one kernel" if whole else "loop" if backend == "cpu" else "written out"
        if form == "one kernel":
            # Imported where it is wanted: Pallas takes a while.
            from tacthmc.paper.networks import persistent

            return persistent.last_state(x, w_x, w_h, bias, interpret=backend == "cpu")
        run = recurrence.last_state if form == "loop" else written_out.last_state
        return run(x, w_x, w_h, bias, self.compute)


def lstm(
    classes: int = 10, *, compute: Compute = "float32", recurrence: Recurrence | None = None
) -> LSTM:
    """A network for 28×28 images, read a row at a time; 89,290 parameters.

    LSTM 28 → 128 with one bias per gate; the last hidden state, ReLU; dense 128 → 64, ReLU;
    dense 64 → classes.

    Args:
        classes: how many classes.
        compute: the precision of products, see :mod:`tacthmc.paper.networks.products`.
        recurrence: "loop" (:mod:`tacthmc.paper.networks.recurrence`), "written out"
            (:mod:`tacthmc.paper.networks.written_out`) or "one kernel" (:mod:`tacthmc.paper.networks.persistent`,
            for NVIDIA's GPUs and ``compute="bfloat16"``; on a CPU it is interpreted, which is slow,
            for tests); the numbers are the same up to rounding at ``compute``. By default the
            fastest: the loop on a CPU, on a GPU written out, or one kernel where it fits (NVIDIA's
            Hopper, and Blackwell for data centers).

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
    if recurrence == "one kernel" and compute != "bfloat16":
        # In more digits the weights do not fit on the chip beside the state.
        raise ValueError(f'recurrence="one kernel" needs compute="bfloat16"; got {compute!r}')
    return LSTM(classes=classes, compute=compute, recurrence=recurrence)
