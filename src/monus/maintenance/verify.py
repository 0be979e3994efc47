"""The oracle: the stored view equals its query over its sources at its vector, as a bag.

Exact columns by EXCEPT ALL both ways, by binary identity; floating-point columns pairwise within equal
exact columns at 1e-9 relative to the largest absolute input of the group, because Spark's own answer depends on the
partitioning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from monus.algebra.scalars import Column as AlgebraColumn
from monus.compiler.frames import Frame
from monus.compiler.identity import identity_key
from monus.compiler.multiplicity import consolidated
from monus.frontend.jvm import quoted

TOLERANCE, INFINITY = 1e-9, float("inf")


@dataclass(frozen=True, slots=True)
class Check:
    """One equation or inclusion of an invariant, and the rows by which it fails."""

    name: str
    ok: bool
    missing: DataFrame
    extra: DataFrame


@dataclass(frozen=True, slots=True)
class Verification:
    """`missing` are rows of the query that the view does not have, `extra` the other way round.

    They are of the first of `checks` that fails; `invariant` is the one that the view is under.
    """

    view: str
    ok: bool
    missing: DataFrame
    extra: DataFrame
    vector: Mapping[str, Any]
    invariant: str
    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True, slots=True)
class Scale:
    """The largest absolute input (`__scale`) of every group, which visible columns tell apart."""

    keys: tuple[str, ...]
    data: DataFrame


def check(name: str, stored: DataFrame, expected: DataFrame, scale: Scale | None = None) -> Check:
    """`stored` and `expected` have the same columns; what differs is computed once, and kept as long as it is held."""
    columns = tuple(AlgebraColumn(f.name, f.dataType.simpleString()) for f in expected.schema.fields)
    difference = _difference(stored, expected, columns).localCheckpoint()
    floats = [c for c in columns if c.type in ("float", "double")]
    if floats and not difference.isEmpty():
        difference = _without_close_pairs(_scaled(difference, scale), columns)
    weight = F.col("__w")
    names = [F.col(quoted(c.name)) for c in columns]
    extra = copies(difference.where(weight > 0), names, weight)
    missing = copies(difference.where(weight < 0), names, -weight)
    return Check(name, difference.isEmpty(), missing, extra)


def _difference(stored: DataFrame, expected: DataFrame, columns: tuple[AlgebraColumn, ...]) -> DataFrame:
    plain = {c.name: f"v{i}" for i, c in enumerate(columns)}
    parts = []
    for data, weight in ((stored, 1), (expected, -1)):
        selected = [F.col(quoted(c.name)).alias(plain[c.name]) for c in columns]
        parts.append(data.select(*selected, F.lit(weight).cast("bigint").alias("v_w")))
    frame = consolidated(Frame(parts[0].union(parts[1]), plain, columns, "v_w"))
    back = [F.col(frame.columns[c.name]).alias(c.name) for c in columns]
    return frame.data.select(*back, F.col(frame.weight or "").alias("__w"))


def _without_close_pairs(difference: DataFrame, columns: tuple[AlgebraColumn, ...]) -> DataFrame:
    """Rows that agree but for the last digits of floating-point columns are no difference."""
    exact = [c for c in columns if c.type not in ("float", "double")]
    floats = [c for c in columns if c.type in ("float", "double")]
    keys = [identity_key(F.col(quoted(c.name)), c.type).alias(f"__k{i}") for i, c in enumerate(exact)]
    order: list[Column] = [F.round(F.col(quoted(c.name)), 6) for c in floats]
    order += [F.col(quoted(c.name)) for c in floats]
    copies = F.explode(F.array_repeat(F.signum(F.col("__w")).cast("int"), F.abs(F.col("__w")).cast("int")))
    rows = difference.select("*", *keys, copies.alias("__side"))
    names = [f"__k{i}" for i in range(len(exact))]
    rows = rows.withColumn("__n", F.row_number().over(Window.partitionBy(*names, "__side").orderBy(*order)))
    sides = [rows.where(F.col("__side") == side).alias(name) for side, name in ((1, "a"), (-1, "b"))]
    same = [F.col(f"a.{n}").eqNullSafe(F.col(f"b.{n}")) for n in [*names, "__n"]]
    scale = F.coalesce(F.col("a.__scale"), F.lit(0.0))
    close = [_is_close(F.col(f"a.{quoted(c.name)}"), F.col(f"b.{quoted(c.name)}"), scale) for c in floats]
    on = same[0]
    for condition in [*same[1:], *close]:
        on = on & condition
    kept = [
        sides[0]
        .join(sides[1], on, "left_anti")
        .select(*(F.col(quoted(c.name)) for c in columns), F.lit(1).alias("__w")),
        sides[1]
        .join(sides[0], on, "left_anti")
        .select(*(F.col(quoted(c.name)) for c in columns), F.lit(-1).alias("__w")),
    ]
    return kept[0].union(kept[1]).localCheckpoint()


def _scaled(difference: DataFrame, scale: Scale | None) -> DataFrame:
    if scale is None:
        return difference.withColumn("__scale", F.lit(None).cast("double"))
    renamed = scale.data.toDF(*(f"__s{i}" for i in range(len(scale.keys))), "__scale")
    if not scale.keys:
        return difference.crossJoin(renamed)
    on = [F.col(quoted(k)).eqNullSafe(F.col(f"__s{i}")) for i, k in enumerate(scale.keys)]
    joined = difference.join(renamed, reduce(lambda a, b: a & b, on), "left")
    return joined.drop(*(f"__s{i}" for i in range(len(scale.keys))))


def _is_close(left: Column, right: Column, largest_input: Column) -> Column:
    # For Spark NaN is larger than all and equal to itself: beside it, or beside infinity, everything would be close.
    inputs = F.when(largest_input < INFINITY, largest_input)
    scale = F.greatest(F.abs(left), F.abs(right), inputs, F.lit(1e-6))
    is_near = (scale < INFINITY) & (F.abs(left - right) <= scale * TOLERANCE)
    return left.eqNullSafe(right) | F.coalesce(is_near, F.lit(False))


def copies(data: DataFrame, names: list[Column], weight: Column) -> DataFrame:
    repeated = F.explode(F.array_repeat(F.lit(True), weight.cast("int"))).alias("__copy")
    return data.select(*names, repeated).select(*names)
