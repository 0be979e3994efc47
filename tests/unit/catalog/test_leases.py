from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from monus.catalog.catalog import Catalog
from monus.catalog.owners import Owner, Process
from monus.errors import LeaseLost, ViewBusy
from tests.unit.catalog.samples import LONG, THEN, FakeClock, a_view, lease_on, whole_catalog, with_view


def test_one_holder_at_a_time(catalog: Catalog) -> None:
    first = lease_on(catalog)
    with pytest.raises(ViewBusy, match=r"is being maintained by process \d+ on .* since 2026-11-18 09:30:00 UTC"):
        catalog.acquire("big_sales", Owner.here(), LONG)
    assert catalog.holder("BIG_SALES") == first
    assert lease_on(catalog, "another").epoch == 1


def test_the_epoch_only_grows(catalog: Catalog) -> None:
    for epoch in range(1, 4):
        lease = lease_on(catalog)
        assert lease.epoch == epoch
        catalog.release(lease)
        assert catalog.holder("Big_Sales") is None


def test_the_epoch_survives_the_view(catalog: Catalog) -> None:
    with_view(catalog)
    lease = lease_on(catalog)
    catalog.drop_view(lease)
    catalog.release(lease)
    catalog.create_view(a_view(), [])
    assert lease_on(catalog).epoch == 2


def test_the_same_work_does_not_wait_for_itself(catalog: Catalog) -> None:
    owner = Owner.here()
    catalog.acquire("Big_Sales", owner, LONG)
    started = time.monotonic()
    with pytest.raises(ViewBusy, match="already holds"):
        catalog.acquire("Big_Sales", owner, LONG, wait_seconds=30)
    assert time.monotonic() - started < 5


def test_an_expired_lease_is_taken_over_and_its_holder_shut_out(catalog: Catalog, clock: FakeClock) -> None:
    with_view(catalog)
    stalled = lease_on(catalog, ttl=10)
    clock.pass_seconds(9.9)
    with pytest.raises(ViewBusy):
        lease_on(catalog)
    clock.pass_seconds(0.2)
    assert lease_on(catalog).epoch == stalled.epoch + 1
    with pytest.raises(LeaseLost, match="took it over"):
        catalog.renew(stalled, LONG)
    with pytest.raises(LeaseLost):
        catalog.begin_intent(stalled, "refresh", {}, {})
    with pytest.raises(LeaseLost):
        catalog.publish_vector_only(stalled, vector={"Sales": 9}, pending_vector={})
    assert catalog.view("Big_Sales").vector == {}


def test_releasing_what_was_lost_takes_nothing_from_the_new_holder(catalog: Catalog, clock: FakeClock) -> None:
    stalled = lease_on(catalog, ttl=10)
    clock.pass_seconds(11)
    current = lease_on(catalog)
    catalog.release(stalled)
    assert catalog.holder("Big_Sales") == current


def test_the_same_work_may_begin_again_when_it_was_late(catalog: Catalog, clock: FakeClock) -> None:
    owner = Owner.here()
    first = catalog.acquire("Big_Sales", owner, 10)
    clock.pass_seconds(11)
    second = catalog.acquire("Big_Sales", owner, 10)
    assert second.epoch == first.epoch + 1
    with pytest.raises(LeaseLost):
        catalog.renew(first, 10)


def test_renewing(catalog: Catalog, clock: FakeClock) -> None:
    lease = lease_on(catalog, ttl=10)
    clock.pass_seconds(9)
    renewed = catalog.renew(lease, 10)
    assert (renewed.expires_at - THEN).total_seconds() == 19
    clock.pass_seconds(9)
    with pytest.raises(ViewBusy):
        lease_on(catalog)
    # Nobody took it over, so a late renewal still holds.
    clock.pass_seconds(9)
    assert catalog.renew(renewed, 10).epoch == lease.epoch


def test_nothing_is_written_after_release(catalog: Catalog) -> None:
    with_view(catalog)
    lease = lease_on(catalog)
    catalog.release(lease)
    with pytest.raises(LeaseLost, match="was released"):
        catalog.begin_intent(lease, "refresh", {}, {})
    with pytest.raises(LeaseLost):
        catalog.renew(lease, LONG)


def test_waiting_until_it_is_released(catalog: Catalog) -> None:
    lease = lease_on(catalog)
    timer = threading.Timer(0.3, catalog.release, [lease])
    timer.start()
    try:
        assert catalog.acquire("Big_Sales", Owner.here(), LONG, wait_seconds=30).epoch == 2
    finally:
        timer.join()


def test_waiting_in_vain(catalog: Catalog) -> None:
    lease_on(catalog)
    started = time.monotonic()
    with pytest.raises(ViewBusy):
        catalog.acquire("Big_Sales", Owner.here(), LONG, wait_seconds=0.3)
    assert 0.3 <= time.monotonic() - started < 5


def test_threads_take_turns(catalog: Catalog) -> None:
    inside: list[int] = []
    most_inside = 0

    def work() -> None:
        nonlocal most_inside
        for _ in range(5):
            lease = catalog.acquire("Big_Sales", Owner.here(), LONG, wait_seconds=60)
            inside.append(lease.epoch)
            most_inside = max(most_inside, len(inside))
            time.sleep(0.001)
            inside.remove(lease.epoch)
            catalog.release(lease)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most_inside == 1
    assert lease_on(catalog).epoch == 21


# -- several at once


def a_dead_owner() -> Owner:
    here = Owner.here()
    return replace(here, processes=(Process(here.processes[0].pid, "before"),))


