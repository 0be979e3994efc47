"""Derived changes of random queries, compiled and run over local rows: no Delta commit is made."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.algebra.relations import Relation, is_empty
from monus.analysis.shape import grouped
from monus.compiler.frames import exported
from monus.compiler.groups import GroupCompiler
from monus.compiler.materialize import Materializer
from monus.compiler.relations import Compiler, Leaf
from monus.delta.group_state import above_stored, layout, regroup_query, stored_query
from monus.delta.signed import differentiate
from monus.frontend.plan import translate
from monus.rewrite.order_joins import order_joins
from monus.rewrite.prune_columns import prune_columns
from monus.rewrite.push_restriction import push_restriction
from tests.spark.limits import low_limits
from tests.spark.random_sql import TABLES, Generator, Query, random_row

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A query, the old rows, and what was deleted and inserted."""

    query: str
    old: dict[str, Rows]
    deleted: dict[str, Rows]
    inserted: dict[str, Rows]

    def new(self, table: str) -> Rows:
        rows = list(self.old[table])
        for row in self.deleted.get(table, []):
            rows.remove(row)
        return rows + self.inserted.get(table, [])


def random_case(seed: int, depth: int = 3) -> Case:
    rng = random.Random(seed)
    query: Query = Generator(rng, depth).query()
    old, deleted, inserted = {}, {}, {}
    for table in TABLES:
        old[table] = [random_row(rng, table) for _ in range(rng.randint(0, 8))]
        if rng.random() < 0.7:
            deleted[table] = [row for row in old[table] if rng.random() < 0.3]
            inserted[table] = [random_row(rng, table) for _ in range(rng.randint(0, 3))]
    return Case(query.sql, old, deleted, inserted)


@dataclass
class Derivation:
    """Runs cases in one session; `paths` gives the name of a table by its Delta path."""

    spark: SparkSession
    name_of_path: Callable[[str], str]
    materializer: Materializer = field(init=False)

    def __post_init__(self) -> None:
        self.materializer = Materializer(self.spark)

    def tagged(self, tag: str, case: Case) -> DataFrame:
        """Rows (tag, which, row as JSON, weight): the query before and after, and every derived change."""
        plan = self.spark.sql(case.query)._jdf.queryExecution().analyzed()
        translation = translate(self.spark._jvm, plan, lambda source: self.name_of_path(source.path))
        query = prune_columns(translation.query)
        changed = frozenset(case.deleted)
        before, after = self._compiler(case, new=False), self._compiler(case, new=True)
        parts = {
            "old": self._frame(before, query),
            "new": self._frame(after, query),
            "signed": self._change(after, query, changed),
        }
        parts |= self._grouped(before, after, query, changed)
        tagged = [_as_json(frame, tag, which) for which, frame in parts.items() if frame is not None]
        result = tagged[0]
        for each in tagged[1:]:
            result = result.union(each)
        return result

    def _change(self, after: Compiler, query: Relation, changed: frozenset[str]) -> DataFrame | None:
        change = optimize(differentiate(query, changed))
        return None if is_empty(change) else self._frame(after, change)

    def _grouped(
        self, before: Compiler, after: Compiler, query: Relation, changed: frozenset[str]
    ) -> dict[str, DataFrame | None]:
        """A grouped view's change from its stored groups, merged and recomputed."""
        shape = grouped(query)
        change = None if shape is None else optimize(differentiate(shape.aggregate.child, changed))
        if shape is None or change is None or is_empty(change):
            return {}
        stored = layout(shape)
        old = before.compile(stored_query(shape, stored, shape.aggregate.child))
        groups = GroupCompiler(
            shape,
            stored,
            Leaf(exported(old), 10.0),
            lambda keys: optimize(regroup_query(shape, stored, keys)),
            lambda relation: above_stored(shape, stored, relation, carried=("__old",)),
            after,
            self.materializer,
        )
        sides = {"regroup": groups.regroup(change)}
        if not stored.must_regroup:
            sides["merge"] = groups.merge(change)
            with low_limits("monus.compiler.groups.SMALL_VIEW_ROWS"):
                sides["merge of a large view"] = groups.merge(change)
        visible = [column.name for column in stored.visible]
        found: dict[str, DataFrame | None] = {}
        for which, side in sides.items():
            old = side.data.where("__old IS NOT NULL").select("__old.*").select(*visible, F.lit(-1).alias("__w"))
            new = side.data.where("__new IS NOT NULL").select("__new.*").select(*visible, F.lit(1).alias("__w"))
            found[which] = old.union(new)
        return found

    def _compiler(self, case: Case, new: bool) -> Compiler:
        @cache
        def table(name: str) -> Leaf:
            rows = case.new(name) if new else case.old[name]
            return Leaf(values(self.spark, TABLES[name], rows), float(len(rows)))

        @cache
        def change(name: str) -> Leaf:
            rows = [(*row, -1) for row in case.deleted[name]] + [(*row, 1) for row in case.inserted[name]]
            return Leaf(values(self.spark, [*TABLES[name], ("__w", "bigint")], rows), float(len(rows)))

        return Compiler(self.spark, table, change, self.materializer)

    def _frame(self, compiler: Compiler, relation: Relation) -> DataFrame:
        return exported(compiler.compile(relation))


