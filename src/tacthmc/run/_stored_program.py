"""The sampler and potential of a stored run: given by the caller, described in JSON, or pickled."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax

from tacthmc import _checks as checks
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.run._program import one_sampler, unstacked
from tacthmc.run._start import PerChain
from tacthmc.store._describe import Restored
from tacthmc.store._errors import StoreError
from tacthmc.store._folder import Folder
from tacthmc.store._pickles import FILE, has_program, read_program
from tacthmc.store._stand_ins import TO_HAVE_IT
from tacthmc.store._structure import SAMPLER, SHAPES, Structure, read_sampler, read_structure


class StoredProgram:
    """The program of a folder. Nothing is read before it is used."""

    def __init__(
        self,
        folder: Folder,
        sampler: Sampler | Sequence[Sampler] | None = None,
        potential: Potential | None = None,
        like: Any = None,
        trust: bool = False,
    ):
        """Take the parts that the caller gives; ``trust`` allows to unpickle the others."""
        if potential is not None:
            checks.instance("potential", potential, Potential, "the potential of the run")
        if not isinstance(trust, bool):
            raise TypeError(f"trust must be True or False; got {trust!r}")
        self._folder, self._chains = folder, folder.config["num_chains"]
        self._sampler = None if sampler is None else one_sampler(sampler, self._chains)[0]
        self._potential, self.trust = potential, trust
        self.like = like.positions if isinstance(like, PerChain) else like

    @property
    def is_given(self) -> bool:
        """Whether the caller gave a part."""
        return self._sampler is not None or self._potential is not None

    @cached_property
    def _pickled(self) -> dict[str, Any]:
        folder = self._folder
        specs = {s.name: s for s in folder.specs.values() if s.group == "observed_data"}
        python = folder.config.get("program_python", folder.config["versions"]["python"])
        with jax.enable_x64(folder.config["x64"]):
            return read_program(folder.file(FILE), folder.root, specs, python, self.trust)

    @cached_property
    def _described(self) -> Restored:
        with jax.enable_x64(self._folder.config["x64"]):
            return read_sampler(self._folder.file(SAMPLER))

    @property
    def potential(self) -> Potential:
        """The potential, for a run that goes on."""
        return self._pickled["potential"] if self._potential is None else self._potential

    @property
    def known_potential(self) -> Potential:
        """The potential, if it was given or its pickle is trusted."""
        if self._potential is None and not self.trust and has_program(self._folder.path):
            raise StoreError(
                f"the potential of the run in {self._folder.path} has functions, and reading a"
                f" folder runs no code from it: {TO_HAVE_IT}"
            )
        return self.potential

    @property
    def sampler(self) -> Sampler:
        """The sampler, with every part as it was, for a run that goes on."""
        if self._sampler is not None:
            return self._sampler
        return self._described.value if self._described.is_whole else self._pickled["sampler"]

    @property
    def known_sampler(self) -> Sampler:
        """The sampler for summaries. Its functions may be missing."""
        if self._sampler is not None:
            return self._sampler
        if self.trust and not self._described.is_whole:
            return self._pickled["sampler"]
        if self._described.objects:
            raise StoreError(
                f"the sampler of the run in {self._folder.path} has parts that are not from this"
                f" library ({', '.join(self._described.objects)}): {TO_HAVE_IT}"
            )
        return self._described.value

    @property
    def samplers(self) -> list[Sampler]:
        """:attr:`known_sampler` for each chain."""
        per_chain = self._folder.config["sampler_per_chain"]
        return unstacked(self.known_sampler, self._chains, per_chain)

    @cached_property
    def stored(self) -> Structure:
        """The shapes of chains and draws. Containers of a user's classes are stand-ins."""
        return read_structure(self._folder.file(SHAPES))

    @cached_property
    def kept(self) -> Any:
        """The shapes of a draw, in the user's containers as far as they are known."""
        if self.like is not None:
            return self.stored.kept_like(self.like)
        if self.stored.kept_containers and self.trust:
            return self._pickled["kept"]
        return self.stored.kept

    @cached_property
    def resumed_kept(self) -> Any:
        """The shapes of a draw, in the containers that functions take.

        Raises an error that says what to pass, if the folder does not have them as JSON.
        """
        if not self.stored.kept_containers:
            return self.stored.kept
        if self.like is None:
            return self._pickled["kept"]
        model = self.potential.kept_model(self.potential.init_model())
        leaves = jax.tree.leaves(self.kept.model)
        return self.kept._replace(model=jax.tree.unflatten(jax.tree.structure(model), leaves))

    @property
    def positions(self) -> Any:
        """The shapes of the positions of all chains, in the same containers."""
        leaves = jax.tree.leaves(self.stored.chains.state.position)
        return jax.tree.unflatten(jax.tree.structure(self.resumed_kept.position), leaves)
