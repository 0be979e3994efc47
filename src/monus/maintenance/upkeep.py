"""`optimize` and `vacuum` over the tables that Monus keeps, never removing what a view still needs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.records import ViewRecord
from monus.maintenance.layout import BATCH, pending_path
from monus.maintenance.protocol import held_lease
from monus.maintenance.vectors import ViewState, from_json
from monus.store import upkeep
from monus.store.delta_table import DeltaTable


class Upkeep:
    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self._spark = spark
        self._catalog = catalog

    def optimize(self) -> list[str]:
        """Compact the files of every view; the names of those that were."""
        done = []
        for record in self._catalog.views():
            with held_lease(self._catalog, self._spark, record.name):
                if upkeep.optimize(DeltaTable(self._spark, record.location)) is not None:
                    done.append(record.name)
        return done

    def vacuum(self, min_retention_hours: float = upkeep.DEFAULT_RETENTION_HOURS) -> dict[str, int]:
        """Drop batches that were folded and read by all, then the files that no needed version has."""
        dropped = {}
        for record in self._catalog.views():
            with held_lease(self._catalog, self._spark, record.name):
                record = self._catalog.view(record.name)
                dropped[record.name] = self._vacuum(record, min_retention_hours)
        return dropped

    def _vacuum(self, record: ViewRecord, hours: float) -> int:
        needed_after = min([record.pending_from - 1, *self._read_by(record)])
        table = DeltaTable(self._spark, record.location)
        if record.version is not None:
            upkeep.vacuum(table, self._oldest_version(record, needed_after), hours)
        pending = DeltaTable(self._spark, pending_path(record.location))
        if not pending.exists():
            return 0
        old = [b.number for b in self._catalog.batches(record.name, 0, needed_after) if b.has_rows]
        if old:
            upkeep.delete_partitions(pending, BATCH, old)
        upkeep.vacuum(pending, pending.version(), hours)
        return len(old)

    def _read_by(self, record: ViewRecord) -> list[int]:
        """The states of this view that views over it are at."""
        found = []
        for name in self._catalog.dependants(record.name):
            state = from_json(self._catalog.view(name).vector).get(record.name)
            if isinstance(state, ViewState):
                found.append(state.batch)
        return found

    def _oldest_version(self, record: ViewRecord, batch: int) -> int:
        """The version that a view over this one would be verified against."""
        versions = [b.version for b in self._catalog.batches(record.name, 0, batch) if b.version is not None]
        current = record.version if record.version is not None else 0
        return min(current, versions[-1]) if versions else current
