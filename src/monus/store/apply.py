"""The ways to apply a change to a table, each of them one Delta commit.

A number (`txnAppId`, `txnVersion`) makes a commit happen at most once: Delta skips a number that was used before
without a word, and fails the commit that is in flight while the number is used. Every function returns the version
that its commit made, or None where Delta made no commit: a used number, or nothing to do. Delta keeps that version
in the session, so two commits at a time need two sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from monus.errors import LeaseLost, ViewBusy
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.faults import storage_faults
from monus.store.jvm import java, java_causes, java_session, quoted

DELETE_FLAG = "__delete"
KILL_FLAG = "__kill"
_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True, slots=True)
class TxnNumber:
    """The number of a commit; `app_id` is fixed for a table."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class MatchedDelete:
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class MatchedUpdate:
    """Column → expression over `source` and `target`."""

    values: Mapping[str, str]
    condition: str | None = None


@dataclass(frozen=True, slots=True)
class NotMatchedInsert:
    """Column → expression over `source`."""

    values: Mapping[str, str]
    condition: str | None = None


Clause = MatchedDelete | MatchedUpdate | NotMatchedInsert


def append(
    table: DeltaTable, df: DataFrame, number: TxnNumber | None = None, metadata: str | None = None
) -> int | None:
    """Add the rows. Without a number this is the cheapest commit that there is."""
    return _write(table, df, "append", number, metadata, {})


def overwrite(
    table: DeltaTable,
    df: DataFrame,
    number: TxnNumber | None = None,
    metadata: str | None = None,
    based_on: Snapshot | None = None,
    replace_schema: bool = False,
) -> int | None:
    """Replace all rows. `df` may read the table itself, pinned at the snapshot `based_on`.

    Delta does not count a pinned read among the reads of the commit, so it would overwrite what was committed
    after that snapshot. This is checked here before the write; a commit between the check and the write shows
    afterwards as a foreign commit.
    """
    if based_on is not None and (head := table.version()) != based_on.version:
        raise LeaseLost(
            f"{table.path} is at version {head} now; the rows to be written were derived from {based_on.version}.",
            "Nothing was written; refresh again.",
            table=table.path,
        )
    # The session may ask for dynamic partition overwrite, which would leave old rows in place.
    options = {"partitionOverwriteMode": "static"}
    if replace_schema:
        options["overwriteSchema"] = "true"
    return _write(table, df, "overwrite", number, metadata, options)


def merge(
    table: DeltaTable,
    source: DataFrame,
    condition: str | Column,
    clauses: Sequence[Clause],
    number: TxnNumber | None = None,
    metadata: str | None = None,
) -> int | None:
    """MERGE; conditions and values speak of `target` and `source`."""
    on = F.expr(condition) if isinstance(condition, str) else condition
    target = java(table.spark).io.delta.tables.DeltaTable.forPath(java_session(table.spark), table.path)
    builder = target.alias("target").merge(source.alias("source")._jdf, _jc(on))
    for clause in clauses:
        builder = _add_clause(table, builder, clause)
    with numbered_commit(table, table.spark, number, metadata) as outcome:
        builder.execute()
    return outcome.version


def merge_keyed(
    table: DeltaTable,
    actions: DataFrame,
    keys: Sequence[str],
    number: TxnNumber | None = None,
    metadata: str | None = None,
    restrict: str | None = None,
) -> int | None:
    """Bring rows to a new value by key: `actions` has the table's columns and `__delete`, one row for each key.

    `restrict` is a condition over `target` alone that all rows with these keys satisfy: it prunes files.
    """
    values = {name: f"source.{quoted(name)}" for name in actions.columns if name != DELETE_FLAG}
    matches = [f"target.{quoted(key)} <=> source.{quoted(key)}" for key in keys]
    is_delete = f"source.{DELETE_FLAG}"
    clauses = (
        MatchedDelete(is_delete),
        MatchedUpdate(values),
        NotMatchedInsert(values, f"NOT {is_delete}"),
    )
    return merge(table, actions, _all_of(matches, restrict), clauses, number, metadata)


def merge_bag(
    table: DeltaTable,
    kills: DataFrame,
    inserts: DataFrame,
    identity: Sequence[tuple[str, str]],
    number: TxnNumber | None = None,
    metadata: str | None = None,
    restrict: str | None = None,
) -> int | None:
    """Delete all copies of the rows in `kills`, which has each of them once, and add the rows of `inserts`.

    Both have the table's columns. `identity` are pairs of an expression over `target` and one over `source`; rows
    are the same where all pairs are, NULL being the same as NULL. Rows to insert never match.
    """
    columns = [F.col(quoted(name)) for name in inserts.columns]
    source = kills.select(*columns, F.lit(True).alias(KILL_FLAG)).unionAll(
        inserts.select(*columns, F.lit(False).alias(KILL_FLAG))
    )
    matches = [f"source.{KILL_FLAG}", *(f"{ours} <=> {theirs}" for ours, theirs in identity)]
    values = {name: f"source.{quoted(name)}" for name in inserts.columns}
    clauses = (MatchedDelete(), NotMatchedInsert(values, f"NOT source.{KILL_FLAG}"))
    return merge(table, source, _all_of(matches, restrict), clauses, number, metadata)


