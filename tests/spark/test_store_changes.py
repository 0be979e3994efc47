"""The change between two versions: `old + change = new` as bags, for every kind of commit and of table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from monus.errors import SourceHistoryLost, SourceSchemaChanged
from monus.store.apply import append, overwrite
from monus.store.changes import ChangeSummary, enable_change_feed, has_change_feed, read_change, summarize_change
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.session import jobs_started, maintenance_session
from monus.store.upkeep import optimize, vacuum
from tests.spark.conftest import JobCount

Bag = Counter[tuple[object, ...]]
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPING = {"delta.columnMapping.mode": "name"}


class History:
    """A table whose every version is remembered as a bag, so that any range can be checked."""

    def __init__(self, spark: SparkSession, path: Path, properties: Mapping[str, str], partition_by: list[str]) -> None:
        self.table = DeltaTable(spark, str(path))
        self.table.create(StructType.fromDDL("a INT, b STRING, p INT"), partition_by, properties=properties)
        self.states: dict[int, Bag] = {}
        rows = spark.range(12).selectExpr("CAST(id % 7 AS INT) a", "CONCAT('s', id % 3) b", "CAST(id % 2 AS INT) p")
        append(self.table, rows.coalesce(1))
        self.remember()

    def remember(self) -> int:
        snapshot = self.table.snapshot()
        self.states[snapshot.version] = Counter(map(tuple, self.table.read(snapshot).collect()))
        return snapshot.version

    def sql(self, statement: str) -> int:
        self.table.spark.sql(statement.format(t=f"delta.`{self.table.path}`"))
        return self.remember()

    def check(self, start: int, to: Snapshot | None = None, padding: int = 0) -> ChangeSummary:
        """`padding` is the number of columns that were added within the range."""
        to = to or self.table.snapshot()
        before = jobs_started(self.table.spark)
        summary = summarize_change(self.table, start, to)
        assert jobs_started(self.table.spark) == before
        change = signed(read_change(self.table, summary))
        old = Counter({(*row, *[None] * padding): count for row, count in self.states[start].items()})
        assert plus(old, change) == self.states[to.version], (summary.kind, start, to.version)
        if summary.num_records is not None:
            assert summary.num_records >= sum(map(abs, change.values()))
        return summary


def signed(frame: DataFrame) -> Bag:
    bag: Bag = Counter()
    for *row, weight in frame.collect():
        bag[tuple(row)] += weight
    return bag


def plus(old: Bag, change: Bag) -> Bag:
    total = Counter(old)
    total.update(change)
    return Counter({row: count for row, count in total.items() if count})


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return maintenance_session(spark, {})


@pytest.mark.parametrize(
    ("properties", "partition_by"),
    [({}, ["p"]), (VECTORS, []), (FEED, []), (FEED | VECTORS | MAPPING, ["p"])],
    ids=["plain", "vectors", "feed", "feed-vectors-mapping"],
)
def test_every_kind_of_commit(
    session: SparkSession, tmp_path: Path, properties: dict[str, str], partition_by: list[str]
) -> None:
    history = History(session, tmp_path / "t", properties, partition_by)
    has_feed = properties.items() >= FEED.items()
    start = history.remember()
    inserted = history.sql("INSERT INTO {t} VALUES (100, NULL, 1), (100, NULL, 1), (NULL, 'q', NULL)")
    summary = history.check(start)
    assert (summary.kind, summary.insert_only, summary.num_records) == ("files", True, 3)
    deleted = history.sql("DELETE FROM {t} WHERE a = 3")
    summary = history.check(inserted)
    assert (summary.kind, summary.insert_only) == ("feed" if has_feed else "files", False)
    updated = history.sql("UPDATE {t} SET b = 'new' WHERE a = 4")
    optimize(history.table)
    compacted = history.remember()
    summary = history.check(updated)
    assert (summary.kind, summary.bytes) == ("none", 0)
    merged = history.sql(
        "MERGE INTO {t} t USING (SELECT 1 a, 'm' b, 9 p UNION ALL SELECT 77, 'm', 9) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    history.check(compacted)
    history.check(deleted)
    if len(properties) == 3:  # RESTORE is slow
        history.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {inserted}")
        history.check(merged)
        history.check(start)
        history.check(inserted)
    before = history.remember()
    snapshot = history.table.snapshot()
    overwritten = history.sql("INSERT OVERWRITE {t} SELECT a, b, p FROM {t} WHERE a < 3")
    history.check(before)
    history.check(merged, to=snapshot)
    if properties.items() >= MAPPING.items():
        history.sql("ALTER TABLE {t} RENAME COLUMN b TO renamed")
        history.sql("UPDATE {t} SET renamed = 'r' WHERE a = 2")
        assert history.check(overwritten).kind == "files"
    emptied = history.sql("DELETE FROM {t}" if partition_by else "TRUNCATE TABLE {t}")
    history.check(emptied - 1)


def test_a_column_that_was_added_in_the_range(session: SparkSession, tmp_path: Path) -> None:
    history = History(session, tmp_path / "t", FEED, [])
    start = history.sql("UPDATE {t} SET b = 'x' WHERE a = 1")
    history.sql("ALTER TABLE {t} ADD COLUMN c INT")
    history.sql("UPDATE {t} SET c = 5 WHERE a = 1")
    snapshot = history.table.snapshot()
    summary = history.check(start, padding=1)
    assert summary.kind == "feed"
    assert [change.id for change in summary.schema_changes] == [snapshot.table_id]
    # The feed's reader shows the columns of the head; the change has those of its own end.
    history.sql("ALTER TABLE {t} ADD COLUMN d INT")
    assert read_change(history.table, history.check(start, to=snapshot, padding=1)).columns == [
        "a",
        "b",
        "p",
        "c",
        "__w",
    ]


def test_the_feed_must_have_been_on_all_the_time(session: SparkSession, tmp_path: Path) -> None:
    history = History(session, tmp_path / "t", {}, [])
    start = history.sql("UPDATE {t} SET b = 'x' WHERE a = 1")
    assert not has_change_feed(history.table.snapshot())
    enable_change_feed(history.table)
    switched = history.remember()
    assert has_change_feed(history.table.snapshot())
    history.sql("UPDATE {t} SET b = 'y' WHERE a = 1")
    assert history.check(switched).kind == "feed"
    assert history.check(start).kind == "feed"  # the feed was off at the start, but on when data changed
    assert history.check(start - 1).kind == "files"


def test_nothing_to_read_runs_no_job(
    session: SparkSession, tmp_path: Path, job_counter: Callable[[], AbstractContextManager[JobCount]]
) -> None:
    history = History(session, tmp_path / "t", {}, [])
    with job_counter() as count:
        summary = summarize_change(history.table, 1, history.table.snapshot())
        assert summary.kind == "none"
        assert read_change(history.table, summary).collect() == []
    assert count.jobs == 0


def test_vacuumed_files_are_a_typed_error(session: SparkSession, tmp_path: Path) -> None:
    history = History(session, tmp_path / "t", FEED, [])
    start = history.remember()
    history.sql("UPDATE {t} SET b = 'x' WHERE a = 1")
    vacuum(history.table, start, min_retention_hours=0)
    history.remember()
    history.check(start)
    vacuum(history.table, history.table.version(), min_retention_hours=0)
    with pytest.raises(SourceHistoryLost, match="vacuumed"):
        summarize_change(history.table, start, history.table.snapshot())


def test_a_column_that_changed_its_type_is_a_typed_error(session: SparkSession, tmp_path: Path) -> None:
    history = History(session, tmp_path / "t", {}, [])
    start = history.remember()
    overwrite(history.table, session.sql("SELECT 'text' AS a, 'b' AS b, 1 AS p"), replace_schema=True)
    with pytest.raises(SourceSchemaChanged, match="a in"):
        summarize_change(history.table, start, history.table.snapshot())
