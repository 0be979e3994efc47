"""Operators that only count copies of a row: ε, ∸, min, max, EXCEPT, INTERSECT, and consolidation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from monus.compiler.frames import Frame, fresh, renamed
from monus.compiler.identity import identity_key, is_plain


def zero() -> Column:
    return F.lit(0).cast("bigint")


def _one_if(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0).cast("bigint")


COUNTS: dict[str, Callable[[Column, Column], Column]] = {
    "distinct": lambda left, _: _one_if(left > 0),
    "monus": lambda left, right: F.greatest(left - right, zero()),
    "min": lambda left, right: F.least(left, right),
    "max": lambda left, right: F.greatest(left, right),
    "except": lambda left, right: _one_if((left > 0) & (right <= 0)),
    "intersect": lambda left, right: _one_if((left > 0) & (right > 0)),
}


def consolidated(frame: Frame) -> Frame:
    """Every row once, with its non-zero weight, told apart by binary identity."""
    weight = fresh("w")
    plain = all(is_plain(column.type) for column in frame.schema)
    total = F.sum(frame.weight_column()).alias(weight)
    if plain:
        grouped = frame.data.groupBy(*frame.columns.values()).agg(total)
    else:
        keys = [identity_key(frame.column(c.name), c.type).alias(fresh("k")) for c in frame.schema]
        odd = {c.name: fresh() for c in frame.schema}
        firsts = [F.first(frame.column(c.name)).alias(odd[c.name]) for c in frame.schema]
        grouped = frame.data.groupBy(*keys).agg(total, *firsts)
        frame = replace(frame, columns=odd)
    kept = [(name, name) for name in (*frame.columns.values(), weight)]
    return replace(frame, data=renamed(grouped.where(f"{weight} != 0"), kept), weight=weight)


def expanded(frame: Frame) -> Frame:
    """A signed bag without negative weights as plain rows, one per copy."""
    if frame.weight is None:
        return frame
    counted = consolidated(frame)
    copies = F.explode(F.array_repeat(F.lit(True), F.col(counted.weight or "").cast("int")))
    data = counted.data.select(*counted.all_columns(), copies.alias(fresh("x"))).select(*counted.all_columns())
    return replace(counted, data=data, weight=None)


def combine(operator: str, left: Frame, right: Frame | None) -> Frame:
    """f(l, r) copies of every row."""
    data, counts, weight = _counts([left] if right is None else [left, right], [])
    return _weighted(left, data, COUNTS[operator](counts[0], counts[1]), weight)


def recount(operator: str, new: list[Frame], change: list[Frame]) -> Frame:
    """f(l, r) − f(l − δl, r − δr), in one pass over the new rows and the change."""
    data, (left, right, left_change, right_change), weight = _counts(new, change)
    count = COUNTS[operator]
    return _weighted(new[0], data, count(left, right) - count(left - left_change, right - right_change), weight)


def _counts(new: list[Frame], change: list[Frame]) -> tuple[DataFrame, list[Column], str]:
    """Per row its multiplicities: left, right, change of left, change of right."""
    names = [fresh("n") for _ in range(4)]
    keys = list(new[0].columns.values())
    union: DataFrame | None = None
    for slot, frame in [*enumerate(new), *enumerate(change, 2)]:
        row = [column.alias(key) for column, key in zip(frame.all_columns(), keys, strict=True)]
        weights = [(frame.weight_column() if slot == i else zero()).alias(name) for i, name in enumerate(names)]
        part = frame.data.select(*row, *weights)
        union = part if union is None else union.union(part)
    assert union is not None
    grouped = union.groupBy(*(F.col(key) for key in keys)).agg(*(F.sum(F.col(name)).alias(name) for name in names))
    return grouped, [F.col(name) for name in names], fresh("w")


def _weighted(like: Frame, data: DataFrame, count: Column, weight: str) -> Frame:
    return replace(
        like, data=data.select(*like.all_columns(), count.alias(weight)).where(F.col(weight) != 0), weight=weight
    )
