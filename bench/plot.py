"""A report as a picture: for each view and change, how much of a full recomputation the incremental way costs."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from bench import markdown
from bench.results import Action, Outcome, Report

SMALLEST = 0.005
COLOURS: dict[Action, str] = {"propagate": "#3b7dd8", "refresh": "#e08a2e"}
TARGETS: dict[str, Action] = {"propagate_ratio": "propagate", "refresh_ratio": "refresh"}


def draw(report: Report, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # before pyplot, which would look for a screen
    from matplotlib import pyplot

    views = [view for view in report.case.views if any(o.view == view.name for o in report.outcomes)]
    figure, axes = pyplot.subplots(1, len(views), figsize=(6.2 * len(views), 5.0), squeeze=False, sharex=True)
    for axis, view in zip(axes[0], views, strict=True):
        _panel(axis, report, [o for o in report.outcomes if o.view == view.name])
        axis.set_title(fill(view.title, 56), fontsize=9)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper right", ncols=2, fontsize=8, frameon=False)
    figure.suptitle(
        f"Incremental / full, {report.case.name} at scale factor {report.factor:g}, "
        f"median of {report.repeats} (left of 1 incremental wins)",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _panel(axis, report: Report, outcomes: list[Outcome]) -> None:  # type: ignore[no-untyped-def]
    height = 0.38
    targets = {(t.change, TARGETS[t.measure]): t.limit for t in report.case.targets if t.measure in TARGETS}
    for offset, (action, colour) in zip((-height / 2, height / 2), COLOURS.items(), strict=True):
        places = [i + offset for i in range(len(outcomes))]
        # A logarithmic axis has no zero: what costs next to nothing ends at the edge, its number says what it is.
        ratios = [max(outcome.ratio(action), SMALLEST) for outcome in outcomes]
        axis.barh(places, [r - SMALLEST / 2 for r in ratios], height, left=SMALLEST / 2, color=colour, label=action)
        for place, drawn, outcome in zip(places, ratios, outcomes, strict=True):
            axis.text(drawn * 1.08, place, markdown.ratio(outcome.ratio(action)), va="center", fontsize=8)
            limit = targets.get((outcome.change, action))
            if limit is not None:
                ends = (place - height / 2, place + height / 2)
                axis.plot([limit, limit], ends, color="black", linewidth=2)
    axis.axvline(1.0, color="firebrick", linewidth=1.2)
    axis.set_xscale("log")
    axis.set_xlim(SMALLEST / 2, max(4.0, *(3 * o.ratio(a) for o in outcomes for a in COLOURS)))
    axis.set_yticks(range(len(outcomes)), [outcome.title for outcome in outcomes], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("time / time of full recomputation (black: target)", fontsize=8)
