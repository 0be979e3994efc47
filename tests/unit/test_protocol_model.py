"""The view protocol, searched exhaustively: right with all its steps, wrong without any one of them."""

from __future__ import annotations

import pytest

from tests.unit.protocol_model import STEPS, Model


def test_no_interleaving_of_two_owners_gives_a_wrong_view() -> None:
    states, wrong = Model().explore()
    assert wrong is None
    assert states > 10_000  # the search did search


def test_commits_without_a_change_of_rows_do_no_harm() -> None:
    states, wrong = Model(versions=1, acquisitions=2, optimizations=1).explore()
    assert wrong is None
    assert states > 1_000


def test_a_stranger_makes_the_view_unusable_but_never_wrong() -> None:
    states, wrong = Model(versions=1, strangers=1).explore()
    assert wrong is None
    assert states > 1_000


@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_needed(step: str) -> None:
    _, wrong = Model(without=step, strangers=1 if step == "stranger" else 0).explore()
    assert wrong is not None
