"""A DML statement staged beside the same statement run for real on copies of the tables that it names."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.frontend.dml import StagedDml, stage_dml
from monus.frontend.jvm import analyzed
from monus.frontend.substitution import Found, Parts, parse, substitute

DATABASE = "dml_lab"
Bag = Counter[str]


@dataclass
class Lab:
    """Statements name tables in braces, as {t}. Staging never changes a table; only copies are changed for real."""

    spark: SparkSession
    folder: Path
    paths: dict[str, str] = field(default_factory=dict)
    copies: int = 0
    _known: dict[str, Bag] = field(default_factory=dict)

    def make(self, name: str, columns: str, rows: str = "", clauses: str = "") -> None:
        self.paths[name] = f"file:{self.folder}/{name}"
        self.spark.sql(
            f"CREATE TABLE {DATABASE}.{name} ({columns}) USING delta {clauses} LOCATION '{self.paths[name]}'"
        )
        if rows:
            self.spark.sql(f"INSERT INTO {DATABASE}.{name} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")

    def rows(self, path: str) -> DataFrame:
        return self.spark.read.format("delta").load(path)

    def versions(self) -> dict[str, int]:
        return {name: len(list((self.folder / name / "_delta_log").glob("*.json"))) for name in self.paths}

    def stage(self, text: str) -> list[StagedDml]:
        """As a transaction does it: every source is a plan, every target the name of a table."""

        def find(parts: Parts) -> Found | None:
            path = self.paths.get(parts[-1].lower())
            return None if path is None else Found(lambda: analyzed(self.rows(path)), (DATABASE, parts[-1]))

        plan = substitute(self.spark, parse(self.spark, text.format_map(_Names())), find)
        before = self.versions()
        changes = stage_dml(self.spark, plan, self.rows)
        assert self.versions() == before
        return changes

    def run(self, text: str) -> dict[str, str]:
        """For real; answers with the paths of the copies by the names of the tables."""
        self.copies += 1
        copies = _Copies(self.folder, self.folder / f"copy{self.copies}")
        self.spark.sql(text.format_map(copies))
        return copies.paths

    def after(self, changes: list[StagedDml]) -> dict[str, Bag]:
        """The rows of the changed tables by path: (rows before ∸ deleted) ⊎ inserted."""
        found: dict[str, Bag] = {}
        for change in changes:
            rows = Counter() if change.replaces_all else found.get(change.target, self.before(change.target))
            leaving, coming = self.evaluated(change)
            assert leaving <= rows, f"not rows of the table: {leaving - rows}"
            found[change.target] = rows - leaving + coming
        return found

    def before(self, path: str) -> Bag:
        """The rows of a table that is never changed."""
        if path not in self._known:
            self._known[path] = bag(self.rows(path))
        return self._known[path]

    def evaluated(self, change: StagedDml) -> tuple[Bag, Bag]:
        """What leaves and what comes, in one job over both together, as whoever stages them would have it."""
        assert change.deleted is None or not change.replaces_all
        table = self.rows(change.target)
        sides = [(frame, sign) for frame, sign in ((change.deleted, -1), (change.inserted, 1)) if frame is not None]
        assert all(frame.dtypes == table.dtypes for frame, _ in sides)
        signed = [frame.select(F.struct("*").alias("row"), F.lit(sign).alias("sign")) for frame, sign in sides]
        rows = reduce(DataFrame.union, signed).collect() if signed else []
        leaving, coming = (Counter(repr(row["row"]) for row in rows if row["sign"] == sign) for sign in (-1, 1))
        return leaving, coming

    def check(self, text: str) -> list[StagedDml]:
        """The staged change makes of the rows what the statement makes of them."""
        changes = self.stage(text)
        expected = self.after(changes)
        copies = self.run(text)
        assert expected, "nothing staged"
        for path, rows in expected.items():
            name = path.rsplit("/", 1)[-1]
            real = bag(self.rows(copies[name]))
            assert rows == real, f"{text}\nstaged only: {rows - real}\nreal only: {real - rows}"
        return changes


def bag(frame: DataFrame | None) -> Bag:
    return Counter() if frame is None else Counter(map(repr, frame.collect()))


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name


class _Copies(dict[str, str]):
    def __init__(self, folder: Path, copy: Path) -> None:
        self._folder, self._copy = folder, copy
        self.paths: dict[str, str] = {}

    def __missing__(self, name: str) -> str:
        key = name.lower()
        if key not in self.paths:
            self.paths[key] = f"file:{self._copy}/{key}"
            shutil.copytree(self._folder / key, self._copy / key)
        return f"delta.`{self.paths[key]}`"
