"""What a query of the warehouse's tables and views reads: all of them at one state.

Tables are pinned. Views that are kept up to date (IMMEDIATE, ON QUERY) are brought to the pinned state first where
they are not there: others may write to the tables, and then they are behind. Deferred views are read as they are.
Whether it all belongs together is looked at in the end; if not, everything is looked up again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from monus.catalog.records import TableRecord, ViewRecord, key_of
from monus.errors import UnknownTable
from monus.frontend.jvm import analyzed
from monus.frontend.substitution import Found, Parts
from monus.maintenance.applying import has_pending, unusable
from monus.maintenance.concerned import reads_now
from monus.maintenance.fresh import FreshViews
from monus.maintenance.lookup import Lookup
from monus.maintenance.maintainer import Maintainer
from monus.maintenance.pins import Pins
from monus.maintenance.sources import visible_rows
from monus.maintenance.vectors import TableState, from_json, to_json
from monus.sql.policy import OnQuery, parse_policy

QUERY_WAIT_SECONDS = 600.0


class Reading:
    """One look at the warehouse."""

    def __init__(self, spark: SparkSession, lookup: Lookup, maintainer: Maintainer) -> None:
        self._spark = spark
        self._lookup = lookup
        self._maintainer = maintainer
        self.pins = Pins(spark, lookup.catalog, maintainer.settle)
        self._views: dict[str, ViewRecord] = {}

    def holds(self) -> bool:
        """Whether everything that was found is of one state."""
        return self.pins.still_hold() and all(self._is_at_pins(view) for view in self._views.values())

    def find(self, parts: Parts) -> Found | None:
        names, record = self._lookup.names, self._lookup.record(parts)
        if record is None or (parts[0].lower() == "delta" and isinstance(record, TableRecord)):
            return None
        if names.location(names.session_name(record.name)) is None:
            names.register(record.name, record.location)  # another process made it, or plain Spark dropped the name
        if isinstance(record, TableRecord):
            return Found(lambda: analyzed(self.pins.table(record).read(self._spark)), names.parts(record.name))
        seen = self.pins.view_record(record.name)
        if not seen.usable or seen.batch == 0:  # nor are its earlier versions read
            raise unusable(seen)
        return Found(lambda: analyzed(visible_rows(self._spark, self.view(record.name))), names.parts(record.name))

    def rows(self, name: str, fresh: bool = False) -> DataFrame:
        catalog = self._lookup.catalog
        if catalog.find_view(name) is not None:
            if not fresh:
                return visible_rows(self._spark, self.view(name))
            return FreshViews(self._maintainer, self.pins.source, self.pins.view_record).rows(name)
        record = catalog.find_table(name)
        if record is None:
            raise UnknownTable(f"The warehouse has no table or view '{name}'.", "wh.tables() and wh.views() list them.")
        if fresh or self.pins.ledger.outstanding:
            return self.pins.table(record).read(self._spark)
        return self._spark.read.format("delta").load(record.location)

    def view(self, name: str) -> ViewRecord:
        """The view's record as a reader is to see it."""
        known = self._views.get(key_of(name))
        if known is not None:
            return known
        record = self.pins.view_record(name)
        if not record.usable or record.batch == 0:
            raise unusable(record)
        if reads_now(record):
            record = self._views[key_of(name)] = self._brought_up(record)
        elif parse_policy(record.policy) == OnQuery(partial=True) and has_pending(record):
            self._maintainer.partial_refresh(name)
            record = self.pins.view_record(name)
        return record

    def _brought_up(self, record: ViewRecord) -> ViewRecord:
        catalog = self._lookup.catalog
        sources = catalog.sources(record.name)
        for source in sources:
            if source.kind == "view" and reads_now(catalog.view(source.name)):
                self.view(source.name)
        found = {source.name: self.pins.source(source) for source in sources}
        state = to_json({name: source.state for name, source in found.items()})
        if record.vector == state and not has_pending(record) and not record.definition.get("may_change"):
            return record
        # Whoever maintains it already is waited for, which takes longer in the background than here.
        self._maintainer.refresh(record.name, pinned=found, wait_seconds=QUERY_WAIT_SECONDS)
        return self.pins.view_record(record.name)

    def _is_at_pins(self, view: ViewRecord) -> bool:
        """Whether the view reflects the tables at the versions that the query reads."""
        opened = self.pins.opened
        for name, state in from_json(view.vector).items():
            source = opened.get(key_of(name))
            if isinstance(state, TableState) and source is not None and source.state != state:
                return False
        return True
