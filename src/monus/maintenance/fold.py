"""The ways to bring a change into a view's table, and which one is taken.

Nothing; append (no retractions); rewrite (small tables, large changes); merge: rows that leave are marked
in deletion vectors. Where the table takes none, rewrite is cheaper than Delta's MERGE up to some
millions of rows, and a MERGE goes by key, or for bags deletes all copies of a retracted row and
inserts the survivors again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from monus.algebra.scalars import Column as AlgebraColumn
from monus.compiler.frames import Frame, all_of, exported, renamed
from monus.compiler.identity import identity_key
from monus.compiler.materialize import Materializer
from monus.compiler.multiplicity import consolidated, expanded
from monus.errors import ViewUnusable
from monus.frontend.jvm import local_limit, quoted
from monus.maintenance.derive import ViewChange
from monus.maintenance.layout import WEIGHT
from monus.maintenance.sources import BYTES_PER_ROW
from monus.store.apply import DELETE_FLAG, TxnNumber, merge_bag, merge_keyed
from monus.store.delta_table import DeltaTable, Snapshot
from monus.store.replace_rows import (
    FILE,
    ROW,
    RowsMissing,
    add,
    can_retract,
    read_with_positions,
    replace_all,
    retract,
)

Way = Literal["none", "append", "rewrite", "merge"]

REWRITE_BYTES = 256 * 1024 * 1024
REWRITE_FRACTION, REWRITE_PLACED_FRACTION = 0.25, 0.75
RETRACT_BYTES = 4 * 1024 * 1024  # a smaller table is written anew as fast as its rows are found
ONE_FILE_ROWS = 100_000
LEAST_HELD, MOST_HELD = 1_000, 50_000
LIKELY_PER_ROW = 1.0  # how many rows may look like each that leaves
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
BROADCAST_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A view's table: its columns, and the key columns of a grouped view (None for a bag)."""

    name: str
    table: DeltaTable
    snapshot: Snapshot
    columns: tuple[AlgebraColumn, ...]
    keys: tuple[str, ...] | None


def choose_way(change: ViewChange, view_bytes: int, view_rows: float, can_retract: bool = False) -> Way:
    """By the size of the view and of the change, and whether its table takes deletion vectors."""
    if change.is_empty:
        return "none"
    if change.deleted == 0:
        return "append"
    fraction = REWRITE_FRACTION if change.places is None else REWRITE_PLACED_FRACTION
    if change.deleted + change.inserted > fraction * view_rows:
        return "rewrite"
    return "rewrite" if view_bytes <= (RETRACT_BYTES if can_retract else REWRITE_BYTES) else "merge"


def fold(
    way: Way, target: Target, change: ViewChange, materializer: Materializer, number: TxnNumber, metadata: str
) -> int | None:
    """One commit; the version that it made."""
    if way == "append":
        rows = in_few_files(copies_of(target, change.data), change)
        return add(target.table, target.snapshot, rows, number, metadata)
    if way == "merge" and can_retract(target.table, target.snapshot):
        return _retract(target, change, materializer, number, metadata)
    if target.keys is None:
        return _fold_bag(way, target, change, materializer, number, metadata)
    if way == "merge":
        return merge_keyed(target.table, _actions(target, change.data), target.keys, number, metadata)
    gone = change.data.where(F.col(WEIGHT) < 0)
    new = change.data.where(F.col(WEIGHT) > 0).drop(WEIGHT)
    kept = _without(target, target.table.read_listed(target.snapshot), gone, [(k, "plain") for k in target.keys])
    return _rewrite(target, kept, new, number, metadata)


def _rewrite(target: Target, kept: DataFrame, new: DataFrame, number: TxnNumber, metadata: str) -> int | None:
    rows = kept.unionByName(new).select(*_columns(target))
    if target.snapshot.size_in_bytes <= RETRACT_BYTES:
        rows = rows.coalesce(1)
    return replace_all(target.table, target.snapshot, rows, number, metadata)


def _retract(
    target: Target, change: ViewChange, materializer: Materializer, number: TxnNumber, metadata: str
) -> int | None:
    """Of a bag as many copies of each row as leave, of groups the row with the key."""
    gone = change.data.where(F.col(WEIGHT) < 0)
    stored = read_with_positions(target.table, target.snapshot)
    if change.places is not None:
        places = change.places
    elif target.keys is None:
        identity = [(c.name, c.type) for c in target.columns]
        match = _match(target, "stored", "gone", identity)
        copies = F.row_number().over(Window.partitionBy(*_identities("gone", identity)).orderBy(FILE, ROW))
        likely = _held_if_few(_likely(target, stored, gone, materializer), change.deleted, materializer)
        found = likely.alias("stored").join(_sent(gone).alias("gone"), match)
        places = found.select(FILE, ROW, (copies <= -F.col(WEIGHT)).alias("__leaves")).where("__leaves")
    else:
        match = _match(target, "stored", "gone", [(k, "plain") for k in target.keys])
        places = stored.alias("stored").join(_sent(gone).alias("gone"), match, "left_semi")
    inserts = None
    if change.inserted:
        inserts = in_few_files(copies_of(target, change.data.where(F.col(WEIGHT) > 0)), change)
    places = places.select(FILE, ROW)
    try:
        return retract(target.table, target.snapshot, places, change.deleted, inserts, number, metadata)
    except RowsMissing as error:
        raise _not_there(target) from error


