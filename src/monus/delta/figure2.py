"""DEL and ADD: the weakly minimal differential functions (Colby et al., Figure 2 and Theorem 2).

For any query Q and any weakly minimal factored substitution η:

    (a) η(Q) ≡ (Q ∸ DEL(η, Q)) ⊎ ADD(η, Q)
    (b) DEL(η, Q) ⊆ Q

With η = T̂ they are the view's change in the state before a transaction, ∇(T, Q) and Δ(T, Q). With
η = L̂ they lead from the present back to the past, and by cancellation (Lemma 1, where (b) makes the
`min` superfluous) forward again: ▼(L, Q) = ADD(L̂, Q) and ▲(L, Q) = DEL(L̂, Q), in the state after it.
"""

from __future__ import annotations

from typing import assert_never

from monus.algebra.derived import (
    definition,
    distinct,
    empty_like,
    minimum,
    monus,
    product,
    project,
    select,
    union_all,
    with_names,
)
from monus.algebra.relations import (
    Affected,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Intersect,
    Join,
    Max,
    Min,
    Monus,
    Negate,
    Product,
    Project,
    Recount,
    Relation,
    Restrict,
    Rows,
    Select,
    Shared,
    Table,
    UnionAll,
    names_of,
)
from monus.delta.states import Log, Substitution, Transaction, Update, hat
from monus.errors import AlgebraInvalid


def DEL(eta: Substitution, query: Relation) -> Relation:  # noqa: N802 (the paper's name)
    """What η takes out of the query."""
    return differential(eta, query).deleted


def ADD(eta: Substitution, query: Relation) -> Relation:  # noqa: N802 (the paper's name)
    """What η puts into the query."""
    return differential(eta, query).inserted


def pre_update(transaction: Transaction, query: Relation) -> Update:
    """(∇(T, Q), Δ(T, Q)), to be evaluated in the state before the transaction."""
    return differential(hat(transaction), query)


def post_update(log: Log, query: Relation) -> Update:
    """(▼(L, Q), ▲(L, Q)), to be evaluated in the state that the log leads to."""
    backward = differential(hat(log), query)
    return Update(deleted=backward.inserted, inserted=backward.deleted)


def differential(eta: Substitution, query: Relation) -> Update:
    """(DEL(η, Q), ADD(η, Q)), where φ is simplified away."""
    return _Figure2(eta).of(query)


class _Figure2:
    """One derivation; a part of the query that occurs in several places is derived once."""

    def __init__(self, eta: Substitution) -> None:
        self._eta = eta
        # The query is kept beside its result: the identity of an object is only its own while it lives.
        self._known: dict[int, tuple[Relation, Update]] = {}

    def of(self, query: Relation) -> Update:
        known = self._known.get(id(query))
        if known is None:
            known = (query, self._derive(query))
            self._known[id(query)] = known
        return known[1]

    def _derive(self, query: Relation) -> Update:
        match query:
            case Empty() | Rows():
                return Update(empty_like(query), empty_like(query))
            case Table(name):
                if name not in self._eta:
                    return Update(empty_like(query), empty_like(query))
                names = names_of(query)
                return Update(with_names(self._eta[name].deleted, names), with_names(self._eta[name].inserted, names))
            case Select(predicate, e):
                de = self.of(e)
                return Update(select(predicate, de.deleted), select(predicate, de.inserted))
            case Project(outputs, e):
                de = self.of(e)
                return Update(project(outputs, de.deleted), project(outputs, de.inserted))
            case Distinct(e):
                de = self.of(e)
                kept = monus(e, de.deleted)
                return Update(monus(distinct(de.deleted), kept), monus(distinct(de.inserted), kept))
            case UnionAll(e, f):
                de, df = self.of(e), self.of(f)
                return Update(union_all(de.deleted, df.deleted), union_all(de.inserted, df.inserted))
            case Monus(e, f):
                return _monus_rule(e, f, self.of(e), self.of(f))
            case Product(e, f):
                return _product_rule(e, f, self.of(e), self.of(f))
            case Min() | Max() | Except() | Intersect() | Join():
                return self.of(definition(query))
            case Shared(e):
                return self.of(e)
            case Change() | Aggregate() | Negate() | Restrict() | Affected() | Recount():
                raise AlgebraInvalid(
                    f"Figure 2 has no rule for {type(query).__name__}.",
                    "Use the signed form, which covers aggregates.",
                )
            case _:
                assert_never(query)


def _monus_rule(e: Relation, f: Relation, de: Update, df: Update) -> Update:
    shrink = union_all(de.deleted, df.inserted)
    grow = union_all(de.inserted, df.deleted)
    return Update(
        deleted=minimum(shrink, monus(e, f)),
        inserted=monus(monus(grow, monus(f, e)), monus(shrink, monus(e, f))),
    )


def _product_rule(e: Relation, f: Relation, de: Update, df: Update) -> Update:
    kept_e, kept_f = monus(e, de.deleted), monus(f, df.deleted)

    def terms(of_e: Relation, of_f: Relation) -> Relation:
        return union_all(union_all(product(of_e, of_f), product(of_e, kept_f)), product(kept_e, of_f))

    return Update(deleted=terms(de.deleted, df.deleted), inserted=terms(de.inserted, df.inserted))
