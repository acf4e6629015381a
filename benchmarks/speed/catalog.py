"""The cases that can be measured."""

from benchmarks.speed import growth, mixture, networks, overhead
from benchmarks.speed.case import Case

CASES: dict[str, Case] = {
    case.name: case for case in (mixture.CASE, networks.CASE, overhead.CASE, growth.CASE)
}
