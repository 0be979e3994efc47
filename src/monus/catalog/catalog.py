"""The catalog as one object; each idea of it has a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from monus.catalog.alterations import Alterations
from monus.catalog.database import BUSY_SECONDS, Clock, Database, now_in_utc
from monus.catalog.history import History
from monus.catalog.leases import Leases
from monus.catalog.migrations import MIGRATIONS, Migration, migrate
from monus.catalog.publication import Publication
from monus.catalog.restoration import Restoration
from monus.catalog.tables import Tables
from monus.catalog.tasks import Tasks
from monus.catalog.transactions import Transactions
from monus.catalog.views import Views
from monus.errors import CatalogUnavailable


class Catalog(Tables, Views, Leases, Publication, Transactions, Tasks, Alterations, History, Restoration):
    """Safe to share between threads, and between processes that each open it."""

    @classmethod
    def open(
        cls,
        path_or_url: str | Path,
        *,
        clock: Clock = now_in_utc,
        migrations: Sequence[Migration] = MIGRATIONS,
        busy_seconds: float = BUSY_SECONDS,
    ) -> Self:
        """Open the catalog, made or brought to the newest format if need be."""
        database = Database(path_or_url, clock, busy_seconds)
        try:
            migrate(database, migrations)
            database.write_ahead()
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def where(self) -> str:
        return self._database.where

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def set_aside_if_damaged(path: Path) -> Path | None:
    """Rename a catalog that cannot be read, so that a new one can take its place; where it is now."""
    try:
        with Catalog.open(path) as catalog:
            if not catalog.is_damaged():
                return None
    except CatalogUnavailable as error:
        if not str(error.fields.get("cause", "")).startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise
    aside = path.with_name(f"{path.name}.damaged-{now_in_utc():%Y%m%dT%H%M%S%f}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):  # they belong to the damaged one
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(aside.with_name(aside.name + suffix))
    return aside
