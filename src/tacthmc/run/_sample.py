"""A run's beginning: arguments checked, chains started, chunks driven."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc.compiler._cpu_devices import mesh_of_cores
from tacthmc.compiler._hosts import together
from tacthmc.compiler._mesh import check_batch, checked_mesh
from tacthmc.dynamics._sampler import Sampler
from tacthmc.potentials._base import Potential
from tacthmc.potentials._subset import subset
from tacthmc.run._arguments import check_callbacks, check_checkpoints, check_progress, one_sampler
from tacthmc.run._chunk import Shape
from tacthmc.run._driver import Drive
from tacthmc.run._feed import Feeder
from tacthmc.run._gradient_cost import gradient_work
from tacthmc.run._plan import Callback, Plan, batch_size, chunk_rows, without_source
from tacthmc.run._record import MemoryRecord
from tacthmc.run._result import Run
from tacthmc.run._session import finished, new_folder, recorded, started
from tacthmc.run._start import chain_positions, check_start


def run_chains(
    key: Array,
    sampler: Sampler | Sequence[Sampler],
    potential: Potential,
    init: Any,
    num_steps: int,
    num_chains: int = 1,
    *,
    num_warmup: int | None = None,
    keep: Literal["plateau", "all", "nothing"] = "plateau",
    sampled: Any = None,
    init_per_chain: bool | None = None,
    store: str | Path | None = None,
    checkpoint_seconds: float | None = 120.0,
    checkpoint_steps: int | None = None,
    mesh: Mesh | None = None,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """:func:`tacthmc.sample` of a sampler whose numbers are all there."""
    sampler, swept, num_chains = one_sampler(sampler, num_chains)
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.whole("num_steps", num_steps, 1)
    num_warmup = num_steps // 10 if num_warmup is None else num_warmup
    checks.whole("num_warmup", num_warmup, 0)
    if num_warmup >= num_steps:
        raise ValueError(
            f"num_warmup ({num_warmup}) must be less than num_steps ({num_steps}): nothing"
            " would be kept"
        )
    _check_keep(keep, sampler, potential, store is not None)
    check_callbacks(callbacks)
    check_progress(progress)
    if store is not None and not isinstance(store, (str, Path)):
        raise TypeError(f"store must be the path of a new folder; got {store!r}")
    if not jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(jnp.asarray(key))
    if key.shape != ():
        raise ValueError(f"key must be one key, shape (); got an array of keys, shape {key.shape}")
    if sampled is not None:
        potential, init = subset(potential, init, sampled)
    check_checkpoints(checkpoint_seconds, checkpoint_steps, sampler.keep_every)
    whole_potential = potential
    potential, source = without_source(potential)
    if mesh is None:

        def batches(ways: int) -> bool:
            first = chain_positions(potential, init, num_chains, init_per_chain)
            # What a model's state learns of a batch, it learns of the whole.
            own = potential.of_chain(0)
            if own.init_model() is not None:
                return False
            one = jax.tree.map(lambda x: x[0], first)
            return gradient_work(own, own.init_data(key), one, None).spreads_batches(ways)

        mesh = mesh_of_cores(num_chains, batch_size(potential), batches)
    mesh = checked_mesh(mesh, num_chains)
    feeder = None
    if source is not None:
        feeder = together(lambda: Feeder(source, num_chains, sampler.keep_every, mesh, None))
    check_batch(mesh, feeder.batch_size if feeder else batch_size(potential))
    fed = feeder.example if feeder else None
    positions = chain_positions(potential, init, num_chains, init_per_chain, fed)
    check_start(potential, positions, key, fed)
    each_draw = (positions, [potential.kept_model(potential.init_model())] * num_chains)
    plan = Plan(
        sampler=sampler,
        swept=swept,
        potential=potential,
        key=key,
        num_chains=num_chains,
        num_steps=num_steps,
        num_warmup=num_warmup,
        shape=Shape(chunk_rows(each_draw, feeder), keep == "all"),
        mesh=mesh,
        source=source,
        checkpoint_seconds=checkpoint_seconds,
        checkpoint_steps=checkpoint_steps,
        progress=progress,
        callbacks=tuple(callbacks),
        forget=keep == "nothing",
    )
    plan = plan.placed()
    begun = time.perf_counter()
    chains, keys = started(plan, positions)
    compile_seconds = time.perf_counter() - begun
    if store is None:
        record = MemoryRecord(num_chains)
        outcome = Drive(plan, keys, chains, record, feeder, compile_seconds=compile_seconds).run()
        return finished(plan, whole_potential, record, outcome)
    folder = new_folder(store, plan, whole_potential, chains, keys, feeder)
    return recorded(
        plan, whole_potential, folder, keys, chains, feeder, None, compile_seconds=compile_seconds
    )


def _check_keep(keep: str, sampler: Any, potential: Potential, stored: bool) -> None:
    if keep not in ("plateau", "all", "nothing"):
        raise ValueError(f"keep must be 'plateau', 'all' or 'nothing'; got {keep!r}")
    if keep == "nothing" and stored:
        raise ValueError("keep='nothing' forgets draws, and a store is there to have them")
    if keep == "all" and not potential.has_energy:
        raise ValueError(
            "keep='all' weighs draws by their full-data energy, which this potential does not"
            " have (a mini-batch's energy would give wrong weights): use keep='plateau', or a"
            " tacthmc.posterior with resident data and no model_state"
        )
    each = sampler if isinstance(sampler, Sequence) else [sampler]
    if keep == "all" and not all(getattr(one, "has_law_when_hot", True) for one in each):
        raise ValueError(
            "keep='all' weighs draws by the law of all of θ at every temperature, and here ξ is led"
            " while a subset of θ stands still (sweep with heated): use keep='plateau'"
        )
