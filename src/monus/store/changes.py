"""The change of a table between two versions, as a signed bag: `old + change = new`.

Where the change data feed was on for the whole range and some commit wrote change files, the feed is the change.
Otherwise the change is the rows of the files that commits added, less the rows of the files that they removed:

    new = old + Σ added − Σ removed,  over the files whose actions change data

Compaction and the like do not change data and drop out; a file that came and went within the range cancels.
Which of the two it is, and what it will cost to read, is known from the log alone, without a Spark job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from monus.errors import SourceHistoryLost
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.faults import storage_faults
from monus.store.files import check_files, read_files
from monus.store.jvm import java_session, none, quoted, scala_object, some
from monus.store.log import Commit, FileAction, Metadata, commits
from monus.store.schema_change import check_readable, only_adds_columns

WEIGHT = "__w"
_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """What is to be read to know the change. Sizes are upper bounds: rows may still cancel."""

    kind: Literal["none", "feed", "files"]
    from_version: int
    to: Snapshot
    bytes: int
    insert_only: bool
    num_records: int | None
    schema_changes: tuple[Metadata, ...]
    added: tuple[FileAction, ...] = ()
    removed: tuple[FileAction, ...] = ()
    feed_versions: tuple[int, int] | None = None

    @property
    def to_version(self) -> int:
        return self.to.version


def has_change_feed(snapshot: Snapshot) -> bool:
    return _feed_is_on(snapshot.metadata)


def enable_change_feed(table: DeltaTable) -> None:
    """Switch the feed on for the commits to come; only with the user's consent, because it is a commit."""
    with storage_faults(table.path):
        table.spark.sql(f"ALTER TABLE delta.`{table.path.replace('`', '``')}` SET TBLPROPERTIES ({_FEED} = true)")


def summarize_change(table: DeltaTable, from_version: int, to_snapshot: Snapshot) -> ChangeSummary:
    """What changed after `from_version`, up to `to_snapshot`."""
    history = commits(table, from_version, to_snapshot.version)
    metadata = tuple(commit.metadata for commit in history if commit.metadata is not None)
    changing = [commit for commit in history if commit.is_data_change]
    if not changing:
        return ChangeSummary("none", from_version, to_snapshot, 0, True, 0, metadata)
    # The metadata at `from_version` is in the log before the range: it is fetched only when the range changes it.
    schemas = [table.snapshot_at(from_version).metadata, *metadata] if metadata else [to_snapshot.metadata]
    files = _by_files(table, from_version, to_snapshot, history, schemas, metadata)
    ways = [files]
    if _feed_knows_more(changing) and _feed_is_usable(history, changing, schemas, to_snapshot):
        # What came and went within the range (an UPDATE that was restored) is in the feed, but not in the files.
        feed = _by_feed(from_version, to_snapshot, changing, metadata)
        ways = [files, feed] if files.bytes < feed.bytes else [feed, files]
    lost: SourceHistoryLost | None = None
    for way in ways:
        try:
            _check_history(table, way, history)
            return way
        except SourceHistoryLost as error:
            lost = lost or error
    assert lost is not None
    raise lost


def read_change(table: DeltaTable, summary: ChangeSummary) -> DataFrame:
    """The columns of the table at the end of the range, and the weight; not consolidated."""
    columns: list[Column] = [F.col(quoted(field.name)) for field in summary.to.schema.fields]
    match summary.kind:
        case "none":
            return _empty_change(table, summary.to, columns)
        case "feed":
            assert summary.feed_versions is not None
            feed = _feed(table, summary.feed_versions, summary.to)
            is_new = F.col("_change_type").isin("insert", "update_postimage")
            return feed.select(*columns, F.when(is_new, 1).otherwise(-1).cast("bigint").alias(WEIGHT))
        case "files":
            parts = [
                read_files(table, summary.to.jvm, files).select(*columns, F.lit(sign).cast("bigint").alias(WEIGHT))
                for sign, side in ((1, summary.added), (-1, summary.removed))
                for files in _layers(side)
            ]
            return reduce(DataFrame.unionAll, parts)


def _feed(table: DeltaTable, versions: tuple[int, int], to: Snapshot) -> DataFrame:
    """The change data feed as the scans that it consists of.

    The option `readChangeFeed` gives the same rows, but as a relation that reads all columns of all rows into objects
    and is planned a second time inside of Spark's planning.
    """
    nothing = none(table.spark)
    reader = scala_object(table.spark, "org.apache.spark.sql.delta.commands.cdc.CDCReader")
    frame = reader.changesToBatchDF(
        table.delta_log(), *versions, java_session(table.spark), nothing, some(table.spark, to.jvm), False, nothing
    )
    return DataFrame(frame, table.spark)


