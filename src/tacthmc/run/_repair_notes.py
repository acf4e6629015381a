"""The note that a run was repaired, and what it lost."""

from collections.abc import Mapping
from typing import Any

MAX_SHOWN = 3
"""How many losses a note names."""


def repair_notes(config: Mapping[str, Any] | None) -> list[str]:
    """A warning if the folder of a run was repaired with a loss.

    >>> repair_notes({"repaired": ["chain 0: 16 draws; 40 are left"]})
    ['! the folder was repaired, and lost chain 0: 16 draws; 40 are left']
    >>> repair_notes(None)
    []
    """
    lost = list((config or {}).get("repaired", []))
    if not lost:
        return []
    more = f"; and {len(lost) - MAX_SHOWN} more" if len(lost) > MAX_SHOWN else ""
    return [f"! the folder was repaired, and lost {'; '.join(lost[:MAX_SHOWN])}{more}"]
