from __future__ import annotations

from collections import Counter
from itertools import product as combinations

import pytest

from monus.algebra.derived import (
    Derived,
    definition,
    distinct,
    except_keeping_duplicates,
    minimum,
    monus,
    product,
    project,
    select,
    union_all,
    with_names,
)
from monus.algebra.interpreter import evaluate
from monus.algebra.relations import (
    Empty,
    Except,
    Intersect,
    Join,
    Max,
    Min,
    Named,
    Project,
    Relation,
    Rows,
    Table,
    names_of,
)
from monus.algebra.scalars import TRUE, Column, Compare, Ref

L, R = Table("L", (Column("x", "int"),)), Table("R", (Column("y", "int"),))
NOTHING, NOTHING_RIGHT = Empty(L.schema), Empty(R.schema)


@pytest.mark.parametrize("query", [Min(L, R), Max(L, R), Except(L, R), Intersect(L, R)])
def test_definitions_mean_the_operator(query: Derived) -> None:
    """For all multiplicities: the definition, and the definition of what it is defined by."""
    for n, m in combinations(range(4), repeat=2):
        state = {"L": Counter({(1,): n}), "R": Counter({(1,): m})}
        once = definition(query)
        twice = definition(once) if isinstance(once, Min) else once
        assert evaluate(query, state) == evaluate(once, state) == evaluate(twice, state)
        assert names_of(once) == names_of(query)


def test_a_join_is_a_selection_of_the_product() -> None:
    query = Join(Compare("=", Ref("x"), Ref("y")), L, R)
    state = {"L": Counter({(1,): 2, (None,): 1}), "R": Counter({(1,): 3, (None,): 1})}
    assert evaluate(query, state) == evaluate(definition(query), state) == Counter({(1, 1): 6})


def test_the_except_of_the_paper_keeps_duplicates() -> None:
    state = {"L": Counter({(1,): 3, (2,): 1, (None,): 2}), "R": Counter({(2,): 1})}
    assert evaluate(except_keeping_duplicates(L, R), state) == Counter({(1,): 3, (None,): 2})
    assert evaluate(Except(L, R), state) == Counter({(1,): 1, (None,): 1})


def test_the_except_of_the_paper_finds_names_that_are_free() -> None:
    wide = Table("W", (Column("a", "int"), Column("a#2", "int")))
    query = except_keeping_duplicates(wide, wide)
    assert names_of(query) == ("a", "a#2")


OUTPUTS = (Named("z", Ref("x")),)


@pytest.mark.parametrize(
    ("simplified", "expected"),
    [
        (select(TRUE, NOTHING), NOTHING),
        (project(OUTPUTS, NOTHING), Empty((Column("z", "int"),))),
        (distinct(NOTHING), NOTHING),
        (union_all(L, NOTHING_RIGHT), L),
        (union_all(NOTHING, L), L),
        (union_all(NOTHING, R), Project((Named("x", Ref("y")),), R)),
        (monus(L, NOTHING_RIGHT), L),
        (monus(NOTHING, R), NOTHING),
        (minimum(L, NOTHING_RIGHT), NOTHING),
        (minimum(NOTHING, R), NOTHING),
        (product(L, NOTHING_RIGHT), Empty(L.schema + R.schema)),
        (with_names(NOTHING, ("q",)), Empty((Column("q", "int"),))),
        (union_all(L, Rows(R.schema, ())), L),
    ],
)
def test_nothing_is_simplified_away(simplified: Relation, expected: Relation) -> None:
    assert simplified == expected
