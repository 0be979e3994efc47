from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from monus.catalog.catalog import Catalog
from monus.catalog.leases import Lease
from monus.catalog.owners import Owner
from monus.catalog.records import Ledger, TransactionPart, TransactionRecord
from monus.catalog.transactions import Reached
from monus.errors import LeaseLost, ViewBusy
from tests.unit.catalog.samples import LONG, SALES, THEN, FakeClock, a_table, a_view, lease_on, whole_catalog

Held = Mapping[str, Lease]

OF_ITEMS = TransactionPart("Items", "table", {"version": 3, "id": "i"}, {"adds": "/w/staging/1"})
OF_SALES = TransactionPart("Sales", "table", {"version": 7, "id": "s"}, {"adds": "/w/staging/2", "deletes": None})
OF_VIEW = TransactionPart("Big_Sales", "view", {"batch": 0, "vector": {"Sales": 7}})
PARTS = (OF_VIEW, OF_ITEMS, OF_SALES)  # in the order of their keys
NAMES = ("Big_Sales", "Items", "Sales")
REACHED = {"items": Reached(4), "sales": Reached(9, "CONFLICT_OUTSIDE")}


@pytest.fixture(autouse=True)
def _two_tables_and_a_view(catalog: Catalog) -> None:
    catalog.add_table(a_table())
    catalog.add_table(a_table("Items"))
    catalog.create_view(a_view(), [SALES])


def leases_on(catalog: Catalog, *names: str, ttl: float = LONG) -> Held:
    return catalog.acquire_all(names or NAMES, Owner.here(), ttl)


def begin(catalog: Catalog, held: Held, *parts: TransactionPart) -> TransactionRecord:
    return catalog.commit_transaction(held, parts or PARTS, "/w/staging", 2)


def apply(catalog: Catalog, held: Held, record: TransactionRecord) -> None:
    catalog.record_reached(held, record, {part.name.lower(): Reached(8) for part in record.tables})
    catalog.end_transaction(held, record)


def numbers(record: TransactionRecord) -> dict[str, int | None]:
    return {part.name: part.number for part in record.parts}


def test_from_the_intent_to_the_end(catalog: Catalog, clock: FakeClock) -> None:
    held = leases_on(catalog)
    record = begin(catalog, held)
    numbered = (OF_VIEW, replace(OF_ITEMS, number=1), replace(OF_SALES, number=1))
    assert record == TransactionRecord(record.id, 1, 2, numbered, "/w/staging", THEN, None)
    assert record.is_outstanding
    assert (record.views, record.tables) == (numbered[:1], numbered[1:])
    assert catalog.transaction(record.id) == record
    assert catalog.ledger() == Ledger(1, (record,))
    assert lease_of(catalog, "sales").outstanding == 1

    catalog.record_reached(held, record, REACHED)
    recorded = (numbered[0], replace(numbered[1], reached=4), replace(numbered[2], reached=9, note="CONFLICT_OUTSIDE"))
    assert catalog.transaction(record.id) == replace(record, parts=recorded)
    assert catalog.ledger() == Ledger(1, (replace(record, parts=recorded),))

    clock.pass_seconds(5)
    catalog.end_transaction(held, record)
    ended = replace(record, parts=recorded, applied_at=clock.now)
    assert catalog.transaction(record.id) == ended
    assert not ended.is_outstanding
    assert catalog.ledger() == Ledger(2, ())
    assert lease_of(catalog, "sales").outstanding is None


def lease_of(catalog: Catalog, name: str) -> Lease:
    holder = catalog.holder(name)
    assert holder is not None
    return holder


def test_the_leases_stay(catalog: Catalog) -> None:
    held = leases_on(catalog)
    apply(catalog, held, begin(catalog, held))
    assert {key: catalog.holder(key) for key in held} == held


def test_each_table_has_its_own_numbers_and_a_view_none(catalog: Catalog) -> None:
    held = leases_on(catalog)
    for parts in ((OF_SALES,), (OF_VIEW, OF_SALES), (OF_SALES, OF_ITEMS)):
        record = begin(catalog, held, *parts)
        apply(catalog, held, record)
    assert numbers(record) == {"Sales": 3, "Items": 1}
    first, second = catalog.transactions("sales", 3)[:0:-1]
    assert (numbers(first), numbers(second)) == ({"Sales": 1}, {"Big_Sales": None, "Sales": 2})
    # The view's operation inside a transaction has a number of its own protocol.
    assert catalog.begin_intent(held["big_sales"], "refresh", {}, {}) == 1


def test_two_transactions_over_different_tables_are_outstanding_together(catalog: Catalog) -> None:
    one, other = leases_on(catalog, "Sales"), leases_on(catalog, "Items")
    first, second = begin(catalog, one, OF_SALES), begin(catalog, other, OF_ITEMS)
    assert catalog.ledger() == Ledger(2, (first, second))
    catalog.end_transaction(one, first)
    assert catalog.ledger() == Ledger(3, (second,))


