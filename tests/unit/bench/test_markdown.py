"""What people read: every table is well-formed, and what is bad stands there in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import markdown, output
from tests.unit.bench.samples import outcome, report


def test_tables_are_aligned_and_complete() -> None:
    text = markdown.document(report(outcome(), outcome("none", jobs=0)), "plot.png")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert [len(rows) for rows in tables] == [4, 4]
    for rows in tables:
        assert len({len(row) for row in rows}) == 1
        assert len({row.count("|") for row in rows}) == 1
    assert "![Ratio of incremental to full, by view and change](plot.png)" in text
    assert "- date: 2026-11-18 01:00 UTC" in text


def test_a_row_says_what_was_done() -> None:
    row = dict(zip(markdown.COLUMNS, markdown.outcome_row(outcome(propagate=(0.05,))), strict=True))
    assert row == {
        "change": "3 rows",
        "rows changed": "3,000",
        "propagate": "50 ms",
        "partial refresh": "0.50 s",
        "refresh": "0.50 s",
        "full": "1.00 s (plain overwrite)",
        "propagate / full": "0.050",
        "refresh / full": "0.50",
        "strategy": "rewrite",
        "jobs p / r / full": "4 / 4 / 4",
        "commits p / r": "1 / 1",
        "rows of the view": "+1,200 −1,100",
        "verified": "yes, 4 times",
        "verdict": "incremental is 2.0 times faster",
    }


def test_losses_are_told_plainly() -> None:
    text = markdown.losses(report(outcome(), outcome("none", propagate=(1.5,), refresh=(3.0,))))
    slow = "propagate takes 1.50 s, 1.5 times as long as full; refresh takes 3.00 s, 3.0 times as long as full"
    assert text == f"- v, nothing: {slow} (1.00 s)."
    assert markdown.losses(report(outcome())) == "Nowhere in this run."


def test_a_wrong_view_cannot_be_overlooked() -> None:
    assert "WRONG in 1 of 4" in markdown.document(report(outcome(wrong=1)))


def test_targets_stand_beside_what_was_measured() -> None:
    text = markdown.targets_table(report(outcome(propagate=(0.3,)), outcome("none", jobs=0)))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    assert cells == [
        ["v", "few", "propagate / full", "≤ 0.25", "0.30", "MISSED"],
        ["v", "none", "refresh, Spark jobs", "≤ 0", "0", "reached"],
    ]


@pytest.mark.parametrize("is_trial", [True, False])
def test_a_trial_never_replaces_results_that_count(tmp_path: Path, is_trial: bool) -> None:
    pytest.importorskip("matplotlib")
    page = output.write(report(outcome(), outcome("none", refresh=(5.0,)), factor=0.1), tmp_path, is_trial)
    name = "small-sf0.1-trial" if is_trial else "small-sf0.1"
    assert page.name == f"{name}.md"
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.{end}" for end in ("md", "json", "png")}
