"""A lost catalog, rebuilt from the tables: what each commit of a view carries, and the folders.

The last fold of a view says at which vector its rows are, so a refresh goes on from there. What was propagated
but not folded is computed again. Batches that views over it have not read yet are found again where their rows
still are. Lost for good are the history of refreshes, attached tables that no view reads, what ALTER said after the
last fold, and what a transaction still had to do whose process died in the middle of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from monus.catalog.catalog import Catalog
from monus.catalog.records import BatchRecord, SourceRecord, TableRecord, Unusable, ViewRecord, key_of
from monus.catalog.restoration import FoundView
from monus.errors import SourceHistoryLost
from monus.maintenance.commit_metadata import CarriedSource, CommitMetadata
from monus.maintenance.creation import REPLACING
from monus.maintenance.layout import BATCH, pending_path
from monus.maintenance.plans import normal_path
from monus.maintenance.protocol import app_id, written_by_other
from monus.maintenance.schedule import first_ticks
from monus.maintenance.vectors import ViewState, from_json
from monus.sql.policy import parse_policy
from monus.store.delta_table import DeltaTable
from monus.store.log import Commit, commits

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was put back into the catalog, and what was left as a folder, with the reason."""

    tables: tuple[str, ...]
    views: tuple[str, ...]
    left: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"tables: {', '.join(self.tables) or 'none'}", f"views: {', '.join(self.views) or 'none'}"]
        return "\n".join(lines + [f"left as it is: {name}. {why}" for name, why in self.left.items()])


@dataclass(frozen=True, slots=True)
class Fold:
    """A commit of a view that folded something, and the version that it made."""

    version: int
    at: datetime
    carried: CommitMetadata


@dataclass(frozen=True, slots=True)
class Survey:
    """What the log of a view's table tells."""

    table: DeltaTable
    table_id: str
    last: Fold
    last_number: int
    stranger: Commit | None


def has_tables(root: Path) -> bool:
    """Whether the folder holds tables or views of a warehouse."""
    return any(True for kind in ("tables", "views") for _ in _folders(root, kind))


def rebuild(spark: SparkSession, root: Path, catalog: Catalog) -> Rebuilt:
    """Add what the folder has and the catalog does not know; what it knows stays as it is."""
    left: dict[str, str] = {}
    known = {key_of(table.name) for table in catalog.tables()} | {key_of(view.name) for view in catalog.views()}
    surveys = _surveys(spark, root, catalog, known, left)
    tables = _tables(spark, root, known | set(surveys), surveys, left)
    restorable = _with_their_sources(surveys, known | {key_of(table.name) for table in tables}, left)
    views = [_found(spark, survey, restorable) for survey in restorable.values()]
    catalog.restore(tables, views)
    for name, why in left.items():
        logger.warning("%s is not in the catalog: %s", name, why)
    return Rebuilt(tuple(table.name for table in tables), tuple(view.record.name for view in views), left)


def _folders(root: Path, kind: str) -> Iterator[Path]:
    if (root / kind).is_dir():
        yield from (f for f in sorted((root / kind).iterdir()) if (f / "_delta_log").is_dir())


def _surveys(
    spark: SparkSession, root: Path, catalog: Catalog, known: set[str], left: dict[str, str]
) -> dict[str, Survey]:
    found: dict[str, Survey] = {}
    locations = {view.location for view in catalog.views()}
    for folder in _folders(root, "views"):
        name = unquote(folder.name)
        table = DeltaTable(spark, normal_path(spark, f"file:{folder}"))
        if table.path in locations:
            continue
        survey = _survey(table)
        if survey is None:
            left[name] = "No commit that is left in its log says how the view is defined. Create it again."
            continue
        key = key_of(survey.last.carried.view)
        other = found.get(key)
        if key in known:
            left[name] = f"It is what became of an earlier view {survey.last.carried.view}."
        elif other is None or other.last.at < survey.last.at:
            found[key] = survey
        if other is not None:
            older = min(other, survey, key=lambda found: found.last.at)
            left[older.table.path] = f"A newer view {other.last.carried.view} took its place."
    return found


def _survey(table: DeltaTable) -> Survey | None:
    """The newest commit that carries a view; later ones without are fences, OPTIMIZE, or strangers'.

    Strangers before it spoil it, unless it computed all rows anew and removed what they had added.
    """
    snapshot = table.snapshot()
    ours = app_id(snapshot.table_id)
    last: Fold | None = None
    last_number = 0
    removed: set[object] = set()
    stranger: Commit | None = None
    for commit in _backwards(table):
        last_number = max(last_number, commit.txns.get(ours, 0))
        fold = _fold(commit, ours)
        if last is not None:
            if fold is not None:
                break
            stays = any(file.key not in removed for file in commit.adds)
            if commit.is_data_change and (stays or not last.carried.is_full):
                stranger = commit
        last = last or fold
        if last is not None:
            removed |= {file.key for file in commit.removes}
    return None if last is None else Survey(table, snapshot.table_id, last, last_number, stranger)


def _backwards(table: DeltaTable) -> Iterator[Commit]:
    """The commits from the head on, as far back as the log reaches."""
    for version in range(table.version(), -1, -1):
        try:
            yield from commits(table, version - 1, version)
        except SourceHistoryLost:
            return


