"""What a refresh will do, decided from facts alone: no Spark, no catalog, nothing is changed.

The refresh follows the kind, and `dry_run` shows it with the steps, so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from monus.algebra.reasons import Reason
from monus.errors import MonusError, NotIncremental, SourceHistoryLost, SourceSchemaChanged
from monus.maintenance.vectors import Vector, numbers

Kind = Literal["none", "vector", "incremental", "full"]


@dataclass(frozen=True, slots=True)
class ChangeFact:
    """What is known of a source's change before it is read."""

    source: str
    kind: str
    rows: float


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the decision depends on."""

    view: str
    mode: str
    asked_full: bool
    is_filled: bool
    has_pending: bool
    reasons: tuple[Reason, ...]
    vector: Vector
    target: Vector
    changes: tuple[ChangeFact, ...]
    lost: MonusError | None = None
    may_change: Reason | None = None


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """The decision, its reason, and the steps in order; `str()` is for people."""

    view: str
    kind: Kind
    code: str
    reason: str
    from_versions: Mapping[str, int]
    to_versions: Mapping[str, int]
    steps: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.view}: {self.kind} ({self.code}). {self.reason}"]
        return "\n".join(lines + [f"  {i}. {step}" for i, step in enumerate(self.steps, 1)])


def plan_refresh(facts: Facts) -> RefreshPlan:
    """Raises where nothing may be done: STRICT, and only a full refresh is possible."""
    if facts.asked_full:
        return _full(facts, "REQUESTED", "A full refresh was asked for.")
    if not facts.is_filled:
        return _full(facts, "FIRST", "The view is computed for the first time.")
    is_behind = facts.has_pending or dict(facts.vector) != dict(facts.target)
    if facts.lost is None and facts.may_change is None and not is_behind:
        return _plan(facts, "none", "NO_CHANGE", "No source has changed.", ())
    if facts.mode == "FULL":
        return _full(facts, "MODE_FULL", "The view's mode is FULL.")
    if facts.lost is not None:
        return _lost(facts, facts.lost)
    if facts.reasons:
        reason = facts.may_change or facts.reasons[0]
        if facts.mode == "STRICT":
            raise _not_incremental(facts, reason)
        return _full(facts, reason.code, f"{reason.operator}: {reason.sentence}")
    changed = [fact for fact in facts.changes if fact.kind != "none"]
    if not changed and not facts.has_pending:
        sentence = "The sources have new versions, but no row changed."
        return _plan(facts, "vector", "NO_ROWS_CHANGED", sentence, ("record the new versions",))
    steps = [f"read the change of {f.source} from its {f.kind} ({_size(f)} rows)" for f in changed]
    if facts.has_pending:
        steps.append("read the pending change")
    steps += ["derive the change of the view", "fold it into the view's table", "publish the new state"]
    names = ", ".join(f.source for f in changed) or "what was propagated"
    return _plan(facts, "incremental", "INCREMENTAL", f"Only what changed is computed: {names}.", tuple(steps))


def _size(fact: ChangeFact) -> str:
    """A log tells a bound; of another view's batches only the size of the view is known."""
    return f"{'perhaps' if fact.kind == 'batches' else 'at most'} {fact.rows:.0f}"


def _lost(facts: Facts, lost: MonusError) -> RefreshPlan:
    if not isinstance(lost, SourceHistoryLost | SourceSchemaChanged) or facts.mode == "STRICT":
        raise lost
    return _full(facts, lost.code, f"{lost.message} The view is refreshed in full.")


def _not_incremental(facts: Facts, reason: Reason) -> NotIncremental:
    return NotIncremental(
        f"The view '{facts.view}' is STRICT and {reason.operator} is not incremental: {reason.sentence}",
        "Change the query, or the mode: MODE AUTO.",
        view=facts.view,
        reason=reason.code,
    )


def _full(facts: Facts, code: str, sentence: str) -> RefreshPlan:
    steps = ("compute the query over its sources", "replace the view's rows", "publish the new state")
    return _plan(facts, "full", code, sentence, steps)


def _plan(facts: Facts, kind: Kind, code: str, sentence: str, steps: tuple[str, ...]) -> RefreshPlan:
    return RefreshPlan(facts.view, kind, code, sentence, numbers(facts.vector), numbers(facts.target), steps)
