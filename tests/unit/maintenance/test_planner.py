"""The decision of a refresh, from facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monus.algebra.reasons import Reason
from monus.errors import NotIncremental, SourceHistoryLost, SourceRecreated, SourceSchemaChanged
from monus.maintenance.planner import ChangeFact, Facts, plan_refresh
from monus.maintenance.vectors import TableState, ViewState

OLD = {"sales": TableState("s", 3), "items": ViewState("i", 7)}
NEW = {"sales": TableState("s", 5), "items": ViewState("i", 7)}
CHANGES = (ChangeFact("sales", "feed", 12.0), ChangeFact("items", "none", 0.0))
LOST = SourceHistoryLost("The log of sales no longer has version 4.", "Refresh in full.")
RECREATED = SourceRecreated("The table 'sales' was dropped and created again.", "Refresh in full.")
SAMPLE = Reason("NO_DEFINED_ANSWER", "Sample", "TABLESAMPLE has no defined answer.")

CHANGED = Facts(
    view="v",
    mode="AUTO",
    asked_full=False,
    is_filled=True,
    has_pending=False,
    reasons=(),
    vector=OLD,
    target=NEW,
    changes=CHANGES,
)
NOTHING = replace(CHANGED, target=OLD, changes=(ChangeFact("sales", "none", 0.0), ChangeFact("items", "none", 0.0)))


def decision(facts: Facts) -> tuple[str, str]:
    plan = plan_refresh(facts)
    return plan.kind, plan.code


def test_a_change_is_applied_incrementally() -> None:
    plan = plan_refresh(CHANGED)
    assert (plan.kind, plan.code) == ("incremental", "INCREMENTAL")
    assert plan.from_versions == {"sales": 3, "items": 7}
    assert plan.to_versions == {"sales": 5, "items": 7}
    assert "sales" in plan.reason and "items" not in plan.reason
    assert plan.steps == (
        "read the change of sales from its feed (at most 12 rows)",
        "derive the change of the view",
        "fold it into the view's table",
        "publish the new state",
    )


def test_a_plan_reads_well() -> None:
    assert str(plan_refresh(CHANGED)).splitlines()[:2] == [
        "v: incremental (INCREMENTAL). Only what changed is computed: sales.",
        "  1. read the change of sales from its feed (at most 12 rows)",
    ]


@pytest.mark.parametrize("mode", ["AUTO", "INCREMENTAL", "STRICT", "FULL"])
def test_nothing_changed(mode: str) -> None:
    plan = plan_refresh(replace(NOTHING, mode=mode))
    assert (plan.kind, plan.code, plan.steps) == ("none", "NO_CHANGE", ())


def test_nothing_changed_for_a_view_that_is_not_incremental() -> None:
    assert decision(replace(NOTHING, reasons=(SAMPLE,))) == ("none", "NO_CHANGE")


def test_an_answer_that_may_change_by_itself_is_computed_again() -> None:
    clock = Reason("READS_CLOCK", "current_date()", "The answer changes as time passes.")
    facts = replace(NOTHING, reasons=(SAMPLE,), may_change=clock)
    assert decision(facts) == ("full", "READS_CLOCK")
    with pytest.raises(NotIncremental):
        plan_refresh(replace(facts, mode="STRICT"))


def test_new_versions_without_a_changed_row_move_the_vector_only() -> None:
    assert decision(replace(NOTHING, target=NEW)) == ("vector", "NO_ROWS_CHANGED")


def test_what_is_pending_is_folded_although_no_source_changed() -> None:
    plan = plan_refresh(replace(NOTHING, has_pending=True))
    assert plan.kind == "incremental"
    assert plan.steps[0] == "read the pending change"
    assert "what was propagated" in plan.reason


def test_what_is_pending_is_folded_together_with_what_changed() -> None:
    steps = plan_refresh(replace(CHANGED, has_pending=True)).steps
    assert [step.split()[0] for step in steps] == ["read", "read", "derive", "fold", "publish"]


@pytest.mark.parametrize("facts", [CHANGED, NOTHING, replace(CHANGED, lost=LOST), replace(CHANGED, mode="STRICT")])
def test_a_full_refresh_that_was_asked_for_is_always_done(facts: Facts) -> None:
    assert decision(replace(facts, asked_full=True)) == ("full", "REQUESTED")


def test_the_first_refresh_is_full() -> None:
    facts = replace(CHANGED, is_filled=False, vector={}, changes=())
    assert decision(facts) == ("full", "FIRST")
    assert decision(replace(facts, mode="STRICT")) == ("full", "FIRST")


def test_mode_full() -> None:
    assert decision(replace(CHANGED, mode="FULL")) == ("full", "MODE_FULL")
    assert decision(replace(CHANGED, mode="FULL", lost=LOST)) == ("full", "MODE_FULL")


@pytest.mark.parametrize("mode", ["AUTO", "INCREMENTAL"])
def test_what_is_not_incremental_is_full_and_says_why(mode: str) -> None:
    plan = plan_refresh(replace(CHANGED, mode=mode, reasons=(SAMPLE,)))
    assert (plan.kind, plan.code) == ("full", "NO_DEFINED_ANSWER")
    assert plan.reason == "Sample: TABLESAMPLE has no defined answer."


def test_strict_refuses_what_is_not_incremental() -> None:
    with pytest.raises(NotIncremental, match="Sample") as refused:
        plan_refresh(replace(CHANGED, mode="STRICT", reasons=(SAMPLE,)))
    assert refused.value.fields == {"view": "v", "reason": "NO_DEFINED_ANSWER"}


@pytest.mark.parametrize("facts", [CHANGED, NOTHING])
def test_a_lost_history_is_told_and_refreshed_in_full(facts: Facts) -> None:
    plan = plan_refresh(replace(facts, lost=LOST))
    assert (plan.kind, plan.code) == ("full", "SOURCE_HISTORY_LOST")
    assert "no longer has version 4" in plan.reason


def test_strict_raises_where_the_history_is_lost() -> None:
    with pytest.raises(SourceHistoryLost):
        plan_refresh(replace(CHANGED, mode="STRICT", lost=LOST))


def test_a_schema_that_changed_where_the_view_does_not_look_is_refreshed_in_full() -> None:
    changed = SourceSchemaChanged("The type of note in sales changed.", "Refresh in full.")
    assert decision(replace(CHANGED, lost=changed)) == ("full", "SOURCE_SCHEMA_CHANGED")
    with pytest.raises(SourceSchemaChanged):
        plan_refresh(replace(CHANGED, mode="STRICT", lost=changed))


@pytest.mark.parametrize("mode", ["AUTO", "INCREMENTAL", "STRICT"])
def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one(mode: str) -> None:
    with pytest.raises(SourceRecreated):
        plan_refresh(replace(CHANGED, mode=mode, lost=RECREATED))
