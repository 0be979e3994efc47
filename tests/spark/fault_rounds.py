"""The operations of the fault matrix, in rounds: those of one run side by side, on tables and views of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import monus
from monus.maintenance.fault_points import FaultPoint
from tests.spark import fault_shop as shop
from tests.spark.fault_matrix import Reached, Step
from tests.spark.fault_shop import State

BEFORE, CHANGE, ALONE, AFTER = 10, 11, 10, 30
"""Keys of rows: of what was there, of a transaction, of a single statement, and of what comes when all is recovered."""
OUTSIDE = (20, 21)


def _as_it_is(state: State) -> State:
    return state


@dataclass(frozen=True)
class Operation:
    """From the moment that `done_at` is reached it is done, whatever happens; before, it never was.

    `is_done` tells whether a warehouse has it, from it and the numbers of the views' last operations before. Where
    rows of tables change, these tell.
    """

    act: Callable[[monus.Warehouse], object]
    done_at: Reached
    is_done: Callable[[monus.Warehouse, Mapping[str, int]], bool] | None = None
    after: Callable[[State], State] = _as_it_is


@dataclass(frozen=True)
class Round:
    operations: Mapping[str, Operation]
    is_behind: bool = False
    """Whether it begins with a log and a pending change for every view, which others have made by writing to tables."""


def _on_view(view: str, act: Callable[[monus.View], object], done_at: FaultPoint) -> Operation:
    def is_done(wh: monus.Warehouse, batches: Mapping[str, int]) -> bool:
        return wh._catalog.view(view).batch > batches[view]

    return Operation(lambda wh: act(wh.view(view)), (done_at, 1), is_done)


def refresh(view: str) -> Operation:
    return _on_view(view, monus.View.refresh, FaultPoint.COMMITTED)


def propagate(view: str) -> Operation:
    return _on_view(view, monus.View.propagate, FaultPoint.PUBLISHED)


def partial_refresh(view: str) -> Operation:
    return _on_view(view, monus.View.partial_refresh, FaultPoint.COMMITTED)


def full_refresh(view: str) -> Operation:
    return _on_view(view, lambda found: found.refresh(full=True), FaultPoint.COMMITTED)


def read(view: str) -> Operation:
    """A view that is ON QUERY is refreshed by whoever reads it."""
    return _on_view(view, monus.View.table, FaultPoint.COMMITTED)


TRANSACTION = {
    "transaction": Operation(
        lambda wh: shop.change(wh, CHANGE),
        (FaultPoint.TRANSACTION_COMMITTED, 1),
        after=lambda state: state.changed(CHANGE),
    ),
    "statement with a view": Operation(
        lambda wh: shop.change_alone(wh, "e", ALONE),
        (FaultPoint.TRANSACTION_COMMITTED, 1),
        after=lambda state: state.changed_alone("e", ALONE),
    ),
    "statement": Operation(
        lambda wh: shop.change_alone(wh, "s", ALONE),
        (FaultPoint.STATEMENT_COMMITTED, 1),
        after=lambda state: state.changed_alone("s", ALONE),
    ),
    "create": Operation(
        lambda wh: wh.create_view("new", shop.NEW), (FaultPoint.COMMITTED, 1), lambda wh, _: "new" in wh.views()
    ),
    "drop": Operation(
        lambda wh: wh.drop_view("old"), (FaultPoint.VIEW_FORGOTTEN, 1), lambda wh, _: "old" not in wh.views()
    ),
    "alter": Operation(  # the propagate that the policy asks for comes later
        lambda wh: wh.view("oq").alter("ON DEMAND USING DIFFERENTIAL"),
        (FaultPoint.VIEW_ALTERED, 1),
        lambda wh, _: wh.view("oq").policy == "ON DEMAND USING DIFFERENTIAL",
    ),
}
TRANSACTIONS = Round(TRANSACTION | {"bl": refresh("bl"), "c": propagate("c")})
TRANSACTIONS_BEHIND = Round(TRANSACTION | {"c": refresh("c"), "bl": partial_refresh("bl")}, is_behind=True)

# Every operation on every view, four views at once and each view once: a Latin square. `over` follows `im`.
ACTS = (refresh, propagate, partial_refresh, full_refresh)
SQUARE_VIEWS = ("im", "bl", "dt", "c", "oq", "ei", "sl")


def _square(nth: int) -> Round:
    return Round(
        {view: ACTS[(nth + place) % len(ACTS)](view) for place, view in enumerate(SQUARE_VIEWS)}, is_behind=True
    )


SQUARE = tuple(_square(nth) for nth in range(len(ACTS)))
ROUNDS = {
    "transactions": TRANSACTIONS,
    "transactions on views that are behind": TRANSACTIONS_BEHIND,
    **{f"square {nth}": round_ for nth, round_ in enumerate(SQUARE)},
}


def done_at(round_: Round, step: Step) -> set[str]:
    """The operations that are done from this step on."""
    return {name for name, reached in step.at.items() if reached == round_.operations[name].done_at}
