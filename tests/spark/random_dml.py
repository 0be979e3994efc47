"""Random DML statements over the tables {r} and {u}."""

from __future__ import annotations

import random

COLUMNS = {"k": "INT", "g": "INT", "n": "DECIMAL(6,2)", "s": "STRING", "d": "DATE", "`p q`": "STRING"}
LITERALS = {
    "INT": ["0", "1", "2", "3", "5", "-1"],
    "DECIMAL(6,2)": ["0", "1.5", "-2.25", "99.994", "7"],
    "STRING": ["''", "'x'", "'y'", "'X'", "'long one'"],
    "DATE": ["DATE'2024-02-29'", "DATE'1969-12-31'", "'2024-01-01'"],
}
SOURCES = [
    "(SELECT * FROM {u})",
    "(SELECT DISTINCT k, k AS g, 1.25 AS n, 'src' AS s, DATE'2024-03-03' AS d, s AS `p q` FROM {u} WHERE k > 0)",
    "(SELECT k, max(g) AS g, min(n) AS n, max(s) AS s, max(d) AS d, min(`p q`) AS `p q` FROM {r} GROUP BY k)",
    "(SELECT g AS k, count(*) AS g, avg(n) AS n, 'agg' AS s, min(d) AS d, NULL AS `p q` FROM {r} GROUP BY g)",
]


class RandomDml:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def statement(self) -> str:
        kind = self._rng.choice(
            ["insert", "insert", "overwrite", "update", "update", "delete", "merge", "merge", "merge"]
        )
        return str(getattr(self, f"_{kind}")())

    def _insert(self) -> str:
        rng = self._rng
        if rng.random() < 0.5:
            columns = rng.sample(list(COLUMNS), rng.randint(1, len(COLUMNS)))
            rows = [", ".join(self._value(c, "") for c in columns) for _ in range(rng.randint(1, 4))]
            return f"INSERT INTO {{r}} ({', '.join(columns)}) VALUES " + ", ".join(f"({row})" for row in rows)
        source = rng.choice([*SOURCES, "{r}"])
        return f"INSERT INTO {{r}} SELECT {', '.join(COLUMNS)} FROM {source} AS x WHERE {self._condition('x.')}"

    def _overwrite(self) -> str:
        query = f"SELECT {', '.join(COLUMNS)} FROM {{r}} AS x"
        if self._rng.random() < 0.5:
            return f"INSERT OVERWRITE {{r}} {query} WHERE {self._condition('x.')}"
        where = self._condition("")
        return f"INSERT INTO {{r}} REPLACE WHERE {where} {query} WHERE {where} AND {self._condition('x.')}"

    def _update(self) -> str:
        where = f" WHERE {self._condition('x.')}" if self._rng.random() < 0.9 else ""
        return f"UPDATE {{r}} AS x SET {self._assignments('x.')}{where}"

    def _delete(self) -> str:
        return f"DELETE FROM {{r}} AS x WHERE {self._condition('x.')}"

    def _merge(self) -> str:
        rng = self._rng
        on = rng.choice(["t.k = x.k", "t.k <=> x.k", "t.k = x.k AND t.g > x.g", "t.g = x.k", "t.k = x.k + 1"])
        clauses = []
        for matched in ("MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"):
            for last in ([False, True], [True], [True], [])[rng.randrange(4)]:
                clauses.append(self._clause(matched, last))
        if not clauses:
            clauses = [self._clause("MATCHED", True)]
        return f"MERGE INTO {{r}} AS t USING {rng.choice(SOURCES)} AS x ON {on} {' '.join(clauses)}"

    def _clause(self, matched: str, last: bool) -> str:
        rng = self._rng
        side = "x." if matched == "NOT MATCHED" else "t."
        when = f"WHEN {matched}" + ("" if last else f" AND {self._condition(side)}")
        if matched == "NOT MATCHED":
            if rng.random() < 0.3:
                return f"{when} THEN INSERT *"
            columns = rng.sample(list(COLUMNS), rng.randint(1, len(COLUMNS)))
            values = ", ".join(self._value(c, "x.") for c in columns)
            return f"{when} THEN INSERT ({', '.join(columns)}) VALUES ({values})"
        if rng.random() < 0.3:
            return f"{when} THEN DELETE"
        values = "t." if matched.endswith("SOURCE") else rng.choice(["t.", "x."])
        if values == "x." and rng.random() < 0.3:
            return f"{when} THEN UPDATE SET *"
        return f"{when} THEN UPDATE SET {self._assignments(values)}"

    def _assignments(self, side: str) -> str:
        columns = self._rng.sample(list(COLUMNS), self._rng.randint(1, 3))
        return ", ".join(f"{column} = {self._value(column, side)}" for column in columns)

    def _value(self, column: str, side: str) -> str:
        """`side` is the alias of the row that the value may use, none for a literal."""
        rng, kind = self._rng, COLUMNS[column]
        choice = rng.random()
        if choice < 0.15:
            return "NULL"
        if not side or choice < 0.4:
            return rng.choice(LITERALS[kind])
        match kind:
            case "INT":
                return rng.choice([f"{side}k + 1", f"{side}g", f"length({side}s)", f"abs({side}k) % 3"])
            case "DECIMAL(6,2)":
                return rng.choice([f"{side}n / 2", f"{side}k", f"-{side}n", f"coalesce({side}n, 1.005)"])
            case "STRING":
                return rng.choice([f"{side}s", f"upper({side}`p q`)", f"left({side}s || 'z', 9)", f"{side}k"])
        return rng.choice([f"{side}d", f"date_add({side}d, 1)", f"last_day({side}d)"])

    def _condition(self, side: str, depth: int = 2) -> str:
        rng = self._rng
        if depth and rng.random() < 0.4:
            left, right = self._condition(side, depth - 1), self._condition(side, depth - 1)
            return rng.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
        column = rng.choice(list(COLUMNS))
        kind = COLUMNS[column]
        literals = ", ".join(rng.sample(LITERALS[kind], 2))
        return rng.choice(
            [
                f"{side}{column} {rng.choice(['=', '<', '>=', '<>', '<=>'])} {rng.choice(LITERALS[kind])}",
                f"{side}{column} IN ({literals})",
                f"{side}{column} IS {rng.choice(['', 'NOT '])}NULL",
                f"{side}k < {side}g",
            ]
        )
