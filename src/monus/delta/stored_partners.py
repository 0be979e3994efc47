"""The partners of changed rows, read from the view itself instead of from the tables that it joins.

    V = Π(L ⋈ E), only L changes, k are the columns of L that decide about partners:

    ΔV = Π(ΔL ⋈_k V_old),  given that L_old has exactly one row for each k in ΔL

With one row of L behind it, what V holds for a k is that row beside all its partners in E, as often as they are
there; so the partners need not be looked for again. The outputs must show k; every other output reads L alone, and
is computed anew, or nothing of L but k, and stays as it is. Where a row of a dimension is updated or deleted, the fact
table is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from monus.algebra.relations import (
    Affected,
    Join,
    Named,
    Product,
    Project,
    Relation,
    Restrict,
    Select,
    Table,
    names_of,
    refs_to,
    schema_of,
    tables_of,
)
from monus.algebra.scalars import (
    And,
    Compare,
    IsNull,
    Literal,
    Not,
    Opaque,
    Or,
    Ref,
    Scalar,
    Schema,
    columns_read,
    conjunction,
    conjuncts,
    substitute,
)
from monus.delta.signed import differentiate


@dataclass(frozen=True, slots=True)
class StoredPartners:
    """A view Π(L ⋈ E) as the rule needs it.

    `rows` is L with the conditions that read nothing else, `others` is E. `keys` are the columns of L that decide
    about partners, each with the output that shows it; `own` are the outputs that are computed from L alone.
    """

    outputs: tuple[str, ...]
    rows: Relation
    others: tuple[Relation, ...]
    keys: tuple[tuple[str, str], ...]
    own: tuple[Named, ...]

    def changed(self, names: frozenset[str]) -> Relation:
        """ΔL, its keys first."""
        first = [key for key, _ in self.keys]
        columns = first + [name for name in names_of(self.rows) if name not in first]
        return Project(tuple(Named(name, Ref(name)) for name in columns), differentiate(self.rows, names))

    def behind(self, changed: Relation) -> Relation:
        """The rows of L, as it is now, that have a key of ΔL."""
        return Restrict(tuple(key for key, _ in self.keys), self.rows, self._affected(changed))

    def stored(self, view: Relation, changed: Relation) -> Relation:
        """The rows of the view that have a key of ΔL."""
        return Restrict(tuple(shown for _, shown in self.keys), view, self._affected(changed))

    def change(self, view: Relation, changed: Relation) -> Relation:
        """ΔV, from the view's old rows and ΔL; what is computed is computed for rows that have partners only."""
        at = {name: f"__view{i}" for i, name in enumerate(names_of(view))}
        stored = Project(tuple(Named(new, Ref(name)) for name, new in at.items()), view)
        match = tuple(Compare("<=>", Ref(key), Ref(at[shown])) for key, shown in self.keys)
        own = {output.name: output.scalar for output in self.own}
        outputs = tuple(Named(name, own.get(name, Ref(at[name]))) for name in self.outputs)
        return Project(outputs, Join(conjunction(match), changed, stored))

    def _affected(self, changed: Relation) -> Affected:
        return Affected(refs_to(changed)[: len(self.keys)], changed)


def stored_partners(query: Relation, changed: frozenset[str]) -> StoredPartners | None:
    """The parts of a join of which one input changes: a table, perhaps selected from, all of whose columns are shown.

    So a consolidated change of the table is one of L, and no change of L leaves V as it is; both would have to be
    found out for an input that is itself a query.
    """
    outputs, conditions, leaves = _flattened(query)
    moving = [leaf for leaf in leaves if tables_of(leaf) & changed]
    names = [name for leaf in leaves for name in names_of(leaf)]
    if len(leaves) < 2 or len(moving) != 1 or not _is_selection(moving[0]) or len(set(names)) < len(names):
        return None
    columns = frozenset(names_of(moving[0]))
    # An expression may fail for a row without partners, which the query would never compute it for.
    of_rows = tuple(c for c in conditions if _reads_only(c, columns) and not any(_expressions(c)))
    crossing = tuple(c for c in conditions if c not in of_rows)
    own = tuple(Named(name, scalar) for name, scalar in outputs.items() if _reads_only(scalar, columns))
    mixed = (scalar for scalar in outputs.values() if not _reads_only(scalar, columns))
    deciding = frozenset[str]().union(*map(columns_read, (*crossing, *mixed))) & columns
    schema = tuple(column for leaf in leaves for column in schema_of(leaf))
    shown = {key: _shown(key, outputs, crossing, schema) for key in sorted(deciding)}
    keys = tuple((key, output) for key, output in shown.items() if output is not None)
    if not keys or len(keys) < len(shown) or columns - deciding - _plain(own):
        return None
    if any(_is_nested(expression) for output in own for expression in _expressions(output.scalar)):
        return None
    rows = Select(conjunction(of_rows), moving[0]) if of_rows else moving[0]
    return StoredPartners(tuple(outputs), rows, tuple(leaf for leaf in leaves if leaf is not moving[0]), keys, own)


