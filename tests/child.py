"""A stored run in a process of its own, to be killed: ``python -m tests.child FOLDER [KILL]``.

KILL says where the process kills itself: ``flush:2`` in the second writing of rows, with the
rows on their way; ``publish:2`` after the rows, before readers see them; ``checkpoint:2`` with
the second checkpoint on its way; ``steps:N`` when it has gone so far.
"""

import os
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.run import _driver as drive
from tacthmc.run import _writer as persist
from tacthmc.store import _checkpoint as checkpoint
from tacthmc.store import _folder as folder

CHECKPOINT_STEPS = 800
NUM_STEPS = 8_000


def problem():
    """Mini-batches in epochs, momenta, thermostats, a bias: all of it has to come back."""
    data = jnp.asarray(np.random.default_rng(0).normal(1.0, 1.0, (60, 3)), jnp.float32)
    return tacthmc.posterior(_log_prior, _log_likelihood, data, 7, batches="epochs")


def _log_prior(p):
    return -0.5 * (jnp.sum(p["w"] ** 2) + jnp.sum(p["b"] ** 2))


def _log_likelihood(p, x):
    return -0.5 * jnp.sum((x - p["w"] - jnp.mean(p["b"])) ** 2)


def begin(path=None, num_steps=NUM_STEPS, **options):
    return tacthmc.sample(
        jax.random.key(3),
        tacthmc.tact(1e-3, keep_every=20),
        problem(),
        {"w": jnp.zeros(3), "b": jnp.zeros(30)},
        num_steps,
        2,
        num_warmup=400,
        store=path,
        checkpoint_steps=CHECKPOINT_STEPS,
        checkpoint_seconds=None,
        **options,
    )


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def armed(kill):
    """Kill this process at the place named."""
    where, _, number = kill.partition(":")
    left = [int(number)]

    def counted(function, before):
        def wrapper(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0 and before:
                die()
            result = function(*args, **kwargs)
            if left[0] == 0:
                die()
            return result

        return wrapper

    if where == "flush":
        module = persist.tensorstore()

        class Transaction:
            """Kills with the transaction's writes on their way."""

            def __new__(cls):
                inner = module.Transaction()
                left[0] -= 1
                if left[0] == 0:
                    kill_when_committed(inner)
                return inner

        def kill_when_committed(inner):
            import threading

            # The commit is about to begin in the main thread.
            threading.Timer(0.004, die).start()

        class Module:
            def __getattr__(self, name):
                return Transaction if name == "Transaction" else getattr(module, name)

        persist.tensorstore = Module
    elif where == "publish":
        folder.Folder.publish = counted(folder.Folder.publish, before=True)
    elif where == "checkpoint":
        checkpoint.Checkpoints.save = counted(checkpoint.Checkpoints.save, before=False)
    elif where == "steps":
        inner = drive.Drive._take_in
        left[0] = 10**9

        def take_in(self, *args):
            snapshot = inner(self, *args)
            if snapshot.step >= int(number):
                die()
            return snapshot

        drive.Drive._take_in = take_in
    else:
        raise ValueError(kill)


def main():
    # Chunks so short that there are many of them.
    drive.CHUNK_SECONDS = 0.02
    path = Path(sys.argv[1])
    if len(sys.argv) > 2 and sys.argv[2]:
        armed(sys.argv[2])
    run = tacthmc.resume(path) if (path / "config.json").exists() else begin(path)
    print(run)


if __name__ == "__main__":
    main()
