"""Queries over another state than the present one (Colby et al., sections 2.2 to 2.5, Lemmas 1 and 3).

An *update* says R := (R ∸ D) ⊎ A. A *transaction* T holds one per table that is still to happen
(D = ∇R, A = ΔR); a *log* L holds one per table that has happened (▼R was deleted, ▲R was inserted), so
that undoing it deletes ▲R and inserts ▼R. As substitutions, with `hat` for T̂ and L̂:

    FUTURE(T, Q) = T̂(Q) = Q(…, (Rᵢ ∸ ∇Rᵢ) ⊎ ΔRᵢ, …), to be evaluated before T
    PAST(L, Q)   = L̂(Q) = Q(…, (Rᵢ ∸ ▲Rᵢ) ⊎ ▼Rᵢ, …), to be evaluated after L

An update is *weakly minimal* for R when D ⊆ R, and *strongly minimal* when also D min A = φ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from monus.algebra.derived import minimum, monus, union_all, with_names
from monus.algebra.relations import Relation, Table, names_of, transform_up
from monus.errors import AlgebraInvalid


@dataclass(frozen=True, slots=True)
class Update:
    """(∇, Δ) of one table or query: what leaves it, then what enters it."""

    deleted: Relation
    inserted: Relation

    def __post_init__(self) -> None:
        if len(names_of(self.deleted)) != len(names_of(self.inserted)):
            raise AlgebraInvalid("The deleted and the inserted rows of an update differ in their number of columns.")


@dataclass(frozen=True, slots=True)
class Transaction:
    """T: the updates (∇R, ΔR) that are to be made, by table."""

    updates: Mapping[str, Update]


@dataclass(frozen=True, slots=True)
class Log:
    """L: the updates (▼R, ▲R) that have been made, by table."""

    updates: Mapping[str, Update]


# η in factored form: R ↦ (R ∸ deleted) ⊎ inserted.
Substitution: TypeAlias = Mapping[str, Update]


def hat(source: Transaction | Log) -> Substitution:
    """T̂ or L̂."""
    match source:
        case Transaction(updates):
            return updates
        case Log(updates):
            return {name: Update(update.inserted, update.deleted) for name, update in updates.items()}
        case _:
            assert_never(source)


def apply(update: Update, relation: Relation) -> Relation:
    """(relation ∸ D) ⊎ A, under the names of the relation."""
    return with_names(union_all(monus(relation, update.deleted), update.inserted), names_of(relation))


def substitute(eta: Substitution, query: Relation) -> Relation:
    """η(Q): every table replaced by its factored form, all at once."""

    def replace_table(node: Relation) -> Relation:
        return apply(eta[node.name], node) if isinstance(node, Table) and node.name in eta else node

    return transform_up(query, replace_table)


def future(transaction: Transaction, query: Relation) -> Relation:
    """FUTURE(T, Q): in the state before T, what Q will be after it."""
    return substitute(hat(transaction), query)


def past(log: Log, query: Relation) -> Relation:
    """PAST(L, Q): in the state after L, what Q was before it."""
    return substitute(hat(log), query)


def cancel(old: Relation, update: Update) -> Update:
    """Lemma 1: if N ≡ (O ∸ D) ⊎ I then O ≡ (N ∸ I) ⊎ (O min D); the update that leads from N back to O."""
    return Update(update.inserted, minimum(old, update.deleted))


def compose(first: Update, second: Update) -> Update:
    """Lemma 3: one update for two in sequence.

    Given D₁ ⊆ O and D₂ ⊆ (O ∸ D₁) ⊎ I₁: D₃ = D₁ ⊎ (D₂ ∸ I₁) and I₃ = (I₁ ∸ D₂) ⊎ I₂, and again D₃ ⊆ O.
    """
    return Update(
        union_all(first.deleted, monus(second.deleted, first.inserted)),
        union_all(monus(first.inserted, second.deleted), second.inserted),
    )


def extend(log: Log, transaction: Transaction) -> Log:
    """The log after one more transaction: what makesafe_BL does to it (Figure 3)."""
    updates = dict(log.updates)
    for name, update in transaction.updates.items():
        updates[name] = compose(updates[name], update) if name in updates else update
    return Log(updates)


def transaction_on(tables: Iterable[Table]) -> Transaction:
    """The transaction whose bags are tables called ∇R and ΔR."""
    return Transaction({t.name: Update(Table(f"∇{t.name}", t.schema), Table(f"Δ{t.name}", t.schema)) for t in tables})


def log_of(tables: Iterable[Table]) -> Log:
    """The log whose bags are tables called ▼R and ▲R."""
    return Log({t.name: Update(Table(f"▼{t.name}", t.schema), Table(f"▲{t.name}", t.schema)) for t in tables})
