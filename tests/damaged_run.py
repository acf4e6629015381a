"""Stored runs of which one file is damaged, and what may come of it.

What comes is the right bytes, less than that with a warning, or a StoreError. Other draws, other
errors, and a warning without a cause are :class:`OutcomeError`.
"""

import random
import shutil
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.potentials import HostBatches
from tacthmc.store import DamageWarning, StoreError, find_damage, repair
from tacthmc.store._lock import LOCK
from tests import stored_run

HOWS = ("flip", "truncate", "remove")
UNCHECKED = (LOCK, "reached")
"""Files that only messages depend on."""
STOP, END = 2_400, 3_200
"""The step at which the run is interrupted, and its last one."""


class OutcomeError(AssertionError):
    """What must not come of damage."""


def kind_of(name):
    """The kind of a file in the folder of a run: its path without numbers and hashes."""
    parts = []
    for part in Path(name).parts:
        hashed = len(part) == 32 and all(c in "0123456789abcdef" for c in part)
        parts.append("N" if part.isdigit() or hashed else part)
    return "/".join(parts)


def files_of(folder):
    """The names of all files of a run, sorted."""
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())


def damage(file, how, choose):
    """Flip one byte, truncate, or remove a file; returns what was done, in words."""
    content = bytearray(file.read_bytes())
    if how == "remove" or not content:
        file.unlink()
        return "removed"
    place = choose.randrange(len(content))
    if how == "truncate":
        file.write_bytes(bytes(content[:place]))
        return f"truncated to {place} of {len(content)} bytes"
    content[place] ^= choose.randrange(1, 256)
    file.write_bytes(bytes(content))
    return f"byte {place} of {len(content)} flipped"


def mini_batches(path, callbacks):
    """Mini-batches in epochs, draws at unit temperature."""
    stored_run.begin(path, END, callbacks=callbacks)


def all_temperatures(path, callbacks):
    """Draws of all temperatures, whose energies their weights need."""
    keep = tacthmc.Keep(every=20, after=400, temperatures="all")
    stored_run.begin(path, END, callbacks=callbacks, keep=keep)


def loader(path, callbacks):
    """Batches from a loader, whose place is stored too."""
    key, data = jax.random.key(0), np.random.default_rng(0).normal(size=(40, 2))
    batches = HostBatches(data.astype(np.float32), 8, key)
    target = tacthmc.streamed(_log_prior, _log_likelihood, batches, 40)
    store = tacthmc.Store(path, checkpoint_seconds=None, checkpoint_steps=800)
    sampler, keep = tacthmc.sgnht(1e-3), tacthmc.Keep(every=20, after=400)
    start = {"w": jnp.zeros(2), "b": jnp.zeros(3)}
    tacthmc.sample(key, sampler, target, start, END, 2, keep=keep, store=store, callbacks=callbacks)


def _log_prior(p):
    return -0.5 * (jnp.sum(p["w"] ** 2) + jnp.sum(p["b"] ** 2))


def _log_likelihood(p, x):
    return -0.5 * jnp.sum((x - p["w"]) ** 2)


RUNS = {run.__name__: run for run in (mini_batches, all_temperatures, loader)}


class Reference:
    """A run that was interrupted, in a folder, and what it is when it goes on to its end."""

    def __init__(self, folder, begin=mini_batches):
        self.folder, self.path = Path(folder), Path(folder) / "interrupted"
        if not self.path.exists():
            begin(self.path, [lambda snapshot: snapshot.step >= STOP])
            whole = shutil.copytree(self.path, self.folder / "whole")
            tacthmc.resume(whole)
        self.files = files_of(self.path)
        self.before = parts_of(tacthmc.load(self.path))
        self.after = parts_of(tacthmc.load(self.folder / "whole"))

    def damaged(self, target, name, how, choose):
        """A copy of the run with one damaged file; returns its path and what was done."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.path, target)
        return damage(target / name, how, choose)

    def check(self, place, name, how, seed):
        """Damage one file, then read, repair and resume; returns what came of each in a word."""
        path, choose = Path(place) / "run", random.Random(seed)
        done = self.damaged(path, name, how, choose)
        try:
            return {"done": done, "read": self.read(path)} | self._go_on(path, name)
        except OutcomeError as wrong:
            raise OutcomeError(f"{name}, {done}: {wrong}") from wrong

    def _go_on(self, path, name):
        repaired = path.with_name("repaired")
        shutil.rmtree(repaired, ignore_errors=True)
        outcomes = {"repair": self.repair(path, repaired, name)}
        if repaired.exists():
            outcomes["resume repaired"] = self.resume(repaired, repaired=True)
        return outcomes | {"resume": self.resume(path)}

    def read(self, path):
        """What comes of reading."""
        found, told, error = attempt(lambda: tacthmc.load(path))
        if error:
            return error
        parts, also_told, error = attempt(lambda: parts_of(found))
        told = told or also_told
        if error is None:
            compare_read(parts, self.before, told)
        self.view(found)
        return error or ("told" if told else "right")

    def view(self, run):
        """What ArviZ sees: the same or an error, because Zarr says no word of missing files."""
        try:
            tree = run.to_arviz()
            seen = {n: np.asarray(tree["posterior"][n]) for n in tree["posterior"].data_vars}
        except (StoreError, ValueError):
            return
        for name, values in seen.items():
            chains = [leaf[name][: values.shape[1]] for leaf in self.before["draws"]]
            if not np.array_equal(values, chains):
                raise OutcomeError(f"ArviZ sees another {name}")

    def repair(self, path, out, name):
        """What comes of repairing."""
        names = files_of(path)
        found, _, error = attempt(lambda: repair(path, out))
        if {*names, LOCK} != {*files_of(path), LOCK}:
            raise OutcomeError("repair changed the damaged folder")
        if error:
            return error
        if not found.found:
            if name not in UNCHECKED:
                raise OutcomeError("repair found nothing")
            return "nothing"
        if find_damage(out).found:
            raise OutcomeError(f"the repaired folder is damaged: {find_damage(out)}")
        parts, told, error = attempt(lambda: parts_of(tacthmc.load(out)))
        if told:
            raise OutcomeError(f"the repaired folder warns: {told}")
        if error:
            return f"saved, {error}"
        compare_steps(parts, self.before, bool(found.lost))
        return "lost" if found.lost else "right"

    def resume(self, path, repaired=False):
        """What comes of going on to the end."""
        _, told, error = attempt(lambda: tacthmc.resume(path))
        if error:
            return error
        parts, also_told, error = attempt(lambda: parts_of(tacthmc.load(path)))
        told = told or also_told
        if error:
            # A statistic of long ago, which did not keep the run from going on.
            return f"right, but {self._draws_after(path)}"
        if repaired:
            compare_steps(parts, self.after, lossy=True)
        else:
            compare_end(parts, self.after, told)
        return "told" if told else "right"

    def _draws_after(self, path):
        draws, _, error = attempt(lambda: tacthmc.load(path).all_draws)
        if error is None and not same(draws, self.after["draws"]):
            raise OutcomeError("other draws")
        return "not all of it can be read"


def attempt(action):
    """The result, the warnings of damage, and the kind of StoreError if there was one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found, error = action(), None
        except StoreError as raised:
            found, error = None, "error"
            if len(str(raised)) < 20:
                raise OutcomeError(f"a message of few words: {raised}") from raised
        except Exception as raised:
            raise OutcomeError(f"{type(raised).__name__}: {raised}") from raised
    told = [str(w.message) for w in caught if issubclass(w.category, DamageWarning)]
    told += [str(w.message) for w in caught if "trying an older one" in str(w.message)]
    return found, told, error


