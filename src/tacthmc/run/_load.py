"""``load``: read a stored run without running anything from its folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.run._effective import Standing
from tacthmc.run._failure import Failure
from tacthmc.run._keep import Keep
from tacthmc.run._newest import Packing, newest
from tacthmc.run._plan import Callback, check_callbacks
from tacthmc.run._potential_facts import facts_from_json
from tacthmc.run._record import StoredRecord
from tacthmc.run._result import Run
from tacthmc.run._stored_program import StoredProgram
from tacthmc.run._trimmed import without_warm_up
from tacthmc.store._folder import Folder


def load(
    path: str | Path,
    *,
    sampler: Sampler | Sequence[Sampler] | None = None,
    potential: Potential | None = None,
    callbacks: Sequence[Callback] = (),
    like: Any = None,
    trust: bool = False,
) -> Run:
    """Read a stored run, finished or not. Draws are read from disk when they are needed.

    Nothing in the folder is executed: draws, statistics, the state, the summary and the report come
    from numbers and JSON. What needs the functions of the potential or sampler, such as
    ``run.potential``, has to be given or trusted.

    Args:
        path: the folder of the run.
        sampler: the sampler of the run, if the folder does not have all of it.
        potential: the potential of the run.
        callbacks: observers, whose memory at the end of the run is restored.
        like: an example of a position. Draws then come in its containers, where a NamedTuple or a
            module would otherwise come as one of the same name and fields.
        trust: whether to unpickle functions and classes of the folder when they are needed. That
            can run any code: only do it with runs that you or people you trust have made.

    >>> import jax, jax.numpy as jnp, tacthmc, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      store=folder)
    >>> bool((load(folder).draws == run.draws).all())
    True
    """
    check_callbacks(callbacks)
    folder = Folder.open(path)
    return loaded_run(folder, StoredProgram(folder, sampler, potential, like, trust), callbacks)


def run_key(config: dict[str, Any]) -> Any:
    """The key of a stored run."""
    data = np.array(config["key"], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(data), impl=config["key_impl"])


def loaded_run(folder: Folder, program: StoredProgram, callbacks: Sequence[Callback] = ()) -> Run:
    """The run in a folder; its sampler and potential are those of ``program``."""
    config, status = folder.config, folder.status

    def chains() -> Any:
        with jax.enable_x64(config["x64"]):
            stored = program.stored
            packing = Packing.of(stored.chains, stored.axes, run_key(config), config["num_chains"])
            return newest(Folder.open(folder.path), packing, callbacks)[0]

    failures = tuple(Failure.from_json(fields) for fields in status.get("failures", []))
    record, keep = StoredRecord(folder, program.kept), Keep(**config["keep"])
    if config["drops_tenth"]:
        record, keep = without_warm_up(record, keep, status["steps"])
    until = status.get("until")
    return Run(
        samplers=lambda: program.samplers,
        potential=lambda: program.known_potential,
        facts=lambda: facts_from_json(config["potential"]),
        key=run_key(config),
        record=record,
        # Observers need their memory now. Otherwise nothing is read before it is used.
        chains=chains() if callbacks else chains,
        failures=failures,
        num_steps=status["steps"],
        keep=keep,
        interrupted=not status["finished"] and (config["keep_going"] or not failures),
        seconds=status.get("seconds", 0.0),
        compile_seconds=status.get("compile_seconds", 0.0),
        folder=folder,
        until=None if until is None else Standing(*until["standing"]),
    )
