"""What the biases of a run's chains have learned: their table, and ratios of evidence."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tacthmc.diagnostics._evidence import EvidenceRatio, Profile, evidence_ratio

if TYPE_CHECKING:
    from tacthmc.run._result import Run


def bias_table(run: "Run", chain: int | None) -> Any:
    """The table of the bias of one chain, or the pooled one of all that stayed finite."""
    sampler, tempering = run.tempered_sampler(chain or 0), run.tempering_of(chain or 0)
    tables = run.state.tempering.bias
    if chain is None:
        sound = np.array(_sound(run), int)
        if not sound.size:
            raise ValueError("no chain stayed finite: there is no bias table")
        table = tempering.bias.pooled(jax.tree.map(lambda table: table[sound], tables))
    else:
        table = jax.tree.map(lambda table: table[chain], tables)
    known = sampler.coordinates.analytic_log_lambda(_one_position(run, chain or 0))
    if not known:
        return table
    bath = float(sampler.bath_temperature)
    return tempering.bias.with_log_lambda_term(table, tempering.coupling, bath, known)


def log_evidence_ratio(run: "Run", temperature: float | None) -> EvidenceRatio:
    """log Z(1/temperature) − log Z(1), from the biases of all chains that stayed finite."""
    if not (sound := _sound(run)):
        raise ValueError("no chain stayed finite: there is no bias to integrate")
    independent = run.tempering_of().bias.table is None
    return evidence_ratio([_profile(run, chain) for chain in sound], temperature, independent)


def _sound(run: "Run") -> list[int]:
    """The chains that stayed finite."""
    failed = {failure.chain for failure in run.failures}
    return [chain for chain in range(run.num_chains) if chain not in failed]


def _profile(run: "Run", chain: int) -> Profile:
    sampler = run.tempered_sampler(chain)
    return Profile(
        energy=run.free_energy(chain),
        table=run.bias_table(chain),
        coupling=run.tempering_of(chain).coupling,
        bath=float(sampler.bath_temperature),
        analytic_log_lambda=sampler.coordinates.analytic_log_lambda(_one_position(run, chain)),
    )


def _one_position(run: "Run", chain: int) -> Any:
    return jax.tree.map(lambda x: x[chain], run.state.position)
