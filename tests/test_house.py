"""The counts that keep the code readable stay within their limits."""

import pytest

from tools.house import Row, rows


@pytest.fixture(scope="module")
def table():
    return {row.what: row for row in rows()}


def test_no_limit_is_passed(table):
    beyond = [f"{row.what}: {row.number} > {row.limit}" for row in table.values() if not row.holds]
    assert not beyond


def test_a_row_beyond_its_limit_does_not_hold():
    assert Row("one", 1, 1).holds
    assert not Row("two", 2, 1).holds
