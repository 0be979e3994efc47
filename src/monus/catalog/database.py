"""Connections and transactions, safe with several threads and processes at once.

A write takes the database's write lock when it begins, not at its first statement, so that what it reads cannot
change before it writes. Nothing is lost that was committed, also when the machine goes down: a publication that
is forgotten after its Delta commit would make that commit look like a stranger's.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, Engine, Pool, QueuePool, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError

from monus.catalog.faults import cannot_lock, catalog_unavailable, is_of_the_file
from monus.errors import CatalogUnavailable, WarehouseClosed

BUSY_SECONDS = 30.0
_WRITES = "monus_writes"
_WRITABLE = "monus_writable"
# One letter is a drive of Windows; one slash is what pathlib leaves of two.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")

Clock = Callable[[], datetime]


def now_in_utc() -> datetime:
    return datetime.now(UTC)


class Database:
    """One database, by path or URL; `clock` tells the time that is stored and that leases expire by."""

    def __init__(self, path_or_url: str | Path, clock: Clock = now_in_utc, busy_seconds: float = BUSY_SECONDS) -> None:
        url = _url_of(path_or_url)
        self.where = url.render_as_string(hide_password=True) if url.host else str(url.database)
        self.now = clock
        self._closed = False
        self._engine = _sqlite_engine(url, busy_seconds)
        _OPEN.add(self)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the catalog."""
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that no other writer comes between; an exception undoes all of it."""
        with self._transaction(writes=True) as connection:
            yield connection

    @contextmanager
    def _transaction(self, writes: bool) -> Iterator[Connection]:
        if self._closed:
            raise WarehouseClosed("The catalog was closed.", "Connect to the warehouse again.")
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(**{_WRITES: writes})
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            cause = error.orig or error
            if is_of_the_file(cause):
                self._engine.dispose()
            raise catalog_unavailable(self.where, cause) from error

    def write_ahead(self) -> None:
        """Let readers and the writer not wait for each other, where the file system can; it is remembered."""
        try:
            with closing(self._engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
                cursor.execute("PRAGMA journal_mode")
                if cursor.fetchone() != ("wal",):
                    cursor.execute("PRAGMA journal_mode = WAL")
        except (sqlite3.OperationalError, DBAPIError):
            # Another process is at work in it just now, or the file system has no shared memory:
            # the catalog is as safe without, only slower.
            return

    def is_damaged(self) -> bool:
        """Whether SQLite's own check of all pages fails, which opening the database need not notice."""
        try:
            with closing(self._engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
                cursor.execute("PRAGMA quick_check(1)")
                return bool(cursor.fetchone() != ("ok",))
        except (sqlite3.DatabaseError, DBAPIError):
            return True

    def close(self) -> None:
        self._closed = True
        self._engine.dispose()

    def forget_connections(self) -> None:
        """Leave the connections to the parent process, which still uses them."""
        _INHERITED.append(self._engine.pool)
        self._engine.dispose(close=False)


def _url_of(path_or_url: str | Path) -> URL:
    text = str(path_or_url)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return URL.create("sqlite", database=str(Path(text).absolute()))
    dialect = scheme[1].lower().partition("+")[0]
    if dialect == "file":
        return URL.create("sqlite", database=re.sub(r"^file:/+", "/", text))
    if dialect == "sqlite":
        try:
            url = make_url(text)
        except ArgumentError as error:
            raise CatalogUnavailable(f"{text} is not a URL of a database.", "Give a path instead.") from error
        if url.database in (None, "", ":memory:"):
            raise CatalogUnavailable("A catalog in memory would not outlive its process.", "Give the path of a file.")
        return url
    if dialect in ("postgresql", "postgres"):
        raise CatalogUnavailable(
            "A catalog in PostgreSQL is not available in this version.", "Give the path of a file on a local disk."
        )
    raise cannot_lock(text)


def _sqlite_engine(url: URL, busy_seconds: float) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        max_overflow=-1,
        # Without an isolation level the driver leaves BEGIN to us.
        connect_args={"timeout": busy_seconds, "isolation_level": None, "check_same_thread": False},
    )

    def is_writable() -> bool:
        return url.database is not None and os.access(url.database, os.W_OK)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        record.info[_WRITABLE] = is_writable()
        with closing(connection.cursor()) as cursor:
            cursor.execute("PRAGMA foreign_keys = ON")
            cursor.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "checkout")
    def renew(_connection: Any, record: Any, _proxy: Any) -> None:
        # A connection keeps the rights that the file had when it was opened.
        if record.info[_WRITABLE] != is_writable():
            raise DisconnectionError

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


# SQLite's connections must not be used, nor even closed, by a child that was forked: they are kept, untouched.
_OPEN: WeakSet[Database] = WeakSet()
_INHERITED: list[Pool] = []


def _after_fork() -> None:
    for database in list(_OPEN):
        database.forget_connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
