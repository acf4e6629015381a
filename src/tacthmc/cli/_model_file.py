"""A user's model in a file: load it, and say what is wrong with it in its own terms."""

import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tacthmc import _checks as checks
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.samplers import Untuned

DEFAULT = "model"
_NOT_THEIRS = ("tacthmc", "jax", "jaxlib", "equinox", "jaxtyping", "beartype", "typer", "click")

TEMPLATE = '''\
"""A model for tacthmc. Run it:

    tacthmc sample {name} --steps 200000 --chains 4 --out runs/{stem}
    tacthmc report runs/{stem}

The function below returns what to sample and where to begin. This one has two sources that cannot
be told apart, so that the posterior of their means has two modes, mirror images of each other.
"""

import jax
import jax.numpy as jnp

import tacthmc


def log_prior(theta):
    """log p(theta), up to a constant."""
    return -0.5 * jnp.sum(theta**2) / 25


def log_likelihood(theta, x):
    """log p(x | theta) of ONE example; tacthmc sums over the data and scales mini-batches."""
    return jax.nn.logsumexp(-0.5 * (x - theta) ** 2)


def model():
    """The potential to sample, and a starting point.

    A third value may be a sampler, for settings that the command line has no flag for:
    return potential, start, tacthmc.tact(step_size=1e-3, noise=0.2)
    (tacthmc.tact() without a number has all of them chosen by short runs, as --tune does.)
    """
    noise = jax.random.normal(jax.random.key(1), (20,))
    data = jnp.where(jnp.arange(20) % 2 == 0, -1.5, 1.5) + noise
    potential = tacthmc.posterior(log_prior, log_likelihood, data, batch_size=10)
    start = jnp.array([-1.0, 1.0])
    return potential, start
'''


class ModelFileError(Exception):
    """Something is wrong with a user's file; the message is for them, whole."""


class Model(NamedTuple):
    """What a user's function returned."""

    potential: Potential
    start: Any
    sampler: Sampler | Untuned | None


def write_template(path: Path, force: bool = False) -> None:
    """Write a model file to begin from."""
    if path.suffix != ".py":
        raise ModelFileError(f"{path} should end in .py")
    if path.exists() and not force:
        raise ModelFileError(f"{path} is there already: choose another name, or add --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE.format(name=path.name, stem=path.stem), encoding="utf-8")


def parted(argument: str) -> tuple[Path, str | None]:
    """FILE.py[:name] as a path and a name.

    >>> parted("models/two.py:wide")[1], parted("two.py")[1]
    ('wide', None)
    """
    head, colon, tail = argument.rpartition(":")
    if colon and tail.isidentifier() and not Path(argument).exists():
        return Path(head), tail
    return Path(argument), None


def load_model(path: Path, name: str | None) -> Model:
    """Run a user's file, call its function, and look at what comes back."""
    if not path.is_file():
        near = checks.nearest(path.name, (p.name for p in path.parent.glob("*.py")))
        hint = f" (is it {path.with_name(near)}?)" if near else ""
        raise ModelFileError(
            f"there is no file {path}{hint}; `tacthmc new {path.name}` writes one to begin from"
        )
    module = _executed(path)
    function = _function(module, path, name or DEFAULT)
    try:
        returned = function()
    except Exception as error:
        raise ModelFileError(theirs(error, path)) from error
    # After the call: a function may import, too.
    for module in list(sys.modules.values()):
        _by_value(module, path.resolve().parent)
    return _checked(returned, f"{path}:{function.__name__}")


def _executed(path: Path) -> ModuleType:
    # A name of its own: a file may be called like a module that others use.
    name = path.stem if path.stem not in sys.modules else f"tacthmc_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # What lies beside the file can be imported by it, as when it is run by itself.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ModelFileError(theirs(error, path)) from error
    return module


def _by_value(module: Any, folder: Path) -> None:
    """Let a run's folder carry the code of a user's own modules, to go on without the files."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not Path(file).resolve().is_relative_to(folder):
        return
    inside = Path(file).resolve().relative_to(folder).parts
    # An environment, or this library itself, may lie below the folder: those are installed.
    if "site-packages" in inside or module.__name__.partition(".")[0] == "tacthmc":
        return
    try:
        import cloudpickle
    except ImportError:
        return
    cloudpickle.register_pickle_by_value(module)


def _function(module: ModuleType, path: Path, name: str) -> Any:
    functions = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    function = getattr(module, name, None)
    if callable(function):
        return function
    near = checks.nearest(name, functions)
    hint = f"; did you mean {path}:{near}?" if near else ""
    listed = ", ".join(functions) or "none"
    raise ModelFileError(f"{path} has no function {name!r}{hint} (its functions: {listed})")


def _checked(returned: Any, where: str) -> Model:
    wanted = "a potential and a starting point, and a sampler if you like"
    if not isinstance(returned, tuple) or len(returned) not in (2, 3):
        raise ModelFileError(f"{where} must return {wanted}; it returned {_brief(returned)}")
    potential, start, *rest = returned
    if not isinstance(potential, Potential):
        raise ModelFileError(
            f"{where} must return {wanted}; the first is {_brief(potential)}, expected what"
            " tacthmc.potential or tacthmc.posterior makes"
        )
    if rest and not isinstance(rest[0], (Sampler, Untuned)):
        raise ModelFileError(
            f"{where} must return {wanted}; the third is {_brief(rest[0])}, expected a sampler such"
            " as tacthmc.tact(step_size=…), or tacthmc.tact() to have its numbers chosen"
        )
    return Model(potential, start, rest[0] if rest else None)


def _brief(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return f"{type(value).__name__} {text[:80]}{'…' if len(text) > 80 else ''}"


def is_theirs(error: BaseException, path: Path) -> bool:
    """Whether an error passed through a user's file."""
    file = str(path.resolve())
    return any(frame.filename == file for frame in traceback.extract_tb(error.__traceback__))


def theirs(error: BaseException, path: Path) -> str:
    """An error's traceback as its user needs it: their frames, not this library's or JAX's."""
    shown = traceback.TracebackException.from_exception(error)
    _stripped(shown, path.resolve())
    return "".join(shown.format()).rstrip()


def _stripped(shown: traceback.TracebackException, path: Path) -> None:
    frames = [frame for frame in shown.stack if not _inside(frame.filename, path)]
    shown.stack = traceback.StackSummary.from_list(frames)
    # JAX's word on the frames it hides itself would only confuse here.
    shown.__notes__ = [n for n in getattr(shown, "__notes__", None) or [] if "JAX" not in n]
    for name in ("__cause__", "__context__"):
        other = getattr(shown, name)
        if other is None:
            continue
        _stripped(other, path)
        if not other.stack:
            setattr(shown, name, None)


def _inside(filename: str, path: Path) -> bool:
    """Whether a frame is this library's, a library's below it, or Python's way to the file."""
    if filename == str(path):
        return False
    if filename.startswith("<frozen importlib") or filename == "<string>":
        return True
    parts = Path(filename).parts
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1].removesuffix(".py") in _NOT_THEIRS
    return Path(filename).is_relative_to(Path(__file__).parent)