def _likely(target: Target, stored: DataFrame, gone: DataFrame, materializer: Materializer) -> DataFrame:
    """The stored rows that one number does not tell from those in `gone`: it is found faster than all columns are."""
    column = _telling_column(target, gone, materializer)
    if column is not None:
        return stored.join(_sent(gone.select(quoted(column))), column, "left_semi")
    hashed = F.xxhash64(*(identity_key(F.col(quoted(c.name)), c.type) for c in target.columns)).alias("__hash")
    return stored.select("*", hashed).join(_sent(gone.select(hashed)), "__hash", "left_semi").drop("__hash")


def _telling_column(target: Target, gone: DataFrame, materializer: Materializer) -> str | None:
    """A column of whole numbers, none of them NULL, by which few other rows are taken for those in `gone`.

    How many is guessed from the bounds of the column, as if its values were spread evenly.
    """
    names = [c.name for c in target.columns if c.type in WHOLE_NUMBERS]
    extents = {name: extent for name in names if (extent := target.table.extent(target.snapshot, name))}
    rows = materializer.driver_values(gone.select(*map(quoted, extents))) if extents else None
    if not rows:
        return None
    stored_rows = target.snapshot.size_in_bytes / BYTES_PER_ROW
    guesses: dict[str, float] = {}
    for i, (name, (least, most)) in enumerate(extents.items()):
        values = {row[i] for row in rows}
        if None not in values:
            guesses[name] = stored_rows * len(values) / (most - least + 1)
    best = min(guesses, key=guesses.__getitem__, default=None)
    return best if best is not None and guesses[best] <= LIKELY_PER_ROW * len(rows) else None


def _held_if_few(rows: DataFrame, expected: int, materializer: Materializer) -> DataFrame:
    """Rows held by the driver, so that their copies are counted in one place and without a shuffle.

    A view of many equal rows has far more of them than leave: what every task gives is bounded, and nothing is held
    if there were more.
    """
    most = max(LEAST_HELD, 4 * expected)
    if most > MOST_HELD:
        return rows
    frame = Frame(local_limit(rows, most), {name: name for name in rows.columns}, (), total=float(expected))
    held, count = materializer.hold(frame, "the rows that leave")
    return held.data.coalesce(1) if count < most else rows


def in_few_files(rows: DataFrame, change: ViewChange) -> DataFrame:
    """Rows of the change; few of them in one file, because each costs a task now and at every read."""
    return rows.coalesce(1) if change.inserted + change.deleted <= ONE_FILE_ROWS else rows


def _not_there(target: Target) -> ViewUnusable:
    return ViewUnusable(
        f"A row that is to leave the view '{target.name}' is not in its table: somebody else changed it.",
        f"Compute it anew: REFRESH MATERIALIZED VIEW {target.name} FULL.",
        view=target.name,
    )


def _fold_bag(
    way: Way, target: Target, change: ViewChange, materializer: Materializer, number: TxnNumber, metadata: str
) -> int | None:
    """Survivors: the copies of retracted rows that stay."""
    gone = change.data.where(F.col(WEIGHT) < 0)
    stored = target.table.read_listed(target.snapshot)
    identity = [(c.name, c.type) for c in target.columns]
    matching = _with(target, stored, gone, identity).withColumn(WEIGHT, F.lit(1).cast("bigint"))
    names = {c.name: c.name for c in target.columns}
    both = matching.unionByName(gone)
    frame = consolidated(_frame(both, target.columns, names))
    # Bounded by the copies of the retracted rows, which the plan's own estimate does not see.
    frame = replace(frame, total=float(change.deleted), fraction=1.0)
    held, _ = materializer.hold(frame, "the surviving copies of retracted rows")
    survivors = exported(held)
    if materializer.count(survivors.where(F.col(WEIGHT) < 0)) > 0:
        raise _not_there(target)
    new = copies_of(target, change.data.where(F.col(WEIGHT) > 0)).unionByName(copies_of(target, survivors))
    if way == "rewrite":
        kept = _without(target, stored, gone, identity)
        return _rewrite(target, kept, new, number, metadata)
    pairs = [(_identity_sql("target", n, t), _identity_sql("source", n, t)) for n, t in identity]
    return merge_bag(target.table, gone.drop(WEIGHT), new, pairs, number, metadata)


