"""A point between what a view reflects and now: `v.refresh(to=…)`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.records import TableRecord, ViewRecord, key_of
from monus.errors import PointUnreachable
from monus.maintenance.applying import unusable
from monus.maintenance.sources import Source, TableSource
from monus.maintenance.vectors import TableState, from_json
from monus.store.delta_table import DeltaTable
from monus.store.log import commits

MOST_TRANSACTIONS = 10_000
To: TypeAlias = Mapping[str, int] | datetime


def sources_at(spark: SparkSession, catalog: Catalog, record: ViewRecord, to: To) -> dict[str, Source]:
    """The view's tables at the point; one that is not named stays where the view has it."""
    if not record.usable or record.batch == 0:
        raise unusable(record)
    if not _is_point(to):
        raise PointUnreachable(
            f"{to!r} is no point that a view can be brought to.",
            'Give versions of its tables, such as {"sales": 7}, or a datetime.',
            view=record.name,
        )
    vector = from_json(record.pending_vector)
    names = [source.name for source in catalog.sources(record.name)]
    reached = {key_of(n): s.version for n in names if isinstance(s := vector.get(n), TableState)}
    if len(reached) < len(names):
        raise PointUnreachable(
            f"The view '{record.name}' reads other views, so it has no points but the present one.",
            "Refresh those views to the point, then this one.",
            view=record.name,
        )
    tables = {key_of(name): catalog.table(name) for name in names}
    newest = _newest(spark, catalog, tables)
    if isinstance(to, datetime):
        paths = {key: DeltaTable(spark, table.location) for key, table in tables.items()}
        wanted = {key: _last_before(paths[key], reached[key], newest[key], to) for key in tables}
    else:
        wanted = reached | {key_of(name): version for name, version in to.items()}
    _check(record, wanted, reached, newest)
    wanted = _whole_transactions(catalog, record, wanted, cuts=isinstance(to, datetime))
    return {table.name: TableSource(table, spark, wanted[key]) for key, table in tables.items()}


def _is_point(to: object) -> bool:
    if isinstance(to, Mapping):
        return all(isinstance(version, int) for version in to.values())
    return isinstance(to, datetime)


def _newest(spark: SparkSession, catalog: Catalog, tables: Mapping[str, TableRecord]) -> dict[str, int]:
    """As readers see them: without the commits of a transaction that is not applied yet."""
    before = {key_of(part.name): part.before for record in catalog.ledger().outstanding for part in record.tables}
    return {
        key: before[key]["version"] if key in before else DeltaTable(spark, table.location).version()
        for key, table in tables.items()
    }


def _check(
    record: ViewRecord, wanted: Mapping[str, int], reached: Mapping[str, int], newest: Mapping[str, int]
) -> None:
    for key, version in wanted.items():
        if key not in reached:
            raise PointUnreachable(
                f"The view '{record.name}' does not read '{key}'.",
                f"It reads {', '.join(sorted(reached))}.",
                view=record.name,
            )
        if not reached[key] <= version <= newest[key]:
            raise PointUnreachable(
                f"'{key}' cannot be taken at version {version}: the view '{record.name}' reflects {reached[key]}, and "
                f"the newest is {newest[key]}.",
                "Choose a version from one to the other.",
                view=record.name,
                table=key,
            )


def _whole_transactions(catalog: Catalog, record: ViewRecord, wanted: Mapping[str, int], cuts: bool) -> dict[str, int]:
    """All of a transaction or nothing of it: a moment in the middle of one is before it, versions are refused."""
    found = dict(wanted)
    several = {
        each.id: {
            key_of(part.name): part.reached for part in each.tables if part.reached and key_of(part.name) in found
        }
        for key in found
        for each in catalog.transactions(key, MOST_TRANSACTIONS)
    }
    is_steady = False
    while not is_steady:
        is_steady = True
        for versions in several.values():
            has = {key: found[key] >= version for key, version in versions.items()}
            if len(set(has.values())) < 2:
                continue
            if not cuts:
                raise PointUnreachable(
                    f"A transaction changed {' and '.join(sorted(versions))}, and this point has a part of it.",
                    f"It made the versions {dict(sorted(versions.items()))}.",
                    view=record.name,
                )
            is_steady = False
            found |= {key: versions[key] - 1 for key in has if has[key]}
    return found


def _last_before(table: DeltaTable, reached: int, newest: int, moment: datetime) -> int:
    """The newest version that was there at the moment; what the view reflects is not undone."""
    until = moment.astimezone().timestamp() * 1000
    version = reached
    for commit in commits(table, reached, newest):
        if commit.timestamp is None or commit.timestamp > until:
            break
        version = commit.version
    return version
