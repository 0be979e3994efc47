"""File pruning: what a table is joined with, told to its scan as a literal range or set.

Delta skips files by the least and greatest value of a column, and a join tells it neither. Where the
other side is small and known, its keys do: a set of a few values as equalities, else their range.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from monus.algebra.scalars import Compare, Ref, Scalar, conjuncts
from monus.compiler.frames import Frame

SCAN_ROWS = 1_000_000  # below this a scan costs less than asking for the range
SET_SIZE = 16
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
    asked: list[Column] = []
    for i, (_, name) in enumerate(usable):
        value = small.column(name)
        asked += [F.min(value).alias(f"lo{i}"), F.max(value).alias(f"hi{i}")]
        asked += [F.slice(F.sort_array(F.collect_set(value)), 1, SET_SIZE + 1).alias(f"set{i}")]
        asked += [F.max(value.isNull()).alias(f"null{i}")]
    answer = small.data.agg(*asked).first()
    assert answer is not None  # a global aggregate has one row
    parts = []
    for i, (name, _) in enumerate(usable):
        column = large.column(name)
        values = list(answer[f"set{i}"])
        if not values:
            inside: Column = F.lit(False)
        elif len(values) <= SET_SIZE:
            inside = reduce(lambda a, b: a | b, [column == F.lit(v) for v in values])
        else:
            inside = (column >= F.lit(answer[f"lo{i}"])) & (column <= F.lit(answer[f"hi{i}"]))
        parts.append(inside | column.isNull() if null_safe and answer[f"null{i}"] else inside)
    return reduce(lambda a, b: a & b, parts)


def _is_held(frame: Frame) -> bool:
    """Whether the rows are already computed: asking them costs one small job."""
    plan = frame.data._jdf.queryExecution().optimizedPlan()
    return bool(plan.getClass().getName().endswith(".LocalRelation"))
