"""Random views over random Delta tables under random changes: after every refresh the view equals its query.

The view's table is read by plain Delta, and the query is run by plain Spark: nothing of Monus is trusted.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import monus
from monus.catalog.records import RefreshRecord
from tests.spark.derivation import literal
from tests.spark.limits import drawn_limits
from tests.spark.random_sql import TABLES, Generator, Query, random_row
from tests.spark.scenario_model import Bag, bags

SPECIAL = {
    "t": "TBLPROPERTIES (delta.enableChangeDataFeed = false)",
    "u": "TBLPROPERTIES (delta.enableDeletionVectors = true)",
}


def open_warehouse(spark: SparkSession, folder: Path, rng: random.Random) -> monus.Warehouse:
    """Three tables: one with a change feed, one attached without, one with deletion vectors."""
    warehouse = monus.connect(folder / "warehouse", spark=spark)
    for name, columns in TABLES.items():
        ddl = ", ".join(f"{column} {kind}" for column, kind in columns)
        if name == "t":
            path = folder / "elsewhere"
            spark.sql(f"CREATE TABLE delta.`{path}` ({ddl}) USING DELTA {SPECIAL[name]}")
            warehouse.attach(name, str(path))
        else:
            warehouse.sql(f"CREATE TABLE {name} ({ddl}) {SPECIAL.get(name, '')}")
        warehouse.sql(insert_statement(rng, name, 8))
    return warehouse


def close_warehouse(warehouse: monus.Warehouse) -> None:
    """Leaves nothing in the session's catalog."""
    for name in reversed(warehouse._catalog.dependency_order()):
        warehouse.drop_view(name)
    for name in warehouse.tables():
        warehouse._creation.drop_table(name)
    warehouse.close()


@dataclass
class Sequence:
    """One run: views are made, tables changed, views refreshed and compared; `log` is what it did."""

    warehouse: monus.Warehouse
    seed: int
    rounds: int = 3
    log: list[str] = field(default_factory=list)
    strategies: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        rng = random.Random(self.seed)
        views = self._create_views(rng)
        try:
            for _ in range(self.rounds):
                for _ in range(rng.randint(1, 4)):
                    self._change(rng)
                with drawn_limits(rng) as low:
                    self.log.append(f"low limits: {', '.join(low)}")
                    self._maintain(rng, list(views))
                self._compare(views)
        finally:
            for name in reversed(list(views)):
                self.warehouse.drop_view(name)

    def _create_views(self, rng: random.Random) -> dict[str, Query]:
        views: dict[str, Query] = {}
        columns: dict[str, list[tuple[str, str]]] = {}
        for i in range(rng.randint(1, 3)):
            name = f"v{self.seed}_{i}"
            query = Generator(rng, 3, columns if rng.random() < 0.6 else None).query()
            self.log.append(f"CREATE MATERIALIZED VIEW {name} AS {query.sql}")
            self.warehouse.create_view(name, query.sql)
            views[name], columns[name] = query, list(query.columns)
        self._compare(views)
        return views

    def _change(self, rng: random.Random) -> None:
        statement = random_statement(rng)
        by_spark = rng.random() < 0.5
        self.log.append(f"{'spark' if by_spark else 'monus'}: {statement}")
        if by_spark:
            self.warehouse.spark.sql(statement)
        else:
            self.warehouse.sql(statement)

    def _maintain(self, rng: random.Random, names: list[str]) -> None:
        roll = rng.random()
        if roll < 0.6:
            self.log.append("refresh all")
            for done in self.warehouse.refresh():
                self._note(done)
            return
        for name in names:
            view = self.warehouse.view(name)
            if roll < 0.8:
                self.log.append(f"propagate {name}")
                self._note(view.propagate())
                self._change(rng) if rng.random() < 0.3 else None
            if roll < 0.7:
                self.log.append(f"partial refresh {name}")
                self._note(view.partial_refresh())
            if roll > 0.97:
                self.log.append(f"refresh {name} in full")
                self._note(view.refresh(full=True))
        self.log.append("refresh all")
        for done in self.warehouse.refresh():
            self._note(done)

    def _note(self, done: RefreshRecord) -> None:
        self.strategies[f"{done.operation} {done.strategy}"] += 1
        if not done.incremental and done.code not in ("FIRST", "REQUESTED"):
            reasons = self.warehouse.view(done.view).explain().reasons
            if done.code not in [reason.code for reason in reasons]:
                raise Mismatch(f"seed {self.seed}: {done.view} was refreshed in full, {done.code}: {done.reason}")
        rows = f"+{done.rows_inserted} -{done.rows_deleted}"
        self.log.append(f"  {done.view}: {done.operation} {done.strategy} {done.code} {rows}")

    def _compare(self, views: dict[str, Query]) -> None:
        spark, frames = self.warehouse.spark, dict[str, DataFrame]()
        for name, query in views.items():
            location = self.warehouse._catalog.view(name).location
            names = [column for column, _ in query.columns]
            frames[f"stored {name}"] = spark.read.format("delta").load(location).select(*names)
            frames[f"expected {name}"] = spark.sql(query.sql)
        found = bags(frames)
        for name, query in views.items():
            stored, expected = (_rounded(found[f"{what} {name}"], query) for what in ("stored", "expected"))
            if stored != expected:
                raise Mismatch(
                    f"seed {self.seed}, view {name}: extra {stored - expected}, missing {expected - stored}\n"
                    + "\n".join(self.log)
                )


