"""The equations of the slides on Griffin and Libkin, each for all small bags.

Bag operators look at one row at a time, so that bags of one row with every multiplicity up to 3 are all
the cases that there are; projection and product need two rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import TypeAlias

import pytest

from monus.algebra.derived import minimum, monus, union_all
from monus.algebra.interpreter import Bag, evaluate
from monus.algebra.relations import Aggregate, Distinct, Measure, Named, Product, Project, Relation, Select, Table
from monus.algebra.scalars import Column, Compare, Literal, Ref
from monus.algebra.text import to_text
from monus.delta.states import Update, apply
from monus.delta.strongly_minimal import patch_minimality, strongly_minimal
from monus.errors import AlgebraInvalid

COLUMN = (Column("x", "int"), Column("k", "int"))
R, S, DR, IR, DS, IS = (Table(name, COLUMN) for name in ("R", "S", "∇R", "ΔR", "∇S", "ΔS"))
OTHER = Table("O", (Column("y", "int"),))
UPDATES = {"R": Update(DR, IR), "S": Update(DS, IS)}

Pair: TypeAlias = tuple[Relation, Relation]


def sigma(child: Relation) -> Relation:
    return Select(Compare("=", Ref("x"), Literal(0, "int")), child)


def pi(child: Relation) -> Relation:
    return Project((Named("k", Ref("k")),), child)


def times(child: Relation) -> Relation:
    return Product(child, OTHER)


# One line of the slides each: the new view and what it equals. The lines on ε are derived, not printed.
EQUATIONS: dict[str, Callable[[], Pair]] = {
    "select, deletion": lambda: (sigma(monus(R, DR)), monus(sigma(R), sigma(DR))),
    "select, insertion": lambda: (sigma(union_all(R, IR)), union_all(sigma(R), sigma(IR))),
    "project, deletion": lambda: (pi(monus(R, DR)), monus(pi(R), pi(minimum(DR, R)))),
    "project, insertion": lambda: (pi(union_all(R, IR)), union_all(pi(R), pi(IR))),
    "product, deletion": lambda: (times(monus(R, DR)), monus(times(R), times(DR))),
    "product, insertion": lambda: (times(union_all(R, IR)), union_all(times(R), times(IR))),
    "monus, left insertion": lambda: (monus(union_all(R, IR), S), union_all(monus(R, S), monus(IR, monus(S, R)))),
    "monus, left deletion": lambda: (monus(monus(R, DR), S), monus(monus(R, S), DR)),
    "monus, right deletion": lambda: (
        monus(R, monus(S, DS)),
        union_all(monus(R, S), monus(minimum(DS, S), monus(S, R))),
    ),
    "monus, right insertion": lambda: (monus(R, union_all(S, IS)), monus(monus(R, S), IS)),
    "distinct, deletion": lambda: (
        Distinct(monus(R, DR)),
        monus(Distinct(R), monus(Distinct(DR), monus(R, DR))),
    ),
    "distinct, insertion": lambda: (Distinct(union_all(R, IR)), union_all(Distinct(R), monus(Distinct(IR), R))),
    "union, as in the example": lambda: (
        union_all(union_all(monus(R, DR), IR), union_all(monus(S, DS), IS)),
        union_all(monus(union_all(R, S), union_all(minimum(DR, R), minimum(DS, S))), union_all(IR, IS)),
    ),
}


def bags(most: int = 3) -> list[Bag]:
    return [Counter({(0, 0): n} if n else {}) for n in range(most + 1)]


def two_rows() -> list[Bag]:
    """Bags of two rows that projection makes one."""
    return [Counter({row: n for row, n in (((0, 0), a), ((1, 0), b)) if n}) for a, b in product(range(3), repeat=2)]


@pytest.mark.parametrize("name", EQUATIONS)
def test_each_equation_of_the_slides(name: str) -> None:
    new, bubbled = EQUATIONS[name]()
    over_two = "project" in name or "product" in name or "select" in name
    for r, dr, ir in product(two_rows() if over_two else bags(), repeat=3):
        others = [(Counter(), Counter(), Counter())] if over_two else product(bags(2), repeat=3)
        for s, ds, is_ in others:
            state = {"R": r, "∇R": dr, "ΔR": ir, "S": s, "∇S": ds, "ΔS": is_, "O": Counter({(7,): 2})}
            assert evaluate(new, state) == evaluate(bubbled, state), state


def test_why_the_projection_of_a_deletion_needs_min() -> None:
    """A row that is not there, deleted, would take another one with it that looks like it."""
    state = {"R": Counter({(0, 0): 1}), "∇R": Counter({(1, 0): 1})}
    assert evaluate(pi(monus(R, DR)), state) == Counter({(0,): 1})
    assert evaluate(monus(pi(R), pi(DR)), state) == Counter()


def test_the_printed_sign_of_the_projections_insertions_is_wrong() -> None:
    """With ⊕ instead of ∸, what leaves one row and enters by another is inserted again."""
    state = {"R": Counter({(0, 0): 1}), "∇R": Counter({(0, 0): 1}), "ΔR": Counter({(1, 0): 1})}
    update = strongly_minimal(UPDATES, pi(R))
    assert evaluate(apply(update, pi(R)), state) == Counter({(0,): 1})
    misprinted = Update(update.deleted, union_all(pi(IR), pi(DR)))
    assert evaluate(apply(misprinted, pi(R)), state) == Counter({(0,): 3})


def test_the_patch_of_the_union_example() -> None:
    """x leaves S and enters T: minimal but not strongly, until it is patched."""
    x = Counter({(0, 0): 1})
    state = {"R": x, "∇R": x, "ΔR": Counter(), "S": Counter(), "∇S": Counter(), "ΔS": x}
    union, plain = union_all(R, S), Update(union_all(minimum(DR, R), minimum(DS, S)), union_all(IR, IS))
    assert evaluate(plain.deleted, state) == evaluate(plain.inserted, state) == x
    for update in (patch_minimality(union, plain), strongly_minimal(UPDATES, union)):
        assert evaluate(update.deleted, state) == evaluate(update.inserted, state) == Counter()


def test_the_functions_as_text() -> None:
    update = strongly_minimal(UPDATES, monus(R, S))
    assert to_text(update.deleted, schemas=False).replace("`", "") == "(((∇R ⊎ ΔS) ∸ (ΔR ⊎ ∇S)) min (R ∸ S))"
    assert to_text(update.inserted, schemas=False).replace("`", "") == "(((ΔR ⊎ ∇S) ∸ (∇R ⊎ ΔS)) ∸ (S ∸ R))"


def test_aggregates_are_outside() -> None:
    with pytest.raises(AlgebraInvalid, match="no strongly minimal rule for Aggregate"):
        strongly_minimal(UPDATES, Aggregate((), (Measure("n", "count", (), "bigint"),), R))