def optimize(relation: Relation) -> Relation:
    return order_joins(push_restriction(relation))


def differences(rows: list[Any]) -> dict[str, dict[str, Counter[str]]]:
    """Per tag and way of deriving: what is wrong with the change (nothing if it is right)."""
    bags: dict[str, dict[str, Counter[str]]] = {}
    for tag, which, text, weight in rows:
        bags.setdefault(tag, {}).setdefault(which, Counter())[_normal(text)] += weight
    wrong: dict[str, dict[str, Counter[str]]] = {}
    for tag, parts in bags.items():
        expected = _minus(parts.get("new", Counter()), parts.get("old", Counter()))
        for which in {"signed", *parts} - {"old", "new"}:
            error = _minus(parts.get(which, Counter()), expected)
            if error:
                wrong.setdefault(tag, {})[which] = error
    return wrong


def values(spark: SparkSession, columns: list[tuple[str, str]], rows: Rows) -> DataFrame:
    """Literal rows that need no job to be read; the first one only gives the types, and is left out."""
    names = ", ".join(name for name, _ in columns)
    lines = [", ".join(f"CAST(NULL AS {kind})" for _, kind in columns)]
    lines += [", ".join(literal(v, kind) for v, (_, kind) in zip(row, columns, strict=True)) for row in rows]
    text = ", ".join(f"({line}, {i})" for i, line in enumerate(lines))
    return spark.sql(f"SELECT {names} FROM VALUES {text} AS v({names}, position) WHERE position > 0")


def literal(value: Any, kind: str) -> str:
    match value:
        case None:
            return f"CAST(NULL AS {kind})"
        case bool():
            return str(value).lower()
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case str():
            return f"'{value}'"
        case datetime.date():
            return f"DATE'{value}'"
        case Decimal():
            return f"CAST('{value}' AS {kind})"
        case _:
            return f"CAST({value} AS {kind})"


def _as_json(frame: DataFrame, tag: str, which: str) -> DataFrame:
    weight = F.col("__w").cast("bigint") if "__w" in frame.columns else F.lit(1).cast("bigint")
    columns = [F.col(name).alias(f"c{i}") for i, name in enumerate(frame.columns) if name != "__w"]
    row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    return frame.select(F.lit(tag).alias("tag"), F.lit(which).alias("which"), row.alias("row"), weight.alias("w"))


def _normal(text: str) -> str:
    """Doubles to nine digits; −0.0 is 0.0, as for Spark's own grouping."""
    values = json.loads(text)
    for name, value in values.items():
        if isinstance(value, float):
            values[name] = f"{value + 0.0:.9e}"
    return json.dumps(values)


def _minus(left: Counter[str], right: Counter[str]) -> Counter[str]:
    return Counter({row: left[row] - right[row] for row in {*left, *right} if left[row] != right[row]})
