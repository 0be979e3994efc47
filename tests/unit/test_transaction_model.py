"""The protocol of transactions, searched exhaustively: right with all its steps, wrong without any one of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.transaction_model import STEPS, Model
from tests.unit.transaction_world import (
    INSERTS,
    INSERTS_INTO_A,
    INSERTS_INTO_B,
    OVERWRITES,
    UPDATES,
    UPDATES_A,
    UPDATES_TOO,
)

WORLDS: dict[str, dict[str, Any]] = {
    "one transaction, completed by another owner": {"acquisitions": 3},
    "two that take the same row": {"transactions": (UPDATES, UPDATES_TOO), "acquisitions": 4},
    "two that take different rows": {"transactions": (UPDATES, INSERTS), "acquisitions": 4, "insertions": 1},
    "two on different tables": {"transactions": (UPDATES_A, INSERTS_INTO_B), "acquisitions": 4},
    "two on one table": {"transactions": (INSERTS_INTO_A, UPDATES), "acquisitions": 3},
    "two without views": {"transactions": (UPDATES, UPDATES_TOO), "acquisitions": 3, "views": 0, "insertions": 1},
    "all rows replaced, others insert": {"transactions": (OVERWRITES,), "insertions": 2},
    "others remove a row and insert one": {"removals": 1, "insertions": 1},
    "a refresh of the view": {"refreshes": 1, "insertions": 1, "acquisitions": 3},
    "a reader of two tables": {"reads": "tables", "views": 0, "insertions": 1},
    "a reader of the view too": {"reads": "all", "insertions": 1},
}
FINDS: dict[str, dict[str, Any]] = {
    "leases of tables": WORLDS["two without views"],
    "completion first": {"transactions": (UPDATES, UPDATES_TOO)},
    "conflicts": {"transactions": (UPDATES, UPDATES_TOO)},
    "conflicts under the leases": {"transactions": (UPDATES, UPDATES_TOO)},
    "catching up": {"removals": 1},
    "landed": {"removals": 1},
    "rows that were seen": {"transactions": (OVERWRITES,), "insertions": 1},
    "feeds": {"insertions": 1},
    "still outstanding": WORLDS["two that take the same row"],
    "count": WORLDS["a reader of two tables"],
    "vector": WORLDS["a reader of the view too"],
    "never back": {"refreshes": 1, "insertions": 1},
}
"""For each step a world in which leaving it out shows; where none is named, one transaction is enough."""


@pytest.mark.parametrize("world", WORLDS)
def test_no_interleaving_gives_a_wrong_answer(world: str) -> None:
    states, wrong = Model(**WORLDS[world]).explore()
    assert wrong is None
    assert states > 1_000  # the search did search


@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_needed(step: str) -> None:
    _, wrong = Model(without=step, **FINDS.get(step, {})).explore()
    assert wrong is not None


def test_worlds_name_steps_that_there_are() -> None:
    assert FINDS.keys() <= set(STEPS)
