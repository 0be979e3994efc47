"""Which views take part in a transaction: makesafe_IM and makesafe_DT of Colby et al., and assertions.

A view of one of these policies takes part when it reads a table that the transaction changes, directly or through
other immediate views. Log and combined views do not: their log is the table's own history.
"""

from __future__ import annotations

from collections.abc import Iterable

from monus.catalog.catalog import Catalog
from monus.catalog.records import SourceRecord, ViewRecord, key_of
from monus.sql.policy import Immediate, Lazy, OnDemand, OnQuery, parse_policy

ASSERTION = "__assertion "


def is_immediate(record: ViewRecord) -> bool:
    return isinstance(parse_policy(record.policy), Immediate)


def is_differential(record: ViewRecord) -> bool:
    return parse_policy(record.policy) == OnDemand("DIFFERENTIAL")


def is_lazy(record: ViewRecord) -> bool:
    return isinstance(parse_policy(record.policy), Lazy)


def reads_now(record: ViewRecord) -> bool:
    """Whether a query sees the view and the tables at one state; others are read at their own."""
    policy = parse_policy(record.policy)
    return isinstance(policy, Immediate | Lazy) or policy == OnQuery()


def is_assertion(record: ViewRecord) -> bool:
    return record.name.startswith(ASSERTION)


def assertion_name(record: ViewRecord) -> str:
    return record.name.removeprefix(ASSERTION)


def shown_name(record: ViewRecord) -> str:
    return f"assertion '{assertion_name(record)}'" if is_assertion(record) else f"view '{record.name}'"


def late_view(catalog: Catalog, sources: Iterable[SourceRecord]) -> ViewRecord | None:
    """The first view among these, or behind them, that does not change with the transaction that changes its tables."""
    for source in sources:
        if source.kind == "view":
            record = catalog.view(source.name)
            late = record if not is_immediate(record) else late_view(catalog, catalog.sources(record.name))
            if late is not None:
                return late
    return None


def assertions_over(catalog: Catalog, view: str) -> list[str]:
    """The assertions that read the view, directly or through others."""
    found: list[str] = []
    for name in catalog.dependants(view):
        record = catalog.view(name)
        found += [assertion_name(record)] if is_assertion(record) else assertions_over(catalog, name)
    return found


def concerned_views(catalog: Catalog, tables: Iterable[str]) -> list[ViewRecord]:
    """Those that take part when these tables change, each after those that it reads."""
    records = {key_of(record.name): record for record in catalog.views()}
    eager = {key for key, record in records.items() if is_immediate(record) or is_differential(record)}
    if not eager:
        return []
    changed = {key_of(name) for name in tables}
    found: list[ViewRecord] = []
    for name in catalog.dependency_order():
        record = records.get(key_of(name))
        if record is None or key_of(name) not in eager:
            continue
        if any(key_of(source.name) in changed for source in catalog.sources(name)):
            found.append(record)
            if is_immediate(record):
                changed.add(key_of(name))
    return found
