"""`FROM a, b, c WHERE …` joins from the change outwards, whatever stands between the joins."""

from __future__ import annotations

from monus.algebra.relations import Change, Join, Named, Product, Project, Relation, Select, Table, names_of, walk
from monus.algebra.scalars import Column, Compare, Ref, conjunction
from monus.rewrite.order_joins import order_joins

A = Table("a", (Column("a1", "int"), Column("a2", "int")))
B = Table("b", (Column("b1", "int"), Column("b2", "int")))
C = Change("c", (Column("c1", "int"), Column("c2", "int")))
A_B, B_C = Compare("=", Ref("a1"), Ref("b1")), Compare("=", Ref("b2"), Ref("c1"))


def inputs_in_order(relation: Relation) -> list[str]:
    return [node.name for node in walk(relation) if isinstance(node, Table | Change)]


def test_a_selection_over_products_is_joins() -> None:
    query = Select(conjunction((A_B, B_C)), Product(Product(A, B), C))
    ordered = order_joins(query)
    assert not any(isinstance(node, Product) for node in walk(ordered))
    assert inputs_in_order(ordered) == ["c", "b", "a"]
    assert names_of(ordered) == names_of(query)


def test_a_projection_that_only_drops_columns_is_no_obstacle() -> None:
    narrow = Project(tuple(Named(name, Ref(name)) for name in ("a1", "b2")), Join(A_B, A, B))
    query = Join(B_C, narrow, C)
    ordered = order_joins(query)
    assert inputs_in_order(ordered) == ["c", "b", "a"]
    assert names_of(ordered) == names_of(query) == ("a1", "b2", "c1", "c2")


def test_a_dropped_column_does_not_come_back_under_the_name_of_another() -> None:
    """The narrowed side loses `x`, and the change has an `x` of its own."""
    left = Table("a", (Column("a1", "int"), Column("x", "int")))
    narrow = Project((Named("a1", Ref("a1")),), Join(A_B, left, B))
    change = Change("c", (Column("c1", "int"), Column("x", "int")))
    query = Join(Compare("=", Ref("a1"), Ref("c1")), narrow, change)
    ordered = order_joins(query)
    assert names_of(ordered) == ("a1", "c1", "x")
    assert any(isinstance(node, Project) and names_of(node) == ("a1",) for node in walk(ordered))
