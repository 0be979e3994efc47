"""The statements that Monus adds to Spark SQL, as values. A name is the tuple of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from monus.sql.mode import Mode
from monus.sql.policy import Policy

Name: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateView:
    """`query` is the text after AS as it was written; what the statement leaves open is None or empty."""

    name: Name
    query: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    partitioned_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    policy: Policy | None = None
    mode: Mode | None = None
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshView:
    """At most one of `full` and `partial`."""

    name: Name
    full: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class PropagateView:
    name: Name


@dataclass(frozen=True, slots=True)
class ExplainView:
    name: Name


@dataclass(frozen=True, slots=True)
class ExplainCreate:
    create: CreateView


@dataclass(frozen=True, slots=True)
class VerifyView:
    name: Name


@dataclass(frozen=True, slots=True)
class ShowViews:
    pass


@dataclass(frozen=True, slots=True)
class ShowRefreshes:
    name: Name


@dataclass(frozen=True, slots=True)
class SetPolicy:
    policy: Policy


@dataclass(frozen=True, slots=True)
class SetMode:
    mode: Mode


@dataclass(frozen=True, slots=True)
class RenameTo:
    name: Name


@dataclass(frozen=True, slots=True)
class Rebuild:
    pass


Alteration: TypeAlias = SetPolicy | SetMode | RenameTo | Rebuild


@dataclass(frozen=True, slots=True)
class AlterView:
    name: Name
    action: Alteration


@dataclass(frozen=True, slots=True)
class DropView:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateAssertion:
    """`query`, as it was written, finds the rows that must not be there."""

    name: Name
    query: str


@dataclass(frozen=True, slots=True)
class DropAssertion:
    name: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowAssertions:
    pass


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    pass


@dataclass(frozen=True, slots=True)
class Commit:
    pass


@dataclass(frozen=True, slots=True)
class Rollback:
    pass


Statement: TypeAlias = (
    CreateView
    | RefreshView
    | PropagateView
    | ExplainView
    | ExplainCreate
    | VerifyView
    | ShowViews
    | ShowRefreshes
    | AlterView
    | DropView
    | CreateAssertion
    | DropAssertion
    | ShowAssertions
    | BeginTransaction
    | Commit
    | Rollback
)
