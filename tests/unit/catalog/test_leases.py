from __future__ import annotations

import threading
import time

import pytest

from monus.catalog.catalog import Catalog
from monus.catalog.owners import Owner
from monus.errors import LeaseLost, ViewBusy
from tests.unit.catalog.samples import LONG, THEN, FakeClock, a_view, lease_on, with_view


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