def parts_of(run):
    """Everything of a run that can be compared: draws and statistics by chain, the trace."""
    draws = [jax.tree.map(np.asarray, each) for each in run.all_draws]
    record = run._record
    stats = [{n: record.stat(n, c) for n in record.stat_names} for c in range(run.num_chains)]
    trace = {name: run.trace[name] for name in run.trace}
    return {"draws": draws, "stats": stats, "trace": trace, "state": state_of(run)}


def state_of(run):
    """The last state, or None if there is no sound checkpoint."""
    try:
        return jax.tree.map(np.asarray, run.state)
    except StoreError:
        return None


def same(left, right):
    """Whether trees of arrays are the same, bit for bit."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def compare_read(found, right, told):
    """The same, or with a warning less of it."""
    if not told:
        if not (same(found["draws"], right["draws"]) and same(found["stats"], right["stats"])):
            raise OutcomeError("other draws or statistics without a word")
        if not same(found["trace"], right["trace"]):
            raise OutcomeError("another trace without a word")
        if found["state"] is not None and not same(found["state"], right["state"]):
            raise OutcomeError("another state without a word")
        return
    for left, whole in zip(found["draws"], right["draws"], strict=True):
        count = _length(left)
        if not same(left, jax.tree.map(lambda x, n=count: x[:n], whole)):
            raise OutcomeError("other draws, told or not")
    rows = next(iter(found["trace"].values())).shape[1]
    if not same(found["trace"], {n: x[:, :rows] for n, x in right["trace"].items()}):
        raise OutcomeError("another trace, told or not")


def compare_end(found, right, told):
    """The same draws; with a warning statistics may be blank."""
    if not same(found["draws"], right["draws"]):
        raise OutcomeError("other draws")
    if not same(found["state"], right["state"]):
        raise OutcomeError("another last state")
    for name in ("stats", "trace"):
        if same(found[name], right[name]):
            continue
        if not told:
            raise OutcomeError(f"another {name} without a word")
        pairs = zip(jax.tree.leaves(found[name]), jax.tree.leaves(right[name]), strict=True)
        if not all(_same_or_blank(a, b) for a, b in pairs):
            raise OutcomeError(f"another {name}, told or not")


def compare_steps(found, right, lossy):
    """The draws of the steps that are left."""
    for c, (draws, stats) in enumerate(zip(found["draws"], found["stats"], strict=True)):
        steps, whole = stats["step"], right["stats"][c]["step"]
        if not lossy and len(steps) != len(whole):
            raise OutcomeError("draws were lost without a word")
        if not np.all(np.isin(steps, whole)) or np.any(np.diff(steps) <= 0):
            raise OutcomeError("draws of steps that had none")
        at = np.searchsorted(whole, steps)
        if not same(draws, jax.tree.map(lambda x, at=at: x[at], right["draws"][c])):
            raise OutcomeError("other draws after the repair")
        for name, values in stats.items():
            if not _same_or_blank(values, right["stats"][c][name][at]):
                raise OutcomeError(f"another {name} after the repair")
    for name, values in found["trace"].items():
        rows = values.shape[1]
        if not lossy and rows != right["trace"][name].shape[1]:
            raise OutcomeError("rows were lost without a word")
        if not _same_or_blank(values, right["trace"][name][:, :rows]):
            raise OutcomeError(f"another {name} in the trace after the repair")


def _same_or_blank(values, right):
    blank = np.isnan(values) if values.dtype.kind == "f" else values == 0
    return bool(np.all(blank | (values == right)))


def _length(tree):
    return len(jax.tree.leaves(tree)[0])
