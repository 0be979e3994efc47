"""Tasks are written with the commit that asks for them, and go with the publication that covers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from monus.catalog.catalog import Catalog
from monus.catalog.owners import Owner
from monus.catalog.records import SourceRecord, TransactionPart
from monus.catalog.tasks import covers
from monus.catalog.transactions import Reached
from tests.unit.catalog.samples import LONG, SALES, THEN, FakeClock, a_refresh, a_table, a_view, lease_on

ITEMS = SourceRecord("Items", "table")


def at(version: int, table_id: str = "s") -> dict[str, Any]:
    return {"id": table_id, "version": version}


@pytest.fixture(autouse=True)
def _lazy_and_other_views(catalog: Catalog) -> None:
    """`v` reads Sales, `w` both tables, `later` is no lazy view."""
    catalog.add_table(a_table())
    catalog.add_table(a_table("Items"))
    vector = {"Sales": at(1)}
    catalog.create_view(replace(a_view("V", 1), vector=vector, pending_vector=vector), [SALES])
    catalog.create_view(a_view("W"), [SALES, ITEMS])
    catalog.create_view(replace(a_view("later"), policy="ON DEMAND USING LOG"), [SALES])


def changed(catalog: Catalog, view: str) -> list[Mapping[str, Any]]:
    return [task.changed for task in catalog.tasks(view)]


def reach(catalog: Catalog, view: str, vector: Mapping[str, Any]) -> None:
    lease = lease_on(catalog, view)
    catalog.publish_vector_only(lease, vector=vector, pending_vector=vector)
    catalog.release(lease)


def test_a_statement_leaves_a_task_for_each_lazy_view(catalog: Catalog, clock: FakeClock) -> None:
    catalog.record_statement("SALES", 1, "s", 2)
    clock.pass_seconds(5)
    catalog.record_statement("Items", 4, "i", 5)
    first, second, third = catalog.tasks()
    newest = {record.sequence: record.id for name in ("Sales", "Items") for record in catalog.transactions(name, 5)}
    assert [(t.view, t.sequence, t.transaction) for t in (first, second, third)] == [
        ("V", 1, newest[1]), ("W", 1, newest[1]), ("W", 2, newest[2]),
    ]  # fmt: skip
    assert (first.changed, second.changed, third.changed) == ({"sales": at(2)}, {"sales": at(2)}, {"items": at(5, "i")})
    assert (first.statement, first.created_at, first.in_progress) == (1, THEN, False)
    assert catalog.tasks("later") == []


def test_a_task_goes_when_the_view_reflects_it(catalog: Catalog) -> None:
    for version in (2, 3, 4):
        catalog.record_statement("Sales", version - 1, "s", version)
    reach(catalog, "v", {"Sales": at(3)})
    assert changed(catalog, "V") == [{"sales": at(4)}]
    reach(catalog, "v", {"Sales": at(9)})
    assert changed(catalog, "V") == []
    assert len(changed(catalog, "W")) == 3
    reach(catalog, "w", {"Sales": at(4), "Items": at(1, "i")})
    assert changed(catalog, "W") == []


def test_a_transaction_is_one_task_until_all_of_its_tables_are_reached(catalog: Catalog) -> None:
    held = catalog.acquire_all(["Sales", "Items"], Owner.here(), LONG)
    parts = [TransactionPart("Sales", "table", at(1)), TransactionPart("Items", "table", at(1, "i"))]
    record = catalog.commit_transaction(held, parts, None, 3)
    assert [(t.view, t.transaction, t.changed) for t in catalog.tasks()] == [
        ("V", record.id, {"sales": None}),
        ("W", record.id, {"sales": None, "items": None}),
    ]
    reach(catalog, "w", {"Sales": at(1), "Items": at(1, "i")})  # of before: readers do not see the transaction yet
    assert len(changed(catalog, "W")) == 1
    catalog.record_reached(held, record, {"sales": Reached(2), "items": Reached(3)})
    catalog.end_transaction(held, record)
    assert changed(catalog, "W") == [{"sales": at(2), "items": at(3, "i")}]
    reach(catalog, "w", {"Sales": at(2), "Items": at(2, "i")})
    assert len(changed(catalog, "W")) == 1
    reach(catalog, "w", {"Sales": at(2), "Items": at(3, "i")})
    assert changed(catalog, "W") == []


def test_a_view_that_does_not_care_has_no_task_and_is_at_the_new_state(catalog: Catalog) -> None:
    catalog.record_statement("Sales", 1, "s", 2, lambda definition, source: source == "sales")
    assert catalog.tasks() == []
    view = catalog.view("v")
    assert (view.vector, view.pending_vector) == ({"Sales": at(2)}, {"Sales": at(2)})
    catalog.record_statement("Sales", 2, "s", 3)
    catalog.record_statement("Sales", 3, "s", 4, lambda definition, source: True)
    assert changed(catalog, "V") == [{"sales": at(3)}]
    assert catalog.view("v").vector == {"Sales": at(2)}  # what is to be done before is not skipped


def test_whoever_maintains_a_view_says_which_state_it_has(catalog: Catalog) -> None:
    lease = lease_on(catalog, "V")
    catalog.record_statement("Sales", 1, "s", 2, lambda definition, source: True)
    assert catalog.view("v").vector == {"Sales": at(1)}
    assert catalog.tasks("v") == []
    catalog.release(lease)


def test_what_others_wrote_is_one_task(catalog: Catalog) -> None:
    assert catalog.add_task("v", {"sales": at(5)})
    assert not catalog.add_task("v", {"sales": at(5)})
    assert not catalog.add_task("v", {"sales": at(4)})
    assert not catalog.add_task("v", {"sales": at(1)})
    assert not catalog.add_task("later", {"sales": at(5)})
    assert not catalog.add_task("gone", {"sales": at(5)})
    (task,) = catalog.tasks("v")
    assert (task.transaction, task.sequence, task.changed) == (None, 0, {"sales": at(5)})


def test_a_task_is_in_progress_while_an_operation_is(catalog: Catalog) -> None:
    catalog.record_statement("Sales", 1, "s", 2)
    lease = lease_on(catalog, "V")
    number = catalog.begin_intent(lease, "refresh", {"Sales": at(1)}, {"Sales": at(2)})
    assert [task.in_progress for task in catalog.tasks("V")] == [True]
    catalog.publish(
        lease, number, version=3, vector={"Sales": at(2)}, pending_vector={"Sales": at(2)}, pending_from=number + 1,
        batch_has_rows=False, operation="refresh", refresh=a_refresh("V"),
    )  # fmt: skip
    assert catalog.tasks("V") == []


def test_a_view_over_a_view_has_a_task_when_that_is_folded(catalog: Catalog) -> None:
    catalog.create_view(a_view("over"), [SourceRecord("V", "view")])
    lease = lease_on(catalog, "V")
    for operation, pending_from in (("propagate", 2), ("refresh", 4)):
        number = catalog.begin_intent(lease, operation, {}, {})
        catalog.publish(
            lease, number, version=3, vector={"Sales": at(2)}, pending_vector={"Sales": at(2)},
            pending_from=pending_from, batch_has_rows=True, operation=operation, refresh=a_refresh("V"), table_id="t",
        )  # fmt: skip
        folded = [{"v": {"id": "t", "batch": number}}] if operation == "refresh" else []
        assert changed(catalog, "over") == folded


def test_tasks_go_with_the_view_and_with_its_policy(catalog: Catalog) -> None:
    catalog.record_statement("Sales", 1, "s", 2)
    lease = lease_on(catalog, "V")
    catalog.rename_view(lease, "Renamed")
    assert [task.view for task in catalog.tasks()] == ["Renamed", "W"]
    lease = lease_on(catalog, "Renamed")
    catalog.set_policy(lease, "IMMEDIATE", None, None)
    assert [task.view for task in catalog.tasks()] == ["W"]
    lease = lease_on(catalog, "W")
    catalog.drop_view(lease)
    assert catalog.tasks() == []


@pytest.mark.parametrize(
    ("vector", "wanted", "is_covered"),
    [
        ({"T": at(2)}, {"t": at(2)}, True),
        ({"T": at(1)}, {"t": at(2)}, False),
        ({"T": at(1, "new")}, {"t": at(2)}, True),  # the table that the task is about is gone
        ({}, {"t": at(2)}, False),
        ({"T": at(2)}, {"t": None}, False),
        ({"T": at(2), "v": {"id": "v", "batch": 3}}, {"t": at(2), "v": {"id": "v", "batch": 4}}, False),
        ({"T": at(2), "v": {"id": "v", "batch": 4}}, {"t": at(2), "v": {"id": "v", "batch": 4}}, True),
    ],
)
def test_covered(vector: Mapping[str, Any], wanted: Mapping[str, Any], is_covered: bool) -> None:
    assert covers(vector, wanted) == is_covered
