"""What the command line exits with after a run, so that a script knows whether to go on."""

from typing import Any

FAILED, NOT_GOOD, INTERRUPTED = 3, 4, 130
"""The exit codes of failed draws, of warnings with ``--strict``, and of an interrupted run."""
HELP = (
    "**Exit codes**: 0 there are draws, 1 an error, 2 a mistyped command, 3 the run failed (a chain"
    " is no longer finite, there are no draws, or a parameter never moved), 4 with --strict the"
    " verdict is not good, 130 interrupted by Ctrl-C."
)


def exit_code(run: Any, strict: bool) -> int:
    """The exit code for a run by its summary."""
    summary = run.summary()
    if summary.failed:
        return FAILED
    return NOT_GOOD if strict and summary.headline.level != "good" else 0
