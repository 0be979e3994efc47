"""A change of a table as one commit: what is there afterwards, what readers of the change see, and what it costs."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from monus.compiler.identity import identity_key
from monus.errors import LeaseLost, SourceSchemaChanged, ViewBusy
from monus.frontend.jvm import active
from monus.store.apply import TxnNumber, append, overwrite, session_settings
from monus.store.changes import read_change, summarize_change
from monus.store.delta_table import DeltaTable
from monus.store.leaving_rows import look_at
from monus.store.log import Commit, commits, landed
from monus.store.session import maintenance_session
from monus.store.table_change import COPIES, TableCommit, commit_change, read_written, remove_written, write_files
from monus.store.upkeep import optimize
from tests.spark.conftest import JobCount

Jobs = Callable[[], AbstractContextManager[JobCount]]
Row = tuple[object, ...]
Bag = Counter[Row]

APP = "monus:test"
SCHEMA = "a INT, `b c` STRING, p INT"
PLAIN = {"delta.enableDeletionVectors": "false"}
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPING = {"delta.columnMapping.mode": "name"}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    session = maintenance_session(spark, {"spark.sql.shuffle.partitions": "2"})
    with active(session):
        yield session


class Table:
    """A table and the bag that it must hold."""

    def __init__(
        self,
        session: SparkSession,
        path: Path,
        properties: Mapping[str, str],
        schema: str = SCHEMA,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.session, self.schema = session, schema
        self.delta = DeltaTable(session, str(path / "a table"))
        self.delta.create(StructType.fromDDL(schema), partition_by, properties=properties)
        self.bag: Bag = Counter()
        self.number = 0

    def frame(self, *rows: Row, schema: str | None = None) -> DataFrame:
        return self.session.createDataFrame(list(rows), schema or self.schema).coalesce(1)

    def write(self, *rows: Row) -> tuple[str, ...]:
        return write_files(self.delta, self.delta.snapshot(), self.frame(*rows))

    def append(self, *rows: Row) -> None:
        """By Delta's own writer, one file."""
        append(self.delta, self.frame(*rows))
        self.bag.update(map(key, rows))

    def deletes(self, *rows: Row) -> DataFrame:
        """Rows, each followed by its number of copies."""
        return self.frame(*rows, schema=f"{self.schema}, {COPIES} BIGINT")

    def commit(
        self,
        comes: Sequence[Row] = (),
        leaves: Sequence[Row] | None = None,
        replace_all: bool = False,
        missing: int = 0,
    ) -> Commit:
        """A change, checked against the bag and read back; the commit as the log has it."""
        before, old = self.delta.version(), Counter(self.bag)
        adds = self.write(*comes) if comes else ()
        self.number += 1
        deletes = None if leaves is None else self.deletes(*leaves)
        number, snapshot = TxnNumber(APP, self.number), self.delta.snapshot()
        done = commit_change(
            self.delta,
            snapshot,
            adds,
            deletes,
            number,
            f"note {self.number}",
            snapshot.version if replace_all else None,
            identity_key,
        )
        assert done == TableCommit(before + 1, missing)
        if replace_all:
            self.bag.clear()
        for *row, copies in leaves or ():
            self.bag[key(row)] -= min(int(str(copies)), self.bag[key(row)])
        self.bag.update(map(key, comes))
        assert self.stored() == +self.bag
        assert change_since(self.delta, before) == changed(old, self.bag)
        assert landed(self.delta, APP, self.number, 0) == before + 1
        (commit,) = commits(self.delta, before, before + 1)
        assert commit.user_metadata == f"note {self.number}"
        return commit

    def stored(self) -> Bag:
        """By plain Delta."""
        return Counter(map(key, self.session.read.format("delta").load(self.delta.path).collect()))

    def feed(self, version: int) -> Bag:
        """What Delta's own reader of the feed says about one commit."""
        reader = self.session.read.format("delta").option("readChangeFeed", "true")
        rows = reader.option("startingVersion", version).option("endingVersion", version).load(self.delta.path)
        return Counter(
            (row[COPIES], *key([row[name] for name in StructType.fromDDL(self.schema).names]))
            for row in rows.withColumnRenamed("_change_type", COPIES).collect()
        )


