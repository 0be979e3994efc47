"""The change of a join from the view itself: where a row of one input is updated or deleted, its partners are known.

`delta/stored_partners.py` is the law. Here is when it may be used, found out from the change and from one count of
the rows behind it, and when it pays: the view and the changed input are smaller than the inputs that are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from monus.algebra.relations import Relation, Shared, Table, schema_of, tables_of
from monus.algebra.scalars import Column
from monus.compiler.frames import Frame, exported, fresh
from monus.compiler.multiplicity import expanded
from monus.compiler.relations import Compiler, Leaf
from monus.delta.stored_partners import StoredPartners, stored_partners
from monus.frontend.jvm import local_limit
from monus.rewrite.push_restriction import push_restriction
from monus.store.replace_rows import FILE, ROW

VIEW = "__view"
# Types whose equality is identity, also on the driver.
KEY_TYPES = ("tinyint", "smallint", "int", "bigint", "string")
MOST_ROWS = 50_000
PAYS = 1.0  # how large the view may be beside the inputs that are not read


@dataclass(frozen=True, slots=True)
class FromView:
    """The signed rows, which are consolidated up to duplicates; what leaves, with the places where it is found."""

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
    if not _pays(compiler, partners, view_rows):
        return None
    delta = Shared(partners.changed(changed))
    frame = compiler.compile(delta)
    if frame.known_empty or not 0 < frame.rows <= MOST_ROWS:
        return None
    keys = _keys(frame, len(partners.keys))
    if keys is None:
        return None
    alone = keys.count + keys.balance  # so many rows are behind the keys now, if each had one
    if _count(compiler, partners.behind(delta), alone) != alone:
        return None
    view = stored()
    places = [name for name in (FILE, ROW) if name in view.data.columns]
    columns = schema_of(query) + tuple(Column(name, "string") for name in places)
    table = compiler.table
    compiler = replace(compiler, table=lambda name: view if name == VIEW else table(name))
    leaving = Shared(partners.stored(Table(VIEW, columns), delta))
    gone = compiler.compile(leaving)
    deleted = compiler.materializer.count(gone.data)
    inserted = None if keys.per_key is None else keys.per_key * deleted
    change = replace(compiler.compile(partners.change(leaving, delta)), total=2.0 * deleted, fraction=1.0)
    return FromView(change, inserted, deleted, exported(gone).select(*places) if places else None)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Of the keys in a change: how many, the sum of all weights, and how many rows come for each, if equally many."""

    count: int
    balance: int
    per_key: int | None


def _keys(frame: Frame, width: int) -> _Keys | None:
    """None if a row comes where none leaves: nothing in the view tells the partners of a new key."""
    names = list(frame.columns.values())[:width]
    weights: dict[tuple[object, ...], list[int]] = {}
    for *key, weight in frame.data.select(*names, frame.weight_column().alias(fresh())).collect():
        weights.setdefault(tuple(key), []).append(weight)
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


def _pays(compiler: Compiler, partners: StoredPartners, view_rows: float) -> bool:
    read, spared = view_rows, 0.0
    for name in tables_of(partners.rows):
        read += compiler.table(name).rows
    for other in partners.others:
        spared += sum(compiler.table(name).rows for name in tables_of(other))
    return read <= PAYS * spared


def _key_columns(partners: StoredPartners) -> list[Column]:
    names = {key for key, _ in partners.keys}
    return [column for column in schema_of(partners.rows) if column.name in names]
