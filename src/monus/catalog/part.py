"""What the parts of the catalog share: the database that they all work on."""

from __future__ import annotations

from monus.catalog.database import Database


class CatalogPart:
    """One idea of the catalog; `Catalog` is all of them together."""

    def __init__(self, database: Database) -> None:
        self._database = database
