"""Which expressions have no answer that depends on their input alone.

Spark's own flag is not enough: it takes `collect_list`, `first` or `current_date` for
deterministic. Where order cannot show, the order-sensitive ones are fine:
`sort_array(collect_list(x))`, `size(collect_set(x))`, `max_by(x, struct(y, x))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from monus.algebra.reasons import Reason
from monus.frontend.jvm import class_name, items

CLOCK = {
    "CurrentDate", "CurrentTimestamp", "CurrentTimestampLike", "Now", "LocalTimestamp", "CurDateExpressionBuilder",
    "CurrentTime", "CurrentBatchTimestamp",
}  # fmt: skip
SESSION = {"CurrentUser", "CurrentCatalog", "CurrentDatabase", "CurrentTimeZone", "SparkVersion", "SessionUser"}
UNDEFINED = {
    "Rand", "Randn", "Uuid", "Shuffle", "MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName",
    "InputFileBlockStart", "InputFileBlockLength", "RandStr", "Uniform", "AwaitRand",
}  # fmt: skip
ORDER_SENSITIVE = {
    "CollectList", "CollectSet", "First", "Last", "AnyValue", "Mode", "MaxBy", "MinBy", "HistogramNumeric",
    "ApproximatePercentile", "ListAgg", "PandasAggregate", "NthValue", "ApproxTopK", "ApproxTopKAccumulate",
    "ApproxTopKCombine", "KllSketchAggBigint", "KllSketchAggFloat", "KllSketchAggDouble", "KllMergeAggBigint",
    "KllMergeAggFloat", "KllMergeAggDouble", "HllSketchAgg", "HllUnionAgg", "ThetaSketchAgg", "ThetaUnionAgg",
    "ThetaIntersectionAgg",
}  # fmt: skip
# With these the answer may be another one although no row has changed.
MAY_CHANGE = {"READS_CLOCK", "READS_SESSION", "NOT_DETERMINISTIC", "USER_FUNCTION"}
ORDER_HIDERS = {"SortArray", "Size", "ArraySize"}


def reasons(expression: Any) -> Iterator[Reason]:
    """Why the expression's value is not determined by the rows that it reads, if so."""
    kind = class_name(expression)
    text = expression.sql()
    if kind in CLOCK:
        yield Reason("READS_CLOCK", text, "The answer changes as time passes. Filter by a literal date instead.")
    elif kind in SESSION:
        yield Reason("READS_SESSION", text, "The answer depends on the session. Write a literal instead.")
    elif kind in UNDEFINED:
        yield Reason("NOT_DETERMINISTIC", text, "It has no defined answer. Compute it when the row is inserted.")
    elif kind in ORDER_SENSITIVE and not _is_total(expression, kind):
        yield Reason(
            "ORDER_SENSITIVE",
            text,
            "The answer depends on the order in which rows are read. Make order invisible, "
            "as in sort_array(collect_list(x)) or max_by(x, struct(y, x)).",
        )
    elif kind == "FileSourceMetadataAttribute" or _is_metadata(expression, kind):
        yield Reason("METADATA_COLUMN", text, "File metadata changes when files are rewritten. Leave it out.")
    elif kind in ("PythonUDF", "ScalaUDF", "PythonUDAF", "ScalaAggregator", "ScalaUDAF"):
        yield Reason("USER_FUNCTION", text, "A user function is not known to be deterministic. Use SQL functions.")
    elif not expression.deterministic() and all(child.deterministic() for child in items(expression.children())):
        yield Reason("NOT_DETERMINISTIC", text, "Spark marks it as not deterministic. Leave it out.")
    for child in _inputs(expression, kind):
        yield from reasons(child)


def _inputs(expression: Any, kind: str) -> list[Any]:
    children = items(expression.children())
    if kind in ORDER_HIDERS and children and class_name(children[0]) == "AggregateExpression":
        function = children[0].aggregateFunction()
        if class_name(function) in ("CollectList", "CollectSet"):
            aggregate = children[0]
            return [*children[1:], *items(function.children()), *items(aggregate.children())[1:]]  # and its filter
    return children


def _is_total(expression: Any, kind: str) -> bool:
    """max_by(x, struct(…, x)): the ordering determines the value."""
    if kind not in ("MaxBy", "MinBy"):
        return False
    value, ordering = items(expression.children())[:2]
    parts = items(ordering.children()) if class_name(ordering).startswith("CreateNamedStruct") else [ordering]
    return any(value.semanticEquals(part) for part in parts)


def _is_metadata(expression: Any, kind: str) -> bool:
    return kind == "AttributeReference" and expression.name() == "_metadata"
