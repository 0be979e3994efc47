"""Random statements of a transaction, each with what its tables hold after it as a plain query over what they held.

The query is for plain Spark over local rows: it knows nothing of Delta, of staging or of signed rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

import monus
from monus.maintenance.transaction import Transaction
from tests.spark.derivation import literal
from tests.spark.random_sql import TABLES, Generator, random_row

MANY_ROWS = 16


@dataclass(frozen=True)
class Statement:
    """`after` has a query for every table that it changes; `call` says it through the API instead of SQL."""

    text: str
    after: Mapping[str, str]
    replaces_all: bool = False
    call: Callable[[Transaction, SparkSession], object] | None = None

    def in_transaction(self, transaction: Transaction, warehouse: monus.Warehouse, is_current: bool) -> None:
        """`is_current`: it is the one that the warehouse's own statements belong to."""
        if self.call is not None:
            self.call(transaction, warehouse.spark)
        elif is_current:
            warehouse.sql(self.text)
        else:
            transaction.sql(self.text)

    def alone(self, warehouse: monus.Warehouse) -> None:
        assert self.call is None
        warehouse.sql(self.text)

    @property
    def kind(self) -> str:
        """What it is called when statements are counted."""
        text = self.text
        words = text.split()
        if text.startswith("tx."):
            several = text.startswith("tx.assign") and len(self.after) > 1
            return text.partition("(")[0] + (" of several tables" if several else "")
        match words[0]:
            case "MERGE":
                more = " with equal source rows" if " gone " in text else " BY SOURCE" if " BY SOURCE " in text else ""
                return f"MERGE{more}"
            case "UPDATE" | "DELETE":
                return words[0] if " WHERE " in text else f"{words[0]} of all rows"
            case "INSERT":
                values = "VALUES" if words[3] == "VALUES" else "SELECT"
                return f"{' '.join(words[:2])} … {values}" if words[1] == "INTO" else "INSERT OVERWRITE"
            case "FROM":
                return "FROM … INSERT several tables"
        return words[0]


