"""When a view is brought up to date: the text after REFRESH, as values.

`parse_policy(str(policy)) == policy` for every policy. `ON DEMAND` alone means USING LOG.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from monus.errors import StatementInvalid
from monus.sql.cursor import Cursor

Unit: TypeAlias = Literal["SECOND", "MINUTE", "HOUR", "DAY", "WEEK"]
Scenario: TypeAlias = Literal["LOG", "DIFFERENTIAL", "COMBINED"]

SECONDS: dict[Unit, int] = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time, in the unit in which the user gave it."""

    count: int
    unit: Unit

    @property
    def seconds(self) -> int:
        return self.count * SECONDS[self.unit]

    def __str__(self) -> str:
        return f"{self.count} {self.unit}" + ("" if self.count == 1 else "S")


@dataclass(frozen=True, slots=True)
class Immediate:
    """Part of the transaction that changes the tables."""

    def __str__(self) -> str:
        return "IMMEDIATE"


@dataclass(frozen=True, slots=True)
class Lazy:
    """When the system is idle, at the latest when the view is read."""

    def __str__(self) -> str:
        return "LAZY"


@dataclass(frozen=True, slots=True)
class OnQuery:
    """When the view is read; `partial` applies only what was propagated before."""

    partial: bool = False

    def __str__(self) -> str:
        return "ON QUERY PARTIAL" if self.partial else "ON QUERY"


@dataclass(frozen=True, slots=True)
class OnDemand:
    """When the user says so; `using` is the scenario that is kept in the meantime."""

    using: Scenario = "LOG"

    def __str__(self) -> str:
        return f"ON DEMAND USING {self.using}"


@dataclass(frozen=True, slots=True)
class Every:
    """By the clock: policy 1, or policy 2 when `partial`; propagated in between by the clock or when idle."""

    interval: Interval
    partial: bool = False
    propagate_every: Interval | None = None
    propagate_when_idle: bool = False

    def __post_init__(self) -> None:
        if self.propagate_every is not None and self.propagate_when_idle:
            raise StatementInvalid("A view is propagated either by the clock or when idle.", "Give one of the two.")

    def __str__(self) -> str:
        words = [f"EVERY {self.interval}"]
        if self.partial:
            words.append("PARTIAL")
        if self.propagate_every is not None:
            words.append(f"PROPAGATE EVERY {self.propagate_every}")
        if self.propagate_when_idle:
            words.append("PROPAGATE WHEN IDLE")
        return " ".join(words)


Policy: TypeAlias = Immediate | Lazy | OnQuery | OnDemand | Every


def parse_policy(text: str) -> Policy:
    """The policy that `create_view(refresh=...)` names: the text after REFRESH, in any case."""
    cursor = Cursor(text)
    policy = read_policy(cursor)
    cursor.expect_end()
    return policy


def read_policy(cursor: Cursor) -> Policy:
    """Take a policy from the cursor, as far as it goes."""
    if cursor.accept("IMMEDIATE"):
        return Immediate()
    if cursor.accept("LAZY"):
        return Lazy()
    if cursor.accept("ON"):
        if cursor.one_of("QUERY", "DEMAND") == "QUERY":
            return OnQuery(partial=cursor.accept("PARTIAL"))
        if not cursor.accept("USING"):
            return OnDemand()
        return OnDemand(cast(Scenario, cursor.one_of("LOG", "DIFFERENTIAL", "COMBINED")))
    if cursor.accept("EVERY"):
        return _read_every(cursor)
    cursor.fail("IMMEDIATE, LAZY, ON QUERY, ON DEMAND or EVERY")


def _read_every(cursor: Cursor) -> Every:
    interval = _read_interval(cursor)
    partial = cursor.accept("PARTIAL")
    if not cursor.accept("PROPAGATE"):
        return Every(interval, partial)
    if cursor.one_of("EVERY", "WHEN") == "EVERY":
        return Every(interval, partial, propagate_every=_read_interval(cursor))
    cursor.expect("IDLE")
    return Every(interval, partial, propagate_when_idle=True)


def _read_interval(cursor: Cursor) -> Interval:
    count = cursor.positive_integer("a whole number above zero")
    for unit in SECONDS:
        if cursor.accept(unit) or cursor.accept(unit + "S"):
            return Interval(count, unit)
    cursor.fail("SECONDS, MINUTES, HOURS, DAYS or WEEKS")
