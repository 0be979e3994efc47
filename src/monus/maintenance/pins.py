"""One state of several tables and views, of which every transaction is seen wholly or not at all.

The tables of an outstanding transaction may have its commits already; it is read at the versions before. Whether one
has begun or ended while the versions were being looked up, or a statement was committed, the count of the ledger tells:
then they are looked up again. What others write past Monus is found when somebody looks, one table after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pyspark.sql import SparkSession

from monus.catalog.catalog import Catalog
from monus.catalog.records import SourceRecord, TableRecord, TransactionRecord, ViewRecord, key_of
from monus.errors import TransactionConflict
from monus.maintenance.sources import Source, TableSource, ViewSource

ATTEMPTS = 50

Settle = Callable[[TransactionRecord], bool]


class Pins:
    """Sources at one state, opened when they are first asked for."""

    def __init__(self, spark: SparkSession, catalog: Catalog, settle: Settle | None = None) -> None:
        self._spark = spark
        self._catalog = catalog
        self.ledger = catalog.ledger()
        settled = [settle(record) for record in self.ledger.outstanding] if settle is not None else []
        if any(settled):
            self.ledger = catalog.ledger()
        self._before = {key_of(part.name): part for record in self.ledger.outstanding for part in record.parts}
        self._opened: dict[str, Source] = {}

    @property
    def opened(self) -> dict[str, Source]:
        return dict(self._opened)

    def still_hold(self) -> bool:
        """Whether what was opened belongs together."""
        return self._catalog.ledger().count == self.ledger.count

    def table(self, record: TableRecord) -> TableSource:
        key = key_of(record.name)
        found = self._opened.get(key)
        if not isinstance(found, TableSource):
            part = self._before.get(key)
            found = TableSource(record, self._spark, None if part is None else part.before["version"])
            self._opened[key] = found
        return found

    def view_record(self, name: str) -> ViewRecord:
        return self.as_seen(self._catalog.view(name))

    def as_seen(self, record: ViewRecord) -> ViewRecord:
        """The view as readers see it."""
        part = self._before.get(key_of(record.name))
        return record if part is None else replace(record, **part.before)

    def source(self, source: SourceRecord) -> Source:
        if source.kind == "table":
            return self.table(self._catalog.table(source.name))
        key = key_of(source.name)
        if key not in self._opened:
            self._opened[key] = ViewSource(self.view_record(source.name), self._spark, self._catalog)
        return self._opened[key]


def pinned(
    spark: SparkSession, catalog: Catalog, sources: Iterable[SourceRecord], settle: Settle | None = None
) -> dict[str, Source]:
    """All of these at one state, by name."""
    wanted = list(sources)
    for _ in range(ATTEMPTS):
        pins = Pins(spark, catalog, settle)
        found = {source.name: pins.source(source) for source in wanted}
        if pins.still_hold():
            return found
    raise unsteady()


def unsteady() -> TransactionConflict:
    return TransactionConflict(
        f"Others committed {ATTEMPTS} times while the state of the tables was looked up.", "Try again."
    )


def before_of(record: ViewRecord) -> dict[str, object]:
    """What readers need of a view's record to see it as it is now."""
    return {
        "batch": record.batch,
        "version": record.version,
        "vector": dict(record.vector),
        "pending_vector": dict(record.pending_vector),
        "pending_from": record.pending_from,
    }
