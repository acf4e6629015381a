"""The command line: ``tacthmc``."""

import importlib.util
import sys


def main() -> None:
    """Run the command line, or exit with a message if Typer is missing."""
    if importlib.util.find_spec("typer") is None:
        sys.exit("tacthmc: the command line needs Typer: pip install 'tacthmc[cli]'")
    from tacthmc.cli._app import main as run

    run()