def test_all_of_them_by_key(catalog: Catalog) -> None:
    catalog.release(lease_on(catalog, "Sales"))
    owner = Owner.here()
    held = catalog.acquire_all(["Sales", "Big_Sales"], owner, 10)
    assert [(key, lease.resource, lease.epoch) for key, lease in held.items()] == [
        ("big_sales", "Big_Sales", 1),
        ("sales", "Sales", 2),
    ]
    assert {(lease.owner, lease.acquired_at, lease.outstanding) for lease in held.values()} == {(owner, THEN, None)}
    assert {(lease.expires_at - THEN).total_seconds() for lease in held.values()} == {10}
    assert {key: catalog.holder(key) for key in held} == held


def test_of_no_resource_there_is_no_lease(catalog: Catalog) -> None:
    assert catalog.acquire_all([], Owner.here(), LONG) == {}


def test_two_spellings_are_one_resource(catalog: Catalog) -> None:
    held = catalog.acquire_all(["Sales", "SALES", "sales"], Owner.here(), LONG)
    assert [(key, lease.epoch) for key, lease in held.items()] == [("sales", 1)]


@pytest.mark.parametrize("held", ["A", "B", "C"])
def test_all_or_nothing(catalog: Catalog, held: str) -> None:
    catalog.release_all(catalog.acquire_all(["A", "C"], Owner.here(), LONG).values())
    holder = lease_on(catalog, held)
    before = whole_catalog(catalog)
    with pytest.raises(ViewBusy, match=f"'{held}' is being maintained by process") as caught:
        catalog.acquire_all(["a", "b", "c", "d"], Owner.here(), LONG)
    assert caught.value.fields["resource"] == held
    assert whole_catalog(catalog) == before
    catalog.release(holder)
    assert len(catalog.acquire_all(["a", "b", "c", "d"], Owner.here(), LONG)) == 4


def test_several_are_not_waited_for(catalog: Catalog) -> None:
    lease_on(catalog, "b")
    started = time.monotonic()
    with pytest.raises(ViewBusy):
        catalog.acquire_all(["a", "b"], Owner.here(), LONG)
    assert time.monotonic() - started < 5


def test_the_same_work_does_not_take_what_it_holds(catalog: Catalog) -> None:
    owner = Owner.here()
    held = catalog.acquire_all(["a", "b"], owner, LONG)
    with pytest.raises(ViewBusy):
        catalog.acquire_all(["b", "c"], owner, LONG)
    assert {key: catalog.holder(key) for key in held} == held


def test_dead_owners_are_taken_over_at_once_and_shut_out(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    with_view(catalog)
    former = catalog.acquire_all(["Big_Sales", "Sales"], a_dead_owner(), LONG)
    number = catalog.begin_intent(former["big_sales"], "refresh", {}, {})
    current = catalog.acquire_all(["Sales", "Big_Sales", "Items"], Owner.here(), LONG)
    assert [(lease.epoch, lease.outstanding) for lease in current.values()] == [(2, number), (1, None), (2, None)]
    assert [record.getMessage().split(" over from ")[0] for record in caplog.records] == [
        "Took Big_Sales",
        "Took Sales",
    ]
    for lease in former.values():
        with pytest.raises(LeaseLost, match="took it over"):
            catalog.renew(lease, LONG)
    catalog.release_all(former.values())
    assert {key: catalog.holder(key) for key in current} == current


def test_who_lives_on_this_machine_keeps_what_expired(catalog: Catalog, clock: FakeClock) -> None:
    """It may be stalled in a commit, which on a local disk is not atomic."""
    late = catalog.acquire_all(["a"], Owner.here(), 10)
    clock.pass_seconds(1000)
    with pytest.raises(ViewBusy):
        catalog.acquire_all(["a", "b"], Owner.here(), LONG)
    assert catalog.renew(late["a"], LONG).epoch == 1


def test_who_lives_elsewhere_keeps_it_until_it_expires(catalog: Catalog, clock: FakeClock) -> None:
    catalog.acquire_all(["a"], replace(a_dead_owner(), host="elsewhere"), 10)
    clock.pass_seconds(9.9)
    with pytest.raises(ViewBusy, match="on elsewhere"):
        catalog.acquire_all(["a", "b"], Owner.here(), LONG)
    clock.pass_seconds(0.1)
    assert [lease.epoch for lease in catalog.acquire_all(["a", "b"], Owner.here(), LONG).values()] == [2, 1]


def test_released_together(catalog: Catalog) -> None:
    held = catalog.acquire_all(["a", "b"], Owner.here(), LONG)
    catalog.release_all(held.values())
    assert catalog.holder("a") is None and catalog.holder("b") is None
    for lease in held.values():
        with pytest.raises(LeaseLost, match="was released"):
            catalog.renew(lease, LONG)


def test_threads_that_want_several_in_any_order(catalog: Catalog) -> None:
    inside: list[str] = []
    together: list[str] = []
    wanted = [["a", "b"], ["b", "c"], ["c", "a"], ["c", "b", "a"]]

    def work(names: list[str]) -> None:
        for _ in range(5):
            held = None
            while held is None:
                try:
                    held = catalog.acquire_all(names, Owner.here(), LONG)
                except ViewBusy:
                    time.sleep(0.005)
            together.extend(name for name in names if name in inside)
            inside.extend(names)
            time.sleep(0.001)
            for name in names:
                inside.remove(name)
            catalog.release_all(held.values())

    threads = [threading.Thread(target=work, args=(names,)) for names in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == []
    epochs = [lease.epoch for lease in catalog.acquire_all(["a", "b", "c"], Owner.here(), LONG).values()]
    assert epochs == [16, 16, 16]
