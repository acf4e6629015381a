"""The record of how long the tests take: ``make durations``."""

import json
import os
import platform
import time
from collections import defaultdict
from pathlib import Path

import jax

SLOWEST = 25


class Durations:
    """Collects the seconds of every test, set-up and tear-down included, and writes the record."""

    def __init__(self, path, command):
        self._path, self._command = Path(path), command
        self._begun = time.perf_counter()
        self._tests, self._outcomes = defaultdict(float), defaultdict(int)

    def pytest_runtest_logreport(self, report):
        self._tests[report.nodeid] += report.duration
        if report.when == "call" or not report.passed:
            self._outcomes[report.outcome] += 1

    def pytest_sessionfinish(self):
        files = defaultdict(float)
        for name, seconds in self._tests.items():
            files[name.partition("::")[0]] += seconds
        record = {
            "command": self._command,
            "date": time.strftime("%Y-%m-%d"),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "device": f"{jax.devices()[0].platform}, {os.cpu_count()} cores",
            "minutes": round((time.perf_counter() - self._begun) / 60, 1),
            **self._outcomes,
            "slowest_tests": _slowest(self._tests),
            "slowest_files": _slowest(files),
        }
        self._path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _slowest(seconds):
    longest = sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST]
    return {name: round(value, 1) for name, value in longest}
