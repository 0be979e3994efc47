"""Base tables, and the names that tables and views share."""

from __future__ import annotations

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from monus.catalog.part import CatalogPart
from monus.catalog.records import SourceKind, SourceRecord, TableRecord, key_of
from monus.catalog.schema import dropped, names, sources, tables, transaction_parts, transactions, views
from monus.errors import InUse, NameExists, UnknownTable, ViewBusy


class Tables(CatalogPart):
    def add_table(self, record: TableRecord) -> None:
        with self._database.write() as connection:
            claim_name(connection, record.name, "table")
            connection.execute(insert(tables).values(key=key_of(record.name), **table_values(record)))
            keep(connection, record.location)

    def update_table(self, record: TableRecord) -> None:
        """Replace what is known of the table of that name."""
        with self._database.write() as connection:
            changed = connection.execute(
                update(tables).where(tables.c.key == key_of(record.name)).values(**table_values(record))
            )
            if changed.rowcount == 0:
                raise _unknown(record.name)

    def drop_table(self, name: str) -> None:
        with self._database.write() as connection:
            refuse_if_read(connection, name)
            refuse_if_outstanding(connection, name)
            managed = select(tables.c.location).where(tables.c.key == key_of(name), tables.c.managed)
            location = connection.scalar(managed)
            if location is not None:
                note_dropped(connection, name, "table", location)
            if connection.execute(delete(tables).where(tables.c.key == key_of(name))).rowcount == 0:
                raise _unknown(name)
            connection.execute(delete(names).where(names.c.key == key_of(name)))

    def dropped(self) -> dict[str, SourceRecord]:
        """Folders that nobody needs any more and that are not removed yet, with what was dropped."""
        with self._database.read() as connection:
            rows = connection.execute(select(dropped).order_by(dropped.c.location))
            return {row.location: SourceRecord(row.name, row.kind) for row in rows}

    def forget_dropped(self, location: str) -> None:
        with self._database.write() as connection:
            keep(connection, location)

    def tables(self) -> list[TableRecord]:
        with self._database.read() as connection:
            return [_table(row) for row in connection.execute(select(tables).order_by(tables.c.key))]

    def find_table(self, name: str) -> TableRecord | None:
        with self._database.read() as connection:
            row = connection.execute(select(tables).where(tables.c.key == key_of(name))).one_or_none()
        return None if row is None else _table(row)

    def table(self, name: str) -> TableRecord:
        found = self.find_table(name)
        if found is None:
            raise _unknown(name)
        return found


def claim_name(connection: Connection, name: str, kind: SourceKind) -> None:
    """Make the name that of a new table or view."""
    key = key_of(name)
    try:
        with connection.begin_nested():
            connection.execute(insert(names).values(key=key, name=name, kind=kind))
    except IntegrityError as error:
        owner = connection.execute(select(names).where(names.c.key == key)).one()
        raise NameExists(
            f"A {owner.kind} named {owner.name} exists.", "Choose another name, or drop it first.", name=owner.name
        ) from error


def note_dropped(connection: Connection, name: str, kind: SourceKind, location: str) -> None:
    """Together with the record of what was there, so that its folder is removed whoever dies."""
    keep(connection, location)
    connection.execute(insert(dropped).values(location=location, name=name, kind=kind))


def keep(connection: Connection, location: str) -> None:
    """The folder is used again."""
    connection.execute(delete(dropped).where(dropped.c.location == location))


def refuse_if_read(connection: Connection, name: str) -> None:
    readers = connection.scalars(
        select(views.c.name)
        .join(sources, sources.c.view_key == views.c.key)
        .where(sources.c.source_key == key_of(name))
        .order_by(views.c.key)
    ).all()
    if readers:
        raise InUse(f"{name} is read by {', '.join(readers)}.", "Drop these first.", name=name, readers=list(readers))


def refuse_if_outstanding(connection: Connection, name: str) -> None:
    """A transaction that is committed must still find what it changes."""
    part = transaction_parts.c
    outstanding = (
        select(part.transaction_id)
        .join(transactions, transactions.c.id == part.transaction_id)
        .where(part.resource_key == key_of(name), transactions.c.applied_at.is_(None))
    )
    if connection.execute(outstanding).first() is not None:
        raise ViewBusy(f"{name} is part of a transaction that is not finished.", "Try again when it is.", resource=name)


def _unknown(name: str) -> UnknownTable:
    return UnknownTable(f"There is no table named {name}.", "Check the name, or attach the table.", name=name)


def table_values(record: TableRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "location": record.location,
        "identifier": record.identifier,
        "table_id": record.table_id,
        "managed": record.managed,
        "created_at": record.created_at,
    }


def _table(row: Row[tuple[object, ...]]) -> TableRecord:
    return TableRecord(row.name, row.location, row.identifier, row.table_id, row.managed, row.created_at)
