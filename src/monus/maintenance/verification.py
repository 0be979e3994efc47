"""`verify`: the invariant of a view, recomputed from its sources at the view's vector."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from monus.catalog.records import ViewRecord
from monus.frontend.definition import Definition
from monus.maintenance.maintainer import Maintainer, unusable
from monus.maintenance.sources import Source, published
from monus.maintenance.vectors import SourceState, from_json
from monus.maintenance.verify import Verification, compare
from monus.store.delta_table import DeltaTable


@dataclass(slots=True)
class PastSource:
    """A source as it was at the view's vector."""

    source: Source
    state: SourceState

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def schema(self) -> StructType:
        return self.source.schema

    def read(self, spark: SparkSession) -> DataFrame:
        return self.source.read_at(spark, self.state)


def verify_view(maintainer: Maintainer, name: str) -> Verification:
    """Recomputes the query with Spark alone, from its text: nothing of the derivation is trusted."""
    record = maintainer.catalog.view(name)
    if record.batch == 0:
        raise unusable(record)
    vector = from_json(record.vector)
    sources = maintainer.sources(record)
    past = {n: PastSource(source, vector[n]) for n, source in sources.items()}
    definition = Definition.from_json(record.definition)
    with maintainer.sessions.session({**definition.settings, "spark.sql.adaptive.enabled": "true"}) as session:
        expected = maintainer.plans.pinned_frame(session, record, past)
        return compare(record.name, visible_rows(session, record), expected, record.vector)


def visible_rows(spark: SparkSession, record: ViewRecord) -> DataFrame:
    """The published rows of a view, without the columns that do not show."""
    data = DeltaTable(spark, record.location).read(published(spark, record))
    return data.select(*(F.col("`" + c.name.replace("`", "``") + "`") for c in record.columns))
