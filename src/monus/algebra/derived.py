"""Operators as definitions over the core of the algebra, and constructors that never build a useless φ.

    L min R       = L ∸ (L ∸ R)
    L max R       = L ⊎ (R ∸ L)
    L EXCEPT R    = ε(L) ∸ R
    L INTERSECT R = ε(L) min ε(R)
    L ⋈_p R       = σ_p(L × R)

The constructors apply one identity each: σ(φ) = Π(φ) = ε(φ) = φ, X ⊎ φ = φ ⊎ X = X ∸ φ = X,
φ ∸ X = X min φ = φ min X = X × φ = φ × X = φ. A bag operator takes its column names from the left
input, so what remains of `φ ⊎ X` is X under the names of φ.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

from monus.algebra.relations import (
    Distinct,
    Empty,
    Except,
    Intersect,
    Join,
    Max,
    Min,
    Monus,
    Named,
    Product,
    Project,
    Relation,
    Select,
    UnionAll,
    is_empty,
    names_of,
    renamed,
    schema_of,
)
from monus.algebra.scalars import Compare, Ref, Scalar, conjunction

Derived: TypeAlias = Min | Max | Except | Intersect | Join


def definition(relation: Derived) -> Relation:
    """The same bag by one step of the definitions above."""
    match relation:
        case Min(left, right):
            return Monus(left, Monus(left, right))
        case Max(left, right):
            return UnionAll(left, Monus(right, left))
        case Except(left, right):
            return Monus(Distinct(left), right)
        case Intersect(left, right):
            return Min(Distinct(left), Distinct(right))
        case Join(condition, left, right):
            return Select(condition, Product(left, right))
        case _:
            assert_never(relation)


def except_keeping_duplicates(left: Relation, right: Relation) -> Relation:
    """The EXCEPT of Colby et al.: Π₁(σ₁₌₂(L × (ε(L) ∸ R))), all copies of what is left and not right.

    SQL's EXCEPT gives one copy instead. Rows are compared with NULL equal to NULL.
    """
    names = names_of(left)
    others = tuple(_unused(name, names) for name in names)
    survivors = with_names(Monus(Distinct(left), right), others)
    same = conjunction(tuple(Compare("<=>", Ref(a), Ref(b)) for a, b in zip(names, others, strict=True)))
    return Project(tuple(Named(name, Ref(name)) for name in names), Select(same, Product(left, survivors)))


def empty_like(relation: Relation) -> Relation:
    return Empty(schema_of(relation))


def select(predicate: Scalar, child: Relation) -> Relation:
    return child if is_empty(child) else Select(predicate, child)


def project(outputs: tuple[Named, ...], child: Relation) -> Relation:
    result = Project(outputs, child)
    return empty_like(result) if is_empty(child) else result


def distinct(child: Relation) -> Relation:
    return child if is_empty(child) else Distinct(child)


def union_all(left: Relation, right: Relation) -> Relation:
    if is_empty(left):
        return with_names(right, names_of(left))
    return left if is_empty(right) else UnionAll(left, right)


def monus(left: Relation, right: Relation) -> Relation:
    return left if is_empty(left) or is_empty(right) else Monus(left, right)


def minimum(left: Relation, right: Relation) -> Relation:
    return empty_like(left) if is_empty(left) or is_empty(right) else Min(left, right)


def product(left: Relation, right: Relation) -> Relation:
    result = Product(left, right)
    return empty_like(result) if is_empty(left) or is_empty(right) else result


def with_names(relation: Relation, names: tuple[str, ...]) -> Relation:
    """The same rows under other column names, by position."""
    result = renamed(relation, names)
    return empty_like(result) if is_empty(relation) else result


def _unused(name: str, taken: tuple[str, ...]) -> str:
    candidate = f"{name}#2"
    while candidate in taken:
        candidate += "'"
    return candidate
