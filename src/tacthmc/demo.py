"""The main job in half a minute: ``python -m tacthmc.demo``, or ``make demo``."""

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc


def main() -> None:
    """Sample the paper's 1-D mixture with noisy gradients, from one mode; print a summary."""
    target = tacthmc.targets.three_gaussians()
    potential = tacthmc.noisy(tacthmc.potential(target), force=3.0, energy=1.0)
    print(
        "Three Gaussians at −4, 0, 4 with weights .3 .4 .3; the gradient carries noise of sd 3"
        " that the sampler does not know of. All chains start at −4.\n"
    )
    for name, sampler in (
        ("TACT-HMC", tacthmc.tact(step_size=1e-2)),
        ("SGNHT (without tempering)", tacthmc.without_tempering(step_size=1e-2)),
    ):
        run = tacthmc.sample(
            jax.random.key(0), sampler, potential, jnp.array([-4.0]), 400_000, num_chains=4
        )
        modes = np.asarray(target.mode(jnp.asarray(run.draws)))
        print(f"== {name} ==\n{run.summary()}\n")
        print("weights of the modes (truth 0.300 0.400 0.300), chain by chain:")
        for chain in modes:
            print("   ", " ".join(f"{w:.3f}" for w in np.bincount(chain, minlength=3) / len(chain)))
        print()


if __name__ == "__main__":
    main()
