from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from monus.algebra.relations import Aggregate, Join, Measure, Named, Project, Recount, Relation, Rows, Select, Table
from monus.algebra.scalars import And, Column, Compare, IsNull, Literal, Not, Opaque, Or, Ref, Scalar
from monus.algebra.text import handles_of, parse, scalar_text, to_text
from monus.errors import AlgebraInvalid

CUSTOMER = Table("customer", (Column("custId", "int"), Column("score", "string")))
SALES = Table("sales", (Column("custId#2", "int"), Column("price", "decimal(10,2)")))
VIEW = Project(
    (Named("custId", Ref("custId")), Named("p", Ref("price"))),
    Select(
        Compare("=", Ref("score"), Literal("High", "string")),
        Join(Compare("=", Ref("custId"), Ref("custId#2")), CUSTOMER, SALES),
    ),
)
BY_SCORE = Aggregate(
    (Named("score", Ref("score")),),
    (
        Measure("n", "count", (), "bigint"),
        Measure("m", "min", (Ref("custId"),), "int", distinct=True, filter=Not(IsNull(Ref("score")))),
        Measure("t", "my_agg", (), "int", params=("x", "y"), bound=(Ref("x"), Ref("custId")), handle=len),
    ),
    Table("c", (*CUSTOMER.schema, Column("x", "int"))),
)


def test_one_line() -> None:
    assert to_text(VIEW) == (
        "Π[custId, price AS p](σ[score = 'High']"
        "(customer(custId int, score string) ⋈[custId = `custId#2`] sales(`custId#2` int, price decimal(10,2))))"
    )
    assert parse(to_text(VIEW)) == VIEW


def test_indented_for_people() -> None:
    assert to_text(VIEW, indent=True, schemas=False) == "\n".join(
        [
            "Π[custId, price AS p]",
            "  σ[score = 'High']",
            "    ⋈[custId = `custId#2`]",
            "      customer",
            "      sales",
        ]
    )
    assert parse(to_text(VIEW, indent=True)) == VIEW


def test_aggregates() -> None:
    assert to_text(BY_SCORE, schemas=False) == (
        "γ[score; count() AS n bigint, min(DISTINCT custId) FILTER (score IS NOT NULL) AS m int, "
        "my_agg(){x, y := custId} AS t int](c)"
    )
    assert parse(to_text(BY_SCORE)) == BY_SCORE


def test_handles_come_back_by_their_text() -> None:
    upper = Opaque("upper(s)", "string", ("s",), (Ref("score"),), handle=str.upper)
    query = Project((Named("u", upper),), Project((Named("score", Ref("score")),), BY_SCORE))
    handles = handles_of(query)
    assert handles == {"upper(s)": str.upper, "my_agg(){x, y := custId}": len}
    parsed = parse(to_text(query, indent=True), handles)
    assert parsed == query
    assert handles_of(parsed) == handles
    assert handles_of(parse(to_text(query))) == {}


A, B, C = Ref("a"), Ref("b"), Ref("c")