def _empty_change(table: DeltaTable, to: Snapshot, columns: Sequence[Column]) -> DataFrame:
    # A filter that is never true, and not a limit, lets Spark replace the scan by nothing.
    return table.read(to).where(F.lit(False)).select(*columns, F.lit(1).cast("bigint").alias(WEIGHT))


def _feed_knows_more(changing: Iterable[Commit]) -> bool:
    """Where no row was changed within a file, the feed is the files that were added and removed, at a higher price."""
    return any(commit.cdc or {f.path for f in commit.adds} & {f.path for f in commit.removes} for commit in changing)


def _check_history(table: DeltaTable, way: ChangeSummary, history: Sequence[Commit]) -> None:
    """Raise SourceHistoryLost if something that this way has to read may be gone and is."""
    needed: list[FileAction]
    if way.kind == "feed":
        needed = [file for commit in history if commit.is_data_change for file in (commit.cdc or commit.removes)]
    else:
        # An added file that was compacted away since may be gone just as a removed one.
        gone = {file.key: file for commit in history for file in commit.removes}
        needed = [gone[file.key] for file in (*way.removed, *way.added) if file.key in gone]
        if way.to.metadata.partition_columns and any(file.partition_values is None for file in way.removed):
            raise SourceHistoryLost(
                f"The log of {table.path} does not say to which partition the files removed after version "
                f"{way.from_version} belonged; the engine that wrote it leaves that out.",
                "Refresh the view in full, or switch the change data feed of the table on.",
                table=table.path,
                versions=(way.from_version, way.to_version),
            )
    check_files(table, needed, (way.from_version, way.to_version))


def _by_feed(
    from_version: int, to: Snapshot, changing: Sequence[Commit], metadata: tuple[Metadata, ...]
) -> ChangeSummary:
    # The feed takes a commit's change files if it has any, and else the files that it added and removed.
    read = [
        file
        for commit in changing
        for file in (commit.cdc or [f for f in (*commit.adds, *commit.removes) if f.data_change])
    ]
    return ChangeSummary(
        "feed",
        from_version,
        to,
        bytes=sum(file.size or 0 for file in read),
        insert_only=False,
        num_records=_total_records(read),
        schema_changes=metadata,
        feed_versions=(changing[0].version, changing[-1].version),
    )


def _by_files(
    table: DeltaTable,
    from_version: int,
    to: Snapshot,
    history: Sequence[Commit],
    schemas: Sequence[Metadata],
    metadata: tuple[Metadata, ...],
) -> ChangeSummary:
    for older in schemas:
        check_readable(table, older, to.metadata)
    added, removed = _net_files(history)
    return ChangeSummary(
        "files" if added or removed else "none",
        from_version,
        to,
        bytes=sum(file.size or 0 for file in (*added, *removed)),
        insert_only=not removed,
        num_records=_total_records((*added, *removed)),
        schema_changes=metadata,
        added=added,
        removed=removed,
    )


def _net_files(history: Iterable[Commit]) -> tuple[tuple[FileAction, ...], tuple[FileAction, ...]]:
    """The files added and removed, as often as they were, after what came and went is cancelled."""
    net: Counter[tuple[str, str | None]] = Counter()
    known: dict[tuple[str, str | None], FileAction] = {}
    for commit in history:
        for sign, files in ((1, commit.adds), (-1, commit.removes)):
            for file in files:
                if not file.data_change:
                    continue
                net[file.key] += sign
                if sign == 1 or file.key not in known:  # an add says more than a remove
                    known[file.key] = file
    added = tuple(known[key] for key, count in net.items() for _ in range(count))
    removed = tuple(known[key] for key, count in net.items() for _ in range(-count))
    return added, removed


def _layers(files: Iterable[FileAction]) -> list[list[FileAction]]:
    """Split so that no scan has the same path twice, under two deletion vectors."""
    layers: list[dict[str, FileAction]] = []
    for file in files:
        free = next((layer for layer in layers if file.path not in layer), None)
        if free is None:
            free = {}
            layers.append(free)
        free[file.path] = file
    return [list(layer.values()) for layer in layers]


def _total_records(files: Iterable[FileAction]) -> int | None:
    total = 0
    for file in files:
        if file.num_records is None:
            return None
        total += file.num_records
    return total


def _feed_is_on(metadata: Metadata) -> bool:
    return metadata.configuration.get(_FEED, "false").lower() == "true"


def _feed_is_usable(
    history: Sequence[Commit],
    changing: Sequence[Commit],
    schemas: Sequence[Metadata],
    to: Snapshot,
) -> bool:
    """On at every commit that changed data, and no schema change that the feed's reader refuses or mixes up.

    The reader follows added columns, and refuses renamed and removed ones.
    """
    current = schemas[0]
    for commit in history:
        current = commit.metadata or current
        if changing[0].version <= commit.version <= changing[-1].version and not _feed_is_on(current):
            return False
    chain = [*schemas, to.metadata]
    return all(only_adds_columns(older, newer) for older, newer in pairwise(chain))
