"""`optimize` and `vacuum` over the tables that Monus keeps, never removing what a view still needs.

Needed are: the published version of a view; the version that each view over it was computed from, which `verify`
reads; and the batches after that one, which the next refresh reads.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.records import ViewRecord
from monus.errors import SourceHistoryLost
from monus.maintenance.fault_points import FaultPoint, fault_point
from monus.maintenance.layout import BATCH, pending_path
from monus.maintenance.lease import held_lease
from monus.maintenance.protocol import adopt, prepare
from monus.maintenance.vectors import ViewState, from_json
from monus.store import upkeep
from monus.store.delta_table import DeltaTable

logger = logging.getLogger(__name__)


class Upkeep:
    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self._spark = spark
        self._catalog = catalog

    def optimize(self) -> list[str]:
        """Compact the files of every view; the names of those that were."""
        done = []
        for name in self._filled():
            with held_lease(self._catalog, self._spark, name) as lease:
                record = prepare(self._catalog, lease, self._spark)
                table = DeltaTable(self._spark, record.location)
                if record.usable and upkeep.optimize(table) is not None:
                    adopt(self._catalog, lease, record, table)
                    done.append(name)
                pending = DeltaTable(self._spark, pending_path(record.location))
                if pending.exists():
                    upkeep.optimize(pending)
        return done

    def vacuum(self, min_retention_hours: float = upkeep.DEFAULT_RETENTION_HOURS) -> dict[str, int]:
        """Drop batches that were folded and read by all, then the files that no needed version has.

        By view, how many batches were dropped.
        """
        dropped = {}
        for name in self._filled():
            with held_lease(self._catalog, self._spark, name) as lease:
                record = prepare(self._catalog, lease, self._spark)
                if record.usable:
                    dropped[name] = self._vacuum(record, lease, min_retention_hours)
        return dropped

    def _filled(self) -> list[str]:
        return [record.name for record in self._catalog.views() if record.batch > 0]

    def _vacuum(self, record: ViewRecord, lease: Lease, hours: float) -> int:
        needed_after = min([record.pending_from - 1, *self._read_by(record)])
        table = DeltaTable(self._spark, record.location)
        oldest, fold = self._oldest_needed(record, needed_after)
        try:
            upkeep.vacuum(table, oldest, hours)
        except SourceHistoryLost:
            logger.warning("%s: version %s is gone already; only the newest is kept", record.name, oldest)
            upkeep.vacuum(table, table.version(), hours)
        adopt(self._catalog, lease, record, table)  # VACUUM leaves commits of its own
        return self._drop_batches(record, lease, needed_after, fold, hours)

    def _drop_batches(self, record: ViewRecord, lease: Lease, upto: int, fold: int, hours: float) -> int:
        """First nobody may read them any more, then they go: also those that no operation ever published."""
        self._catalog.give_up_batches(lease, upto)
        fault_point(FaultPoint.BATCHES_GIVEN_UP)
        self._catalog.forget_batches(lease, fold - 1)
        pending = DeltaTable(self._spark, pending_path(record.location))
        if not pending.exists():
            return 0
        batches = pending.read(pending.snapshot()).where(F.col(BATCH) <= upto).select(BATCH).distinct()
        old = [row[0] for row in batches.collect()]
        if old:
            upkeep.delete_partitions(pending, BATCH, old)
            fault_point(FaultPoint.BATCHES_DROPPED)
        upkeep.vacuum(pending, pending.version(), hours)
        return len(old)

    def _read_by(self, record: ViewRecord) -> list[int]:
        """The states of this view that views over it are at."""
        found = []
        for name in self._catalog.dependants(record.name):
            reader = self._catalog.view(name)
            if reader.batch == 0:
                return [0]  # being created now, from a state that is not known yet: keep everything
            state = from_json(reader.vector).get(record.name)
            if isinstance(state, ViewState):
                found.append(state.batch)
        return found

    def _oldest_needed(self, record: ViewRecord, batch: int) -> tuple[int, int]:
        """The version that a view at this batch is verified against, and the number of its operation."""
        assert record.version is not None
        folds = [b for b in self._catalog.batches(record.name, 0, batch) if b.operation != "propagate"]
        if not folds or folds[-1].version is None:
            return record.version, 0
        return min(record.version, folds[-1].version), folds[-1].number
