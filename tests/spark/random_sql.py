"""Random queries of the supported class, and random rows and changes for their tables."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

TABLES: dict[str, list[tuple[str, str]]] = {
    "r": [("a", "int"), ("b", "int"), ("s", "string"), ("n", "decimal(10,2)")],
    "t": [("a", "int"), ("c", "bigint"), ("d", "date"), ("f", "double")],
    "u": [("b", "int"), ("s", "string"), ("flag", "boolean")],
}


def random_value(rng: random.Random, type_name: str) -> Any:
    if rng.random() < 0.15:
        return None
    match type_name:
        case "int" | "bigint":
            return rng.choice([0, 1, 1, 2, 3, -1, 7])
        case "string":
            return rng.choice(["", "x", "y", "X", "zz"])
        case "decimal(10,2)":
            return rng.choice([Decimal("0.00"), Decimal("1.50"), Decimal("-2.25"), Decimal("99999.99")])
        case "date":
            return rng.choice([datetime.date(2020, 1, 1), datetime.date(2020, 2, 29), datetime.date(1969, 12, 31)])
        case "double":
            return rng.choice([0.0, -0.0, 1.5, -2.25, float("nan"), 1e10, float("inf")])
        case "boolean":
            return rng.random() < 0.5
    raise AssertionError(type_name)


def random_row(rng: random.Random, table: str) -> tuple[Any, ...]:
    return tuple(random_value(rng, type_name) for _, type_name in TABLES[table])


@dataclass(frozen=True)
class Query:
    """A query in parentheses-free SQL with the names and types of its columns."""

    sql: str
    columns: tuple[tuple[str, str], ...]


class Generator:
    """`views` are further relations to read: their names, and names and types of their columns."""

    def __init__(
        self, rng: random.Random, depth: int = 3, views: dict[str, list[tuple[str, str]]] | None = None
    ) -> None:
        self.rng = rng
        self.depth = depth
        self._relations = {**TABLES, **(views or {})}
        self._names = 0

    def query(self) -> Query:
        return self._query(self.rng.randint(1, self.depth))

    def _name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _query(self, depth: int) -> Query:
        if depth == 0:
            return self._table()
        kinds = ["select", "project", "join", "join", "union", "setop", "distinct", "group", "group", "global"]
        return getattr(self, "_" + self.rng.choice(kinds))(depth - 1)

    def _table(self) -> Query:
        name = self.rng.choice(list(self._relations))
        columns = self._relations[name]
        aliased = [(self._name(), column, kind) for column, kind in columns]
        outputs = ", ".join(f"{column} AS {alias}" for alias, column, _ in aliased)
        return Query(f"SELECT {outputs} FROM {name}", tuple((alias, kind) for alias, _, kind in aliased))

    def _select(self, depth: int) -> Query:
        child = self._query(depth)
        return Query(f"SELECT * FROM ({child.sql}) WHERE {self.predicate(child.columns)}", child.columns)

    def _project(self, depth: int) -> Query:
        child = self._query(depth)
        outputs = []
        for _ in range(self.rng.randint(1, 3)):
            expression, kind = self._expression(child.columns)
            outputs.append((self._name(), kind, expression))
        text = ", ".join(f"{expression} AS {name}" for name, _, expression in outputs)
        return Query(f"SELECT {text} FROM ({child.sql})", tuple((name, kind) for name, kind, _ in outputs))

    def _join(self, depth: int) -> Query:
        left, right = self._query(depth), self._query(self.rng.randint(0, depth))
        pairs = [(a, b) for a, x in left.columns for b, y in right.columns if x == y]
        both = f"({left.sql}) {self._name()}"
        columns = left.columns + right.columns
        other = f"({right.sql}) {self._name()}"
        roll = self.rng.random()
        if pairs and roll < 0.75:
            a, b = self.rng.choice(pairs)
            op = self.rng.choice(["=", "=", "=", "<=>"])
            more = f" AND {self.predicate(columns)}" if self.rng.random() < 0.3 else ""
            return Query(f"SELECT * FROM {both} JOIN {other} ON {a} {op} {b}{more}", columns)
        if pairs and roll < 0.9:
            a, b = self.rng.choice(pairs)
            return Query(f"SELECT * FROM {both} JOIN {other} ON {a} < {b}", columns)
        return Query(f"SELECT * FROM {both} CROSS JOIN {other}", columns)

    def _same_shape(self, depth: int) -> tuple[Query, Query]:
        """Two queries of the same types."""
        left = self._query(depth)
        kinds = [kind for _, kind in left.columns][:3]
        left = self._cut(left, kinds)
        right = self._query(self.rng.randint(0, depth))
        return left, self._cut(right, kinds)

    def _cut(self, query: Query, kinds: list[str]) -> Query:
        outputs = []
        for kind in kinds:
            candidates = [name for name, k in query.columns if k == kind]
            text = self.rng.choice(candidates) if candidates else self.literal(kind)
            outputs.append((self._name(), kind, text))
        text = ", ".join(f"{e} AS {name}" for name, _, e in outputs)
        return Query(f"SELECT {text} FROM ({query.sql})", tuple((name, kind) for name, kind, _ in outputs))

    def _union(self, depth: int) -> Query:
        left, right = self._same_shape(depth)
        return Query(f"({left.sql}) UNION ALL ({right.sql})", left.columns)

    def _setop(self, depth: int) -> Query:
        left, right = self._same_shape(depth)
        op = self.rng.choice(["EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "UNION"])
        return Query(f"({left.sql}) {op} ({right.sql})", left.columns)

    def _distinct(self, depth: int) -> Query:
        child = self._query(depth)
        kinds = [kind for _, kind in child.columns][:3]
        cut = self._cut(child, kinds)
        return Query(f"SELECT DISTINCT * FROM ({cut.sql})", cut.columns)

    def _group(self, depth: int) -> Query:
        child = self._query(depth)
        keys = self.rng.sample(child.columns, k=min(len(child.columns), self.rng.randint(1, 2)))
        key_outputs = []
        for name, kind in keys:
            if kind in ("int", "bigint") and self.rng.random() < 0.3:
                key_outputs.append((self._name(), kind, f"{name} % 2"))
            else:
                key_outputs.append((self._name(), kind, name))
        aggregates = self._aggregates(child.columns)
        visible = [k for k in key_outputs if self.rng.random() < 0.85] + aggregates
        text = ", ".join(f"{e} AS {name}" for name, _, e in visible)
        grouping = ", ".join(e for _, _, e in key_outputs)
        having = ""
        if self.rng.random() < 0.25:
            having = f" HAVING {self.rng.choice(['count(*) > 1', 'count(*) <> 2', 'count(*) = 1 OR count(*) > 3'])}"
        return Query(
            f"SELECT {text} FROM ({child.sql}) GROUP BY {grouping}{having}",
            tuple((name, kind) for name, kind, _ in visible),
        )

    def _global(self, depth: int) -> Query:
        child = self._query(depth)
        aggregates = self._aggregates(child.columns)
        text = ", ".join(f"{e} AS {name}" for name, _, e in aggregates)
        return Query(f"SELECT {text} FROM ({child.sql})", tuple((name, kind) for name, kind, _ in aggregates))

    def _aggregates(self, columns: tuple[tuple[str, str], ...]) -> list[tuple[str, str, str]]:
        found = []
        for _ in range(self.rng.randint(1, 3)):
            name, kind = self.rng.choice(columns)
            choices = [("bigint", "count(*)"), ("bigint", f"count({name})"), ("bigint", f"count(DISTINCT {name})")]
            if kind == "double":
                choices += [("double", f"sum({name})"), ("double", f"avg({name})")]
            else:
                choices += [(kind, f"min({name})"), (kind, f"max({name})")]
            if kind in ("int", "bigint"):
                choices += [("bigint", f"sum({name})"), ("bigint", f"sum({name})"), ("double", f"avg({name})")]
                choices += [("double", f"stddev_pop({name})"), ("double", f"var_samp({name})")]
            if kind == "decimal(10,2)":
                choices += [("decimal(20,2)", f"sum({name})"), ("decimal(14,6)", f"avg({name})")]
                choices += [("double", f"stddev({name})")]
            if kind == "boolean":
                choices += [("boolean", f"bool_and({name})"), ("boolean", f"bool_or({name})")]
                choices += [("bigint", f"count_if({name})")]
            if kind in ("string", "date"):
                choices += [("string", f"cast(sort_array(collect_list({name})) AS STRING)")]
            kind_out, text = self.rng.choice(choices)
            if self.rng.random() < 0.2 and "count_if" not in text and "sort_array" not in text:
                text += f" FILTER (WHERE {self.predicate(columns)})"
            found.append((self._name(), kind_out, text))
        return found

    def predicate(self, columns: tuple[tuple[str, str], ...], depth: int = 1) -> str:
        name, kind = self.rng.choice(columns)
        roll = self.rng.random()
        if depth and roll < 0.25:
            op = self.rng.choice(["AND", "OR"])
            return f"({self.predicate(columns, depth - 1)} {op} {self.predicate(columns, depth - 1)})"
        if roll < 0.4:
            return f"{name} IS {self.rng.choice(['', 'NOT '])}NULL"
        if roll < 0.45:
            return f"NOT ({self.predicate(columns, 0)})"
        peers = [n for n, k in columns if k == kind and n != name]
        other = self.rng.choice(peers) if peers and roll < 0.6 else self.literal(kind)
        op = self.rng.choice(["=", "<>", "<", ">=", "<=>"])
        return f"{name} {op} {other}"

    def _expression(self, columns: tuple[tuple[str, str], ...]) -> tuple[str, str]:
        name, kind = self.rng.choice(columns)
        roll = self.rng.random()
        if roll < 0.5:
            return name, kind
        match kind:
            case "int":
                case = f"CASE WHEN {name} > 1 THEN {name} ELSE 0 END"
                return self.rng.choice([f"{name} % 3", case, f"abs({name})"]), "int"
            case "bigint":
                return f"coalesce({name}, 5L)", "bigint"
            case "string":
                return self.rng.choice([f"upper({name})", f"concat({name}, 'q')", f"coalesce({name}, '?')"]), "string"
            case "date":
                return f"date_add({name}, 1)", "date"
            case "boolean":
                return f"NOT {name}", "boolean"
        return name, kind

    def literal(self, kind: str) -> str:
        match kind:
            case "int":
                return f"{self.rng.choice([0, 1, 2])}"
            case "bigint":
                return f"{self.rng.choice([0, 1, 2])}L"
            case "string":
                return self.rng.choice(["'x'", "'y'", "''"])
            case "date":
                return "DATE'2020-01-01'"
            case "boolean":
                return self.rng.choice(["true", "false"])
            case "double":
                return self.rng.choice(["1.5D", "0.0D"])
            case _:
                return f"CAST(1.5 AS {kind})"
