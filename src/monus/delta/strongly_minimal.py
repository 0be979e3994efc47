"""The strongly minimal differential functions ∇(t, Q) and Δ(t, Q) (Griffin and Libkin, SIGMOD 1995).

For any query Q and any strongly minimal update (∇R, ΔR) of each table, evaluated before the update:

    (a) pre(t, Q) ≡ (Q ∸ ∇(t, Q)) ⊎ Δ(t, Q)
    (b) ∇(t, Q) ⊆ Q
    (c) ∇(t, Q) min Δ(t, Q) ≡ φ

By (c) a row of a part E is in ∇E or in ΔE but not in both, which is what makes these equations short.
With E₀ = E ∸ ∇E, the part that stays:

    Q         ∇Q                                       ΔQ
    σ_p(E)    σ_p(∇E)                                  σ_p(ΔE)
    Π_A(E)    Π_A(∇E) ∸ Π_A(ΔE)                        Π_A(ΔE) ∸ Π_A(∇E)
    ε(E)      ε(∇E) ∸ E₀                               ε(ΔE) ∸ E
    E ⊎ F     (∇E ∸ ΔF) ⊎ (∇F ∸ ΔE)                    (ΔE ∸ ∇F) ⊎ (ΔF ∸ ∇E)
    E ∸ F     ((∇E ⊎ ΔF) ∸ (ΔE ⊎ ∇F)) min (E ∸ F)      ((ΔE ⊎ ∇F) ∸ (∇E ⊎ ΔF)) ∸ (F ∸ E)
    E × F     (∇E × ∇F) ⊎ ((∇E × F₀) ∸ (E₀ × ΔF))      (ΔE × ΔF) ⊎ ((ΔE × F₀) ∸ (E₀ × ∇F))
                ⊎ ((E₀ × ∇F) ∸ (ΔE × F₀))                ⊎ ((E₀ × ΔF) ∸ (∇E × F₀))

The published slides print ⊕ instead of ∸ in ΔΠ, which would insert what was deleted.
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
from monus.delta.states import Substitution, Update
from monus.errors import AlgebraInvalid


def patch_minimality(old: Relation, update: Update) -> Update:
    """The minimality patch: the strongly minimal update of `old` with the same effect as `update`.

    ∇₂ = (U min ∇U) ∸ ΔU and Δ₂ = ΔU ∸ (U min ∇U): nothing is deleted that is not there, and nothing
    is deleted that comes back.
    """
    present = minimum(old, update.deleted)
    return Update(monus(present, update.inserted), monus(update.inserted, present))


def strongly_minimal(updates: Substitution, query: Relation) -> Update:
    """(∇(t, Q), Δ(t, Q)), given strongly minimal updates of the tables."""
    return _StronglyMinimal(updates).of(query)


class _StronglyMinimal:
    """One derivation; a part of the query that occurs in several places is derived once."""

    def __init__(self, updates: Substitution) -> None:
        self._updates = updates
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
                if name not in self._updates:
                    return Update(empty_like(query), empty_like(query))
                update, names = self._updates[name], names_of(query)
                return Update(with_names(update.deleted, names), with_names(update.inserted, names))
            case Select(predicate, e):
                de = self.of(e)
                return Update(select(predicate, de.deleted), select(predicate, de.inserted))
            case Project(outputs, e):
                de = self.of(e)
                out, into = project(outputs, de.deleted), project(outputs, de.inserted)
                return Update(monus(out, into), monus(into, out))
            case Distinct(e):
                de = self.of(e)
                return Update(monus(distinct(de.deleted), monus(e, de.deleted)), monus(distinct(de.inserted), e))
            case UnionAll(e, f):
                de, df = self.of(e), self.of(f)
                return Update(
                    union_all(monus(de.deleted, df.inserted), monus(df.deleted, de.inserted)),
                    union_all(monus(de.inserted, df.deleted), monus(df.inserted, de.deleted)),
                )
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
                    f"There is no strongly minimal rule for {type(query).__name__}.",
                    "Use the signed form, which covers aggregates.",
                )
            case _:
                assert_never(query)


def _monus_rule(e: Relation, f: Relation, de: Update, df: Update) -> Update:
    shrink = union_all(de.deleted, df.inserted)
    grow = union_all(de.inserted, df.deleted)
    return Update(
        deleted=minimum(monus(shrink, grow), monus(e, f)),
        inserted=monus(monus(grow, shrink), monus(f, e)),
    )


def _product_rule(e: Relation, f: Relation, de: Update, df: Update) -> Update:
    kept_e, kept_f = monus(e, de.deleted), monus(f, df.deleted)
    out_e, into_e = product(de.deleted, kept_f), product(de.inserted, kept_f)
    out_f, into_f = product(kept_e, df.deleted), product(kept_e, df.inserted)
    return Update(
        deleted=union_all(union_all(product(de.deleted, df.deleted), monus(out_e, into_f)), monus(out_f, into_e)),
        inserted=union_all(union_all(product(de.inserted, df.inserted), monus(into_e, out_f)), monus(into_f, out_e)),
    )
