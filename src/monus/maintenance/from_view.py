"""The change of a join from the view itself: where a row of one input is updated or deleted, its partners are known.

`delta/stored_partners.py` is the law. Here is when it may be used, found out from the change and from one count of
the rows behind it, and when it pays: the view and the changed input are smaller than the inputs that are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from monus.algebra.relations import Relation, Shared, Table, schema_of, tables_of
from monus.algebra.scalars import Column, Schema
from monus.compiler.frames import Frame, exported
from monus.compiler.multiplicity import expanded
from monus.compiler.relations import Compiler, Leaf
from monus.delta.stored_partners import StoredPartners, stored_partners
from monus.frontend.jvm import local_limit
from monus.rewrite.push_restriction import push_restriction
from monus.store.replace_rows import FILE, ROW

VIEW = "__view"
# Types whose equality is identity.
KEY_TYPES = ("tinyint", "smallint", "int", "bigint", "string")
MOST_ROWS = 50_000
LEAST_HELD, HELD_PER_EXPECTED = 1_000, 4
PAYS = 1.0  # how large the view may be beside the inputs that are not read


@dataclass(frozen=True, slots=True)
class FromView:
    """The signed rows; what the view has twice is there twice, and nothing else is.

    `inserted` is None where it must be counted; `places` are those of the rows that leave, where they are known.
    """

    change: Frame
    inserted: int | None
    deleted: int
    places: DataFrame | None


def change_from_view(
    compiler: Compiler, query: Relation, changed: frozenset[str], view_rows: float, stored: Callable[[], Leaf]
) -> FromView | None:
    """None where the rule does not apply or does not pay; `stored` are the view's rows, with places if it has them."""
    partners = stored_partners(query, changed)
    if partners is None or any(column.type not in KEY_TYPES for column in _key_columns(partners)):
        return None
    rows = sum(compiler.table(name).rows for name in tables_of(partners.rows))
    spared = sum(compiler.table(name).rows for other in partners.others for name in tables_of(other))
    if rows + view_rows > PAYS * spared:
        return None
    delta = Shared(partners.changed(changed))
    frame = compiler.compile(delta)
    if not 0 < frame.rows <= MOST_ROWS:
        return None
    keys = _keys(frame, [column.type for column in _key_columns(partners)])
    if keys is None:
        return None
    alone = keys.count + keys.balance  # so many rows are behind the keys now, if each had one
    if alone < 0 or _count(compiler, partners.behind(delta), alone) != alone:
        return None
    view = stored()
    leaving = _leaving(compiler, partners, schema_of(query), delta, view, keys.count * view_rows / max(rows, 1.0))
    if leaving is None:
        return None
    deleted = compiler.materializer.count(leaving)
    inserted = None if keys.per_key is None else keys.per_key * deleted
    found = _beside(compiler, Leaf(leaving, float(deleted))).compile(
        partners.change(Table(VIEW, schema_of(query)), delta)
    )
    places = leaving.select(FILE, ROW) if FILE in view.data.columns else None
    return FromView(replace(found, total=2.0 * deleted, fraction=1.0), inserted, deleted, places)


def _leaving(
    compiler: Compiler, partners: StoredPartners, schema: Schema, delta: Relation, view: Leaf, expected: float
) -> DataFrame | None:
    """The view's rows that have a key of the change, held; None if there are far more of them than expected."""
    most = max(LEAST_HELD, HELD_PER_EXPECTED * round(expected))
    if most > HELD_PER_EXPECTED * MOST_ROWS:
        return None
    places = tuple(Column(name, "string") for name in (FILE, ROW) if name in view.data.columns)
    found = exported(_beside(compiler, view).compile(partners.stored(Table(VIEW, schema + places), delta)))
    few = Frame(local_limit(found, most), {name: name for name in found.columns}, (), None, max(expected, 1.0))
    held, count = compiler.materializer.hold(few, "the rows of the view that the change meets")
    return held.data if count < most else None


def _beside(compiler: Compiler, view: Leaf) -> Compiler:
    """The same compiler, which also knows the view."""
    table = compiler.table
    return replace(compiler, table=lambda name: view if name == VIEW else table(name))


@dataclass(frozen=True, slots=True)
class _Keys:
    """Of the keys in a change: how many, the sum of all weights, and how many rows come for each, if equally many."""

    count: int
    balance: int
    per_key: int | None


def _keys(frame: Frame, types: list[str]) -> _Keys | None:
    """None if a row comes where none leaves: nothing in the view tells the partners of a new key."""
    columns = [F.col(name) for name in list(frame.columns.values())[: len(types)]]
    # Text that is no UTF-8 would not be told apart in Python.
    keys = [c.cast("binary") if kind == "string" else c for c, kind in zip(columns, types, strict=True)]
    weights: dict[tuple[object, ...], list[int]] = {}
    for *key, weight in frame.data.select(*keys, frame.weight_column()).collect():
        weights.setdefault(tuple(bytes(v) if isinstance(v, bytearray) else v for v in key), []).append(weight)
    if any(min(found) >= 0 for found in weights.values()):
        return None
    coming = {sum(weight for weight in found if weight > 0) for found in weights.values()}
    balance = sum(sum(found) for found in weights.values())
    return _Keys(len(weights), balance, coming.pop() if len(coming) == 1 else None)


def _count(compiler: Compiler, relation: Relation, most: int) -> int:
    """How many rows there are, if they are at most so many; else more than that."""
    frame = expanded(compiler.compile(push_restriction(relation)))
    name = next(iter(frame.columns.values()))
    few = Frame(local_limit(frame.data.select(name), most + 1), {name: name}, (), None, float(most + 1))
    return compiler.materializer.hold(few, "the rows behind the changed keys")[1]


def _key_columns(partners: StoredPartners) -> list[Column]:
    types = {column.name: column for column in schema_of(partners.rows)}
    return [types[key] for key, _ in partners.keys]