STEPS: dict[str, Callable[[Catalog, Held, TransactionRecord], object]] = {
    "intent": lambda catalog, held, record: begin(catalog, held),
    "reached": lambda catalog, held, record: catalog.record_reached(held, record, REACHED),
    "end": lambda catalog, held, record: catalog.end_transaction(held, record),
}


@pytest.mark.parametrize("lost", NAMES)
@pytest.mark.parametrize("step", STEPS)
def test_who_lost_one_lease_writes_nothing(catalog: Catalog, clock: FakeClock, step: str, lost: str) -> None:
    held = leases_on(catalog, ttl=10)
    record = begin(catalog, held)
    if step == "intent":
        catalog.end_transaction(held, record)
    clock.pass_seconds(11)
    lease_on(catalog, lost)
    before = whole_catalog(catalog)
    with pytest.raises(LeaseLost, match=f"The lease on {lost} no longer allows this: .* took it over"):
        STEPS[step](catalog, held, record)
    assert whole_catalog(catalog) == before


@pytest.mark.parametrize("lost", NAMES)
@pytest.mark.parametrize("step", STEPS)
def test_who_released_one_lease_writes_nothing(catalog: Catalog, step: str, lost: str) -> None:
    held = leases_on(catalog)
    record = begin(catalog, held)
    if step == "intent":
        catalog.end_transaction(held, record)
    catalog.release(held[lost.lower()])
    before = whole_catalog(catalog)
    with pytest.raises(LeaseLost, match=f"The lease on {lost} no longer allows this: it was released"):
        STEPS[step](catalog, held, record)
    assert whole_catalog(catalog) == before


def test_what_was_reached_is_recorded_once(catalog: Catalog) -> None:
    held = leases_on(catalog)
    record = begin(catalog, held)
    catalog.record_reached(held, record, REACHED)
    known = catalog.transaction(record.id)
    catalog.record_reached(held, record, {"items": Reached(5, "note"), "sales": Reached(10)})
    assert catalog.transaction(record.id) == known


def test_what_was_reached_is_recorded_for_all_tables_or_for_none(catalog: Catalog) -> None:
    held = leases_on(catalog)
    record = begin(catalog, held)
    with pytest.raises(KeyError):
        catalog.record_reached(held, record, {"items": Reached(4)})
    assert catalog.transaction(record.id) == record


def test_the_count_changes_with_every_commit_and_end_only(catalog: Catalog) -> None:
    counts = [catalog.ledger().count]

    def has_changed() -> bool:
        counts.append(catalog.ledger().count)
        return counts[-1] != counts[-2]

    held = leases_on(catalog)
    assert not has_changed()
    record = begin(catalog, held)
    assert has_changed()
    with pytest.raises(LeaseLost):
        begin(catalog, held)
    assert not has_changed()
    catalog.record_reached(held, record, REACHED)
    assert not has_changed()
    catalog.record_statement("Sales", 9, "id", 10)
    assert has_changed()
    catalog.end_transaction(held, record)
    assert has_changed()
    with pytest.raises(LeaseLost):
        catalog.end_transaction(held, record)
    assert not has_changed()
    assert len(set(counts)) == 4


def test_a_number_that_is_outstanding_refuses_another_intent(catalog: Catalog) -> None:
    held = leases_on(catalog)
    begin(catalog, held, OF_SALES)
    before = whole_catalog(catalog)
    for parts in ((OF_SALES,), (OF_ITEMS, OF_SALES)):
        with pytest.raises(LeaseLost, match="Sales no longer allows this: intent 1 is outstanding"):
            begin(catalog, held, *parts)
    assert whole_catalog(catalog) == before
    assert numbers(begin(catalog, held, OF_ITEMS)) == {"Items": 1}


def test_a_view_that_is_being_refreshed_takes_part_in_no_transaction(catalog: Catalog) -> None:
    held = leases_on(catalog)
    number = catalog.begin_intent(held["big_sales"], "refresh", {}, {})
    before = whole_catalog(catalog)
    with pytest.raises(LeaseLost, match="Big_Sales no longer allows this: intent 1 is outstanding"):
        begin(catalog, held)
    assert whole_catalog(catalog) == before
    catalog.discard_intent(held["big_sales"], number)
    assert numbers(begin(catalog, held))["Sales"] == 1


def test_a_view_is_maintained_inside_a_transaction(catalog: Catalog) -> None:
    held = leases_on(catalog)
    record = begin(catalog, held)
    number = catalog.begin_intent(held["big_sales"], "refresh", {}, {})
    catalog.discard_intent(held["big_sales"], number)
    apply(catalog, held, record)


def test_the_end_comes_once_and_of_this_transaction_only(catalog: Catalog) -> None:
    held = leases_on(catalog)
    first = begin(catalog, held)
    catalog.end_transaction(held, first)
    second = begin(catalog, held)
    before = whole_catalog(catalog)
    for attempt in (
        lambda: catalog.end_transaction(held, first),
        lambda: catalog.record_reached(held, first, REACHED),
    ):
        with pytest.raises(LeaseLost, match="intent 2 is outstanding"):
            attempt()
    assert whole_catalog(catalog) == before
    catalog.end_transaction(held, second)
    with pytest.raises(LeaseLost, match="already published or discarded"):
        catalog.end_transaction(held, second)


