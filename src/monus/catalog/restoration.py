"""Putting back, in one transaction, what a lost catalog had known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import insert, select

from monus.catalog.leases import ensure_lease
from monus.catalog.part import CatalogPart
from monus.catalog.records import BatchRecord, SourceRecord, TableRecord, ViewRecord, key_of
from monus.catalog.schema import batches, names, tables, views
from monus.catalog.tables import claim_name, keep, table_values
from monus.catalog.views import view_values, write_sources


@dataclass(frozen=True, slots=True)
class FoundView:
    """A view as its own commits describe it; numbers up to `last_number` were used before."""

    record: ViewRecord
    sources: tuple[SourceRecord, ...]
    batches: tuple[BatchRecord, ...]
    last_number: int


class Restoration(CatalogPart):
    def is_empty(self) -> bool:
        with self._database.read() as connection:
            return connection.execute(select(names.c.key).limit(1)).first() is None

    def restore(self, found_tables: Sequence[TableRecord], found_views: Sequence[FoundView]) -> None:
        """All of them, or none if a name is taken or a source is missing."""
        with self._database.write() as connection:
            for table in found_tables:
                claim_name(connection, table.name, "table")
                connection.execute(insert(tables).values(key=key_of(table.name), **table_values(table)))
                keep(connection, table.location)
            for view in found_views:
                claim_name(connection, view.record.name, "view")
                connection.execute(insert(views).values(key=key_of(view.record.name), **view_values(view.record)))
                keep(connection, view.record.location)
                ensure_lease(connection, view.record.name, view.last_number)
                for batch in view.batches:
                    connection.execute(
                        insert(batches).values(
                            view_key=key_of(view.record.name),
                            number=batch.number,
                            operation=batch.operation,
                            version=batch.version,
                            from_vector=dict(batch.from_vector),
                            to_vector=dict(batch.to_vector),
                            has_rows=batch.has_rows,
                            published_at=batch.published_at,
                        )
                    )
            for view in found_views:
                write_sources(connection, view.record.name, view.sources)

    def is_damaged(self) -> bool:
        """Whether the database's own check finds its pages in disorder."""
        return self._database.is_damaged()
