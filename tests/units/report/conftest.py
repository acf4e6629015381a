"""A tempered run that several tests report on, and a browser."""

import jax
import jax.numpy as jnp
import pytest

import tacthmc
from tests.units.report.opened_page import chromium


@pytest.fixture(scope="session")
def tempered():
    """Two modes in the plane, tempered, three chains."""
    target = tacthmc.targets.GaussianMixture(
        jnp.array([[-3.0, 0.0], [3.0, 0.0]]), jnp.array([0.6, 0.4]), 1.0
    )
    potential = tacthmc.noisy(tacthmc.potential(target), force=1.0)
    key, start, keep = jax.random.key(0), jnp.array([-3.0, 0.0]), tacthmc.Keep(every=20)
    return tacthmc.sample(key, tacthmc.tact(0.05), potential, start, 150_000, 3, keep=keep)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield opened
        opened.close()
