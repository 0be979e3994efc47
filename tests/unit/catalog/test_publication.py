from __future__ import annotations

import pytest

from monus.catalog.catalog import Catalog
from monus.catalog.records import BatchRecord, Intent
from monus.errors import LeaseLost, UnknownView
from tests.unit.catalog.samples import (
    THEN,
    FakeClock,
    a_refresh,
    a_table,
    a_view,
    do_refresh,
    lease_on,
    publish,
    with_view,
)


@pytest.fixture(autouse=True)
def _one_view(catalog: Catalog) -> None:
    with_view(catalog)


def test_intent_then_publication(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    number = catalog.begin_intent(lease, "refresh", {"Sales": 0}, {"Sales": 5})
    assert number == 1
    assert catalog.outstanding_intent("BIG_SALES") == Intent(
        "Big_Sales", 1, lease.epoch, "refresh", {"Sales": 0}, {"Sales": 5}, THEN
    )
    before = catalog.view("big_sales")
    assert (before.batch, before.version) == (0, None)
    catalog.publish(
        lease,
        number,
        version=7,
        vector={"Sales": 5},
        pending_vector={"Sales": 6},
        pending_from=2,
        batch_has_rows=True,
        operation="refresh",
        refresh=a_refresh(),
        table_id="t-1",
    )
    view = catalog.view("big_sales")
    assert (view.batch, view.version, view.vector, view.pending_vector, view.pending_from, view.table_id) == (
        1,
        7,
        {"Sales": 5},
        {"Sales": 6},
        2,
        "t-1",
    )
    assert catalog.outstanding_intent("big_sales") is None
    assert catalog.batches("big_sales", 0, 1) == [
        BatchRecord("Big_Sales", 1, "refresh", 7, {"Sales": 0}, {"Sales": 5}, True, THEN)
    ]
    assert catalog.refreshes("big_sales") == [a_refresh()]
    assert catalog.holder("big_sales") is not None


def test_a_number_is_published_once(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    number = do_refresh(catalog, lease)
    with pytest.raises(LeaseLost, match="already published or discarded"):
        publish(catalog, lease, number, version=8)
    assert catalog.view("big_sales").version == 7
    assert len(catalog.refreshes("big_sales")) == 1


def test_another_number_is_not_published(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    number = catalog.begin_intent(lease, "refresh", {}, {})
    with pytest.raises(LeaseLost, match="intent 1 is outstanding"):
        publish(catalog, lease, number + 1)
    with pytest.raises(LeaseLost):
        catalog.discard_intent(lease, number + 1)
    assert catalog.view("big_sales").batch == 0


def test_one_intent_at_a_time(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    catalog.begin_intent(lease, "refresh", {}, {})
    with pytest.raises(LeaseLost, match="intent 1 is outstanding"):
        catalog.begin_intent(lease, "refresh", {}, {})


def test_numbers_are_never_used_again(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    first = catalog.begin_intent(lease, "propagate", {}, {})
    catalog.discard_intent(lease, first)
    assert catalog.outstanding_intent("big_sales") is None
    second = do_refresh(catalog, lease)
    third = catalog.begin_intent(lease, "refresh", {}, {})
    assert (first, second, third) == (1, 2, 3)
    catalog.drop_view(lease)
    catalog.release(lease)
    catalog.create_view(a_view(), [])
    lease = lease_on(catalog)
    assert catalog.view("big_sales").batch == 0
    assert catalog.begin_intent(lease, "refresh", {}, {}) == 4


def test_numbers_go_on_from_those_of_a_rebuilt_view(catalog: Catalog) -> None:
    catalog.create_view(a_view("rebuilt", batch=41), [])
    assert catalog.begin_intent(lease_on(catalog, "REBUILT"), "refresh", {}, {}) == 42


def test_a_fence_is_above_the_intent_and_leaves_it(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    number = catalog.begin_intent(lease, "refresh", {}, {})
    assert catalog.fence(lease, number) == number + 1
    with pytest.raises(LeaseLost):
        catalog.fence(lease, number + 1)
    publish(catalog, lease, number)
    assert catalog.begin_intent(lease, "refresh", {}, {}) == number + 2


def test_the_new_owner_finishes_under_the_same_number(catalog: Catalog, clock: FakeClock) -> None:
    former = lease_on(catalog, ttl=10)
    number = catalog.begin_intent(former, "refresh", {"Sales": 0}, {"Sales": 1})
    clock.pass_seconds(11)
    current = lease_on(catalog)
    assert current.outstanding == number
    for attempt in (publish, Catalog.discard_intent, Catalog.fence):
        args = (catalog, former, number)
        with pytest.raises(LeaseLost, match="took it over"):
            attempt(*args)
    publish(catalog, current, number)
    assert catalog.view("big_sales").batch == number
    with pytest.raises(LeaseLost):
        publish(catalog, former, number, version=8)
    assert catalog.view("big_sales").version == 7


def test_an_intent_stays_when_the_lease_is_released(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    number = catalog.begin_intent(lease, "refresh", {}, {})
    catalog.release(lease)
    assert lease_on(catalog).outstanding == number


def test_only_a_view_has_intents(catalog: Catalog) -> None:
    lease = lease_on(catalog, "something else")
    with pytest.raises(UnknownView):
        catalog.begin_intent(lease, "refresh", {}, {})
    with pytest.raises(UnknownView):
        catalog.publish_vector_only(lease, vector={}, pending_vector={})


def test_moving_only_the_vector(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    do_refresh(catalog, lease)
    catalog.publish_vector_only(lease, vector={"Sales": 8}, pending_vector={"Sales": 9}, refresh=a_refresh())
    catalog.publish_vector_only(lease, vector={"Sales": 9}, pending_vector={"Sales": 9})
    view = catalog.view("big_sales")
    assert (view.batch, view.version, view.vector, view.pending_vector) == (1, 7, {"Sales": 9}, {"Sales": 9})
    assert len(catalog.batches("big_sales", 0, 100)) == 1
    assert len(catalog.refreshes("big_sales")) == 2


def test_batches_by_number(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    for _ in range(4):
        do_refresh(catalog, lease)
    catalog.add_table(a_table("other"))
    catalog.create_view(a_view("w"), [])
    do_refresh(catalog, lease_on(catalog, "w"))

    def numbers(after: int, upto: int) -> list[int]:
        return [batch.number for batch in catalog.batches("BIG_sales", after, upto)]

    assert numbers(0, 100) == [1, 2, 3, 4]
    assert numbers(1, 3) == [2, 3]
    assert numbers(4, 4) == []
    catalog.forget_batches(lease, 2)
    assert numbers(0, 100) == [3, 4]
    assert [batch.number for batch in catalog.batches("w", 0, 100)] == [1]


def test_a_publication_happens_as_a_whole_or_not_at_all(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    number = catalog.begin_intent(lease, "refresh", {}, {})
    catalog_state = (catalog.view("big_sales"), catalog.outstanding_intent("big_sales"))
    with pytest.raises(Exception, match="not JSON serializable"):
        catalog.publish(
            lease,
            number,
            version=7,
            vector={},
            pending_vector={"Sales": object()},
            pending_from=1,
            batch_has_rows=False,
            operation="refresh",
            refresh=a_refresh(),
        )
    assert (catalog.view("big_sales"), catalog.outstanding_intent("big_sales")) == catalog_state
    publish(catalog, lease, number)


def test_a_later_version_with_the_same_rows(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    publish(catalog, lease, catalog.begin_intent(lease, "refresh", {}, {}), version=7)
    publish(catalog, lease, catalog.begin_intent(lease, "refresh", {}, {}), version=8)
    catalog.move_version(lease, 10)
    assert catalog.view("big_sales").version == 10
    assert [batch.version for batch in catalog.batches("big_sales", 0, 9)] == [7, 10]
    number = catalog.begin_intent(lease, "refresh", {}, {})
    with pytest.raises(LeaseLost):  # a commit is under way: nobody knows yet what is in the table
        catalog.move_version(lease, 11)
    catalog.discard_intent(lease, number)
    catalog.release(lease)
    with pytest.raises(LeaseLost):
        catalog.move_version(lease, 11)


def test_batches_that_are_given_up_have_no_rows_any_more(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    for has_rows in (True, False, True, True):
        publish(catalog, lease, catalog.begin_intent(lease, "refresh", {}, {}), has_rows=has_rows)
    assert catalog.give_up_batches(lease, 3) == [1, 3]
    assert [batch.has_rows for batch in catalog.batches("big_sales", 0, 9)] == [False, False, False, True]
    assert catalog.give_up_batches(lease, 3) == []
    catalog.release(lease)
    for forbidden in (catalog.give_up_batches, catalog.forget_batches):
        with pytest.raises(LeaseLost):
            forbidden(lease, 4)


@pytest.mark.parametrize("mends", [True, False])
def test_only_rows_that_were_computed_anew_mend_a_view(catalog: Catalog, mends: bool) -> None:
    lease = lease_on(catalog)
    number = catalog.begin_intent(lease, "refresh", {}, {})
    catalog.mark_unusable("big_sales", "FOREIGN_COMMIT", "Somebody wrote.", lease)
    catalog.publish(
        lease,
        number,
        version=7,
        vector={},
        pending_vector={},
        pending_from=2,
        batch_has_rows=False,
        operation="refresh",
        refresh=a_refresh(),
        mends=mends,
    )
    assert catalog.view("big_sales").usable == mends
