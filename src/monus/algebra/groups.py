"""How the groups of a view are stored: values that `delta` works out and `compiler` computes with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from monus.algebra.reasons import Reason
from monus.algebra.relations import Aggregate, Measure, Project, Select
from monus.algebra.scalars import Schema

GROUP_COUNT = "__count"
INTEGRAL = ("tinyint", "smallint", "int")
MOMENTS = ("stddev_pop", "stddev_samp", "stddev", "std", "var_pop", "var_samp", "variance")
EXTREMES = ("min", "max")
BOOLEANS = ("bool_and", "every", "bool_or", "some", "any")

Sum: TypeAlias = OneOf["count", "sum", "true", "unscaled", "square"]


@dataclass(frozen=True, slots=True)
class Part:
    """One stored number of a measure: Σf for an f that `sum` names, or an extreme (no `sum`).

    It is `column` of the view's table; `own` if that is the value of the measure itself.
    """

    column: str
    type: str
    sum: Sum | None
    own: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """`argument` is the type of what the measure is taken over."""

    measure: Measure
    parts: tuple[Part, ...]
    argument: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a grouped view's table: what is visible, then what begins with `__`."""

    visible: Schema
    hidden: Schema
    keys: tuple[tuple[str, str], ...]
    states: tuple[State, ...]
    count: str | None
    must_regroup: tuple[Reason, ...]

    @property
    def columns(self) -> Schema:
        return self.visible + self.hidden

    @property
    def stored_keys(self) -> tuple[str, ...]:
        return tuple(stored for _, stored in self.keys)


@dataclass(frozen=True, slots=True)
class Grouped:
    """`above` are the operators over the aggregate, the outermost first."""

    aggregate: Aggregate
    above: tuple[Project | Select, ...]

    @property
    def has_having(self) -> bool:
        """Whether some groups do not show."""
        return any(isinstance(node, Select) for node in self.above)


def digits(type_name: str) -> tuple[int, int]:
    """Precision and scale of an exact type."""
    if type_name.startswith("decimal"):
        found = re.findall(r"\d+", type_name)
        return int(found[0]), int(found[1])
    return {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[type_name], 0


def scale_of(type_name: str) -> int:
    return digits(type_name)[1]
