"""What tables and views must hold, worked out by plain Spark over local rows: nothing of Monus and nothing of Delta.

A bag has every row as a tuple of texts, so that −0.0 is another value than 0.0. `stored` is what the view's table
must hold, `reached` what it would hold with its pending change applied: the state of the last propagate.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.random_sql import TABLES, Query

Row = tuple[str | None, ...]
Bag = Counter[Row]
INVARIANTS = {
    "IMMEDIATE": "INV_IM",
    "ON DEMAND USING LOG": "INV_BL",
    "ON DEMAND USING DIFFERENTIAL": "INV_DT",
    "ON DEMAND USING COMBINED": "INV_C",
    "EVERY 1 HOUR": "INV_C",
    "EVERY 1 HOUR PROPAGATE WHEN IDLE": "INV_C",
    "EVERY 1 HOUR PARTIAL PROPAGATE EVERY 10 MINUTES": "INV_C",
    "ON QUERY": "INV_BL",
    "LAZY": "INV_BL",
    "ON QUERY PARTIAL": "INV_C",
}
KEPT = ("IMMEDIATE", "ON DEMAND USING DIFFERENTIAL")
READ_NOW = ("IMMEDIATE", "ON QUERY", "LAZY")


@dataclass
class ModelView:
    query: Query
    policy: str
    incremental: bool
    stored: Bag = field(default_factory=Counter)
    reached: Bag = field(default_factory=Counter)
    may_lag: bool = False
    """Others have written to a table that it reads, and nobody has had to look since."""

    @property
    def reads(self) -> set[str]:
        return read_by(self.query.sql)

    @property
    def reads_now(self) -> bool:
        return self.policy in READ_NOW


class Model:
    """The tables and, in the order in which they were made, the views; `assertions` are queries that stay empty."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        self._shown: dict[str, Bag] = {}
        self.tables: dict[str, Bag] = {}
        self.views: dict[str, ModelView] = {}
        self.assertions: dict[str, Query] = {}

    # -- queries

    def evaluate(
        self, queries: Mapping[str, tuple[str, list[str]]], instead: Mapping[str, Bag] | None = None
    ) -> dict[str, Bag]:
        """Queries with the types of their columns, over the tables and over the views as they are stored."""
        named = set(re.findall(r"\w+", " ".join(text for text, _ in queries.values())))
        for name, bag in {**self.tables, **{n: v.stored for n, v in self.views.items()}, **(instead or {})}.items():
            if name in named and self._shown.get(name) != bag:
                self._spark.sql(local_rows(bag, self.columns(name))).createOrReplaceTempView(name)
                self._shown[name] = Counter(bag)
        return bags({tag: _cast(self._spark.sql(text), kinds) for tag, (text, kinds) in queries.items()})

    def columns(self, name: str) -> list[tuple[str, str]]:
        return TABLES[name] if name in TABLES else list(self.views[name].query.columns)

    def of(self, name: str, instead: Mapping[str, Bag] | None = None) -> Bag:
        """The view's query over the tables and over what is stored of the views that it reads."""
        view = self.views[name]
        return self.evaluate({name: (view.query.sql, _kinds(view.query))}, instead)[name]

    def now(self, names: Iterable[str]) -> dict[str, Bag]:
        """The views' queries over the tables alone: what they would be if everything were refreshed."""
        return self.evaluate({n: (self._expanded(n), _kinds(self.views[n].query)) for n in names})

    def after(self, statement_after: Mapping[str, str], tables: Mapping[str, Bag]) -> dict[str, Bag]:
        """The tables after a statement, from those before it."""
        queries = {name: (text, [kind for _, kind in TABLES[name]]) for name, text in statement_after.items()}
        return {**tables, **self.evaluate(queries, tables)}

    def read_inside(self, name: str, tables: Mapping[str, Bag]) -> Bag:
        """A view as a transaction sees it whose tables are these."""
        if name in tables:
            return tables[name]
        view = self.views[name]
        if not view.reads_now:
            return view.reached if view.policy == "ON QUERY PARTIAL" else view.stored
        return self.of(name, {**tables, **{s: self.read_inside(s, tables) for s in view.reads if s in self.views}})

    def _expanded(self, name: str) -> str:
        """The view's query with the queries of the views under it."""
        needed: set[str] = set()
        waiting = [name]
        while waiting:
            for source in self.views[waiting.pop()].reads & set(self.views):
                if source not in needed:
                    needed.add(source)
                    waiting.append(source)
        under = [f"{n} AS ({self.views[n].query.sql})" for n in self.views if n in needed]
        return (f"WITH {', '.join(under)} " if under else "") + self.views[name].query.sql

    # -- what the operations do (Figure 3)

    def committed(self, changed: set[str]) -> None:
        """makesafe: views that are kept follow the transaction, log and combined views do not."""
        changed = set(changed)
        for name, view in self.views.items():
            if view.policy in KEPT and view.reads & changed:
                view.reached, view.may_lag = self.of(name), False
                if view.policy == "IMMEDIATE":
                    view.stored = view.reached
                    changed.add(name)

    def written_outside(self, changed: set[str]) -> None:
        for view in self.views.values():
            view.may_lag = view.may_lag or bool(view.reads & changed)

    def violated(self, changed: set[str], tables: Mapping[str, Bag]) -> set[str]:
        """The assertions that a transaction which changes these tables would leave violated."""
        asked = {n: (q.sql, _kinds(q)) for n, q in self.assertions.items() if read_by(q.sql) & changed}
        return {name for name, rows in self.evaluate(asked, tables).items() if rows}

    def propagate(self, name: str) -> None:
        view = self.views[name]
        if view.incremental:
            view.reached, view.may_lag = self.of(name), False

    def partial_refresh(self, name: str) -> None:
        self._store(name, self.views[name].reached)

    def refresh(self, name: str) -> None:
        self.views[name].may_lag = False
        self.views[name].reached = self.of(name)
        self._store(name, self.views[name].reached)

    def refresh_all(self) -> None:
        for name in self.views:
            self.refresh(name)

    def read(self, name: str) -> Bag:
        """A plain read: views that are kept or maintained on query are brought to the present first."""
        view = self.views[name]
        if view.reads_now:
            for source in view.reads & set(self.views):
                if self.views[source].reads_now:
                    self.read(source)
            self.refresh(name)
        elif view.policy == "ON QUERY PARTIAL":
            self.partial_refresh(name)
        return view.stored

    def _store(self, name: str, bag: Bag) -> None:
        view = self.views[name]
        if same(view.stored, bag, _kinds(view.query)):
            return
        view.stored = view.reached = bag
        for other, reader in self.views.items():
            if name in reader.reads and reader.policy == "IMMEDIATE":
                self.refresh(other)
            elif name in reader.reads and reader.policy == "ON DEMAND USING DIFFERENTIAL":
                self.propagate(other)


