"""What a name in a statement stands for in the warehouse.

Names have one part, or are qualified by the namespace of the warehouse; a table may also be named by its
path, as in delta.`/path`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.records import TableRecord, ViewRecord
from monus.frontend.substitution import session_view
from monus.maintenance.layout import pending_path
from monus.maintenance.names import Names
from monus.maintenance.plans import normal_path, same_path


@dataclass(frozen=True, slots=True)
class Lookup:
    spark: SparkSession
    catalog: Catalog
    names: Names

    def record(self, parts: tuple[str, ...], database: str | None = None) -> TableRecord | ViewRecord | None:
        """`database` is the namespace of the definition that the name stands in."""
        if len(parts) == 2 and parts[0].lower() == "delta":
            return self.at(normal_path(self.spark, parts[1]))
        name = self.names.own(parts, database)
        if name is None:
            return None
        return self._named(name) or (self._named(self.names.name_of(name)) if len(parts) > 1 else None)

    def knows(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is the warehouse's in the user's session, where a temporary view may hide it."""
        if len(parts) == 1 and session_view(self.spark, parts) is not None and not self.names.is_shown(parts[0]):
            return False
        return self.record(parts) is not None

    def at(self, path: str) -> TableRecord | ViewRecord | None:
        known: list[TableRecord | ViewRecord] = [*self.catalog.tables(), *self.catalog.views()]
        return next((record for record in known if same_path(record.location, path)), None)

    def keeper(self, parts: tuple[str, ...]) -> ViewRecord | None:
        """The view whose pending change is at the path."""
        if len(parts) != 2 or parts[0].lower() != "delta":
            return None
        path = normal_path(self.spark, parts[1])
        views = self.catalog.views()
        return next((view for view in views if same_path(pending_path(view.location), path)), None)

    def _named(self, name: str) -> TableRecord | ViewRecord | None:
        return self.catalog.find_view(name) or self.catalog.find_table(name)
