"""The cases that can be measured."""

from tacthmc.bench import growth, mixture, networks, overhead
from tacthmc.bench.case import Case

CASES: dict[str, Case] = {
    case.name: case for case in (mixture.CASE, networks.CASE, overhead.CASE, growth.CASE)
}