def read_by(text: str) -> set[str]:
    return set(re.findall(r"\bFROM (\w+)", text))


def _kinds(query: Query) -> list[str]:
    return [kind for _, kind in query.columns]


def _cast(frame: DataFrame, kinds: list[str]) -> DataFrame:
    plain = frame.toDF(*(f"c{i}" for i in range(len(kinds))))
    return plain.select(*(F.col(f"c{i}").cast(kind).alias(f"c{i}") for i, kind in enumerate(kinds)))


def bags(frames: Mapping[str, DataFrame]) -> dict[str, Bag]:
    """All of them in one job."""
    if not frames:
        return {}
    tagged = [
        frame.select(F.lit(tag).alias("tag"), F.array(*(F.col(f"`{c}`").cast("string") for c in frame.columns)))
        for tag, frame in frames.items()
    ]
    found: dict[str, Bag] = {tag: Counter() for tag in frames}
    for tag, row in reduce(DataFrame.unionAll, tagged).collect():
        found[tag][tuple(row)] += 1
    return found


def local_rows(bag: Bag, columns: list[tuple[str, str]]) -> str:
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns)
    names = ", ".join(name for name, _ in columns)
    if not bag:
        nothing = ", ".join(f"CAST(NULL AS STRING) AS {name}" for name, _ in columns)
        return f"SELECT {casts} FROM (SELECT {nothing}) WHERE false"
    lines = []
    for row, copies in bag.items():
        texts = ["CAST(NULL AS STRING)" if v is None else "'" + v.replace("'", "\\'") + "'" for v in row]
        lines += [f"({', '.join(texts)})"] * copies
    return f"SELECT {casts} FROM VALUES {', '.join(lines)} AS __rows({names})"


def same(left: Bag, right: Bag, kinds: list[str]) -> bool:
    """Floating-point columns but for the last digits: Spark's own answer depends on the order of additions."""
    if left == right:
        return True
    floats = [i for i, kind in enumerate(kinds) if kind == "double"]
    if not floats or left.total() != right.total():
        return False
    missing, extra = list((left - right).elements()), list((right - left).elements())
    for row in missing:
        found = next((other for other in extra if _is_close(row, other, floats)), None)
        if found is None:
            return False
        extra.remove(found)
    return True


def _is_close(left: Row, right: Row, floats: list[int]) -> bool:
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        if a == b:
            continue
        if i not in floats or a is None or b is None:
            return False
        if not math.isclose(float(a), float(b), rel_tol=1e-8, abs_tol=1e-4):
            return False
    return True
