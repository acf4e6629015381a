"""Runs that are wrong by construction: each with its true error, and the warning that catches it.

No mechanism is there twice. ``error`` is computed against the truth, which the library does not
know; ``least`` is what it has to be for the run to count as wrong.
"""

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc import samplers
from tacthmc.dynamics import (
    ContinuousTempering,
    DiagonalThermostat,
    Euler,
    PowerCoupling,
    ScalarThermostat,
    TensorThermostat,
)
from tests.verdicts.wrong_models import (
    DATA,
    GAUSSIAN,
    MEAN,
    MODES,
    MU_SD,
    REGRESSION_SD,
    WIDTH,
    ZERO,
    Doubled,
    Shrinking,
    Wrong,
    WrongSlope,
    breaks,
    far_away,
    hidden_wall,
    loader,
    location,
    lopsided,
    means,
    neck,
    of_blocks,
    of_funnel,
    regression,
    sampled,
    share_above,
    stiff,
    two_blocks,
    two_wells,
    widths,
)

WRONG = [
    Wrong(
        "one friction for blocks of unequal noise",
        "noise",
        lambda key: sampled(
            key,
            tacthmc.sgnht(1e-3, thermostat=ScalarThermostat()),
            two_blocks(),
            {"A": jnp.zeros((2, 3)), "mu": ZERO},
        ),
        of_blocks,
        0.2,
        WIDTH,
    ),
    Wrong(
        "one friction within a tensor of unequal inputs",
        "noise",
        lambda key: sampled(
            key,
            tacthmc.sgnht(2e-5, thermostat=TensorThermostat()),
            regression(),
            jnp.array([1.0, 0.1, 3.0]),
            200_000,
            100,
        ),
        lambda run: widths(run, REGRESSION_SD),
        0.2,
        WIDTH,
    ),
    Wrong(
        "no thermostat and no estimate of the noise",
        "noise",
        lambda key: sampled(key, tacthmc.sghmc(1e-3), means(), ZERO),
        lambda run: widths(run, MU_SD),
        0.1,
        WIDTH,
    ),
    Wrong(
        "an estimate of the noise that is too large",
        "noise",
        lambda key: sampled(
            key, tacthmc.sghmc(0.02, friction=0.1, noise_estimate=8.0), GAUSSIAN, ZERO, 40_000
        ),
        lambda run: widths(run, 1.0),
        0.1,
        WIDTH,
    ),
    Wrong(
        "Langevin steps that take noise for heat",
        "noise",
        lambda key: sampled(key, tacthmc.sgld(2e-3), means(), ZERO),
        lambda run: widths(run, MU_SD),
        0.1,
        WIDTH,
    ),
    Wrong(
        "reshuffled epochs",
        "steps",
        lambda key: sampled(key, tacthmc.sgnht(2e-3), means(10, batches="epochs"), ZERO, 40_000),
        lambda run: widths(run, MU_SD),
        0.1,
        WIDTH,
    ),
    Wrong(
        "steps too long for a sharp peak",
        "steps",
        lambda key: sampled(
            key,
            tacthmc.sghmc(0.8),
            tacthmc.potential(lambda x: jnp.sum(jnp.sqrt(x**2 + 1e-4))),
            ZERO,
            80_000,
        ),
        lambda run: widths(run, 2**0.5),
        0.1,
        WIDTH,
    ),
    Wrong(
        "Euler's steps",
        "steps",
        lambda key: sampled(
            key, tacthmc.sghmc(0.03, friction=0.9, integrator=Euler()), stiff(), ZERO, 40_000
        ),
        lambda run: widths(run, np.array([0.25, 1.0])),
        0.1,
        WIDTH,
    ),
    Wrong(
        "Langevin steps too long, without noise",
        "steps",
        lambda key: sampled(key, tacthmc.sgld(0.08), stiff(), ZERO, 40_000),
        lambda run: widths(run, np.array([0.25, 1.0])),
        0.1,
        WIDTH,
    ),
    Wrong(
        "steps too long for one of two modes",
        "steps",
        lambda key: sampled(
            key, tacthmc.sghmc(0.12), lopsided(3.0, 0.4, 0.2), jnp.zeros(1), 100_000
        ),
        lambda run: share_above(run, 2.2, 0.4 + 0.6 * 0.0139),
        0.03,
        WIDTH,
    ),
    Wrong(
        "iterates of an optimizer",
        "width",
        lambda key: sampled(key, samplers.adam(1e-3), means(), ZERO),
        lambda run: widths(run, MU_SD),
        0.5,
        WIDTH,
    ),
    Wrong(
        "descent with momentum on batches",
        "width",
        lambda key: sampled(key, samplers.momentum_sgd(1e-3), means(), ZERO),
        lambda run: widths(run, MU_SD),
        0.2,
        WIDTH,
    ),
    Wrong(
        "replicas whose coldest step is too long",
        "steps",
        lambda key: sampled(
            key,
            tacthmc.replica_exchange(0.12, temperatures=[1.0, 2.0, 4.0]),
            lopsided(3.0, 0.4, 0.2),
            jnp.zeros(1),
            50_000,
        ),
        lambda run: share_above(run, 2.2, 0.4 + 0.6 * 0.0139),
        0.03,
        WIDTH,
    ),
    Wrong(
        "batches without the factor N/n",
        "width",
        lambda key: sampled(key, tacthmc.sgnht(2e-4), Doubled(means(100)), ZERO, 40_000),
        lambda run: widths(run, MU_SD),
        0.2,
        WIDTH,
    ),
    Wrong(
        "a force written by hand",
        "width",
        lambda key: sampled(key, tacthmc.sgnht(0.1), WrongSlope(), ZERO, 40_000),
        lambda run: widths(run, 1.0),
        0.3,
        WIDTH,
    ),
    Wrong(
        "noise that coordinates share",
        "noise",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.1, thermostat=DiagonalThermostat()),
            tacthmc.noisy(GAUSSIAN, covariance=16.0 * (0.05 * jnp.eye(2) + 0.95)),
            ZERO,
            40_000,
        ),
        lambda run: float(abs(np.log(np.var(np.asarray(run.draws).sum(axis=-1)) / 2))),
        0.2,
        WIDTH,
    ),
    Wrong(
        "a thermostat that hardly moves",
        "noise",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.05, thermostat=ScalarThermostat(gamma=1e7)),
            tacthmc.noisy(GAUSSIAN, force=4.0),
            ZERO,
            40_000,
        ),
        lambda run: widths(run, 1.0),
        0.2,
        WIDTH,
    ),
    Wrong(
        "a preconditioner that follows the force",
        "steps",
        lambda key: sampled(
            key,
            samplers.psgld(0.02, adapt_steps=None, decay=0.5),
            tacthmc.potential(lambda x: jnp.sum(x**4)),
            jnp.ones(2),
            40_000,
        ),
        lambda run: widths(run, 0.5813),
        0.1,
        WIDTH,
    ),
    Wrong(
        "cycles whose cold part is short",
        "steps",
        lambda key: sampled(
            key, samplers.cyclical(0.1, cycle_steps=100, explore=0.8), GAUSSIAN, ZERO, 40_000, 5
        ),
        lambda run: widths(run, 1.0),
        0.2,
        WIDTH,
    ),
    Wrong(
        "steps that shrink to nothing",
        "length",
        lambda key: sampled(key, tacthmc.sgld(Shrinking()), GAUSSIAN, ZERO, 10_000),
        lambda run: widths(run, 1.0) + location(run, 0.0, 1.0),
        0.2,
        "R-hat",
    ),
    Wrong(
        "a direction that nothing holds",
        "model",
        lambda key: sampled(
            key, tacthmc.sgnht(0.1), tacthmc.potential(lambda x: 0.5 * (x[0] - x[1]) ** 2), ZERO
        ),
        lambda run: float(np.asarray(run.draws).std()) / 10,
        1.0,
        "R-hat|configurational",
    ),
    Wrong(
        "numbers that single precision does not have",
        "model",
        lambda key: sampled(
            key,
            tacthmc.sgnht(1e-7),
            tacthmc.potential(lambda x: 0.5 * jnp.sum(((x - 3e4) / 1e-3) ** 2)),
            jnp.full(2, 3e4),
            20_000,
        ),
        lambda run: widths(run, 1e-3),
        0.2,
        "thermostat settled|configurational",
    ),
    Wrong(
        "an energy that is clipped",
        "model",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.2),
            tacthmc.potential(lambda x: jnp.minimum(0.5 * jnp.sum(x**2), 2.0)),
            ZERO,
        ),
        lambda run: float(np.asarray(run.draws).std()) / 10,
        1.0,
        "R-hat|configurational",
    ),
    Wrong(
        "one chain that has not arrived",
        "length",
        lambda key: sampled(key, tacthmc.sgnht(1e-4), GAUSSIAN, jnp.full(2, 20.0), 8_000, chains=1),
        lambda run: widths(run, 1.0) + location(run, 0.0, 1.0),
        0.5,
        "energy that no draw|mean force|configurational",
    ),
    Wrong(
        "restarts that are too short",
        "length",
        lambda key: sampled(
            key, samplers.restarted(tacthmc.sgnht(1e-3), 200, far_away), GAUSSIAN, ZERO
        ),
        lambda run: widths(run, 1.0),
        0.2,
        WIDTH,
    ),
    Wrong(
        "a likelihood whose gradient is stopped",
        "model",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.1),
            tacthmc.posterior(
                lambda m: -0.5 * jnp.sum(m**2),
                lambda m, x: -0.5 * jnp.sum((x - jax.lax.stop_gradient(m)) ** 2),
                DATA,
                200,
            ),
            ZERO,
        ),
        lambda run: widths(run, MU_SD),
        1.0,
        "as their gradients say",
    ),
    Wrong(
        "few moves between modes",
        "modes",
        lambda key: sampled(
            key, tacthmc.sgnht(0.05), lopsided(8.0, 0.1), jnp.array([[0.0], [8.0], [0.0], [8.0]])
        ),
        lambda run: share_above(run, 4.0, 0.1),
        0.05,
        MODES,
    ),
    Wrong(
        "a hottest temperature at which nothing crosses",
        "modes",
        lambda key: sampled(
            key,
            tacthmc.tact(0.02, tempering=ContinuousTempering(PowerCoupling.up_to(1.5))),
            lopsided(9.0, 0.3),
            jnp.array([[0.0], [9.0], [9.0], [9.0]]),
        ),
        lambda run: share_above(run, 4.5, 0.3),
        0.05,
        MODES,
    ),
    Wrong(
        "one chain that changed its mode and others that did not",
        "modes",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.01),
            two_wells(5.0),
            jnp.array([[1.0], [1.0], [1.0], [-1.0]]),
            8_000,
        ),
        lambda run: share_above(run, 0.0, 0.5),
        0.03,
        MODES + "|R-hat",
    ),
    Wrong(
        "a start far away without a warm-up",
        "length",
        lambda key: sampled(key, tacthmc.sgnht(1e-3), GAUSSIAN, jnp.full(2, 30.0), 4_000, after=0),
        lambda run: location(run, 0.0, 1.0),
        0.5,
        "R-hat|mean force|configurational",
    ),
    Wrong(
        "steps so small that chains stay where they start",
        "length",
        lambda key: sampled(key, tacthmc.sgnht(1e-7), GAUSSIAN, jnp.full(2, 0.5), 4_000),
        lambda run: widths(run, 1.0),
        1.0,
        "R-hat|configurational",
    ),
    Wrong(
        "a funnel whose neck is too narrow for the steps",
        "model",
        lambda key: sampled(
            key, tacthmc.sgnht(0.2), tacthmc.potential(neck), jnp.zeros(5), 100_000, 20
        ),
        of_funnel,
        0.2,
        "mean force|configurational|R-hat",
    ),
    Wrong(
        "a loader of another length",
        "model",
        lambda key: sampled(key, tacthmc.sgnht(1e-4), loader(2_000), ZERO, 10_000),
        lambda run: widths(run, MU_SD),
        0.3,
        "the loader goes through 200 examples",
    ),
    Wrong(
        "a likelihood that ignores its data",
        "model",
        lambda key: sampled(
            key,
            tacthmc.sgnht(1e-3),
            tacthmc.posterior(
                lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum(m**2), DATA, 20
            ),
            ZERO,
            10_000,
        ),
        lambda run: location(run, MEAN, MU_SD),
        0.3,
        "ignores its data",
    ),
    Wrong(
        "a likelihood that ignores its parameter",
        "model",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.1),
            tacthmc.posterior(
                lambda m: -0.5 * jnp.sum(m**2), lambda m, x: -0.5 * jnp.sum(x**2), DATA, 20
            ),
            ZERO,
        ),
        lambda run: widths(run, MU_SD),
        1.0,
        "does not depend on the position",
    ),
    Wrong(
        "a parameter that the energy does not have",
        "model",
        lambda key: sampled(
            key,
            tacthmc.sgnht(0.1),
            tacthmc.potential(lambda p: 0.5 * jnp.sum(p["x"] ** 2)),
            {"x": ZERO, "y": ZERO},
        ),
        lambda run: float(np.asarray(run.draws["y"]).std()) / 10,
        1.0,
        "does not depend on y",
    ),
    Wrong(
        "a wall without a slope",
        "model",
        lambda key: sampled(key, tacthmc.sgnht(0.05), tacthmc.potential(hidden_wall), jnp.ones(2)),
        lambda run: float(np.mean(np.asarray(run.draws) < 0)),
        0.2,
        "energy that no draw",
    ),
    Wrong(
        "not a number far out",
        "length",
        lambda key: sampled(key, tacthmc.sgnht(0.1), tacthmc.potential(breaks), ZERO, 40_000),
        lambda run: float(len(run.failures)),
        1.0,
        "stopped being finite",
    ),
    Wrong(
        "too short to mean anything",
        "length",
        lambda key: sampled(
            key, tacthmc.sgnht(1e-3), GAUSSIAN, jax.random.normal(key, (4, 2)), 2_000
        ),
        lambda run: widths(run, 1.0) + location(run, 0.0, 1.0),
        0.2,
        "R-hat",
    ),
    Wrong(
        "chains in different modes",
        "agreement",
        lambda key: sampled(
            key, tacthmc.sgnht(0.01), lopsided(12.0, 0.1), jnp.array([[0.0], [12.0]] * 2), 10_000
        ),
        lambda run: share_above(run, 6.0, 0.1),
        0.2,
        "R-hat",
    ),
]
