"""What a run found, and what follows from it: medians, ratios, verdicts, targets reached or missed.

*Full* is the faster of two ways to compute a view anew, the view's own full refresh and a plain overwrite of a Delta
table by Spark, so that a slow full refresh never flatters the incremental one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, TypeAlias

from bench.case import Case, Measure, Target

Action: TypeAlias = Literal["propagate", "partial_refresh", "refresh", "full", "plain"]
ACTIONS: tuple[Action, ...] = ("propagate", "partial_refresh", "refresh", "full", "plain")


@dataclass(frozen=True, slots=True)
class Sample:
    """One action, once."""

    seconds: float
    jobs: int
    commits: int
    inserted: int = 0
    deleted: int = 0
    strategy: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that was measured of one view under one change; warm-up rounds are not in it."""

    view: str
    change: str
    title: str
    rows_changed: int
    change_seconds: float
    samples: Mapping[Action, tuple[Sample, ...]]
    verifications: int
    wrong: int

    def seconds(self, action: Action) -> float:
        return median(sample.seconds for sample in self.samples[action])

    @property
    def full_seconds(self) -> float:
        return min(self.seconds("full"), self.seconds("plain"))

    @property
    def full_by(self) -> Action:
        return "full" if self.seconds("full") <= self.seconds("plain") else "plain"

    def ratio(self, action: Action) -> float:
        return self.seconds(action) / self.full_seconds

    def jobs(self, action: Action) -> int:
        """The most of any round: a budget is kept only if every round keeps it."""
        return max(sample.jobs for sample in self.samples[action])

    def commits(self, action: Action) -> int:
        return max(sample.commits for sample in self.samples[action])

    def rows(self, action: Action) -> tuple[int, int]:
        """Inserted and deleted rows of the view, the median of the rounds."""
        samples = self.samples[action]
        return round(median(s.inserted for s in samples)), round(median(s.deleted for s in samples))

    def strategies(self, action: Action) -> str:
        """In the order of their first use; more than one if the rounds differ."""
        return ", ".join(dict.fromkeys(sample.strategy for sample in self.samples[action]))

    @property
    def verdict(self) -> str:
        """Who wins, in plain words; a loss is told before a gain."""
        propagate, refresh = self.ratio("propagate"), self.ratio("refresh")
        if refresh < 1 and propagate < 1:
            return f"incremental is {times(1 / refresh)} faster"
        if refresh < 1:
            return f"propagate LOSES, {times(propagate)} as long as full; refresh wins"
        if propagate < 1:
            return f"refresh LOSES, {times(refresh)} as long as full; propagate wins"
        return f"LOSES: {times(refresh)} as long as full"

    @property
    def is_loss(self) -> bool:
        return self.ratio("refresh") >= 1 or self.ratio("propagate") >= 1

    def measured(self, measure: Measure) -> float:
        match measure:
            case "propagate_ratio":
                return self.ratio("propagate")
            case "refresh_ratio":
                return self.ratio("refresh")
            case "refresh_seconds":
                return self.seconds("refresh")
            case "refresh_jobs":
                return self.jobs("refresh")

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "change": self.change,
            "title": self.title,
            "rows_changed": self.rows_changed,
            "change_seconds": round(self.change_seconds, 4),
            "seconds": {action: round(self.seconds(action), 4) for action in ACTIONS},
            "full_seconds": round(self.full_seconds, 4),
            "full_by": self.full_by,
            "ratios": {action: round(self.ratio(action), 4) for action in ACTIONS[:3]},
            "verdict": self.verdict,
            "verifications": self.verifications,
            "wrong": self.wrong,
            "samples": {
                action: [
                    {
                        "seconds": round(s.seconds, 4),
                        "jobs": s.jobs,
                        "commits": s.commits,
                        "inserted": s.inserted,
                        "deleted": s.deleted,
                        "strategy": s.strategy,
                        "code": s.code,
                    }
                    for s in self.samples[action]
                ]
                for action in ACTIONS
            },
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """A target beside what was measured; `reached` is None at a scale that it was not set for."""

    target: Target
    view: str
    value: float
    reached: bool | None

    @property
    def word(self) -> str:
        if self.reached is None:
            return f"not judged: set for scale factor {self.target.factor:g}"
        return "reached" if self.reached else "MISSED"

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "change": self.target.change,
            "measure": self.target.measure,
            "limit": self.target.limit,
            "value": round(self.value, 4),
            "reached": self.reached,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """A run: where, with what, and what came out."""

    case: Case
    factor: float
    repeats: int
    mode: str
    environment: Mapping[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        found = []
        for target in self.case.targets:
            for outcome in self.outcomes:
                if outcome.change == target.change:
                    value = outcome.measured(target.measure)
                    reached = value <= target.limit if self.factor == target.factor else None
                    found.append(Judgement(target, outcome.view, value, reached))
        return tuple(found)

    @property
    def wrong(self) -> int:
        return sum(outcome.wrong for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "scale_factor": self.factor,
            "repeats": self.repeats,
            "mode": self.mode,
            "environment": dict(self.environment),
            "targets": [judgement.to_json() for judgement in self.judgements],
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
        }


def times(ratio: float) -> str:
    """`1.3 times`, `120 times`: no more digits than a measurement has."""
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times" if ratio >= 1.05 else "about 1.0 times"
