"""A point between what a view reflects and now: `v.refresh(to=…)`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.records import ViewRecord, key_of
from monus.errors import PointUnreachable
from monus.maintenance.sources import Source, TableSource
from monus.maintenance.vectors import TableState, from_json
from monus.store.delta_table import DeltaTable
from monus.store.log import commits

To: TypeAlias = Mapping[str, int] | datetime


def sources_at(spark: SparkSession, catalog: Catalog, record: ViewRecord, to: To) -> dict[str, Source]:
    """The view's tables at the point; one that is not named stays where the view has it."""
    vector, wanted = from_json(record.pending_vector), {}
    tables = [source.name for source in catalog.sources(record.name)]
    if not all(isinstance(vector.get(name), TableState) for name in tables):
        raise PointUnreachable(
            f"The view '{record.name}' reads other views, so it has no points but the present one.",
            "Refresh those views to the point, then this one.",
            view=record.name,
        )
    if not isinstance(to, datetime):
        wanted = {key_of(name): version for name, version in to.items()}
        unknown = wanted.keys() - set(map(key_of, tables))
        if unknown:
            raise PointUnreachable(
                f"The view '{record.name}' does not read {', '.join(sorted(unknown))}.",
                f"It reads {', '.join(tables)}.",
                view=record.name,
            )
    found: dict[str, Source] = {}
    for name in tables:
        table, state = catalog.table(name), vector[name]
        assert isinstance(state, TableState)
        head = DeltaTable(spark, table.location).version()
        if isinstance(to, datetime):
            version = _last_before(DeltaTable(spark, table.location), state.version, head, to)
        else:
            version = wanted.get(key_of(name), state.version)
        if not state.version <= version <= head:
            raise PointUnreachable(
                f"'{name}' cannot be taken at version {version}: the view '{record.name}' reflects {state.version}, "
                f"and the newest is {head}.",
                "Choose a version from one to the other.",
                view=record.name,
                table=name,
            )
        found[name] = TableSource(table, spark, version)
    return found


def _last_before(table: DeltaTable, reached: int, head: int, moment: datetime) -> int:
    """The newest version that was there at the moment; what the view reflects is not undone."""
    until = moment.astimezone().timestamp() * 1000
    version = reached
    for commit in commits(table, reached, head):
        if commit.timestamp is None or commit.timestamp > until:
            break
        version = commit.version
    return version
