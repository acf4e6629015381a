"""Counts that keep the code readable, with limits: ``make house``.

Each row of the table is a cost for a newcomer. The files that a step and a run pass through are
recorded at run time, while JAX traces them, so that every function that builds them is counted.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1] / "src" / "tacthmc"
FILES = sorted(ROOT.rglob("*.py"))


class Row(NamedTuple):
    """A number, its limit, and what it counts."""

    what: str
    number: int
    limit: int
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the number is within its limit."""
        return self.number <= self.limit


def modules_at_top() -> Row:
    """Private modules beside the packages; a public one is not allowed at all."""
    found = sorted(p.stem for p in ROOT.glob("*.py") if p.stem != "__init__")
    public = [name for name in found if not name.startswith("_")]
    if public:
        return Row("public modules at the top level", len(public), 0, ", ".join(public))
    return Row("modules at the top level besides __init__", len(found), 4, ", ".join(found))


def imports() -> dict[str, set[str]]:
    """The packages that each package imports, including imports inside functions."""
    graph: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        own = room_of(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                parts = name.split(".")
                if parts[0] == "tacthmc" and len(parts) > 1 and own != "__init__":
                    target = parts[1]
                    if target != own and (ROOT / target).is_dir():
                        graph[own].add(target)
    return graph


def room_of(path: Path) -> str:
    """The package of a file, or the name of a module at the top level."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def cycles() -> Row:
    """Pairs of packages that import each other, directly or through others."""
    graph = imports()
    reach = {room: _reachable(graph, room) for room in graph}
    pairs = sorted(
        {tuple(sorted((a, b))) for a in graph for b in reach[a] if a in reach.get(b, ())}
    )
    return Row("cycles between packages", len(pairs), 0, ", ".join("-".join(p) for p in pairs))


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found, todo = set(), list(graph[start])
    while todo:
        room = todo.pop()
        if room not in found:
            found.add(room)
            todo += graph.get(room, ())
    return found


def shadowed() -> Row:
    """Modules that cannot be reached, because their package has another object of that name."""
    import tacthmc

    # All of them, because a package has no attribute for a module that nobody has imported.
    for module in pkgutil.walk_packages(tacthmc.__path__, "tacthmc."):
        importlib.import_module(module.name)
    found = []
    for path in FILES:
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__":
            continue
        owner: Any = tacthmc
        for part in parts[:-1]:
            owner = getattr(owner, part, None)
        here = getattr(owner, parts[-1], None)
        if here is not None and not inspect.ismodule(here):
            found.append(".".join(parts))
    return Row("shadowed modules", len(found), 0, ", ".join(found))


def names() -> Row:
    """Public names of the library itself."""
    import tacthmc

    # The type checker of the tests puts its own name into every module.
    own = [name for name in dir(tacthmc) if name != "jaxtyping"]
    found = [name for name in own if not name.startswith("_")]
    return Row("names in dir(tacthmc)", len(found), 45, ", ".join(found))


def arguments() -> list[Row]:
    """Arguments of the two main functions. A ``**kwargs`` counts as a hundred."""
    import tacthmc

    rows = []
    for function, limit in ((tacthmc.tact, 11), (tacthmc.sample, 12)):
        parameters = inspect.signature(function).parameters.values()
        spread = [p for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        count = len(list(parameters)) + 100 * len(spread)
        rows.append(Row(f"arguments of {function.__name__}", count, limit))
    return rows


def members() -> list[Row]:
    """Members of the classes that users subclass, with underscored ones, without Python's own."""
    from tacthmc.dynamics import Sampler
    from tacthmc.potentials import Potential

    rows = []
    for kind, limit in ((Potential, 10), (Sampler, 6)):
        own = [name for name in vars(kind) if not name.startswith("__")]
        own = [name for name in own if not name.startswith("_abc_")]
        fields = [name for name in inspect.get_annotations(kind) if name not in own]
        found = sorted({*own, *fields})
        rows.append(Row(f"members of {kind.__name__}", len(found), limit, ", ".join(found)))
    return rows


BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.Assert)


