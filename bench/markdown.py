"""A report as Markdown: targets, one table for each view, and the losses in plain words."""

from __future__ import annotations

from bench.case import Measure, View
from bench.results import Action, Outcome, Report, times

MEASURES: dict[Measure, str] = {
    "propagate_ratio": "propagate / full",
    "refresh_ratio": "refresh / full",
    "refresh_seconds": "refresh, seconds",
    "refresh_jobs": "refresh, Spark jobs",
}
COLUMNS = (
    "change",
    "rows changed",
    "propagate",
    "partial refresh",
    "refresh",
    "full",
    "propagate / full",
    "refresh / full",
    "strategy",
    "jobs p / r / full",
    "commits p / r",
    "rows of the view",
    "verified",
    "verdict",
)


def document(report: Report, plot: str | None = None) -> str:
    """The whole file; `plot` is the name of a picture beside it."""
    parts = [f"# {report.case.title}, scale factor {report.factor:g}", environment_list(report)]
    if plot is not None:
        parts.append(f"![Ratio of incremental to full, by view and change]({plot})")
    return "\n\n".join([*parts, body(report)]) + "\n"


def body(report: Report) -> str:
    """What is worth printing at the end of a run."""
    parts = [f"## Targets\n\n{targets_table(report)}"]
    for view in report.case.views:
        outcomes = [outcome for outcome in report.outcomes if outcome.view == view.name]
        if outcomes:
            parts.append(view_section(view, outcomes))
    parts.append(f"## Where incremental loses\n\n{losses(report)}")
    parts.append(f"## How to read this\n\n{reading(report)}")
    return "\n\n".join(parts)


def environment_list(report: Report) -> str:
    return "\n".join(f"- {word}: {text}" for word, text in report.environment.items())


def targets_table(report: Report) -> str:
    rows: list[tuple[str, ...]] = [
        (
            judgement.view,
            judgement.target.change,
            MEASURES[judgement.target.measure],
            f"≤ {judgement.target.limit:g}",
            _figure(judgement.value, judgement.target.measure),
            judgement.word,
        )
        for judgement in report.judgements
    ]
    if not rows:
        return "No change of this run has a target."
    return table(("view", "change", "measure", "target", "measured", "result"), rows)


def view_section(view: View, outcomes: list[Outcome]) -> str:
    return f"## {view.title}\n\n{table(COLUMNS, [outcome_row(outcome) for outcome in outcomes])}"


def outcome_row(outcome: Outcome) -> tuple[str, ...]:
    inserted, deleted = outcome.rows("refresh")
    checked = outcome.verifications
    return (
        outcome.title,
        f"{outcome.rows_changed:,}",
        seconds(outcome.seconds("propagate")),
        seconds(outcome.seconds("partial_refresh")),
        seconds(outcome.seconds("refresh")),
        f"{seconds(outcome.full_seconds)} ({'full refresh' if outcome.full_by == 'full' else 'plain overwrite'})",
        ratio(outcome.ratio("propagate")),
        ratio(outcome.ratio("refresh")),
        outcome.strategies("refresh"),
        _each(outcome, ("propagate", "refresh", outcome.full_by), "jobs"),
        _each(outcome, ("propagate", "refresh"), "commits"),
        f"+{inserted:,} −{deleted:,}",
        f"yes, {checked} times" if not outcome.wrong else f"WRONG in {outcome.wrong} of {checked}",
        outcome.verdict,
    )


def losses(report: Report) -> str:
    lines = [f"- {outcome.view}, {outcome.title}: {_loss(outcome)}" for outcome in report.outcomes if outcome.is_loss]
    if not lines:
        return "Nowhere in this run."
    return "\n".join(lines)


def reading(report: Report) -> str:
    rounds = "1 round" if report.repeats == 1 else f"{report.repeats} rounds"
    return (
        f"Seconds are wall-clock medians of {rounds} after a warm-up, incremental and full in turn in one Spark, "
        f"views in mode {report.mode.upper()}. Full is the query and its commit: the faster of the view's own full "
        "refresh and a plain overwrite of a Delta table by Spark. Jobs and commits are the most of any round "
        "(p: propagate, r: refresh). Compare within one run only."
    )


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table whose source is aligned, so that it also reads in a terminal."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]

    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(heads), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line, rows)])


def seconds(value: float) -> str:
    """Milliseconds below a tenth of a second."""
    return f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.2f} s"


def ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _figure(value: float, measure: Measure) -> str:
    return f"{value:.0f}" if measure == "refresh_jobs" else ratio(value)


def _each(outcome: Outcome, actions: tuple[Action, ...], what: str) -> str:
    return " / ".join(str(outcome.jobs(a) if what == "jobs" else outcome.commits(a)) for a in actions)


def _loss(outcome: Outcome) -> str:
    slow: list[Action] = [action for action in ("propagate", "refresh") if outcome.ratio(action) >= 1]
    told = [f"{a} takes {seconds(outcome.seconds(a))}, {times(outcome.ratio(a))} as long as full" for a in slow]
    return f"{'; '.join(told)} ({seconds(outcome.full_seconds)})."
