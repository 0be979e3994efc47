"""A warehouse with views under every scenario, and the rows that must be in it, computed by Python alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import monus

Row = tuple[Any, ...]
Rows = Counter[Row]

TABLES = {
    "a": "k INT, g INT, x INT",
    "b": "g INT, w INT",
    "e": "k INT, x INT",
    "s": "k INT, x INT",
    "q": "k INT, x INT",
}
GROUPED = "SELECT a.g, count(*) AS n, sum(a.x) AS s, sum(b.w) AS t FROM a JOIN b ON a.g = b.g GROUP BY a.g"
JOINED = "SELECT a.k, a.x, b.w FROM a JOIN b ON a.g = b.g"
VIEWS = {
    "im": ("IMMEDIATE", GROUPED),
    "over": ("IMMEDIATE", "SELECT n, count(*) AS c, sum(s) AS s FROM im GROUP BY n"),
    "bl": ("ON DEMAND USING LOG", JOINED),
    "dt": ("ON DEMAND USING DIFFERENTIAL", JOINED),
    "c": ("ON DEMAND USING COMBINED", GROUPED),
    "oq": ("ON QUERY", "SELECT k, x FROM q"),
    "ei": ("IMMEDIATE", "SELECT x, count(*) AS n FROM e GROUP BY x"),
    "sl": ("ON DEMAND USING LOG", "SELECT k, x FROM s"),
    "old": ("ON DEMAND USING LOG", "SELECT k FROM s"),
}
NEW = "SELECT g, max(x) AS m FROM a GROUP BY g"


@dataclass(frozen=True)
class State:
    """The rows of the tables."""

    a: tuple[Row, ...] = ((1, 1, 1), (2, 1, 5), (2, 1, 5), (3, 2, 7), (4, None, None), (9, 1, 9))
    b: tuple[Row, ...] = ((1, 10), (2, 20), (2, 30))
    e: tuple[Row, ...] = ((1, 1), (2, 1), (2, 1), (9, None))
    s: tuple[Row, ...] = ((1, 1), (2, 1), (2, 1), (9, None))
    q: tuple[Row, ...] = ((1, 1), (2, 1), (2, 1), (9, None))

    def changed(self, key: int) -> State:
        """After `change`."""
        a = [row for row in self.a if row[0] != key - 1] + [(key, 1, key), (key, 3, None)]
        b = [(g, w + 1) if g == 1 else (g, w) for g, w in self.b] + [(3, key)]
        return replace(self, a=tuple(a), b=tuple(b))

    def changed_alone(self, table: str, key: int) -> State:
        """After `change_alone`."""
        rows = tuple((k, key) if k == key - 1 else (k, x) for k, x in getattr(self, table))
        return replace(self, **{table: rows})

    def added(self, key: int, tables: Iterable[str]) -> State:
        """After `add`."""
        return replace(self, **{name: (*getattr(self, name), _new_row(name, key)) for name in tables})

    def changed_outside(self, key: int) -> State:
        """After `change_outside`."""
        row = (key, 1)
        return replace(self, a=(*self.a, (key, 2, 1)), e=(*self.e, row), s=(*self.s, row), q=(*self.q, row))

    def rows(self, name: str) -> Rows:
        """Those of a table, or of a view at this state."""
        joined = [(k, x, w, g) for k, g, x in self.a for h, w in self.b if g is not None and g == h]
        match name:
            case "a" | "b" | "e" | "s" | "q":
                return Counter(getattr(self, name))
            case "bl" | "dt":
                return Counter((k, x, w) for k, x, w, _ in joined)
            case "oq":
                return Counter(self.q)
            case "im" | "c":
                groups = _grouped((g, (x, w)) for _, x, w, g in joined)
                return Counter((g, len(of), _sum(x for x, _ in of), _sum(w for _, w in of)) for g, of in groups)
            case "over":
                groups = _grouped((n, s) for _, n, s, _ in self.rows("im"))
                return Counter((n, len(of), _sum(of)) for n, of in groups)
            case "ei":
                return Counter((x, len(of)) for x, of in _grouped((x, k) for k, x in self.e))
            case "sl":
                return Counter(self.s)
            case "old":
                return Counter((k,) for k, _ in self.s)
            case "new":
                groups = _grouped((g, x) for _, g, x in self.a)
                return Counter((g, max((x for x in of if x is not None), default=None)) for g, of in groups)
            case _:
                raise KeyError(name)


def _grouped(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, list[Any]]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    yield from groups.items()


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class Known:
    """The rows of the tables at each version, and the state of the tables at each state of `im`, which is read."""

    tables: dict[tuple[str, int], tuple[Row, ...]] = field(default_factory=dict)
    states: dict[int, State] = field(default_factory=dict)

    def noted(self, wh: monus.Warehouse, now: State) -> Known:
        """Together with the versions of now."""
        tables = self.tables | {(name, _version(wh, name)): getattr(now, name) for name in TABLES}
        known = Known(tables, dict(self.states))
        known.states[wh._catalog.view("im").pending_from - 1] = known.of(wh, "im")
        return known

    def of(self, wh: monus.Warehouse, view: str) -> State:
        """The state of the tables that the view's vector names."""
        vector = wh._catalog.view(view).vector
        if view == "over":
            return self.states[vector["im"]["batch"]]
        return State(**{name: self.tables[name, state["version"]] for name, state in vector.items()})


