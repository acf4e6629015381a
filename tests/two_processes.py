"""One of two processes of a run: ``python -m tests.two_processes NUMBER PORT FOLDER``."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler._hosts import OtherProcessError

NUMBER = int(sys.argv[1]) if __name__ == "__main__" else 0
AXES = ("chains", "batch")


def arrangements():
    """Chains over processes; and batches over processes, each holding a part of every one."""
    devices = np.array(jax.devices())
    return {
        "chains": jax.sharding.Mesh(devices.reshape(4, 2), AXES),
        "batch": jax.sharding.Mesh(devices.reshape(2, 4).T, AXES),
    }


def main():
    jax.config.update("jax_num_cpu_devices", 4)
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", 2, NUMBER)
    # Makes arrays when it is imported, which must not be before the processes are joined.
    from tests.units.run import test_devices as here

    folder = Path(sys.argv[3])
    assert jax.process_count() == 2
    for name, mesh in arrangements().items():
        store = tacthmc.Store(folder / name, checkpoint_steps=100)
        num_steps, sampler = here.IN_TWO_PROCESSES[name]
        run = here.run(num_steps, mesh=mesh, store=store, sampler=sampler)
        held = {s.index[0].indices(4)[:2] for s in run.state.position.addressable_shards}
        print(name, "holds chains", sorted(held), "batch columns", _columns(mesh))
    longer = tacthmc.resume(folder / "chains", num_steps=400, mesh=arrangements()["chains"])
    assert longer.num_steps == 400
    mesh = arrangements()["batch"]
    here.run(100, potential=here.loaded(), mesh=mesh, store=folder / "loaded", sampler=here.PLAIN)
    loader = tacthmc.resume(folder / "loaded", num_steps=200, mesh=mesh)
    np.save(folder / f"loaded{NUMBER}.npy", loader.trace["energy"])
    _together(here, mesh, folder)
    print("done")


def _together(here, mesh, folder):
    """A stop or an error in one process is one in both."""
    enough = [lambda s: NUMBER == 1 and s.step >= 100]
    stopped = here.run(10**6, mesh=mesh, callbacks=enough, sampler=here.PLAIN)
    assert stopped.interrupted

    def fail(snapshot):
        if NUMBER == 1:
            raise ArithmeticError("only here")

    expected = ArithmeticError if NUMBER == 1 else OtherProcessError
    with pytest.raises(expected):
        here.run(10**6, mesh=mesh, callbacks=[fail], sampler=here.PLAIN)
    expected = tacthmc.StoreError if NUMBER == 0 else OtherProcessError
    with pytest.raises(expected):
        here.run(mesh=mesh, store=folder / "chains")
    with pytest.raises(ValueError, match="give a mesh of all their devices"):
        here.run()


def _columns(mesh):
    here = np.vectorize(lambda d: d.process_index == NUMBER)(mesh.devices)
    return np.flatnonzero(here.any(axis=0)).tolist()


if __name__ == "__main__":
    main()
