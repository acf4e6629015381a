"""Model files of users: loading them, and reporting their errors."""

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
from tacthmc.samplers import Untuned, UntunedReplicas

DEFAULT = "model"
_LIBRARIES = ("tacthmc", "jax", "jaxlib", "equinox", "jaxtyping", "beartype", "typer", "click")

TEMPLATE = '''\
"""A model for tacthmc. Run it:

    tacthmc sample {name} --steps 200000 --chains 4 --out runs/{stem}
    tacthmc report runs/{stem}

The function `model` returns a potential and a starting point. This model has two sources that
cannot be distinguished, so the posterior of their means has two modes, mirror images of each other.
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

    A third value may be a sampler, for settings without a flag on the command line:
    return potential, start, tacthmc.tact(step_size=1e-3, noise=0.2)
    (With tacthmc.tact() short runs choose all numbers, as with --tune.)
    """
    noise = jax.random.normal(jax.random.key(1), (20,))
    data = jnp.where(jnp.arange(20) % 2 == 0, -1.5, 1.5) + noise
    potential = tacthmc.posterior(log_prior, log_likelihood, data, batch_size=10)
    start = jnp.array([-1.0, 1.0])
    return potential, start
'''


class ModelFileError(Exception):
    """An error in a user's file. The message is complete."""


class Model(NamedTuple):
    """The return value of a user's function."""

    potential: Potential
    start: Any
    sampler: Sampler | Untuned | UntunedReplicas | None


def write_template(path: Path, force: bool = False) -> None:
    """Write an example of a model file."""
    if path.suffix != ".py":
        raise ModelFileError(f"{path} should end in .py")
    if path.exists() and not force:
        raise ModelFileError(f"{path} already exists: choose another name, or add --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE.format(name=path.name, stem=path.stem), encoding="utf-8")


def split_argument(argument: str) -> tuple[Path, str | None]:
    """FILE.py[:name] as a path and a name.

    >>> split_argument("models/two.py:wide")[1], split_argument("two.py")[1]
    ('wide', None)
    """
    head, colon, tail = argument.rpartition(":")
    if colon and tail.isidentifier() and not Path(argument).exists():
        return Path(head), tail
    return Path(argument), None


def load_model(path: Path, name: str | None) -> Model:
    """Run a user's file, call its function, and check its return value."""
    if not path.is_file():
        near = checks.nearest(path.name, (p.name for p in path.parent.glob("*.py")))
        hint = f" (is it {path.with_name(near)}?)" if near else ""
        raise ModelFileError(
            f"there is no file {path}{hint}; `tacthmc new {path.name}` writes an example"
        )
    module = _executed(path)
    function = _function(module, path, name or DEFAULT)
    try:
        returned = function()
    except Exception as error:
        raise ModelFileError(user_traceback(error, path)) from error
    # After the call, because the function may import modules too.
    for module in list(sys.modules.values()):
        _by_value(module, path.resolve().parent)
    return _checked(returned, f"{path}:{function.__name__}")


def _executed(path: Path) -> ModuleType:
    # A unique name, because a file may have the name of a loaded module.
    name = path.stem if path.stem not in sys.modules else f"tacthmc_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # The file can import its neighbors, as when it is run by itself.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ModelFileError(user_traceback(error, path)) from error
    return module


def _by_value(module: Any, folder: Path) -> None:
    """Pickle the user's own modules by value, so that a run can be resumed without the files."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not Path(file).resolve().is_relative_to(folder):
        return
    inside = Path(file).resolve().relative_to(folder).parts
    # An environment, or this library, may lie below the folder. Those are installed packages.
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
    expected = "a potential and a starting point, and optionally a sampler"
    if not isinstance(returned, tuple) or len(returned) not in (2, 3):
        raise ModelFileError(f"{where} must return {expected}; it returned {_brief(returned)}")
    potential, start, *rest = returned
    if not isinstance(potential, Potential):
        raise ModelFileError(
            f"{where} must return {expected}; the first is {_brief(potential)}, expected a"
            " potential from tacthmc.potential or tacthmc.posterior"
        )
    if rest and not isinstance(rest[0], (Sampler, Untuned, UntunedReplicas)):
        raise ModelFileError(
            f"{where} must return {expected}; the third is {_brief(rest[0])}, expected a sampler"
            " such as tacthmc.tact(step_size=…), or tacthmc.tact() to have its numbers chosen"
        )
    return Model(potential, start, rest[0] if rest else None)


def _brief(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return f"{type(value).__name__} {text[:80]}{'…' if len(text) > 80 else ''}"


def is_from_file(error: BaseException, path: Path) -> bool:
    """Whether an error passed through a user's file."""
    file = str(path.resolve())
    return any(frame.filename == file for frame in traceback.extract_tb(error.__traceback__))


def user_traceback(error: BaseException, path: Path) -> str:
    """The traceback of an error without the frames of this library and of JAX."""
    shown = traceback.TracebackException.from_exception(error)
    _stripped(shown, path.resolve())
    return "".join(shown.format()).rstrip()


def _stripped(shown: traceback.TracebackException, path: Path) -> None:
    frames = [frame for frame in shown.stack if not _inside(frame.filename, path)]
    shown.stack = traceback.StackSummary.from_list(frames)
    # JAX's note on frames that it hides itself would only confuse here.
    shown.__notes__ = [n for n in getattr(shown, "__notes__", None) or [] if "JAX" not in n]
    for name in ("__cause__", "__context__"):
        other = getattr(shown, name)
        if other is None:
            continue
        _stripped(other, path)
        if not other.stack:
            setattr(shown, name, None)


def _inside(filename: str, path: Path) -> bool:
    """Whether a frame belongs to this library, to its dependencies, or to the import system."""
    if filename == str(path):
        return False
    if filename.startswith("<frozen importlib") or filename == "<string>":
        return True
    parts = Path(filename).parts
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1].removesuffix(".py") in _LIBRARIES
    return Path(filename).is_relative_to(Path(__file__).parents[1])
