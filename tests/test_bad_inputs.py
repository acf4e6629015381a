"""Bad inputs to every public function: a clear error that names the argument and the value."""

import pytest

from tests import bad_inputs
from tests.fresh_process import fresh_process

SOME, ALL = 500, 10**9

WITHOUT_CASES = {"use_cpu_devices", "Coordinates"}
"""It changes the process, and it takes anything that fits the position."""


@pytest.mark.parametrize("count", [SOME, pytest.param(ALL, marks=pytest.mark.slow)])
def test_bad_inputs_get_clear_errors(count):
    # In a process of its own, because the tests check types before the library does.
    code = "import sys; from tests.bad_inputs import main; main(int(sys.argv[1]))"
    lines = fresh_process(code, str(count)).splitlines()
    assert lines[-1].startswith("0 of"), "\n".join(lines)


def test_every_public_function_has_bad_inputs():
    """A new function gets its arguments into the table, or its name into the list of others."""
    tried = {label.split("(")[0] for label, *_ in bad_inputs.cases()}
    assert set(bad_inputs.functions()) - tried == WITHOUT_CASES


def test_what_is_unclear_is_found():
    def accepts(size):
        return size

    def passes_on(size):
        return len(size)

    def says_nothing(size):
        raise ValueError("wrong")

    for function, expected in (
        (accepts, "was accepted"),
        (passes_on, "raised outside of the library"),
        (says_nothing, "raised outside of the library"),
    ):
        assert bad_inputs.verdict(function, {}, "size", 3).startswith(expected)
