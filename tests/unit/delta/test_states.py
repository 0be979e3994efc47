from __future__ import annotations

import pytest

from monus.algebra.relations import Monus, Table
from monus.algebra.scalars import Column
from monus.algebra.text import to_text
from monus.delta.states import (
    Log,
    Transaction,
    Update,
    cancel,
    compose,
    extend,
    future,
    hat,
    log_of,
    past,
    transaction_on,
)
from monus.errors import AlgebraInvalid

R, S = Table("R", (Column("x", "int"),)), Table("S", (Column("y", "int"),))
T, L = transaction_on((R, S)), log_of((R, S))


def text(relation: object) -> str:
    return to_text(relation, schemas=False).replace("`", "")  # type: ignore[arg-type]


def test_future_anticipates_and_past_compensates() -> None:
    assert text(future(T, Monus(R, S))) == "(((R ∸ ∇R) ⊎ ΔR) ∸ ((S ∸ ∇S) ⊎ ΔS))"
    assert text(past(L, Monus(R, S))) == "(((R ∸ ▲R) ⊎ ▼R) ∸ ((S ∸ ▲S) ⊎ ▼S))"


def test_the_substitution_of_a_log_undoes_it() -> None:
    assert hat(T)["R"] == T.updates["R"]
    assert text(hat(L)["R"].deleted) == "▲R"
    assert text(hat(L)["R"].inserted) == "▼R"


def test_substitution_is_simultaneous() -> None:
    """What is put in for R may read S, which is not replaced again."""
    swap = Transaction({"R": Update(R, S), "S": Update(S, R)})
    assert text(future(swap, Monus(R, S))) == "(((R ∸ R) ⊎ S) ∸ ((S ∸ S) ⊎ R))"


def test_lemma_1() -> None:
    back = cancel(R, T.updates["R"])
    assert (text(back.deleted), text(back.inserted)) == ("ΔR", "(R min ∇R)")


def test_lemma_3() -> None:
    both = compose(L.updates["R"], T.updates["R"])
    assert (text(both.deleted), text(both.inserted)) == ("(▼R ⊎ (∇R ∸ ▲R))", "((▲R ∸ ∇R) ⊎ ΔR)")


def test_a_log_is_extended_by_what_it_did_not_hold() -> None:
    log = extend(Log({"R": L.updates["R"]}), T)
    assert log.updates["S"] == T.updates["S"]
    assert text(log.updates["R"].inserted) == "((▲R ∸ ∇R) ⊎ ΔR)"


def test_an_update_has_one_width() -> None:
    with pytest.raises(AlgebraInvalid, match="number of columns"):
        Update(R, Table("W", (Column("a", "int"), Column("b", "int"))))
