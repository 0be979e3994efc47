"""From the format of the database to the format of this version of Monus.

A new database is made from `schema.py` at once. An older one goes through the migrations in order, each in one
transaction together with the new number, so that a process that dies, or several that open it at once, leave
it in one format or the next. A migration never changes once it is released.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, insert, inspect, select, update

from monus.catalog.database import Database
from monus.catalog.faults import not_ours
from monus.catalog.schema import METADATA, meta
from monus.errors import WarehouseTooNew

logger = logging.getLogger(__name__)

Migration: TypeAlias = Callable[[Connection], None]


def _add_transactions(connection: Connection) -> None:
    for statement in (
        "ALTER TABLE views ADD COLUMN next_refresh BIGINT",
        "ALTER TABLE views ADD COLUMN next_propagate BIGINT",
        "CREATE TABLE dropped (location TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (location))",
        "CREATE TABLE transactions (id TEXT NOT NULL, sequence BIGINT NOT NULL, statements BIGINT NOT NULL, "
        "staging TEXT, committed_at BIGINT NOT NULL, applied_at BIGINT, PRIMARY KEY (id), UNIQUE (sequence))",
        "CREATE TABLE transaction_parts (transaction_id TEXT NOT NULL, resource_key TEXT NOT NULL, "
        "name TEXT NOT NULL, kind TEXT NOT NULL, number BIGINT, before JSON NOT NULL, staged JSON NOT NULL, "
        "reached BIGINT, note TEXT, PRIMARY KEY (transaction_id, resource_key), "
        "FOREIGN KEY(transaction_id) REFERENCES transactions (id))",
    ):
        connection.exec_driver_sql(statement)


def _add_tasks(connection: Connection) -> None:
    number = "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT" if connection.dialect.name == "sqlite" else "SERIAL"
    for statement in (
        f"CREATE TABLE tasks (id {number}, view_key TEXT NOT NULL, sequence BIGINT NOT NULL, "
        "transaction_id TEXT, statement BIGINT NOT NULL, changed JSON NOT NULL, created_at BIGINT NOT NULL, "
        f"{'' if connection.dialect.name == 'sqlite' else 'PRIMARY KEY (id), '}"
        "FOREIGN KEY(view_key) REFERENCES views (key))",
        "CREATE INDEX ix_tasks_view_key ON tasks (view_key)",
    ):
        connection.exec_driver_sql(statement)


# The first brings format 1 to format 2, and so on.
MIGRATIONS: tuple[Migration, ...] = (_add_transactions, _add_tasks)
FORMAT = len(MIGRATIONS) + 1


def migrate(database: Database, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Make the database one of the newest format, or leave it as it is and say why not."""
    newest = len(migrations) + 1
    while True:
        with database.write() as connection:
            stored = _stored_format(connection, database.where)
            if stored is None:
                METADATA.create_all(connection)
                connection.execute(insert(meta).values(key="format", value=str(FORMAT)))
            elif stored > newest:
                raise WarehouseTooNew(
                    f"The catalog {database.where} has format {stored}, and this version of Monus knows {newest}.",
                    "Upgrade monus.",
                    stored=stored,
                    known=newest,
                )
            elif stored == newest:
                # A write that changes nothing: a catalog that cannot be written to is noticed now.
                _store_format(connection, newest)
                return
            else:
                logger.info("Migrating the catalog %s from format %d to %d", database.where, stored, stored + 1)
                migrations[stored - 1](connection)
                _store_format(connection, stored + 1)


def _stored_format(connection: Connection, where: str) -> int | None:
    """The format, or None when the database is empty."""
    present = inspect(connection).get_table_names()
    if not present:
        return None
    if "meta" not in present or {column["name"] for column in inspect(connection).get_columns("meta")} != {
        "key",
        "value",
    }:
        raise not_ours(where, "it has other tables")
    value = connection.scalar(select(meta.c.value).where(meta.c.key == "format"))
    if value is None or not value.isdigit() or int(value) < 1:
        raise not_ours(where, "it does not say which format it has")
    return int(value)


def _store_format(connection: Connection, number: int) -> None:
    connection.execute(update(meta).where(meta.c.key == "format").values(value=str(number)))
