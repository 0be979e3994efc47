"""Floating-point aggregates below the top of a query, which cannot be computed twice with the same digits.

Spark adds floating-point numbers in whatever order its partitions come, so the same rows give another last digit the
next time. At the top of a grouped view this does no harm: what a group was before is read from the view's table. Below
other operators it would have to be computed again, and the row to be taken away would not be the row that is there.
"""

from __future__ import annotations

import re

from monus.algebra.groups import INTEGRAL, Grouped
from monus.algebra.reasons import Reason
from monus.algebra.relations import Aggregate, Measure, Relation, schema_of, walk
from monus.algebra.scalars import Schema, type_of

_FLOATING = re.compile(r"(?:^|[<,:])(?:float|double)(?![\w:])")  # a type, not the name of a field


def float_below(query: Relation, shape: Grouped | None) -> tuple[Reason, ...]:
    """The aggregates in the way; `shape` is the query as a grouped view, if it is one."""
    found = [
        Reason(
            "FLOAT_AGGREGATE",
            measure.function,
            "Its last digits depend on the order of additions, and other operators read it. "
            "Aggregate a DECIMAL instead, or make a view of the inner query and let this one read that view.",
        )
        for node in walk(query if shape is None else shape.aggregate.child)
        if isinstance(node, Aggregate)
        for measure in node.measures
        if has_float_order(measure, schema_of(node.child))
    ]
    return tuple(dict.fromkeys(found))


def has_float_order(measure: Measure, below: Schema) -> bool:
    """Whether the order of the rows can show in the value, down to −0.0 and 0.0.

    Averages of integers are sums of whole doubles, exact as long as a group's sum stays below 2^53.
    """
    if measure.function in ("avg", "mean") and type_of(measure.args[0], below) in INTEGRAL:
        return False
    return _FLOATING.search(measure.type.lower()) is not None