@pytest.mark.parametrize(
    ("scalar", "text"),
    [
        (And(And(A, B), C), "a AND b AND c"),
        (And(A, And(B, C)), "a AND (b AND c)"),
        (And(Or(A, B), C), "(a OR b) AND c"),
        (Or(And(A, B), C), "a AND b OR c"),
        (Not(And(A, B)), "NOT (a AND b)"),
        (Not(Not(A)), "NOT NOT a"),
        (And(Not(A), B), "NOT a AND b"),
        (Not(Compare("<", A, B)), "NOT a < b"),
        (Compare("=", Compare("<", A, B), C), "(a < b) = c"),
        (IsNull(Or(A, B)), "(a OR b) IS NULL"),
        (Not(IsNull(A)), "a IS NOT NULL"),
        (IsNull(IsNull(A)), "(a IS NULL) IS NULL"),
        (Compare("<=>", Ref("AND"), Ref("a`b")), "`AND` <=> `a``b`"),
        (Opaque("a + 'x'", "string", ("a",), (Ref("a"),)), "\"a + 'x'\":string{a}"),
        (Opaque('"', "int", ("p",), (Not(A),)), '"""":int{p := NOT a}'),
    ],
)
def test_scalars(scalar: Scalar, text: str) -> None:
    assert scalar_text(scalar) == text
    assert read(text) == scalar


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (None, "int", "NULL:int"),
        (None, "void", "NULL"),
        (True, "boolean", "TRUE"),
        (5, "int", "5"),
        (-5, "bigint", "-5:bigint"),
        (1.5, "double", "1.5D"),
        (1e300, "double", "1e+300D"),
        (math.nan, "double", "NaN"),
        (-math.inf, "float", "-Infinity:float"),
        (Decimal("1.50"), "decimal(10,2)", "1.50BD:decimal(10,2)"),
        ("it's", "string", "'it''s'"),
        (b"\x00\xff", "binary", "X'00ff'"),
        (date(2020, 1, 31), "date", "DATE'2020-01-31'"),
        (datetime(2020, 1, 31, 1, 2, 3, 4), "timestamp", "TIMESTAMP'2020-01-31 01:02:03.000004'"),
        ([1, None], "array<int>", "[1, NULL]:`array<int>`"),
        ((1, ("a",)), "t", "(1, ('a')):t"),
        ((1,), "t", "(1):t"),
        ({"k": 1}, "map<string,int>", "{'k': 1}:`map<string,int>`"),
    ],
)
def test_literals(value: Any, type_: str, text: str) -> None:
    literal = Literal(value, type_)
    assert scalar_text(literal) == text
    assert repr(read(text)) == repr(literal)


def read(text: str) -> Scalar:
    columns = "(a boolean, b boolean, c boolean, `AND` int, `a``b` int)"
    parsed = parse(f"σ[{text}](t{columns})")
    assert isinstance(parsed, Select)
    return parsed.predicate


def test_names_that_are_operators() -> None:
    query = Table("min", (Column("max", "int"), Column("rows", "NULL")))
    assert to_text(query) == "`min`(max int, rows `NULL`)"
    assert parse(to_text(query)) == query


def test_rows() -> None:
    query = Rows((Column("a", "int"), Column("b", "string")), ((1, "x"), (None, "y")))
    assert to_text(query) == "rows(a int, b string){(1, 'x'), (NULL, 'y')}"
    assert parse(to_text(query)) == query


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("", 0, "a relation was expected, not the end"),
        ("R", 1, r"'\(' was expected, not the end"),
        ("R(a int) S(b int)", 9, "the end was expected"),
        ("(R(a int) ⊎ )", 12, "a relation was expected"),
        ("(R(a int) R(a int))", 10, "an operator or '\\)'"),
        ("σ[a = ](R(a int))", 6, "a value was expected"),
        ("σ[(a = ](R(a int))", 7, "a value was expected"),
        ("σ[a = 1.5](R(a int))", 6, "needs D or BD"),
        ("σ[a = 1BD](R(a int))", 9, "the type of the value"),
        ("Π[a = 1](R(a int))", 7, "AS and a name"),
        ("R(a int, b)", 10, "a type was expected"),
        ("R(a int) ?", 9, "'\\?' cannot stand here"),
        ("σ[a = DATE'2020-13-01'](R(a int))", 6, "is no such value"),
        ("σ[a = 'x](R(a int))", 6, "cannot stand here"),
    ],
)
def test_bad_text_says_where(text: str, position: int, what: str) -> None:
    with pytest.raises(AlgebraInvalid, match=what) as caught:
        parse(text)
    assert caught.value.fields["position"] == position


def test_text_that_parses_but_makes_no_sense() -> None:
    with pytest.raises(AlgebraInvalid, match="no column b") as caught:
        parse("ε(σ[b = 1](R(a int)))")
    assert caught.value.fields["position"] == 2


def not_writable() -> list[Relation]:
    return [
        Select(Compare("=", Ref("custId"), Literal(object(), "int")), CUSTOMER),
        Recount("min", CUSTOMER, CUSTOMER, CUSTOMER),
        Aggregate((), (Measure("m", "f", (), "int", params=("p",)),), CUSTOMER),
    ]


@pytest.mark.parametrize("relation", not_writable())
def test_what_cannot_be_written(relation: Relation) -> None:
    with pytest.raises(AlgebraInvalid):
        to_text(relation)