def key(row: Sequence[object]) -> Row:
    """The row such that −0.0 is not 0.0, and NaN is NaN."""
    return tuple(repr(plain(value)) for value in row)


def plain(value: object) -> object:
    match value:
        case dict():
            return {each: plain(value[each]) for each in sorted(value)}
        case tuple() | list():
            return [plain(each) for each in value]
        case bytearray():
            return bytes(value)
        case _:
            return value


def change_since(table: DeltaTable, version: int) -> Bag:
    change: Bag = Counter()
    for *row, weight in read_change(table, summarize_change(table, version, table.snapshot())).collect():
        change[key(row)] += weight
    return Counter({row: count for row, count in change.items() if count})


def changed(old: Bag, new: Bag) -> Bag:
    return Counter({row: new[row] - old[row] for row in old | new if new[row] != old[row]})


ROWS: tuple[Row, ...] = ((1, "x", 1), (1, "x", 1), (1, "x", 1), (2, "y", 2), (None, None, None), (None, None, None))


@pytest.mark.parametrize("feed", [{}, FEED], ids=["no-feed", "feed"])
@pytest.mark.parametrize("vectors", [PLAIN, VECTORS], ids=["no-vectors", "vectors"])
def test_rows_come_and_leave(
    session: SparkSession, tmp_path: Path, job_counter: Jobs, vectors: Mapping[str, str], feed: Mapping[str, str]
) -> None:
    table = Table(session, tmp_path, {**vectors, **feed, **MAPPING}, partition_by=["p"] if feed else [])
    table.append(*ROWS)
    table.append((1, "x", 1), (3, "z", 1))
    came = table.commit(comes=[(4, "new", 1), (4, "new", 1), (5, None, 3)])
    assert (came.operation, bool(came.cdc), bool(came.removes)) == ("WRITE", False, False)
    # Of four copies in two files two leave, of two NULL rows one.
    both = table.commit(comes=[(6, "six", 1)], leaves=[(1, "x", 1, 2), (None, None, None, 1)])
    assert (both.operation, bool(both.cdc)) == ("UPDATE", bool(feed))
    if feed:
        gone = [("delete", *key(row)) for row in ((1, "x", 1), (1, "x", 1), (None, None, None))]
        assert table.feed(both.version) == Counter([*gone, ("insert", *key((6, "six", 1)))])
        assert {file.num_records or 0 for file in both.cdc} <= {0, 1, 2, 3, 4}
    # From files that were touched before, and with more copies asked for than there are.
    table.commit(leaves=[(1, "x", 1, 5), (2, "y", 2, 1), (77, "not there", 1, 2)], missing=5)
    nothing = table.commit(comes=[(8, "eight", 1)], leaves=[(77, "not there", 1, 2)], missing=2)
    assert (nothing.operation, nothing.cdc, nothing.removes) == ("WRITE", (), ())
    optimize(table.delta)
    table.commit(leaves=[(4, "new", 1, 1), (None, None, None, 1)])
    replaced = table.commit(comes=[(9, "nine", 9)], replace_all=True)
    assert (replaced.operation, replaced.cdc) == ("WRITE", ())
    emptied = table.commit(replace_all=True)
    assert (emptied.operation, emptied.adds, emptied.cdc) == ("TRUNCATE", (), ())
    # Of a table without files.
    table.commit(comes=[(1, "x", 1)], leaves=[(1, "x", 1, 1)], missing=1)
    history = session.sql(f"DESCRIBE HISTORY delta.`{table.delta.path}`").collect()
    blind = {row["version"]: row["isBlindAppend"] for row in history}
    assert [blind[commit.version] for commit in (came, both, nothing, replaced, emptied)] == [
        True,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("properties", "first", "again"),
    [(PLAIN, 5, 5), (PLAIN | FEED, 5, 5), (VECTORS, 3, 4), (VECTORS | FEED, 4, 5)],
    ids=["plain", "feed", "vectors", "vectors-feed"],
)
def test_budget_of_jobs(
    session: SparkSession, tmp_path: Path, job_counter: Jobs, properties: dict[str, str], first: int, again: int
) -> None:
    table = Table(session, tmp_path, properties | MAPPING)
    table.append(*ROWS)
    table.append((7, "seven", 7))
    with job_counter() as writing:
        adds = table.write((3, "z", 1))
    jobs = []
    for number, deletes in enumerate([None, table.deletes((1, "x", 1, 1)), table.deletes((1, "x", 1, 1))]):
        snapshot = table.delta.snapshot()
        with job_counter() as count:
            written = () if number else adds
            commit_change(table.delta, snapshot, written, deletes, TxnNumber(APP, number), "{}", identity=identity_key)
        jobs.append(count.jobs)
    with job_counter() as count:
        commit_change(table.delta, table.delta.snapshot(), (), None, TxnNumber(APP, 9), "{}", replace_all=0)
    assert (writing.jobs, *jobs, count.jobs) == (1, 0, first, again, 0)