def _is_selection(relation: Relation) -> bool:
    """Whether equal rows come from equal rows of one table: it is selected from, and columns are renamed."""
    match relation:
        case Table():
            return True
        case Select(_, child):
            return _is_selection(child)
        case Project(outputs, child):
            return _is_selection(child) and _plain(outputs) == set(names_of(child))
        case _:
            return False


def _flattened(relation: Relation) -> tuple[dict[str, Scalar], tuple[Scalar, ...], tuple[Relation, ...]]:
    """Outputs and conditions over the columns of the inputs, and the inputs, of the joins at the top."""
    match relation:
        case Join(_, left, right) | Product(left, right):
            (a, p, x), (b, q, y) = _flattened(left), _flattened(right)
            outputs = {**a, **b}
            parts = conjuncts(relation.condition) if isinstance(relation, Join) else ()
            return outputs, p + q + tuple(substitute(part, outputs) for part in parts), x + y
        case Select(_, child) | Project(_, child):
            outputs, conditions, leaves = _flattened(child)
            if len(leaves) == 1:  # not over a join: it is a part of the input
                return {name: Ref(name) for name in names_of(relation)}, (), (relation,)
            if isinstance(relation, Project):
                return {o.name: substitute(o.scalar, outputs) for o in relation.outputs}, conditions, leaves
            more = tuple(substitute(part, outputs) for part in conjuncts(relation.predicate))
            return outputs, conditions + more, leaves
        case _:
            return {name: Ref(name) for name in names_of(relation)}, (), (relation,)


def _shown(key: str, outputs: dict[str, Scalar], conditions: tuple[Scalar, ...], schema: Schema) -> str | None:
    """An output that is the column, or one of the same type that the join makes equal to it."""
    types = {column.name: column.type for column in schema}
    same = {key}
    for condition in conditions:
        if isinstance(condition, Compare) and condition.op in ("=", "<=>"):
            for a, b in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(a, Ref) and isinstance(b, Ref) and a.name == key and types[b.name] == types[key]:
                    same.add(b.name)
    return next((name for name, scalar in outputs.items() if isinstance(scalar, Ref) and scalar.name in same), None)


def _reads_only(scalar: Scalar, columns: frozenset[str]) -> bool:
    reads = columns_read(scalar)
    return bool(reads) and reads <= columns


def _plain(outputs: tuple[Named, ...]) -> frozenset[str]:
    """The columns that are outputs as they are."""
    return frozenset(output.scalar.name for output in outputs if isinstance(output.scalar, Ref))


def _expressions(scalar: Scalar) -> Iterator[Opaque]:
    """The Spark expressions that it is made of, the outer ones."""
    match scalar:
        case Opaque():
            yield scalar
        case Compare(_, left, right) | And(left, right) | Or(left, right):
            yield from _expressions(left)
            yield from _expressions(right)
        case Not(operand) | IsNull(operand):
            yield from _expressions(operand)
        case Ref() | Literal():
            return
        case _:
            assert_never(scalar)


def _is_nested(expression: Opaque) -> bool:
    """Whether it reads another expression: the compiler binds it to columns only."""
    return not all(isinstance(arg, Ref) for arg in expression.args)
