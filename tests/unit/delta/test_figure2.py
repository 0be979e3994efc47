"""The lines of Figure 2 as text, and what is outside of it."""

from __future__ import annotations

import pytest

from monus.algebra.relations import (
    Aggregate,
    Distinct,
    Empty,
    Measure,
    Monus,
    Named,
    Product,
    Project,
    Relation,
    Rows,
    Select,
    Shared,
    Table,
    UnionAll,
)
from monus.algebra.scalars import Column, IsNull, Ref
from monus.algebra.text import to_text
from monus.delta.figure2 import ADD, DEL
from monus.delta.states import Update
from monus.errors import AlgebraInvalid

E, F = Table("E", (Column("x", "int"),)), Table("F", (Column("y", "int"),))
ETA = {
    "E": Update(Table("dE", E.schema), Table("aE", E.schema)),
    "F": Update(Table("dF", F.schema), Table("aF", F.schema)),
}


@pytest.mark.parametrize(
    ("query", "deleted", "added"),
    [
        (E, "dE", "aE"),
        (Empty(E.schema), "φ", "φ"),
        (Rows(E.schema, ((1,),)), "φ", "φ"),
        (Select(IsNull(Ref("x")), E), "σ[x IS NULL](dE)", "σ[x IS NULL](aE)"),
        (Project((Named("z", Ref("x")),), E), "Π[x AS z](dE)", "Π[x AS z](aE)"),
        (Distinct(E), "(ε(dE) ∸ (E ∸ dE))", "(ε(aE) ∸ (E ∸ dE))"),
        (UnionAll(E, F), "(dE ⊎ dF)", "(aE ⊎ aF)"),
        (Monus(E, F), "((dE ⊎ aF) min (E ∸ F))", "(((aE ⊎ dF) ∸ (F ∸ E)) ∸ ((dE ⊎ aF) ∸ (E ∸ F)))"),
        (
            Product(E, F),
            "(((dE × dF) ⊎ (dE × (F ∸ dF))) ⊎ ((E ∸ dE) × dF))",
            "(((aE × aF) ⊎ (aE × (F ∸ dF))) ⊎ ((E ∸ dE) × aF))",
        ),
        (Shared(E), "dE", "aE"),
    ],
)
def test_the_lines_of_figure_2(query: Relation, deleted: str, added: str) -> None:
    assert to_text(DEL(ETA, query), schemas=False) == deleted
    assert to_text(ADD(ETA, query), schemas=False) == added


def test_a_table_outside_the_substitution_does_not_change() -> None:
    eta = {"F": ETA["F"]}
    assert to_text(DEL(eta, Product(E, F)), schemas=False) == "(E × dF)"
    assert to_text(ADD(eta, Monus(E, F)), schemas=False) == "((Π[y AS x](dF) ∸ (F ∸ E)) ∸ (Π[y AS x](aF) ∸ (E ∸ F)))"


def test_a_self_product_changes_on_both_sides() -> None:
    other = Project((Named("x2", Ref("x")),), E)
    assert to_text(DEL(ETA, Product(E, other)), schemas=False) == (
        "(((dE × Π[x AS x2](dE)) ⊎ (dE × (Π[x AS x2](E) ∸ Π[x AS x2](dE)))) ⊎ ((E ∸ dE) × Π[x AS x2](dE)))"
    )


def test_an_aggregate_is_not_in_figure_2() -> None:
    with pytest.raises(AlgebraInvalid, match="no rule for Aggregate"):
        DEL(ETA, Aggregate((), (Measure("n", "count", (), "bigint"),), E))