@dataclass(slots=True)
class Outcome:
    """The version that a commit made, known when it is done."""

    version: int | None = None


def _write(
    table: DeltaTable,
    df: DataFrame,
    mode: str,
    number: TxnNumber | None,
    metadata: str | None,
    options: Mapping[str, str],
) -> int | None:
    writer = df.write.format("delta").mode(mode)
    for key, value in options.items():
        writer = writer.option(key, value)
    if number is not None:
        writer = writer.option("txnAppId", number.app_id).option("txnVersion", number.version)
    if metadata is not None:
        writer = writer.option("userMetadata", metadata)
    with numbered_commit(table, df.sparkSession) as outcome:
        writer.save(table.path)
    return outcome.version


@contextmanager
def numbered_commit(
    table: DeltaTable, session: SparkSession, number: TxnNumber | None = None, metadata: str | None = None
) -> Iterator[Outcome]:
    """Run one commit, learn its version, and give conflicts and faults of the disk their type.

    Commands that have no writer options take number and metadata from the session's settings.
    """
    outcome = Outcome()
    session.conf.unset(_LAST_COMMIT)
    with session_settings(session, _number_settings(number, metadata)), storage_faults(table.path):
        try:
            yield outcome
        except Exception as error:
            _raise_conflict(table, error)
            raise
    if outcome.version is None:
        version = session.conf.get(_LAST_COMMIT, None)
        outcome.version = None if version is None else int(version)


@contextmanager
def last_commit(session: SparkSession) -> Iterator[Outcome]:
    """The version of the last commit that a statement of Spark made in the block; None if it made none."""
    outcome = Outcome()
    session.conf.unset(_LAST_COMMIT)
    yield outcome
    version = session.conf.get(_LAST_COMMIT, None)
    outcome.version = None if version is None else int(version)


@contextmanager
def session_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these for a block, and set back what was there before."""
    before = {key: session.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)


def _raise_conflict(table: DeltaTable, error: Exception) -> None:
    """Delta's exceptions for writers that are in each other's way, as ours."""
    for name, message in java_causes(error):
        kind = name.rsplit(".", 1)[-1]
        if kind == "ConcurrentTransactionException":
            raise LeaseLost(
                f"Another owner used the same number on {table.path} while this commit was under way.",
                "Nothing of this commit was written; the work is taken up again from the start.",
                table=table.path,
            ) from error
        is_delta = name.startswith(("io.delta.exceptions.", "org.apache.spark.sql.delta."))
        if is_delta and kind.startswith(("Concurrent", "MetadataChanged", "ProtocolChanged")):
            raise ViewBusy(
                f"Another writer changed {table.path} while this commit was under way ({kind}): {message}",
                "Nothing of this commit was written; try again.",
                table=table.path,
                conflict=kind,
            ) from error


def _number_settings(number: TxnNumber | None, metadata: str | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    if number is not None:
        settings |= {_TXN_APP: number.app_id, _TXN_VERSION: str(number.version)}
    if metadata is not None:
        settings[_USER_METADATA] = metadata
    return settings


def _add_clause(table: DeltaTable, builder: Any, clause: Clause) -> Any:
    conditions = [] if clause.condition is None else [_jc(F.expr(clause.condition))]
    match clause:
        case MatchedDelete():
            return builder.whenMatched(*conditions).delete()
        case MatchedUpdate(values):
            return builder.whenMatched(*conditions).update(_assignments(table, values))
        case NotMatchedInsert(values):
            return builder.whenNotMatched(*conditions).insert(_assignments(table, values))
        case _:
            assert_never(clause)


def _assignments(table: DeltaTable, values: Mapping[str, str]) -> Any:
    assignments = java(table.spark).java.util.LinkedHashMap()
    for name, expression in values.items():
        assignments.put(quoted(name), _jc(F.expr(expression)))
    return assignments


def _all_of(matches: Sequence[str], restrict: str | None) -> str:
    # Without keys, as for a global aggregate, the one row of the source belongs to the one of the target.
    return " AND ".join([f"({restrict})", *matches] if restrict else matches) or "true"


def _jc(column: Column) -> Any:
    return column._jc
