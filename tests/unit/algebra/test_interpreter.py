from __future__ import annotations

import math
from collections import Counter

import pytest

from monus.algebra.interpreter import MULTIPLICITY, Bag, evaluate
from monus.algebra.relations import (
    Affected,
    Change,
    Distinct,
    Empty,
    Except,
    Intersect,
    Join,
    Max,
    Min,
    Monus,
    Named,
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
)
from monus.algebra.scalars import Column, Compare, Literal, Opaque, Ref
from monus.errors import AlgebraInvalid

R = Table("R", (Column("a", "int"), Column("b", "string")))
S = Table("S", (Column("c", "int"),))
A, B = Table("A", S.schema), Table("B", (Column("d", "int"),))


def bag(counts: dict[object, int]) -> Bag:
    return Counter({(value,): n for value, n in counts.items()})


STATE = {"A": bag({1: 3, 2: 1, None: 2}), "B": bag({1: 1, 3: 2, None: 5})}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (UnionAll(A, B), {1: 4, 2: 1, 3: 2, None: 7}),
        (Monus(A, B), {1: 2, 2: 1}),
        (Min(A, B), {1: 1, None: 2}),
        (Max(A, B), {1: 3, 2: 1, 3: 2, None: 5}),
        (Except(A, B), {2: 1}),
        (Intersect(A, B), {1: 1, None: 1}),
        (Distinct(A), {1: 1, 2: 1, None: 1}),
        (Negate(A), {1: -3, 2: -1, None: -2}),
        (UnionAll(A, Negate(B)), {1: 2, 2: 1, 3: -2, None: -3}),
        (UnionAll(A, Negate(A)), {}),
        (Shared(A), {1: 3, 2: 1, None: 2}),
        (Empty(A.schema), {}),
        (Rows(A.schema, ((1,), (1,), (None,))), {1: 2, None: 1}),
        (Restrict(("c",), A, B), {1: 3, None: 2}),
        (Select(Compare(">", Ref("c"), Literal(1, "int")), A), {2: 1}),
    ],
)
def test_bag_operators(query: Relation, expected: dict[object, int]) -> None:
    assert evaluate(query, STATE) == bag(expected)


def test_products_and_joins_multiply() -> None:
    assert evaluate(Product(A, B), STATE)[(1, 3)] == 6
    joined = evaluate(Join(Compare("=", Ref("c"), Ref("d")), A, B), STATE)
    assert joined == Counter({(1, 1): 3})
    null_safe = evaluate(Join(Compare("<=>", Ref("c"), Ref("d")), A, B), STATE)
    assert null_safe == Counter({(1, 1): 3, (None, None): 10})


def test_a_product_of_signed_bags_multiplies_the_signs() -> None:
    state = {"A": bag({1: -2}), "B": bag({1: -1, 2: 3})}
    assert evaluate(Product(A, B), state) == Counter({(1, 1): 2, (1, 2): -6})


def test_projection_adds_up_and_cancels() -> None:
    state = {"R": Counter({(1, "x"): 2, (2, "x"): -2, (3, "y"): 1})}
    assert evaluate(Project((Named("b", Ref("b")),), R), state) == Counter({("y",): 1})


def test_opaque_expressions_run_their_handle() -> None:
    twice = Opaque("n * 2", "int", ("n",), (Ref("c"),), handle=lambda n: None if n is None else n * 2)
    assert evaluate(Project((Named("c", twice),), A), STATE) == bag({2: 3, 4: 1, None: 2})
    with pytest.raises(AlgebraInvalid, match="without Spark"):
        evaluate(Project((Named("c", Opaque("n * 2", "int", (), ())),), A), STATE)


def test_distinct_counts_what_is_there_only() -> None:
    assert evaluate(Distinct(A), {"A": bag({1: -2, 2: 2})}) == bag({2: 1})


@pytest.mark.parametrize("operator", MULTIPLICITY)
def test_recount_is_the_difference_of_the_operator(operator: str) -> None:
    """For all small multiplicities, new and old."""
    count = MULTIPLICITY[operator]
    one_sided = operator == "distinct"
    for new, old in ((a, b) for a in range(3) for b in range(3)):
        for right_new, right_old in ((a, b) for a in range(3) for b in range(3)):
            state = {"A": bag({1: new}), "B": bag({1: right_new})}
            changes = {"A": bag({1: new - old}), "B": bag({1: right_new - right_old})}
            sides = () if one_sided else (B, Change("B", B.schema))
            query = Recount(operator, A, Change("A", A.schema), *sides)
            expected = count(new, right_new) - count(old, right_old)
            assert evaluate(query, state, changes) == Counter({(1,): expected} if expected else {})


def test_recount_of_an_unknown_operator() -> None:
    with pytest.raises(AlgebraInvalid, match="cannot be recounted"):
        evaluate(Recount("product", A, A), STATE)


def test_affected_keys_are_not_added_up() -> None:
    """A row that leaves a group and one that enters it affect the group."""
    changes = {"R": Counter({(1, "x"): 1, (2, "x"): -1, (3, None): -2})}
    query = Affected((Named("k", Ref("b")),), Change("R", R.schema))
    assert evaluate(query, {}, changes) == Counter({("x",): 1, (None,): 1})


def test_restriction_by_two_keys_in_another_order() -> None:
    state = {"R": Counter({(1, "x"): 2, (None, "y"): 1, (1, "y"): 1})}
    by = Rows((Column("p", "string"), Column("q", "int")), (("x", 1), ("y", None), ("x", 1)))
    assert evaluate(Restrict(("b", "a"), R, by), state) == Counter({(1, "x"): 2, (None, "y"): 1})


def test_all_nans_are_one_value() -> None:
    doubles = Table("D", (Column("v", "double"),))
    state = {"D": Counter({(float("nan"),): 1, (math.nan,): 2})}
    (row,) = evaluate(doubles, state)
    assert math.isnan(row[0])
    assert evaluate(doubles, state)[row] == 3
    assert evaluate(Select(Compare("=", Ref("v"), Literal(float("nan"), "double")), doubles), state)[row] == 3


def test_results_are_not_the_callers_bags() -> None:
    evaluate(A, STATE).clear()
    assert STATE["A"]


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(AlgebraInvalid, match="no table 'S'"):
        evaluate(S, STATE)
    with pytest.raises(AlgebraInvalid, match="no change of the table 'S'"):
        evaluate(Change("S", S.schema), STATE)