def test_the_new_owner_finishes_under_the_same_numbers(catalog: Catalog) -> None:
    dead = replace(Owner.here(), processes=(replace(Owner.here().processes[0], started="before"),))
    former = catalog.acquire_all(NAMES, dead, LONG)
    record = begin(catalog, former)
    current = leases_on(catalog)
    assert [current[key].outstanding for key in ("items", "sales")] == [1, 1]
    (found,) = catalog.ledger().outstanding
    assert found == record
    for step in STEPS.values():
        with pytest.raises(LeaseLost, match="took it over"):
            step(catalog, former, record)
    with pytest.raises(LeaseLost, match="intent 1 is outstanding"):
        begin(catalog, current)
    apply(catalog, current, found)
    assert numbers(begin(catalog, current)) == {"Big_Sales": None, "Items": 2, "Sales": 2}


def test_an_intent_stays_when_the_leases_are_released(catalog: Catalog) -> None:
    held = leases_on(catalog)
    record = begin(catalog, held)
    catalog.release_all(held.values())
    again = leases_on(catalog)
    assert again["sales"].outstanding == 1
    catalog.end_transaction(again, record)
    assert catalog.ledger().outstanding == ()


def test_statements_and_transactions_in_order(catalog: Catalog) -> None:
    catalog.record_statement("Sales", 3, "id", 4)
    held = leases_on(catalog)
    record = begin(catalog, held, OF_SALES)
    catalog.record_statement("Items", 0, "id", 1)
    apply(catalog, held, record)
    catalog.record_statement("SALES", 8, "id", 9)
    of_sales = catalog.transactions("sales", 10)
    assert [(found.sequence, found.statements, found.staging) for found in of_sales] == [
        (4, 1, None),
        (2, 2, "/w/staging"),
        (1, 1, None),
    ]
    assert of_sales[0].parts == (TransactionPart("SALES", "table", {"version": 8, "id": "id"}, reached=9),)
    assert not any(found.is_outstanding for found in of_sales)
    assert catalog.transactions("Sales", 2) == of_sales[:2]
    assert [found.sequence for found in catalog.transactions("items", 10)] == [3]
    assert catalog.transactions("nothing", 10) == []


def test_the_record_outlives_its_table(catalog: Catalog) -> None:
    catalog.record_statement("Items", 0, "id", 1)
    catalog.drop_table("Items")
    assert len(catalog.transactions("items", 10)) == 1


def test_the_warehouse_keeps_its_id(location: str, catalog: Catalog, tmp_path: object) -> None:
    known = catalog.warehouse_id()
    with Catalog.open(location) as again, Catalog.open(f"{tmp_path}/another.db") as another:
        assert again.warehouse_id() == catalog.warehouse_id() == known
        assert another.warehouse_id() != known


def test_the_ledger_is_of_one_moment(catalog: Catalog) -> None:
    """With one transaction at a time, an odd count means that one is outstanding, and an even one that none is."""
    is_over = threading.Event()
    torn: list[Ledger] = []
    seen: set[int] = set()

    def read() -> None:
        while not is_over.is_set():
            ledger = catalog.ledger()
            seen.add(ledger.count)
            if ledger.count % 2 != len(ledger.outstanding):
                torn.append(ledger)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    held = leases_on(catalog)
    for _ in range(40):
        apply(catalog, held, begin(catalog, held))
    is_over.set()
    for reader in readers:
        reader.join()
    assert torn == []
    assert len(seen) > 2


def test_threads_take_turns(catalog: Catalog) -> None:
    """Transactions over tables in common never overlap, and no number or sequence is given twice."""
    tables = [("Sales",), ("Items", "Sales"), ("Sales", "Items"), ("Items",)]
    done: list[TransactionRecord] = []
    inside: list[str] = []
    together: list[tuple[str, ...]] = []

    def work(names: tuple[str, ...]) -> None:
        for _ in range(5):
            held = wait_for(catalog, *names)
            together.extend(names for name in names if name in inside)
            inside.extend(names)
            parts = [OF_SALES if name == "Sales" else OF_ITEMS for name in names]
            record = begin(catalog, held, *parts)
            done.append(record)
            apply(catalog, held, record)
            for name in names:
                inside.remove(name)
            catalog.release_all(held.values())

    threads = [threading.Thread(target=work, args=(names,)) for names in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == []
    assert sorted(record.sequence for record in done) == list(range(1, 21))
    for table in ("Sales", "Items"):
        given = [
            numbers(record)[table] for record in sorted(done, key=lambda r: r.sequence) if table in numbers(record)
        ]
        assert given == list(range(1, 16))
    assert catalog.ledger() == Ledger(40, ())


def wait_for(catalog: Catalog, *names: str) -> Held:
    pause = threading.Event()
    for _ in range(3000):
        try:
            return leases_on(catalog, *names)
        except ViewBusy:
            pause.wait(0.005)
    raise AssertionError("nobody released them")
