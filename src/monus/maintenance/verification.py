"""`verify`: the invariant of a view, recomputed from its sources at the view's vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from monus.algebra.relations import Aggregate, Measure
from monus.analysis.shape import exposed
from monus.catalog.records import ViewRecord
from monus.compiler.materialize import Materializer
from monus.compiler.relations import Compiler, Leaf
from monus.compiler.state_columns import SCALE
from monus.frontend.definition import Definition
from monus.frontend.jvm import frame_of
from monus.maintenance.maintainer import Maintainer, unusable
from monus.maintenance.sources import Source, published
from monus.maintenance.vectors import SourceState, from_json
from monus.maintenance.verify import Scale, Verification, compare
from monus.maintenance.view_plan import ViewPlan
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
        scale = _scale(maintainer.plans.of(record), past, session)
        return compare(record.name, visible_rows(session, record), expected, record.vector, scale)


def _scale(plan: ViewPlan, past: Mapping[str, PastSource], session: SparkSession) -> Scale | None:
    """The largest absolute input of every group, where floating-point measures are grouped by visible keys."""
    shape = plan.shape
    if shape is None:
        return None
    shown = exposed(shape)
    floats = [m for m in shape.aggregate.measures if m.type in ("float", "double") and m.args]
    if not floats or any(key.name not in shown for key in shape.aggregate.keys):
        return None
    scales = tuple(Measure(f"__scale{i}", SCALE, m.args[:1], "double", filter=m.filter) for i, m in enumerate(floats))
    aggregate = Aggregate(shape.aggregate.keys, scales, shape.aggregate.child)

    def table(name: str) -> Leaf:
        constant = plan.constants.get(name)
        return Leaf(past[name].read(session) if constant is None else frame_of(session, constant), 1.0)

    frame = Compiler(session, table, table, Materializer(session)).compile(aggregate)
    columns = [frame.column(s.name) for s in scales]
    largest = columns[0] if len(columns) == 1 else F.greatest(*columns)
    keys = [key.name for key in shape.aggregate.keys]
    data = frame.data.select(*(frame.column(key) for key in keys), largest)
    return Scale(tuple(shown[key] for key in keys), data)


def visible_rows(spark: SparkSession, record: ViewRecord) -> DataFrame:
    """The published rows of a view, without the columns that do not show."""
    data = DeltaTable(spark, record.location).read(published(spark, record))
    return data.select(*(F.col("`" + c.name.replace("`", "``") + "`") for c in record.columns))
