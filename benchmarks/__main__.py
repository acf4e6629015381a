"""The one runner: ``python -m benchmarks NAME [options]``; without a name, what there is."""

import importlib
import shlex
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tacthmc
from benchmarks.catalog import BENCHMARKS, listing
from benchmarks.record import RecordError

USAGE = """python -m benchmarks NAME [options] measures; python -m benchmarks NAME --help says more.

"""


def main(words: Sequence[str] | None = None) -> int:
    """Run what the words name; the exit status."""
    words = list(sys.argv[1:] if words is None else words)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE + listing())
        return 0
    name, *rest = words
    if name not in BENCHMARKS:
        near = get_close_matches(name, BENCHMARKS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        print(f"benchmarks: there is no {name!r}{hint}\n\n{listing()}", file=sys.stderr)
        return 2
    # Before the module is loaded: what it computes first fixes the compiler's settings.
    tacthmc.configure_cpu()
    module = importlib.import_module(f"benchmarks.{BENCHMARKS[name].module}")
    try:
        module.main(parsed(name, module, rest))
    except (RecordError, OSError, ModuleNotFoundError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 0


def parsed(name: str, module: Any, words: Sequence[str]) -> Namespace:
    """The options of a benchmark, with the words that gave them."""
    parser = ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=module.__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    if BENCHMARKS[name].records or hasattr(module, "QUICK"):
        out = Path("runs", f"{name}.json")
        parser.add_argument("--out", type=Path, default=out, help="where results go (%(default)s)")
    if hasattr(module, "QUICK"):
        parser.add_argument(
            "--quick", action="store_true", help="the smallest sizes: a look, no measurement"
        )
    if hasattr(module, "arguments"):
        module.arguments(parser)
    if "--quick" in words and hasattr(module, "QUICK"):
        # Sizes that are given count, quick or not.
        parser.set_defaults(**module.QUICK)
    args = parser.parse_args(words)
    return Namespace(**vars(args), command=command(name, words), words=list(words))


def command(name: str, words: Sequence[str]) -> str:
    """The command as a record has it: of paths, their last part."""
    short = [Path(word).name if "/" in word else word for word in words]
    return f"python -m benchmarks {name} {shlex.join(short)}".strip()


if __name__ == "__main__":
    sys.exit(main())