def stored_and_pending(
    target: Target, stored: DataFrame, pending: DataFrame | None, materializer: Materializer
) -> DataFrame:
    """The view together with its pending change: only the affected rows are merged."""
    if pending is None:
        return stored
    names = {c.name: c.name for c in target.columns}
    frame, _ = materializer.hold(consolidated(_frame(pending, target.columns, names)), "the pending change")
    change = exported(frame)
    on = [(c.name, c.type) for c in target.columns] if target.keys is None else [(k, "plain") for k in target.keys]
    kept = _without(target, stored, change, on)
    touched = _with(target, stored, change, on).withColumn(WEIGHT, F.lit(1).cast("bigint"))
    merged = expanded(_frame(touched.unionByName(change), target.columns, names))
    return kept.unionByName(exported(merged))


def signed(data: DataFrame, weight: int) -> DataFrame:
    return data.withColumn(WEIGHT, F.lit(weight).cast("bigint"))


def consolidated_change(data: DataFrame, columns: Sequence[AlgebraColumn], materializer: Materializer) -> ViewChange:
    """A signed DataFrame as a change of known size."""
    names = {c.name: c.name for c in columns}
    frame, _ = materializer.hold(consolidated(_frame(data, tuple(columns), names)), "the change of the view")
    rows = exported(frame)
    return ViewChange(rows, *materializer.signed_totals(rows.select(WEIGHT)))


def _frame(data: DataFrame, columns: tuple[AlgebraColumn, ...], names: dict[str, str]) -> Frame:
    """The frame of a signed DataFrame, under names that need no quoting."""
    plain = {c.name: f"v{i}" for i, c in enumerate(columns)}
    pairs = [(names[c.name], plain[c.name]) for c in columns]
    rows = max(1.0, planned_bytes(data) / BYTES_PER_ROW)
    return Frame(renamed(data, [*pairs, (WEIGHT, "v_w")]), plain, columns, "v_w", rows, 1.0)


def _sent(change: DataFrame) -> DataFrame:
    """Sent to every task if it is small: Spark sees to the rest itself."""
    return F.broadcast(change) if planned_bytes(change) <= BROADCAST_BYTES else change


def planned_bytes(data: DataFrame) -> float:
    """What Spark expects the DataFrame to hold: an upper bound for scans, unions and local rows."""
    # Py4J gives an int where it knows how to, and else the JVM's object.
    return float(str(data._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def copies_of(target: Target, data: DataFrame) -> DataFrame:
    """A row as often as its weight says, in the table's order of columns."""
    columns = [F.col(quoted(c.name)) for c in target.columns]
    if target.keys is not None:
        return data.select(*columns)
    repeated = F.explode(F.array_repeat(F.lit(True), F.col(WEIGHT).cast("int"))).alias("__copy")
    return data.select(*columns, repeated).select(*columns)


def _actions(target: Target, change: DataFrame) -> DataFrame:
    """One row per group: its new values, or its old ones with the mark that it goes."""
    row = F.struct(*(F.col(quoted(c.name)) for c in target.columns))
    keys = [F.col(quoted(k)) for k in target.keys or ()]
    best = F.max_by(row, F.col(WEIGHT)).alias("row")
    grouped = change.groupBy(*keys).agg(best, (F.max(F.col(WEIGHT)) < 0).alias(DELETE_FLAG))
    return grouped.select("row.*", F.col(DELETE_FLAG))


def _match(target: Target, left: str, right: str, on: list[tuple[str, str]]) -> Column:
    return all_of(
        [a.eqNullSafe(b) for a, b in zip(_identities(left, on), _identities(right, on), strict=True)],
    )


def _identities(side: str, on: list[tuple[str, str]]) -> list[Column]:
    return [identity_key(F.col(f"{side}.{quoted(name)}"), type_name) for name, type_name in on]


def _without(target: Target, stored: DataFrame, change: DataFrame, on: list[tuple[str, str]]) -> DataFrame:
    if not on:  # a global aggregate has one row, which the change replaces
        return stored.where("false")
    match = _match(target, "stored", "gone", on)
    return stored.alias("stored").join(_sent(change).alias("gone"), match, "left_anti").select(*_columns(target))


def _with(target: Target, stored: DataFrame, change: DataFrame, on: list[tuple[str, str]]) -> DataFrame:
    if not on:
        return stored.select(*_columns(target))
    match = _match(target, "stored", "gone", on)
    return stored.alias("stored").join(_sent(change).alias("gone"), match, "left_semi").select(*_columns(target))


def _columns(target: Target) -> list[Column]:
    return [F.col(quoted(c.name)) for c in target.columns]


def _identity_sql(side: str, name: str, type_name: str) -> str:
    column = f"{side}.{quoted(name)}"
    return str(identity_sql(column, type_name))


def identity_sql(column: str, type_name: str) -> str:
    """`identity_key` as SQL text, for a MERGE condition."""
    lowered = type_name.lower()
    if lowered in ("float", "double"):
        return f"CAST({column} AS STRING)"
    if lowered.startswith("string collate"):
        return f"CAST({column} AS BINARY)"
    if lowered.startswith("map<"):
        return f"to_json(struct(sort_array(map_entries({column})) AS m), map('ignoreNullFields', 'false'))"
    if any(word in lowered for word in ("float", "double", "map<", "collate", "variant")):
        return f"to_json(struct({column} AS v), map('ignoreNullFields', 'false'))"
    return column
