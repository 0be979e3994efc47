"""The page about a day of the retail application says what was measured, and what was missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.retail_day import POLICIES, Day, document, orders, policies_table, targets_table

WRITES = {"plain": 0.1, "immediate": 0.5, "log": 0.12, "differential": 0.4, "policy1": 0.121, "policy2": 0.122}
DOWNTIMES = {"immediate": 0.6, "log": 2.0, "differential": 0.9, "policy1": 1.5, "policy2": 0.8}


def a_day(name: str) -> Day:
    jobs = 1 if name in ("immediate", "differential") else 0
    return Day([WRITES[name]] * 3, [jobs] * 3, [0.7] if name.startswith("policy") else [], [DOWNTIMES.get(name, 0.0)])


@pytest.fixture
def days() -> dict[str, Day]:
    return {policy.name: a_day(policy.name) for policy in POLICIES}


def test_a_day_as_the_paper_has_it(days: dict[str, Day]) -> None:
    assert all(order.holds for order in orders(days))
    assert "MISSED" not in targets_table(days)
    page = document(days, {"date": "today"}, 24, "day.png")
    for said in ("240 transactions over 24", "- date: today", "![", "Every order is the one that the paper claims."):
        assert said in page
    assert "| +20 ms" in policies_table(days) and "WRONG" not in page


@pytest.mark.parametrize(
    ("name", "change", "row"),
    [
        ("log", {"writes": [0.2]}, "write over plain"),
        ("policy1", {"write_jobs": [1]}, "jobs over plain"),
        ("policy2", {"downtimes": [1.2]}, "downtime / that of log"),
        ("policy2", {"writes": [0.45]}, "order of writes"),
        ("policy1", {"downtimes": [2.5]}, "log > policy 1 > policy 2"),
        ("differential", {"downtimes": [2.5]}, "log > differential"),
    ],
)
def test_what_is_missed_is_said(days: dict[str, Day], name: str, change: dict[str, list[float]], row: str) -> None:
    days[name] = replace(days[name], **change)
    missed = [line for line in targets_table(days).splitlines() if "MISSED" in line]
    assert [line for line in missed if row in line]
    if "order" in row or ">" in row:
        assert "fixed cost of Spark" in document(days, {}, 24, "day.png")


def test_a_view_that_is_wrong_is_said(days: dict[str, Day]) -> None:
    days["log"].ok = False
    assert "WRONG" in policies_table(days)
