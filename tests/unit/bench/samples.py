"""Outcomes and reports as a run would make them, from plain numbers."""

from __future__ import annotations

from bench.case import Case, Change, Target, View
from bench.results import Action, Outcome, Report, Sample

CASE = Case(
    "small",
    "A small case",
    views=(View("v", "v: a join", "SELECT 1"),),
    changes=(Change("few", "3 rows", lambda factor, number: ()), Change("none", "nothing", lambda factor, number: ())),
    targets=(Target("few", "propagate_ratio", 0.25, factor=1), Target("none", "refresh_jobs", 0, factor=1)),
    prepare=lambda scale, say: None,
    load=lambda wh, scale, say: None,
)


def outcome(
    change: str = "few",
    *,
    propagate: tuple[float, ...] = (0.2,),
    refresh: tuple[float, ...] = (0.5,),
    full: tuple[float, ...] = (2.0,),
    plain: tuple[float, ...] = (1.0,),
    jobs: int = 4,
    wrong: int = 0,
) -> Outcome:
    def samples(seconds: tuple[float, ...], strategy: str) -> tuple[Sample, ...]:
        return tuple(Sample(s, jobs, 1, 1_200, 1_100, strategy, "INCREMENTAL") for s in seconds)

    found: dict[Action, tuple[Sample, ...]] = {
        "propagate": samples(propagate, "append"),
        "partial_refresh": samples(refresh, "rewrite"),
        "refresh": samples(refresh, "rewrite"),
        "full": samples(full, "full"),
        "plain": samples(plain, "overwrite"),
    }
    title = next(c.title for c in CASE.changes if c.name == change)
    return Outcome("v", change, title, 3_000, 0.7, found, verifications=4, wrong=wrong)


def report(*outcomes: Outcome, factor: float = 1) -> Report:
    return Report(CASE, factor, 5, "incremental", {"date": "2026-11-18 01:00 UTC", "cores": "2"}, outcomes)
