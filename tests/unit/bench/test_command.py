"""The command's options and the statements of the first case."""

from __future__ import annotations

import re

import pytest

from bench.__main__ import arguments, is_trial, listing, plan_of
from bench.cases.registry import CASES
from bench.cases.tpch import customers

TPCH = CASES["tpch"]


def test_the_scale_comes_from_the_environment_and_is_overridden_by_the_option() -> None:
    assert arguments([], {}).sf == 1
    assert arguments([], {"SF": "0.1"}).sf == 0.1
    assert arguments(["--sf", "10"], {"SF": "0.1"}).sf == 10


def test_everything_is_run_by_default() -> None:
    plan = plan_of(TPCH, arguments([], {}))
    assert (plan.changes, plan.repeats, plan.warmups, plan.mode) == (TPCH.changes, 5, 1, "incremental")
    assert not is_trial(plan)


@pytest.mark.parametrize("options", [["--repeats", "3"], ["--changes", "customers_100", "none"], ["--warmups", "0"]])
def test_less_than_everything_is_a_trial(options: list[str]) -> None:
    assert is_trial(plan_of(TPCH, arguments(options, {})))


@pytest.mark.parametrize("options", [["--changes", "customers_99"], ["--case", "tpcds"], ["--repeats", "0"]])
def test_what_is_not_there_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(options, {})
    assert "error" in capsys.readouterr().err


def test_the_list_names_every_view_and_change() -> None:
    text = listing()
    assert all(named.name in text for case in CASES.values() for named in (*case.views, *case.changes))


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_targets_are_for_changes_of_the_case(case) -> None:  # type: ignore[no-untyped-def]
    assert {target.change for target in case.targets} <= {change.name for change in case.changes}


@pytest.mark.parametrize(("factor", "count"), [(1, 1), (1, 100), (1, 10_000), (10, 10_000), (0.1, 10_000), (0.01, 100)])
def test_as_many_customers_change_as_the_name_says(factor: float, count: int) -> None:
    there = round(150_000 * factor)
    for number in (1, 2, 30):
        (statement,) = customers(count).statements(factor, number)
        step, offset, last = map(int, re.findall(r"c_custkey % (\d+) = (\d+) AND c_custkey <= (\d+)", statement)[0])
        assert sum(key % step == offset for key in range(1, min(there, last) + 1)) == count


def test_no_two_applications_of_a_change_are_the_same() -> None:
    for change in TPCH.changes:
        if change.name != "none":
            assert change.statements(1, 1) != change.statements(1, 2)