@dataclass
class Statements:
    """Draws statements; `size` tells how many rows a table has, so that none grows without end."""

    rng: random.Random
    size: Callable[[str], int]

    def sql(self) -> Statement:
        """A statement that SQL can say by itself."""
        table = self.rng.choice(list(TABLES))
        if self.size(table) > MANY_ROWS:
            return self.rng.choice([self._delete, self._merge_away])(table)
        kinds = [
            self._insert, self._insert, self._insert_query, self._update, self._update, self._change_of_zero,
            self._delete, self._delete, self._merge, self._merge, self._merge_away, self._overwrite, self._truncate,
            self._several,
        ]  # fmt: skip
        return self.rng.choice(kinds)(table)

    def group(self) -> tuple[str, list[Statement]]:
        """One statement, or several that undo or repeat each other, and what they are called when they are counted."""
        roll = self.rng.random()
        table = self.rng.choice(list(TABLES))
        if roll < 0.12:
            return "rows in and out", self._in_and_out(table)
        if roll < 0.24:
            return "rows there and back", self._there_and_back(table)
        if roll < 0.32:
            gone = self._delete(table)
            return "deleted again", [gone, gone]
        if roll < 0.4 and self.size(table) <= MANY_ROWS:
            return "filled again", [self._delete_all(table), self._insert(table), self._update(table)]
        if roll < 0.65:
            return "by a call", [self._by_api(table)]
        return "by itself", [self.sql()]

    # -- each kind

    def _insert(self, table: str) -> Statement:
        values = self._values(table, self.rng.randint(1, 4))
        return Statement(f"INSERT INTO {table} {values}", {table: _plus(table, values)})

    def _insert_query(self, table: str) -> Statement:
        """Rows of a table, perhaps of the same one, or of a self-join."""
        other, columns = self.rng.choice(list(TABLES)), TABLES[table]
        where = Generator(self.rng).predicate(tuple(TABLES[other]))
        chosen = []
        for _, kind in columns:
            fitting = [name for name, k in TABLES[other] if k == kind]
            chosen.append(self.rng.choice(fitting) if fitting and self.rng.random() < 0.9 else self._literal(kind))
        limit = "" if self.rng.random() < 0.7 else " EXCEPT ALL " + self._nothing_much(columns)
        # Under names of their own: Spark cannot run an EXCEPT ALL whose left side has one column twice.
        named = ", ".join(f"{each} AS c{i}" for i, each in enumerate(chosen))
        query = f"SELECT {named} FROM {other} WHERE {where}{limit}"
        return Statement(f"INSERT INTO {table} {query}", {table: _plus(table, query)})

    def _nothing_much(self, columns: list[tuple[str, str]]) -> str:
        return "SELECT " + ", ".join(self._literal(kind) for _, kind in columns)

    def _overwrite(self, table: str) -> Statement:
        if self.rng.random() < 0.5:
            query = self._values(table, self.rng.randint(1, 5))
        else:
            query = f"SELECT * FROM {table} WHERE {self._predicate(table)}"
        return Statement(f"INSERT OVERWRITE {table} {query}", {table: query}, True)

    def _truncate(self, table: str) -> Statement:
        if table == "t":  # which is attached
            return self._delete_all(table)
        return Statement(f"TRUNCATE TABLE {table}", {table: f"SELECT * FROM {table} WHERE false"}, True)

    def _delete_all(self, table: str) -> Statement:
        return Statement(f"DELETE FROM {table}", {table: f"SELECT * FROM {table} WHERE false"}, True)

    def _delete(self, table: str) -> Statement:
        where = self._predicate(table)
        return Statement(f"DELETE FROM {table} WHERE {where}", {table: _without(table, where)})

    def _update(self, table: str) -> Statement:
        where = self._predicate(table) if self.rng.random() < 0.85 else None
        return self._updated(table, self._assignment(table), where)

    def _change_of_zero(self, table: str) -> Statement:
        """0.0 becomes −0.0: equal for every comparison, and another row."""
        return self._updated("t", ("f", "-f"), self.rng.choice(["f = 0", "f = 0 AND a > 0", None]))

    def _updated(self, table: str, assignment: tuple[str, str], where: str | None) -> Statement:
        name, value = assignment
        text = f"UPDATE {table} SET {name} = {value}" + (f" WHERE {where}" if where else "")
        return Statement(text, {table: _changed(table, {name: value}, where)}, where is None)

    def _merge(self, table: str) -> Statement:
        columns = TABLES[table]
        key, row = columns[0][0], random_row(self.rng, table)
        values = [literal(v, kind) for v, (_, kind) in zip(row, columns, strict=True)]
        source = ", ".join(f"{v} AS {name}" for v, (name, _) in zip(values, columns, strict=True))
        on = self.rng.choice(["<=>", "="])
        hit = f"{key} {on} {values[0]}"
        name, kind = self.rng.choice(columns[1:])
        new = self._literal(kind)
        text = f"MERGE INTO {table} AS target USING (SELECT {source}) AS source ON target.{key} {on} source.{key}"
        kept = f"SELECT * FROM {table}"
        if self.rng.random() < 0.5:
            text += f" WHEN MATCHED THEN UPDATE SET {name} = {new}"
            kept = _changed(table, {name: new}, hit)
        elif self.rng.random() < 0.5:
            text += f" WHEN MATCHED AND target.{name} IS NOT NULL THEN DELETE"
            kept = _without(table, f"{hit} AND {name} IS NOT NULL")
        else:
            text += " WHEN MATCHED THEN DELETE"
            kept = _without(table, hit)
        if self.rng.random() < 0.7:
            text += " WHEN NOT MATCHED THEN INSERT *"
            kept += f" UNION ALL SELECT {', '.join(values)} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {hit})"
        if self.rng.random() < 0.25:
            text += f" WHEN NOT MATCHED BY SOURCE AND target.{key} = 1 THEN DELETE"
            other = f"{key} = 1 AND NOT coalesce({hit}, false)"
            kept = f"SELECT * FROM ({kept}) WHERE NOT coalesce({other}, false)"
        return Statement(text, {table: kept})

    def _merge_by_call(self, table: str) -> Statement:
        columns, rng = TABLES[table], self.rng
        key = columns[0][0]
        values = [literal(v, kind) for v, (_, kind) in zip(random_row(rng, table), columns, strict=True)]
        source = "SELECT " + ", ".join(f"{v} AS {name}" for v, (name, _) in zip(values, columns, strict=True))
        name, kind = rng.choice(columns[1:])
        other, (new, hit) = rng.choice(columns)[0], (self._literal(kind), f"{key} <=> {values[0]}")
        deletes, updates, inserts = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.7
        update = {name: new} if updates or not (deletes or inserts) else False
        delete = f"target.{other} IS NOT NULL" if deletes else False
        kept = _changed(table, {name: new}, hit) if update else f"SELECT * FROM {table}"
        kept += f" WHERE NOT coalesce({hit} AND {other} IS NOT NULL, false)" if delete else ""
        if inserts:
            kept += f" UNION ALL SELECT {', '.join(values)} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {hit})"
        return Statement(
            f"tx.merge({table}, {source}, {update=}, {delete=}, {inserts=})",
            {table: kept},
            call=lambda tx, _: tx.merge(table, source, f"target.{key} <=> source.{key}", update, inserts, delete),
        )

    def _merge_away(self, table: str) -> Statement:
        """Every row is matched by as many source rows as there are copies, or more."""
        key = TABLES[table][0][0]
        source = f"SELECT {key} AS gone FROM {table} UNION ALL SELECT {key} FROM {table}"
        where = f"{key} IN (0, 2, 7)"
        return Statement(
            f"MERGE INTO {table} USING ({source}) ON {key} = gone AND {where} WHEN MATCHED THEN DELETE",
            {table: _without(table, where)},
        )

    def _several(self, table: str) -> Statement:
        """One statement that fills two tables from what a third, or one of them, was before."""
        where = self._predicate("r")
        into_u = f"SELECT b, s, n > 1 AS flag FROM r WHERE {where}"
        into_t = "SELECT a, CAST(b AS BIGINT), DATE'2020-01-01', CAST(n AS DOUBLE) FROM r WHERE b IS NULL"
        text = (
            f"FROM r INSERT INTO u SELECT b, s, n > 1 WHERE {where} "
            "INSERT INTO t SELECT a, CAST(b AS BIGINT), DATE'2020-01-01', CAST(n AS DOUBLE) WHERE b IS NULL"
        )
        return Statement(text, {"u": _plus("u", into_u), "t": _plus("t", into_t)})

    def _in_and_out(self, table: str) -> list[Statement]:
        """Rows that come and go again, and with them the rows that were equal to them before."""
        row = random_row(self.rng, table)
        values = [literal(v, kind) for v, (_, kind) in zip(row, TABLES[table], strict=True)]
        rows = f"VALUES ({', '.join(values)}), ({', '.join(values)})"
        same = " AND ".join(f"{name} <=> {v}" for v, (name, _) in zip(values, TABLES[table], strict=True))
        return [
            Statement(f"INSERT INTO {table} {rows}", {table: _plus(table, rows)}),
            Statement(f"DELETE FROM {table} WHERE {same}", {table: _without(table, same)}),
        ]

    def _there_and_back(self, table: str) -> list[Statement]:
        """Updates of which nothing remains."""
        there, back = {
            "r": (("n", "n + 1"), ("n", "n - 1")) if self.rng.random() < 0.5 else (("b", "-b"), ("b", "-b")),
            "t": (("f", "-f"), ("f", "-f")),
            "u": (("flag", "NOT flag"), ("flag", "NOT flag")),
        }[table]
        where = None if self.rng.random() < 0.5 else f"{TABLES[table][0][0]} IS NOT NULL"
        return [self._updated(table, there, where), self._updated(table, back, where)]

    def _by_api(self, table: str) -> Statement:
        rng, where = self.rng, self._predicate(table)
        roll = rng.random()
        if roll < 0.3 and self.size(table) <= MANY_ROWS:
            values = self._values(table, rng.randint(0, 3))
            query = _typed(table, values)

            def insert(tx: Transaction, spark: SparkSession) -> None:
                names = [name for name, _ in TABLES[table]]
                tx.insert(table, spark.sql(query).select(*rng.sample(names, len(names))))

            return Statement(f"tx.insert({table}, {values})", {table: _plus(table, values)}, call=insert)
        if roll < 0.5:
            return Statement(
                f"tx.delete({table}, {where!r})",
                {table: _without(table, where)},
                call=lambda tx, _: tx.delete(table, where),
            )
        if roll < 0.65:
            name, value = self._assignment(table)
            return Statement(
                f"tx.update({table}, {{{name}: {value}}}, {where!r})",
                {table: _changed(table, {name: value}, where)},
                call=lambda tx, _: tx.update(table, {name: value}, where),
            )
        if roll < 0.8:
            return self._merge_by_call(table)
        if roll < 0.9:
            # Simultaneously: both see what was before.
            queries = {
                "r": "SELECT b AS a, CAST(flag AS INT) AS b, s, CAST(b AS DECIMAL(10,2)) AS n FROM u",
                "u": f"SELECT b, s, n > 1 AS flag FROM r WHERE {self._predicate('r')}",
            }
            return Statement(f"tx.assign({queries})", queries, replaces_all=True, call=lambda tx, _: tx.assign(queries))
        query = f"SELECT DISTINCT * FROM {table} WHERE {where}"
        return Statement(f"tx.assign({table}: {query})", {table: query}, True, lambda tx, _: tx.assign({table: query}))

    # -- parts

    def _values(self, table: str, rows: int) -> str:
        columns = TABLES[table]
        lines = []
        for _ in range(rows):
            row = random_row(self.rng, table)
            lines.append("(" + ", ".join(literal(v, k) for v, (_, k) in zip(row, columns, strict=True)) + ")")
            if self.rng.random() < 0.3:
                lines.append(lines[-1])
        if not lines:
            return "SELECT " + ", ".join(f"CAST(NULL AS {kind})" for _, kind in columns) + " WHERE false"
        return f"VALUES {', '.join(lines)}"

    def _predicate(self, table: str) -> str:
        return Generator(self.rng).predicate(tuple(TABLES[table]))

    def _literal(self, kind: str) -> str:
        return Generator(self.rng).literal(kind) if self.rng.random() < 0.8 else f"CAST(NULL AS {kind})"

    def _assignment(self, table: str) -> tuple[str, str]:
        name, kind = self.rng.choice(TABLES[table])
        values = {"int": f"{name} % 2", "boolean": f"NOT {name}", "string": f"concat({name}, '')", "double": f"-{name}"}
        if kind in values and self.rng.random() < 0.4:
            return name, values[kind]
        return name, self._literal(kind)


def _typed(table: str, query: str) -> str:
    """The query with the names and types of the table."""
    names = [name for name, _ in TABLES[table]]
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in TABLES[table])
    return f"SELECT {casts} FROM ({query}) AS __rows({', '.join(names)})"


def _plus(table: str, query: str) -> str:
    return f"SELECT * FROM {table} UNION ALL {_typed(table, query)}"


def _without(table: str, where: str) -> str:
    return f"SELECT * FROM {table} WHERE NOT coalesce({where}, false)"


def _changed(table: str, values: Mapping[str, str], where: str | None) -> str:
    is_hit = "true" if where is None else f"coalesce({where}, false)"
    columns = [
        f"CAST(CASE WHEN {is_hit} THEN {values[name]} ELSE {name} END AS {kind}) AS {name}" if name in values else name
        for name, kind in TABLES[table]
    ]
    return f"SELECT {', '.join(columns)} FROM {table}"