def make(folder: Path, spark: SparkSession) -> tuple[monus.Warehouse, State]:
    """The tables, and views under every scenario."""
    wh, state = monus.connect(folder, spark=spark), State()
    for table, columns in TABLES.items():
        wh.sql(f"CREATE TABLE {table} ({columns})")
        rows = ", ".join(
            f"({', '.join('NULL' if v is None else str(v) for v in row)})" for row in getattr(state, table)
        )
        wh.sql(f"INSERT INTO {table} VALUES {rows}")
    for name, (policy, query) in VIEWS.items():
        wh.create_view(name, query, refresh=policy)
    return wh, state


def change(wh: monus.Warehouse, key: int) -> None:
    """A transaction that inserts, updates and deletes in two tables; keys follow each other."""
    with wh.transaction() as tx:
        tx.sql(f"INSERT INTO a VALUES ({key}, 1, {key}), ({key}, 3, NULL)")
        tx.sql(f"DELETE FROM a WHERE k = {key - 1}")
        tx.sql("UPDATE b SET w = w + 1 WHERE g = 1")
        tx.sql(f"INSERT INTO b VALUES (3, {key})")


def change_alone(wh: monus.Warehouse, table: str, key: int) -> None:
    """One statement, which is a transaction by itself unless an immediate view takes part."""
    wh.sql(f"UPDATE {table} SET x = {key} WHERE k = {key - 1}")


def add(wh: monus.Warehouse, key: int, tables: Iterable[str]) -> None:
    """A row for each of these tables in one transaction."""
    with wh.transaction() as tx:
        for name in tables:
            tx.sql(f"INSERT INTO {name} VALUES {_new_row(name, key)}")


def _new_row(table: str, key: int) -> Row:
    return {"a": (key, 1, key), "b": (3, key)}.get(table, (key, key))


def reads(wh: monus.Warehouse, view: str) -> set[str]:
    return {source.name for source in wh._catalog.sources(view)}


def change_outside(wh: monus.Warehouse, key: int) -> None:
    """By another writer, of whom no view knows yet."""
    wh.spark.sql(f"INSERT INTO {_delta(wh, 'a')} VALUES ({key}, 2, 1)")
    wh.spark.sql(f"INSERT INTO {_delta(wh, 'e')} VALUES ({key}, 1)")
    wh.spark.sql(f"INSERT INTO {_delta(wh, 's')} VALUES ({key}, 1)")
    wh.spark.sql(f"INSERT INTO {_delta(wh, 'q')} VALUES ({key}, 1)")


_rows_by_log: dict[str, Rows] = {}


def stored_rows(wh: monus.Warehouse) -> dict[str, Rows]:
    """The rows of all tables and views, read by plain Delta in one job; a log that was read before, not again."""
    where = {name: wh._catalog.table(name).location for name in TABLES}
    where |= {name: wh._catalog.view(name).location for name in wh.views()}
    logs = {name: _log(path) for name, path in where.items()}
    new = {name: path for name, path in where.items() if logs[name] not in _rows_by_log}
    if new:
        _rows_by_log.update({logs[name]: rows for name, rows in _read(wh, new).items()})
    return {name: _rows_by_log[log] for name, log in logs.items()}


def _log(location: str) -> str:
    folder = Path(location.removeprefix("file:")) / "_delta_log"
    return "".join(path.read_text() for path in sorted(folder.glob("*.json")))


def _read(wh: monus.Warehouse, where: dict[str, str]) -> dict[str, Rows]:
    texts = []
    for name, path in where.items():
        frame = wh.spark.read.format("delta").load(path)
        shown = [F.col(column) for column in frame.columns if not column.startswith("__")]
        texts.append(frame.select(F.lit(name).alias("name"), F.to_json(F.array(*(c.cast("string") for c in shown)))))
    union = texts[0]
    for each in texts[1:]:
        union = union.unionAll(each)
    found: dict[str, Rows] = {name: Counter() for name in where}
    for name, text in union.collect():
        found[name][tuple(None if value is None else int(value) for value in json.loads(text))] += 1
    return found


def wrong_rows(wh: monus.Warehouse, now: State, known: Known) -> dict[str, tuple[Rows, Rows]]:
    """Tables that are not at this state, and views that are not what their vector says: what is missing, and extra."""
    found = stored_rows(wh)
    wanted = {name: now.rows(name) for name in TABLES}
    wanted |= {name: known.of(wh, name).rows(name) for name in wh.views()}
    return {
        name: (wanted[name] - found[name], found[name] - wanted[name]) for name in found if found[name] != wanted[name]
    }


def leftovers(wh: monus.Warehouse) -> list[str]:
    """What no operation that has ended may leave."""
    names = wh.views()
    found = [f"transaction {record.id}" for record in wh._catalog.ledger().outstanding]
    found += [f"intent on {name}" for name in names if wh._catalog.outstanding_intent(name) is not None]
    found += [f"unusable {name}" for name in names if not wh._catalog.view(name).usable]
    found += [str(path) for path in (wh.root / "staging").glob("*")]
    known = {Path(wh._catalog.view(name).location).name for name in names}
    found += [str(path) for path in wh.root.glob("views/*") if path.name not in known]
    return found


def _version(wh: monus.Warehouse, table: str) -> int:
    log = Path(wh._catalog.table(table).location.removeprefix("file:")) / "_delta_log"
    return max(int(file.stem) for file in log.glob("*.json"))


def _delta(wh: monus.Warehouse, table: str) -> str:
    return f"delta.`{wh._catalog.table(table).location}`"
