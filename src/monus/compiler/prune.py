"""File pruning: what a table is joined with, told to its scan as a literal range or set.

Delta skips files by the least and greatest value of a column, and a join tells it neither. Where the
other side is small and known, its keys do: a set of a few values as equalities, else their range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from monus.algebra.scalars import Compare, Ref, Scalar, conjuncts
from monus.compiler.frames import Extent, Frame

SCAN_ROWS = 1_000_000  # below this a scan costs less than asking for the range
SET_SIZE = 16
DRIVER_ROWS = 2_000  # so few keys are looked at in Python
MOST_OF_IT = 0.5
PRUNABLE = ("tinyint", "smallint", "int", "bigint", "date", "string")


def key_pairs(condition: Scalar, left: Frame, right: Frame) -> list[tuple[str, str]]:
    """Columns that the condition makes equal: one of the left, one of the right side."""
    pairs = []
    for part in conjuncts(condition):
        if isinstance(part, Compare) and part.op == "=":
            a, b = part.left, part.right
            if isinstance(a, Ref) and isinstance(b, Ref):
                if a.name in left.columns and b.name in right.columns:
                    pairs.append((a.name, b.name))
                elif b.name in left.columns and a.name in right.columns:
                    pairs.append((b.name, a.name))
    return pairs


def prune_by(large: Frame, small: Frame, pairs: list[tuple[str, str]], null_safe: bool = False) -> Column | None:
    """A condition over the large side that every row with a partner satisfies; None if asking does not pay."""
    types = {column.name: column.type for column in large.schema}
    usable = [(a, b) for a, b in pairs if types[a] in PRUNABLE]
    if not usable or large.rows < SCAN_ROWS or not _is_held(small):
        return None
    parts = []
    for (name, _), found in zip(usable, _values(small, [b for _, b in usable]), strict=True):
        column, literal = large.column(name), _literal_of(types[name])
        if not found.some:
            inside: Column = F.lit(False)
        elif len(found.some) <= SET_SIZE:
            inside = reduce(lambda a, b: a | b, [column == literal(v) for v in found.some])
        elif _spans(found, large.extent(large.columns[name])):
            continue
        else:
            inside = (column >= literal(found.least)) & (column <= literal(found.greatest))
        parts.append(inside | column.isNull() if null_safe and found.has_null else inside)
    return reduce(lambda a, b: a & b, parts) if parts else None


def _spans(found: _Values, extent: Extent | None) -> bool:
    """Whether the range leaves out so little that it is not worth the new code that Spark makes for every literal."""
    if extent is None or type(found.least) is not int or type(found.greatest) is not int:
        return False
    return found.greatest - found.least > MOST_OF_IT * (extent[1] - extent[0])


@dataclass(frozen=True, slots=True)
class _Values:
    """What is in a column: up to SET_SIZE + 1 different values, the extremes, and whether there is a NULL."""

    some: list[Any]
    least: Any
    greatest: Any
    has_null: bool


def _literal_of(type_name: str) -> Callable[[Any], Column]:
    """Dates are counted in days: Spark has dates that Python has not."""
    return (lambda day: F.date_from_unix_date(F.lit(day))) if type_name == "date" else F.lit


def _values(small: Frame, names: list[str]) -> list[_Values]:
    types = {column.name: column.type for column in small.schema}
    columns = [F.unix_date(small.column(n)) if types[n] == "date" else small.column(n) for n in names]
    if small.rows <= DRIVER_ROWS:  # they are on the driver already: no job
        rows = small.data.select(*columns).collect()
        found = []
        for i in range(len(names)):
            present = sorted({row[i] for row in rows if row[i] is not None})
            least, greatest = (present[0], present[-1]) if present else (None, None)
            found.append(_Values(present[: SET_SIZE + 1], least, greatest, any(row[i] is None for row in rows)))
        return found
    asked: list[Column] = []
    for i, value in enumerate(columns):
        asked += [F.min(value).alias(f"lo{i}"), F.max(value).alias(f"hi{i}")]
        asked += [F.slice(F.sort_array(F.collect_set(value)), 1, SET_SIZE + 1).alias(f"set{i}")]
        asked += [F.max(value.isNull()).alias(f"null{i}")]
    answer = small.data.agg(*asked).first()
    assert answer is not None  # a global aggregate has one row
    return [
        _Values(list(answer[f"set{i}"]), answer[f"lo{i}"], answer[f"hi{i}"], bool(answer[f"null{i}"]))
        for i in range(len(names))
    ]


def _is_held(frame: Frame) -> bool:
    """Whether the rows are already computed: asking them costs one small job."""
    plan = frame.data._jdf.queryExecution().optimizedPlan()
    return bool(plan.getClass().getName().endswith(".LocalRelation"))