class Mismatch(AssertionError):
    pass


def _rounded(rows: Bag, query: Query) -> Bag:
    """Doubles to nine digits, because the order of additions may differ."""
    doubles = {i for i, (_, kind) in enumerate(query.columns) if kind == "double"}
    found: Bag = Counter()
    for row, copies in rows.items():
        texts = (f"{float(v) + 0.0:.8e}" if i in doubles and v is not None else v for i, v in enumerate(row))
        found[tuple(texts)] += copies
    return found


def random_statement(rng: random.Random) -> str:
    table = rng.choice(list(TABLES))
    columns = tuple(TABLES[table])
    generator = Generator(rng)
    roll = rng.random()
    if roll < 0.35:
        return insert_statement(rng, table, rng.randint(1, 4))
    if roll < 0.55:
        return f"DELETE FROM {table} WHERE {generator.predicate(columns)}"
    if roll < 0.8:
        name, kind = rng.choice(columns)
        value = generator.literal(kind) if rng.random() < 0.8 else f"CAST(NULL AS {kind})"
        return f"UPDATE {table} SET {name} = {value} WHERE {generator.predicate(columns)}"
    if roll < 0.92:
        return merge_statement(rng, table)
    if roll < 0.95:
        values = insert_statement(rng, table, 5).split("VALUES", 1)[1]
        return f"INSERT OVERWRITE {table} VALUES{values}"
    if roll < 0.97:
        return f"TRUNCATE TABLE {table}" if table != "t" else f"DELETE FROM {table}"
    return f"OPTIMIZE {table}"


def insert_statement(rng: random.Random, table: str, rows: int) -> str:
    lines = []
    for _ in range(rows):
        row = random_row(rng, table)
        lines.append("(" + ", ".join(literal(v, kind) for v, (_, kind) in zip(row, TABLES[table], strict=True)) + ")")
        if rng.random() < 0.3:
            lines.append(lines[-1])
    return f"INSERT INTO {table} VALUES {', '.join(lines)}"


def merge_statement(rng: random.Random, table: str) -> str:
    columns = TABLES[table]
    key = columns[0][0]
    row = random_row(rng, table)
    values = ", ".join(f"{literal(v, k)} AS {n}" for v, (n, k) in zip(row, columns, strict=True))
    name, value_kind = rng.choice(columns[1:])
    matched = rng.choice([f"UPDATE SET {name} = {Generator(rng).literal(value_kind)}", "DELETE"])
    return (
        f"MERGE INTO {table} AS target USING (SELECT {values}) AS source ON target.{key} <=> source.{key} "
        f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
    )
