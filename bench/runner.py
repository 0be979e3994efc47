"""How a case is measured: in each round, the incremental ways and the full ways in turn, on the same data.

A round applies the change, propagates and folds it; applies it again to other rows, refreshes; and computes the view
anew in both ways. The order of views, and whether the plain overwrite comes before the refresh, change from round to
round, so that none always finds what the one before it left in the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import monus
from bench.case import Case, Change, Say, Scale, View
from bench.results import ACTIONS, Action, Outcome, Sample
from monus.store.session import jobs_started


@dataclass(frozen=True, slots=True)
class Plan:
    """What of a case is run, and how often."""

    case: Case
    changes: tuple[Change, ...]
    scale: Scale
    repeats: int
    warmups: int
    mode: str


@dataclass(slots=True)
class _Tally:
    """What a view's samples are collected in while a change is measured."""

    samples: dict[Action, list[Sample]] = field(default_factory=lambda: {action: [] for action in ACTIONS})
    verifications: int = 0
    wrong: int = 0


class Runner:
    def __init__(self, wh: monus.Warehouse, plan: Plan, throwaway: Path, say: Say) -> None:
        self._wh = wh
        self._plan = plan
        self._throwaway = throwaway
        self._say = say
        self._numbers = count(1)

    def prepare(self) -> None:
        """Tables and views."""
        self._plan.case.load(self._wh, self._plan.scale, self._say)
        for view in self._plan.case.views:
            self._say(f"Creating the view {view.name}")
            self._wh.create_view(view.name, view.query, mode=self._plan.mode)
            self._say(f"  {self._wh.table(view.name).count():,} rows")

    def run(self) -> Iterator[tuple[Outcome, ...]]:
        """The outcomes of one change after the other, so that a run that is stopped loses only the last."""
        for change in self._plan.changes:
            yield self._measure(change)

    def _measure(self, change: Change) -> tuple[Outcome, ...]:
        tallies = {view.name: _Tally() for view in self._plan.case.views}
        applied: list[tuple[int, float]] = []
        rounds = self._plan.warmups + self._plan.repeats
        for number in range(rounds):
            is_warm_up = number < self._plan.warmups
            which = "warm-up" if is_warm_up else f"round {number - self._plan.warmups + 1} of {self._plan.repeats}"
            self._say(f"{change.name}, {which}")
            verify = number in (0, rounds - 1)
            changed, found = self._round(change, number, verify, tallies)
            self._say("  " + self._told(found))
            if not is_warm_up:
                applied += changed
                for name, samples in found.items():
                    for action, sample in samples.items():
                        tallies[name].samples[action].append(sample)
        return tuple(
            Outcome(
                view=name,
                change=change.name,
                title=change.title,
                rows_changed=round(median(rows for rows, _ in applied)),
                change_seconds=median(seconds for _, seconds in applied),
                samples={action: tuple(samples) for action, samples in tally.samples.items()},
                verifications=tally.verifications,
                wrong=tally.wrong,
            )
            for name, tally in tallies.items()
        )

    def _round(
        self, change: Change, number: int, verify: bool, tallies: dict[str, _Tally]
    ) -> tuple[list[tuple[int, float]], dict[str, dict[Action, Sample]]]:
        views = self._plan.case.views[:: 1 if number % 2 == 0 else -1]
        found: dict[str, dict[Action, Sample]] = {view.name: {} for view in self._plan.case.views}
        changed = [self._apply(change)]
        for view in views:
            of = self._wh.view(view.name)
            found[view.name]["propagate"] = self._timed(of.propagate)
            found[view.name]["partial_refresh"] = self._timed(of.partial_refresh)
            if verify:
                self._verify(view, tallies[view.name])
        changed.append(self._apply(change))
        for view in views:
            of = self._wh.view(view.name)
            if number % 2 == 1:
                found[view.name]["plain"] = self._plain(view)
            found[view.name]["refresh"] = self._timed(of.refresh)
            if verify:
                self._verify(view, tallies[view.name])
            found[view.name]["full"] = self._timed(partial(of.refresh, full=True))
            if number % 2 == 0:
                found[view.name]["plain"] = self._plain(view)
        return changed, found

    def _apply(self, change: Change) -> tuple[int, float]:
        """Rows that the statements touched, by Delta's own count, and seconds."""
        start = time.perf_counter()
        rows = 0
        for statement in change.statements(self._plan.scale.factor, next(self._numbers)):
            answer = self._wh.sql(statement).collect()
            rows += int(answer[0][0]) if answer and answer[0] else 0
        return rows, time.perf_counter() - start

    def _timed(self, work: Callable[[], monus.Refresh | monus.RefreshPlan]) -> Sample:
        """By the clock and by Spark's own counter of jobs, not by what the refresh says of itself."""
        jobs, start = jobs_started(self._wh.spark), time.perf_counter()
        done = work()
        seconds, jobs = time.perf_counter() - start, jobs_started(self._wh.spark) - jobs
        assert isinstance(done, monus.Refresh)
        return Sample(seconds, jobs, done.commits, done.rows_inserted, done.rows_deleted, str(done.strategy), done.code)

    def _plain(self, view: View) -> Sample:
        """What somebody without Monus would run."""
        jobs, start = jobs_started(self._wh.spark), time.perf_counter()
        rows = self._wh.sql(view.query)
        rows.write.format("delta").mode("overwrite").save(str(self._throwaway / view.name))
        seconds, jobs = time.perf_counter() - start, jobs_started(self._wh.spark) - jobs
        return Sample(seconds, jobs, 1, strategy="overwrite", code="PLAIN")

    def _verify(self, view: View, tally: _Tally) -> None:
        tally.verifications += 1
        if not self._wh.view(view.name).verify().ok:
            tally.wrong += 1
            self._say(f"  {view.name} is WRONG: it differs from its query")

    def _told(self, found: dict[str, dict[Action, Sample]]) -> str:
        each = []
        for view in self._plan.case.views:
            samples = found[view.name]
            each.append(f"{view.name}: " + ", ".join(f"{a} {samples[a].seconds:.2f}" for a in ACTIONS))
        return "; ".join(each)
