"""Fields that all records of a group have in common, written once."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

Fields = dict[str, Any]

CELLS = "cells"
"""The name, beside the common fields, of the list of each record's own fields."""


def packed(records: Sequence[Fields]) -> list[Fields]:
    """The records of each group, which stand together, as one entry; a single one stays as it is.

    >>> same = {"group": "a", "settings": {"rate": 0.1, "seven": [1, 2]}}
    >>> other = {"group": "a", "settings": {"rate": 0.2, "seven": [1, 2]}}
    >>> (entry,) = packed([same, other])
    >>> entry["settings"], entry["cells"]
    ({'seven': [1, 2]}, [{'settings': {'rate': 0.1}}, {'settings': {'rate': 0.2}}])
    >>> unpacked([entry]) == [same, other]
    True
    """
    found = []
    for _, members in groupby(records, key=lambda record: record["group"]):
        own = list(members)
        common = _common(own)
        alone = len(own) == 1
        found.append(own[0] if alone else common | {CELLS: [_rest(one, common) for one in own]})
    return found


def unpacked(entries: Sequence[Fields]) -> list[Fields]:
    """The records of :func:`packed`; entries that are whole records stay as they are."""
    found = []
    for entry in entries:
        common = {name: value for name, value in entry.items() if name != CELLS}
        found += [_joined(common, own) for own in entry.get(CELLS, [{}])]
    return found


def _common(own: Sequence[Fields]) -> Fields:
    """The fields that are equal in all records, also those inside objects that differ."""
    found: Fields = {}
    for name in own[0]:
        if not all(name in one for one in own):
            continue
        values = [one[name] for one in own]
        if all(_equal(value, values[0]) for value in values):
            found[name] = values[0]
        elif all(isinstance(value, dict) for value in values) and (inner := _common(values)):
            found[name] = inner
    return found


def _rest(one: Fields, common: Fields) -> Fields:
    """A record's own fields, in the order that makes a file written anew the same."""
    found = {
        name: _rest(one[name], value)
        for name, value in common.items()
        if not _equal(one[name], value)
    }
    return found | {name: value for name, value in one.items() if name not in common}


def _joined(common: Fields, own: Fields) -> Fields:
    found = dict(common)
    for name, value in own.items():
        both = isinstance(value, dict) and isinstance(common.get(name), dict)
        found[name] = _joined(common[name], value) if both else value
    return found


def _equal(one: Any, other: Any) -> bool:
    """Whether both are written alike: 1, 1.0 and true are three things."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
