"""Where kernels for tensor cores run by default."""

import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from tacthmc.paper.networks import lstm, lstm_pallas
from tacthmc.paper.networks.accelerator import has_room_for_weights, has_tensor_cores

pytestmark = pytest.mark.usefixtures("quick_compilation")


def device(platform="gpu", made_by="CUDA 12090", capability="9.0"):
    client = SimpleNamespace(platform_version=made_by)
    return SimpleNamespace(platform=platform, client=client, compute_capability=capability)


KINDS = {
    "new": (device(), True, True),
    "new, for games": (device(capability="12.0"), True, False),
    "first": (device(capability="8.0"), True, False),
    "older": (device(capability="7.5"), False, False),
    "another maker's": (device(made_by="rocm 60200", capability="gfx942"), False, False),
    "silent": (SimpleNamespace(platform="gpu", client=device().client), False, False),
    "processor": (device(platform="cpu"), False, False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_which_devices_have_them(kind, monkeypatch):
    one, tensor_cores, room = KINDS[kind]
    monkeypatch.setattr(jax, "devices", lambda *_: [one])
    assert has_tensor_cores() == tensor_cores
    assert has_room_for_weights() == room


def test_a_user_who_computes_elsewhere(monkeypatch):
    here = jax.devices("cpu")[0]
    monkeypatch.setattr(jax, "devices", lambda *_: [device()])
    with jax.default_device(here):
        assert not has_tensor_cores()


@pytest.mark.parametrize(
    ("compute", "dtype", "taken"),
    [
        ("bfloat16", jnp.float32, True),
        ("tf32", jnp.float32, False),
        ("bfloat16", jnp.float16, False),
    ],
)
def test_the_lstm_takes_its_kernel_where_it_can(compute, dtype, taken, monkeypatch):
    seen = []

    def last_state(x, w_x, w_h, bias, interpret):
        seen.append(interpret)
        return jnp.zeros((x.shape[2], w_h.shape[0]), x.dtype)

    monkeypatch.setattr(lstm_pallas, "last_state", last_state)
    # The package's ``lstm`` is the function.
    module = sys.modules["tacthmc.paper.networks.recurrent"]
    monkeypatch.setattr(module, "has_room_for_weights", lambda: True)
    model = lstm(compute=compute)
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), model.init(jax.random.key(0)))
    model.logits(params, jnp.zeros((2, 28, 28), jnp.uint8))
    assert bool(seen) == taken