def complexity() -> Row:
    """The highest cyclomatic complexity. Nested functions count separately."""
    worst, where = 0, ""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = 1 + sum(map(_branches, _own(node)))
                if count > worst:
                    worst, where = count, f"{path.relative_to(ROOT)}: {node.name}"
    return Row("highest cyclomatic complexity", worst, 12, where)


def _own(function: ast.AST) -> list[ast.AST]:
    found, todo = [], list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        found.append(node)
        todo += ast.iter_child_nodes(node)
    return found


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.match_case):
        return 1
    return int(isinstance(node, BRANCHES))


def longest_file() -> Row:
    """The number of lines of the longest file."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    longest = max(lengths, key=lambda path: lengths[path])
    return Row("lines of the longest file", lengths[longest], 500, str(longest.relative_to(ROOT)))


MATHEMATICS = ("dynamics", "potentials", "samplers", "targets", "diagnostics", "predict")


def compiler_words() -> Row:
    """Files of mathematics that name a device or a compiler."""
    words = re.compile(r"\b(cpu|xla|llvm)\b", re.IGNORECASE)
    found = [
        str(path.relative_to(ROOT))
        for path in FILES
        if room_of(path) in MATHEMATICS and words.search(path.read_text(encoding="utf-8"))
    ]
    return Row("files of mathematics that name a compiler", len(found), 0, ", ".join(found))


def passed(action: Callable[[], Any]) -> list[Path]:
    """The files of the library whose functions run during an action."""
    seen: set[str] = set()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(before)
    return sorted(
        {Path(name).relative_to(ROOT) for name in seen if Path(name).is_relative_to(ROOT)}
    )


def files_passed() -> list[Row]:
    """Files that a step, a step on mini-batches, and a call of ``sample`` pass through.

    There are two rows for each: without the package ``compiler``, whose functions change no
    numbers, so that a reader may skip them; and with all files.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    import tacthmc

    data = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    batches = tacthmc.posterior(
        lambda x: -0.5 * jnp.sum(x**2), lambda x, d: -0.5 * jnp.sum((x - d) ** 2), data, 10
    )
    plain = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    key, sampler, start = jax.random.key(0), tacthmc.tact(1e-3), jnp.zeros(2)

    def step_of(target: Any) -> Callable[[], Any]:
        state = sampler.init(key, start)
        noise, batch = sampler.noise(key, start), target.batch(key, start)
        return lambda: jax.make_jaxpr(lambda: sampler.advance(noise, state, target, batch))()

    def run() -> None:
        tacthmc.sample(key, tacthmc.tact(1e-3), batches, start, 200, 2, progress=False)

    found = [
        ("one step", passed(step_of(plain)), 8, 10),
        ("one step on mini-batches", passed(step_of(batches)), 10, 13),
        ("one sample call", passed(run), 24, 32),
    ]
    made = []
    for what, files, limit, whole_limit in found:
        readable = [str(path) for path in files if path.parts[0] != "compiler"]
        compiled = [str(path) for path in files if path.parts[0] == "compiler"]
        made.append(Row(f"files that {what} passes", len(readable), limit, ", ".join(readable)))
        detail = f"with {', '.join(compiled)}"
        made.append(Row(f"files that {what} passes, all", len(files), whole_limit, detail))
    return made


def rows() -> list[Row]:
    """All rows of the table."""
    found = [modules_at_top(), cycles(), shadowed(), names(), *arguments(), *members()]
    return [*found, *files_passed(), complexity(), longest_file(), compiler_words()]


def main() -> int:
    """Print the table; returns 1 if a limit is exceeded."""
    table = rows()
    for row in table:
        print(f"{'✓' if row.holds else '✗'} {row.what}: {row.number} (at most {row.limit})")
        if (not row.holds or "-v" in sys.argv) and row.detail:
            print(f"    {row.detail}")
    return int(not all(row.holds for row in table))


if __name__ == "__main__":
    sys.exit(main())