def _fold(commit: Commit, ours: str) -> Fold | None:
    carried = CommitMetadata.from_json(commit.user_metadata)
    if carried is None or commit.txns.get(ours) != carried.number:
        return None
    if carried.view.startswith(REPLACING):  # it was made beside the view whose place it took
        carried = replace(carried, view=carried.view.removeprefix(REPLACING), hidden=False)
    at = datetime.fromtimestamp((commit.timestamp or 0) / 1000, UTC)
    return Fold(commit.version, at, carried)


def _tables(
    spark: SparkSession, root: Path, taken: set[str], surveys: Mapping[str, Survey], left: dict[str, str]
) -> list[TableRecord]:
    """Those in the folder, and those elsewhere that a view reads."""
    carried: dict[str, tuple[CarriedSource, Any]] = {}
    for survey in surveys.values():
        for source in survey.last.carried.sources:
            if source.kind == "table":
                carried[key_of(source.name)] = source, survey.last.carried.vector.get(source.name)
    found: dict[str, TableRecord] = {}
    for folder in _folders(root, "tables"):
        name = unquote(folder.name)
        if key_of(name) in taken:
            continue
        location = normal_path(spark, f"file:{folder}")
        spelling = carried[key_of(name)][0].name if key_of(name) in carried else name
        table_id = DeltaTable(spark, location).snapshot().table_id
        found[key_of(name)] = TableRecord(spelling, location, None, table_id, True, datetime.now(UTC))
    for key, (source, state) in carried.items():
        if key in found or key in taken or source.location is None or state is None:
            continue
        if not DeltaTable(spark, source.location).exists():
            left[source.name] = f"There is no Delta table at {source.location} now. Attach it again."
            continue
        found[key] = TableRecord(
            source.name, source.location, source.identifier, state["id"], source.managed, datetime.now(UTC)
        )
    return list(found.values())


def _with_their_sources(surveys: Mapping[str, Survey], tables: set[str], left: dict[str, str]) -> dict[str, Survey]:
    """The views all of whose sources are there."""
    remaining = dict(surveys)
    while True:
        there = tables | set(remaining)
        missing = {
            key: source.name
            for key, survey in remaining.items()
            for source in survey.last.carried.sources
            if key_of(source.name) not in there
        }
        if not missing:
            return remaining
        for key, source in missing.items():
            name = remaining.pop(key).last.carried.view
            left[name] = f"It reads {source}, which is not there. Create it again when it is."


def _found(spark: SparkSession, survey: Survey, all_views: Mapping[str, Survey]) -> FoundView:
    carried = survey.last.carried
    next_refresh, next_propagate = first_ticks(parse_policy(carried.policy), datetime.now(UTC))
    record = ViewRecord(
        name=carried.view,
        definition=carried.definition,
        policy=carried.policy,
        mode=carried.mode,
        location=survey.table.path,
        created_at=carried.created_at,
        columns=carried.columns,
        comment=carried.comment,
        hidden=carried.hidden,
        table_id=survey.table_id,
        unusable_reason=None
        if survey.stranger is None
        else Unusable("FOREIGN_COMMIT", written_by_other(survey.stranger)),
        batch=carried.number,
        version=survey.last.version,
        vector=carried.vector,
        pending_vector=carried.vector,
        pending_from=carried.number + 1,
        next_refresh=next_refresh,
        next_propagate=next_propagate,
    )
    present = _present_batches(spark, record)
    batches = _batches(survey, _oldest_read(carried.view, all_views, carried.number), present)
    sources = tuple(SourceRecord(source.name, source.kind) for source in carried.sources)
    return FoundView(record, sources, batches, max([survey.last_number, carried.number, *present]))


def _present_batches(spark: SparkSession, record: ViewRecord) -> set[int]:
    """The numbers under which rows are in the pending change, published or not."""
    pending = DeltaTable(spark, pending_path(record.location))
    if not pending.exists():
        return set()
    return {row[0] for row in pending.read(pending.snapshot()).select(F.col(BATCH)).distinct().collect()}


def _oldest_read(view: str, all_views: Mapping[str, Survey], newest: int) -> int:
    """The oldest state of the view that a view over it is at."""
    states = [
        state.batch
        for survey in all_views.values()
        for name, state in from_json(survey.last.carried.vector).items()
        if key_of(name) == key_of(view) and isinstance(state, ViewState)
    ]
    return min([newest, *states])


def _batches(survey: Survey, oldest: int, present: set[int]) -> tuple[BatchRecord, ...]:
    """The published operations down to the state that is still read; rows that were dropped cannot be read."""
    ours = app_id(survey.table_id)
    found: list[BatchRecord] = []
    for commit in _backwards(survey.table):
        fold = _fold(commit, ours)
        if fold is None:
            continue
        for batch in reversed(fold.carried.batches):
            has_rows = batch.is_log and (not batch.has_rows or batch.number in present)
            vector = fold.carried.vector
            found.append(
                BatchRecord(
                    fold.carried.view, batch.number, batch.operation, fold.version, {}, vector, has_rows, fold.at
                )
            )
        if fold.carried.number <= oldest:
            break
    return tuple(reversed(found))
