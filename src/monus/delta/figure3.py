"""The algorithms of deferred view maintenance (Colby et al., Figure 1, Figure 3, Lemma 4 and Theorem 5).

An abstract transaction {R₁ := Q₁, …} replaces the contents of every Rᵢ by the value that Qᵢ has in the state
before, all at once. Here it is a mapping from the name of a table to the query of its new value. A view has a
query Q and is stored in MV; beside it stand its pending change, (∇MV, ΔMV), and the log of the tables that Q
reads, (▼R, ▲R): tables of the algebra, all of them. What has to hold between two transactions:

    INV_IM   Q ≡ MV                                 immediate
    INV_BL   PAST(L, Q) ≡ MV                        with a log (base logs)
    INV_DT   Q ≡ (MV ∸ ∇MV) ⊎ ΔMV                   with a pending change (differential tables)
    INV_C    PAST(L, Q) ≡ (MV ∸ ∇MV) ⊎ ΔMV          with both (combined)
             ▲R ⊆ R and ∇MV ⊆ MV                    minimality, wherever there is a log or a pending change

Theorem 5: given a weakly minimal transaction T, makesafe_*[T] does to the tables what T does and keeps INV_* with
its minimality; refresh_* leads from there to Q ≡ MV, propagate_C to Q ≡ (MV ∸ ∇MV) ⊎ ΔMV, and partial_refresh_C to
PAST(L, Q) ≡ MV. Lemma 4 says that minimality is kept; for ∇MV ⊆ MV that takes INV_DT or INV_C as well, from which
Lemma 3 has its premise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from monus.algebra.derived import empty_like, minimum, monus
from monus.algebra.interpreter import Bag, State, evaluate
from monus.algebra.relations import Relation, Table, schema_of, walk
from monus.delta.figure2 import post_update, pre_update
from monus.delta.states import Log, Transaction, Update, apply, compose, extend, log_of, past
from monus.errors import AlgebraInvalid

# {R₁ := Q₁, …, Rₙ := Qₙ}; a table that is not named keeps its contents.
Assignments: TypeAlias = Mapping[str, Relation]
# One update for two in sequence.
Composition: TypeAlias = Callable[[Update, Update], Update]


@dataclass(frozen=True, slots=True)
class View:
    """A view by its query, and the names of the tables that keep it."""

    name: str
    query: Relation

    @property
    def stored(self) -> Table:
        """MV"""
        return Table(self.name, schema_of(self.query))

    @property
    def pending(self) -> Update:
        """(∇MV, ΔMV)"""
        schema = schema_of(self.query)
        return Update(Table(f"∇{self.name}", schema), Table(f"Δ{self.name}", schema))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that the query reads, each once."""
        return tuple({node.name: node for node in walk(self.query) if isinstance(node, Table)}.values())

    @property
    def log(self) -> Log:
        """L: (▼R, ▲R) of every table that the query reads."""
        return log_of(self.tables)


# -- What an abstract transaction does


def execute(transaction: Assignments, state: State) -> dict[str, Bag]:
    """T(s)"""
    return {**state, **{name: evaluate(query, state) for name, query in transaction.items()}}


def simple(transaction: Transaction) -> Assignments:
    """{Rᵢ := (Rᵢ ∸ ∇Rᵢ) ⊎ ΔRᵢ}"""
    return {name: apply(update, Table(name, schema_of(update.deleted))) for name, update in transaction.updates.items()}


def together(*transactions: Assignments) -> Assignments:
    """T₁ + T₂: at the same time, so that neither sees what the other does."""
    result: dict[str, Relation] = {}
    for transaction in transactions:
        twice = result.keys() & transaction.keys()
        if twice:
            raise AlgebraInvalid(f"{', '.join(sorted(twice))} would be assigned twice at the same time.")
        result.update(transaction)
    return result


# -- Figure 1: the invariants


class Equivalence(NamedTuple):
    """Q₁ ≡ Q₂"""

    left: Relation
    right: Relation


def holds(formula: Equivalence, state: State) -> bool:
    """s ⊨ Q₁ ≡ Q₂"""
    return evaluate(formula.left, state) == evaluate(formula.right, state)


def INV_IM(view: View) -> Equivalence:  # noqa: N802 (the paper's name)
    return Equivalence(view.query, view.stored)


def INV_BL(view: View) -> Equivalence:  # noqa: N802 (the paper's name)
    return Equivalence(past(view.log, view.query), view.stored)


def INV_DT(view: View) -> Equivalence:  # noqa: N802 (the paper's name)
    return Equivalence(view.query, apply(view.pending, view.stored))


def INV_C(view: View) -> Equivalence:  # noqa: N802 (the paper's name)
    return Equivalence(past(view.log, view.query), apply(view.pending, view.stored))


def minimal_log(view: View) -> tuple[Equivalence, ...]:
    """▲R ⊆ R, for every table R of the log."""
    return tuple(_is_within(view.log.updates[table.name].inserted, table) for table in view.tables)


def minimal_pending(view: View) -> Equivalence:
    """∇MV ⊆ MV"""
    return _is_within(view.pending.deleted, view.stored)