TYPES = """i INT, d DOUBLE, f FLOAT, b BINARY, dec DECIMAL(20,3), t TIMESTAMP, day DATE, m MAP<STRING, DOUBLE>,
    s STRUCT<x: DOUBLE, `y z`: INT>, l ARRAY<FLOAT>, n TIMESTAMP_NTZ, `__file` STRING, part STRING"""
NAN, AT = float("nan"), datetime.datetime(2026, 10, 25, 2, 30, 0, 123456)
ODD: Row = (
    1, 0.0, NAN, b"\x00\xff", Decimal("1.500"), AT, datetime.date(1, 1, 1), {"k": 0.0, "j": NAN}, (0.0, 1), [NAN, -0.0],
    AT, "file", "a b%/é=1",
)  # fmt: skip


@pytest.mark.parametrize("properties", [PLAIN | FEED, VECTORS], ids=["no-vectors-feed", "vectors"])
def test_values_that_are_equal_but_not_the_same(
    session: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    table = Table(session, tmp_path, properties | MAPPING, TYPES, ["part"])
    other = {1: -0.0, 2: None, 3: b"", 4: Decimal("-1.500"), 7: {"k": -0.0, "j": NAN}, 8: (-0.0, 1), 9: [NAN, 0.0]}
    other |= {0: None, 5: None, 6: datetime.date(9999, 12, 31), 10: None, 11: None, 12: None}
    variants = [tuple(value if at == place else old for at, old in enumerate(ODD)) for place, value in other.items()]
    nothing = (None,) * len(ODD)
    table.append(ODD, nothing, *variants)
    table.append(*variants, ODD)
    # One by one, so that each of them is what tells the row from the others.
    table.commit(leaves=[(*variants[0], 1), (*variants[4], 2), (*nothing, 1)])
    table.commit(comes=[ODD, nothing], leaves=[(*row, 2) for row in variants], missing=3)
    table.commit(leaves=[(*ODD, 3), (*nothing, 1)])
    assert not table.stored()


LARGE = (
    "monus.store.listing.MOST_FILES",
    "monus.store.leaving_rows.BROADCAST_BYTES",
    "monus.store.table_change.FEW_ROWS",
)


@pytest.mark.parametrize("properties", [PLAIN | FEED, VECTORS | FEED], ids=["no-vectors", "vectors"])
def test_large_tables_and_changes(session: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    """Where files are not listed, nothing is broadcast, and Spark makes its plans as it goes."""
    table = Table(session, tmp_path, properties)
    table.append(*ROWS)
    table.append((1, "x", 1), (3, "z", 1))
    with ExitStack() as stack:
        stack.enter_context(session_settings(session, {"spark.sql.adaptive.enabled": "true"}))
        for limit in LARGE:
            stack.enter_context(patch(limit, 0))
        table.commit(comes=[(6, "six", 1)], leaves=[(1, "x", 1, 2), (None, None, None, 1), (2, "y", 2, 1)])
        table.commit(leaves=[(1, "x", 1, 3), (6, "six", 1, 1)], missing=1)
        table.commit(comes=[(7, "seven", 1)], replace_all=True)


def test_files_that_do_not_tell_their_number_of_rows(session: SparkSession, tmp_path: Path) -> None:
    """They cannot have a deletion vector."""
    table = Table(session, tmp_path, VECTORS)
    with session_settings(session, {"spark.databricks.delta.stats.collect": "false"}):
        table.append(*ROWS)
    table.append((1, "x", 1), (3, "z", 1))
    rewritten = table.commit(comes=[(6, "six", 1)], leaves=[(2, "y", 2, 1)])
    marked = table.commit(leaves=[(3, "z", 1, 1)])
    assert [any(file.dv for file in commit.adds) for commit in (rewritten, marked)] == [False, True]


def test_the_table_is_scanned_once_and_only_where_rows_may_be(session: SparkSession, tmp_path: Path) -> None:
    table = Table(session, tmp_path, VECTORS | MAPPING, "a BIGINT, k INT, `b c` STRING, p DATE", ["p"])
    days = [datetime.date(2026, 1, day) for day in range(1, 6)]
    for day in days:
        table.append(*((day.day * 1000 + i, i % 3, str(i), day) for i in range(20)))

    def plan(*rows: Row) -> str:
        leaving = look_at(table.delta, table.delta.snapshot(), table.deletes(*rows), identity_key)
        text = str(leaving.places()._jdf.queryExecution().executedPlan().toString())
        assert text.count("FileScan parquet") == text.count("BroadcastHashJoin") == 1
        return re.sub(r"#\d+L?", "", text)

    told = plan((1001, 1, "1", days[0], 1), (2001, 1, "1", days[1], 1))
    assert "BroadcastHashJoin [v0]" in told  # spans more values than there are rows
    assert "PartitionFilters: [isnotnull(p), (p >= 2026-01-01), (p <= 2026-01-02)]" in told
    assert "GreaterThanOrEqual(a,1001), LessThanOrEqual(a,2001)" in told
    hashed = plan((None, 1, "1", days[0], 1), (2001, 1, "1", days[1], 1))
    assert "BroadcastHashJoin [xxhash64(" in hashed
    unbounded = plan((None, None, None, None, 1))
    assert "PartitionFilters: [isnull(p)]" in unbounded


@pytest.mark.parametrize("properties", [PLAIN, VECTORS | FEED], ids=["no-vectors", "vectors-feed"])
def test_a_number_is_used_once(
    session: SparkSession, tmp_path: Path, job_counter: Jobs, properties: dict[str, str]
) -> None:
    table = Table(session, tmp_path, properties)
    table.append(*ROWS)
    table.commit(comes=[(5, "five", 5)])
    adds, snapshot = table.write((5, "five", 5)), table.delta.snapshot()
    with job_counter() as count:
        for deletes, replace_all in ((None, False), (table.deletes((1, "x", 1, 1)), False), (None, True)):
            number = TxnNumber(APP, table.number)
            done = commit_change(table.delta, snapshot, adds, deletes, number, "{}", replace_all, identity_key)
            assert done == TableCommit(None)
    assert count.jobs == 0
    assert table.stored() == table.bag
    assert table.delta.version() == snapshot.version
    rival = DeltaTable(session, table.delta.path)
    append(rival, table.frame(*ROWS).where("false"), TxnNumber(APP, 7))
    with pytest.raises(LeaseLost):
        commit_change(table.delta, snapshot, adds, None, TxnNumber(APP, 7))
    assert table.stored() == table.bag


def test_constraints_are_checked_when_rows_are_written(
    session: SparkSession, tmp_path: Path, job_counter: Jobs
) -> None:
    table = Table(session, tmp_path, {})
    table.delta = DeltaTable(session, str(tmp_path / "checked"))
    path = f"delta.`{table.delta.path}`"
    session.sql(
        f"CREATE TABLE {path} (a INT NOT NULL, `b c` STRING, p INT GENERATED ALWAYS AS (a + 1)) USING delta "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.enableChangeDataFeed = true)"
    )
    session.sql(f"ALTER TABLE {path} ADD CONSTRAINT few CHECK (a < 100)")
    table.append((1, "x", 2), (1, "x", 2))
    before = table.delta.version()
    for row, message in (
        ((None, "null", None), "NOT NULL|not null|few"),  # NULL is not below 100 either
        ((100, "many", 101), "few|CHECK"),
        ((1, "computed wrongly", 3), "[Gg]enerated"),
    ):
        with pytest.raises(Exception, match=message):
            table.write(row)
    wrong = session.sql("SELECT CAST(1 AS BIGINT) AS a, 'b' AS `b c`, 2 AS p")
    with pytest.raises(SourceSchemaChanged, match="bigint"):
        write_files(table.delta, table.delta.snapshot(), wrong)
    with pytest.raises(SourceSchemaChanged):
        write_files(table.delta, table.delta.snapshot(), table.frame((1, "x", 2)).select("b c", "a", "p"))
    assert table.delta.version() == before
    assert table.stored() == table.bag
    both = table.commit(comes=[(7, "seven", 8)], leaves=[(1, "x", 2, 1)])
    assert both.cdc


def test_written_files_are_read_and_removed(session: SparkSession, tmp_path: Path) -> None:
    table = Table(session, tmp_path, VECTORS | MAPPING, partition_by=["p"])
    table.append(*ROWS)
    snapshot = table.delta.snapshot()
    rows: list[Row] = [(5, "five", 5), (5, "five", 5), (6, None, None)]
    adds, others = table.write(*rows), table.write((7, "seven", 7))
    files = {path.name for path in Path(table.delta.path).rglob("*.parquet")}
    assert len(adds) == 2
    assert Counter(map(key, read_written(table.delta, snapshot, adds).collect())) == Counter(map(key, rows))
    assert read_written(table.delta, snapshot, ()).collect() == []
    assert write_files(table.delta, snapshot, table.frame(*rows).where("false")) == ()
    assert table.stored() == table.bag
    commit_change(table.delta, snapshot, adds, None, TxnNumber(APP, 1))
    table.bag.update(map(key, rows))
    # Also of a version that is not the head any more.
    overwrite(table.delta, table.frame(*rows))
    remove_written(table.delta, [*adds, *others])
    remove_written(table.delta, ())
    gone = files - {path.name for path in Path(table.delta.path).rglob("*.parquet")}
    assert len(gone) == len(others) == 1
    remove_written(table.delta, others)  # nothing is left to remove
    earlier = DeltaTable(session, table.delta.path).read_version(snapshot.version + 1)
    assert Counter(map(key, earlier.collect())) == table.bag


@pytest.mark.parametrize("properties", [PLAIN | FEED, VECTORS], ids=["no-vectors-feed", "vectors"])
def test_who_comes_in_between(session: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    table = Table(session, tmp_path, properties, partition_by=["p"])
    table.append(*ROWS)
    path, snapshot = f"delta.`{table.delta.path}`", table.delta.snapshot()
    adds, deletes = table.write((5, "five", 5)), table.deletes((1, "x", 1, 1))

    def commit(version: int, deletes: DataFrame | None = None, replace_all: bool = False) -> TableCommit:
        number, since = TxnNumber(APP, version), snapshot.version if replace_all else None
        return commit_change(table.delta, snapshot, adds, deletes, number, None, since, identity_key)

    table.append((9, "of a stranger", 1))
    assert commit(1) == TableCommit(snapshot.version + 2)
    table.bag[key((5, "five", 5))] += 1
    with pytest.raises(ViewBusy):
        commit(2, replace_all=True)
    snapshot = table.delta.snapshot()
    session.sql(f"DELETE FROM {path} WHERE a = 2")  # another file
    table.bag[key((2, "y", 2))] = 0
    adds = table.write((6, "six", 6))
    assert commit(3, deletes).missing == 0
    table.bag.update([key((6, "six", 6))])
    table.bag[key((1, "x", 1))] -= 1
    assert table.stored() == +table.bag
    snapshot, adds = table.delta.snapshot(), table.write((7, "seven", 7))
    session.sql(f"DELETE FROM {path} WHERE `b c` = 'x'")  # the same file
    table.bag[key((1, "x", 1))] = 0
    with pytest.raises(ViewBusy):
        commit(4, deletes)
    assert table.stored() == +table.bag
    snapshot = table.delta.snapshot()
    assert commit(4, deletes).missing == 1
    snapshot, adds = table.delta.snapshot(), ()
    session.sql(f"ALTER TABLE {path} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    with pytest.raises(ViewBusy):
        commit(5)


def test_an_append_is_in_the_way_of_rows_that_leave_a_table_without_partitions(
    session: SparkSession, tmp_path: Path
) -> None:
    table = Table(session, tmp_path, VECTORS)
    table.append(*ROWS)
    snapshot = table.delta.snapshot()
    table.append((9, "of a stranger", 1))
    deletes = table.deletes((1, "x", 1, 1))
    with pytest.raises(ViewBusy):
        commit_change(table.delta, snapshot, (), deletes, TxnNumber(APP, 1), identity=identity_key)
    assert table.stored() == table.bag
    done = commit_change(table.delta, table.delta.snapshot(), (), deletes, TxnNumber(APP, 1), identity=identity_key)
    assert done == TableCommit(3)


def test_the_table_changed_after_rows_were_written(session: SparkSession, tmp_path: Path) -> None:
    table = Table(session, tmp_path, PLAIN)
    table.append(*ROWS)
    path, adds = f"delta.`{table.delta.path}`", table.write((5, "five", 5), (500, "many", 5))
    session.sql(f"ALTER TABLE {path} ALTER COLUMN a COMMENT 'harmless'")
    session.sql(f"ALTER TABLE {path} ADD CONSTRAINT few CHECK (a < 100 OR a IS NULL)")
    with pytest.raises(Exception, match="few"):
        commit_change(table.delta, table.delta.snapshot(), adds, None, TxnNumber(APP, 1))
    session.sql(f"ALTER TABLE {path} DROP CONSTRAINT few")
    assert commit_change(table.delta, table.delta.snapshot(), adds, None, TxnNumber(APP, 1)).version == 5
    adds = table.write((6, "six", 6))
    session.sql(f"ALTER TABLE {path} ADD COLUMN more INT")
    assert commit_change(table.delta, table.delta.snapshot(), adds, None, TxnNumber(APP, 2)).version == 7
    assert table.session.read.format("delta").load(table.delta.path).where("a >= 5").count() == 3
    adds = write_files(
        table.delta, table.delta.snapshot(), session.sql("SELECT 7 AS a, 'b' AS `b c`, 1 AS p, 1 AS more")
    )
    overwrite(table.delta, session.sql("SELECT 'text' AS a"), replace_schema=True)
    with pytest.raises(SourceSchemaChanged):
        commit_change(table.delta, table.delta.snapshot(), adds, None, TxnNumber(APP, 3))
    assert [row[0] for row in table.session.read.format("delta").load(table.delta.path).collect()] == ["text"]