def strongly_minimal_pending(view: View) -> Equivalence:
    """∇MV min ΔMV ≡ φ: with ∇MV ⊆ MV, the pending change is the net change."""
    both = minimum(view.pending.deleted, view.pending.inserted)
    return Equivalence(both, empty_like(both))


def _is_within(part: Relation, whole: Relation) -> Equivalence:
    """part ⊆ whole, which is part ∸ whole ≡ φ."""
    return Equivalence(monus(part, whole), empty_like(part))


# -- Figure 3: the algorithms


def makesafe_IM(transaction: Transaction, view: View) -> Assignments:  # noqa: N802 (the paper's name)
    """{MV := (MV ∸ ∇(T, Q)) ⊎ Δ(T, Q)} + T"""
    return together(_applied(pre_update(transaction, view.query), view), simple(transaction))


def makesafe_BL(transaction: Transaction, view: View) -> Assignments:  # noqa: N802 (the paper's name)
    """{▼R := ▼R ⊎ (∇R ∸ ▲R), ▲R := (▲R ∸ ∇R) ⊎ ΔR} + T"""
    longer = extend(view.log, transaction)
    return together(
        *(_assigned(view.log.updates[table.name], longer.updates[table.name]) for table in view.tables),
        simple(transaction),
    )


def refresh_BL(view: View) -> Assignments:  # noqa: N802 (the paper's name)
    """{MV := (MV ∸ ▼(L, Q)) ⊎ ▲(L, Q), L := φ}"""
    return together(_applied(post_update(view.log, view.query), view), _emptied_log(view))


def makesafe_DT(  # noqa: N802 (the paper's name)
    transaction: Transaction, view: View, composition: Composition = compose
) -> Assignments:
    """{∇MV := ∇MV ⊎ (∇(T, Q) ∸ ΔMV), ΔMV := (ΔMV ∸ ∇(T, Q)) ⊎ Δ(T, Q)} + T"""
    longer = composition(view.pending, pre_update(transaction, view.query))
    return together(_assigned(view.pending, longer), simple(transaction))


def refresh_DT(view: View) -> Assignments:  # noqa: N802 (the paper's name)
    """{MV := (MV ∸ ∇MV) ⊎ ΔMV, ∇MV := φ, ΔMV := φ}"""
    return together(_applied(view.pending, view), _emptied(view.pending))


def makesafe_C(transaction: Transaction, view: View) -> Assignments:  # noqa: N802 (the paper's name)
    """makesafe_BL[T]"""
    return makesafe_BL(transaction, view)


def propagate_C(view: View, composition: Composition = compose) -> Assignments:  # noqa: N802 (the paper's name)
    """{∇MV := ∇MV ⊎ (▼(L, Q) ∸ ΔMV), ΔMV := (ΔMV ∸ ▼(L, Q)) ⊎ ▲(L, Q), L := φ}"""
    longer = composition(view.pending, post_update(view.log, view.query))
    return together(_assigned(view.pending, longer), _emptied_log(view))


def partial_refresh_C(view: View) -> Assignments:  # noqa: N802 (the paper's name)
    """refresh_DT"""
    return refresh_DT(view)


def refresh_C(  # noqa: N802 (the paper's name)
    view: View, propagate_first: bool = True, composition: Composition = compose
) -> tuple[Assignments, Assignments]:
    """propagate_C and then partial_refresh_C, or partial_refresh_C and then refresh_BL."""
    if propagate_first:
        return propagate_C(view, composition), partial_refresh_C(view)
    return partial_refresh_C(view), refresh_BL(view)


# -- Section 5.3: what is applied is the net change


def compose_strongly(first: Update, second: Update) -> Update:
    """Lemma 3 with strong minimality: what would be deleted and inserted is neither.

    Given D₁ ⊆ O and D₂ ⊆ (O ∸ D₁) ⊎ I₁, and D₃, I₃ of Lemma 3: D₄ = D₃ ∸ I₃ and I₄ = I₃ ∸ D₃ have the same effect,
    D₄ ⊆ O, and D₄ min I₄ ≡ φ. Nothing is asked of the two updates beyond what Lemma 3 asks, so that the shorter
    functions of Figure 2 will do. Where both are strongly minimal, D₄ = (D₁ ∸ I₂) ⊎ (D₂ ∸ I₁) and
    I₄ = (I₁ ∸ D₂) ⊎ (I₂ ∸ D₁).
    """
    both = compose(first, second)
    return Update(monus(both.deleted, both.inserted), monus(both.inserted, both.deleted))


# -- What the figure is made of


def _applied(update: Update, view: View) -> Assignments:
    """MV := (MV ∸ D) ⊎ A"""
    return {view.name: apply(update, view.stored)}


def _assigned(target: Update, value: Update) -> Assignments:
    """D := D′, A := A′, where (D, A) are tables."""
    return {_name(target.deleted): value.deleted, _name(target.inserted): value.inserted}


def _emptied(target: Update) -> Assignments:
    """D := φ, A := φ"""
    return _assigned(target, Update(empty_like(target.deleted), empty_like(target.inserted)))


def _emptied_log(view: View) -> Assignments:
    """L := φ"""
    return together(*(_emptied(update) for update in view.log.updates.values()))


def _name(relation: Relation) -> str:
    assert isinstance(relation, Table), "Only tables can be assigned."
    return relation.name
