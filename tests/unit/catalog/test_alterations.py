from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from monus.catalog.alterations import TickKind
from monus.catalog.catalog import Catalog
from monus.catalog.records import SourceRecord, TransactionPart, ViewRecord
from monus.errors import InUse, LeaseLost, NameExists, UnknownView, ViewBusy
from tests.unit.catalog.samples import SALES, THEN, a_table, a_view, do_refresh, lease_on, whole_catalog, with_view

SOON = THEN + timedelta(hours=1)
LATER = THEN + timedelta(days=1)


def is_sound(catalog: Catalog) -> bool:
    """Whether every reference leads somewhere."""
    with catalog._database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        return connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []


class TestPolicyAndMode:
    def test_another_policy_has_its_own_ticks(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        catalog.set_policy(lease, "EVERY 1 DAY PROPAGATE EVERY 1 HOUR", LATER, SOON)
        expected = replace(
            a_view(), policy="EVERY 1 DAY PROPAGATE EVERY 1 HOUR", next_refresh=LATER, next_propagate=SOON
        )
        assert catalog.view("BIG_SALES") == expected
        catalog.set_policy(lease, "LAZY", None, None)
        assert catalog.view("big_sales") == a_view()

    def test_another_mode(self, catalog: Catalog) -> None:
        with_view(catalog)
        catalog.set_mode(lease_on(catalog), "STRICT")
        assert catalog.view("big_sales") == replace(a_view(), mode="STRICT")

    def test_of_one_view_only(self, catalog: Catalog) -> None:
        with_view(catalog)
        catalog.create_view(a_view("other"), [SALES])
        lease = lease_on(catalog)
        catalog.set_mode(lease, "FULL")
        catalog.set_policy(lease, "IMMEDIATE", SOON, None)
        assert catalog.view("other") == a_view("other")

    def test_only_as_owner(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        catalog.release(lease)
        with pytest.raises(LeaseLost):
            catalog.set_mode(lease, "FULL")
        with pytest.raises(LeaseLost):
            catalog.set_policy(lease, "IMMEDIATE", SOON, None)
        assert catalog.view("big_sales") == a_view()

    def test_of_a_view_only(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog, "Sales")
        with pytest.raises(UnknownView):
            catalog.set_mode(lease, "FULL")
        with pytest.raises(UnknownView):
            catalog.set_policy(lease, "IMMEDIATE", None, None)


class TestRename:
    def test_everything_follows(self, catalog: Catalog) -> None:
        with_view(catalog)
        catalog.add_table(a_table("items"))
        lease = lease_on(catalog)
        catalog.replace_view(lease, replace(a_view(), next_refresh=LATER), [SourceRecord("items", "table"), SALES])
        numbers = [do_refresh(catalog, lease), do_refresh(catalog, lease)]
        catalog.mark_unusable("big_sales", "FOREIGN_COMMIT", "Somebody wrote.", lease)
        before, history = catalog.view("big_sales"), catalog.refreshes("big_sales")
        batches = catalog.batches("big_sales", 0, 99)

        catalog.rename_view(lease, "Large Sales")

        assert catalog.views() == [replace(before, name="Large Sales")]
        assert catalog.view("large sales") == replace(before, name="Large Sales")
        assert catalog.sources("large sales") == [SourceRecord("items", "table"), SALES]
        assert catalog.dependants("items") == ["Large Sales"]
        assert catalog.batches("large sales", 0, 99) == [replace(batch, view="Large Sales") for batch in batches]
        assert [batch.number for batch in batches] == numbers
        assert catalog.refreshes("large sales") == [replace(record, view="Large Sales") for record in history]
        assert is_sound(catalog)

    def test_nothing_stays_under_the_former_name(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        do_refresh(catalog, lease)
        catalog.rename_view(lease, "w")
        assert catalog.find_view("big_sales") is None
        assert catalog.sources("big_sales") == catalog.batches("big_sales", 0, 99) == []
        assert catalog.refreshes("big_sales") == []
        assert catalog.dependency_order() == ["w"]
        with pytest.raises(NameExists, match="A view named w exists"):
            catalog.add_table(a_table("W"))
        catalog.create_view(a_view(), [SALES])
        assert [view.name for view in catalog.views()] == ["Big_Sales", "w"]

    def test_numbers_go_on(self, catalog: Catalog) -> None:
        """Delta skips a number that the view's table has seen."""
        with_view(catalog)
        lease = lease_on(catalog)
        for _ in range(3):
            do_refresh(catalog, lease)
        catalog.discard_intent(lease, catalog.begin_intent(lease, "propagate", {}, {}))
        catalog.rename_view(lease, "w")
        assert do_refresh(catalog, lease_on(catalog, "w")) == 5

    def test_numbers_go_on_from_the_higher_ones_of_the_new_name(self, catalog: Catalog) -> None:
        with_view(catalog)
        catalog.create_view(a_view("w"), [SALES])
        former = lease_on(catalog, "w")
        for _ in range(3):
            do_refresh(catalog, former)
        catalog.drop_view(former)
        catalog.release(former)
        lease = lease_on(catalog)
        do_refresh(catalog, lease)
        catalog.rename_view(lease, "w")
        new = lease_on(catalog, "w")
        assert (new.epoch, do_refresh(catalog, new)) == (2, 4)

    def test_the_former_name_keeps_its_numbers_and_epochs(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        do_refresh(catalog, lease)
        catalog.rename_view(lease, "w")
        catalog.release(lease)
        catalog.create_view(a_view(), [SALES])
        again = lease_on(catalog)
        assert (again.epoch, do_refresh(catalog, again)) == (2, 2)

    @pytest.mark.parametrize("taken", ["sALES", "OTHER"])
    def test_a_name_that_is_taken(self, catalog: Catalog, taken: str) -> None:
        with_view(catalog)
        catalog.create_view(a_view("other"), [SALES])
        lease = lease_on(catalog)
        before = whole_catalog(catalog)
        with pytest.raises(NameExists, match=r"named (Sales|other) exists"):
            catalog.rename_view(lease, taken)
        assert whole_catalog(catalog) == before

    @pytest.mark.parametrize("name", ["w", "BIG_SALES"])
    def test_a_view_that_is_read_keeps_its_name(self, catalog: Catalog, name: str) -> None:
        """The definitions of its readers name it, and their vectors do so in this spelling."""
        with_view(catalog)
        catalog.create_view(a_view("above"), [SourceRecord("big_sales", "view")])
        lease = lease_on(catalog)
        before = whole_catalog(catalog)
        with pytest.raises(InUse, match="Big_Sales is read by above"):
            catalog.rename_view(lease, name)
        assert whole_catalog(catalog) == before

    @pytest.mark.parametrize("name", ["w", "BIG_SALES"])
    def test_not_while_an_intent_is_outstanding(self, catalog: Catalog, name: str) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        number = catalog.begin_intent(lease, "refresh", {}, {})
        before = whole_catalog(catalog)
        with pytest.raises(LeaseLost, match="intent 1 is outstanding"):
            catalog.rename_view(lease, name)
        assert whole_catalog(catalog) == before
        catalog.discard_intent(lease, number)
        catalog.rename_view(lease, name)
        assert catalog.view(name).name == name

    def test_not_while_a_transaction_with_it_is_outstanding(self, catalog: Catalog) -> None:
        with_view(catalog)
        held = {"sales": lease_on(catalog, "Sales"), "big_sales": lease_on(catalog)}
        parts = [TransactionPart("Sales", "table", {}), TransactionPart("Big_Sales", "view", {})]
        record = catalog.commit_transaction(held, parts, None, 1)
        with pytest.raises(ViewBusy, match="transaction that is not finished"):
            catalog.rename_view(held["big_sales"], "w")
        assert catalog.find_view("w") is None
        catalog.create_view(a_view("other"), [SALES])
        catalog.rename_view(lease_on(catalog, "other"), "another")
        catalog.end_transaction(held, record)
        catalog.rename_view(held["big_sales"], "w")
        assert catalog.view("w").name == "w"

    def test_other_capitals(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        do_refresh(catalog, lease)
        catalog.rename_view(lease, "BIG_sales")
        view = catalog.view("big_sales")
        assert (view.name, view.batch, view.version) == ("BIG_sales", 1, 7)
        assert [batch.view for batch in catalog.batches("big_sales", 0, 9)] == ["BIG_sales"]
        assert [record.view for record in catalog.refreshes("big_sales")] == ["BIG_sales"]
        assert catalog.dependants("sales") == catalog.dependency_order() == ["BIG_sales"]
        with pytest.raises(NameExists, match="A view named BIG_sales exists"):
            catalog.add_table(a_table("Big_Sales"))
        with pytest.raises(ViewBusy, match="'BIG_sales' is being maintained"):
            lease_on(catalog)
        assert do_refresh(catalog, lease) == 2

    def test_only_as_owner(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        catalog.release(lease)
        before = whole_catalog(catalog)
        with pytest.raises(LeaseLost):
            catalog.rename_view(lease, "w")
        assert whole_catalog(catalog) == before

    def test_of_a_view_only(self, catalog: Catalog) -> None:
        catalog.add_table(a_table())
        with pytest.raises(UnknownView):
            catalog.rename_view(lease_on(catalog, "Sales"), "w")
        assert [table.name for table in catalog.tables()] == ["Sales"]

    def test_the_former_lease_reaches_nothing_any_more(self, catalog: Catalog) -> None:
        with_view(catalog)
        lease = lease_on(catalog)
        do_refresh(catalog, lease)
        catalog.rename_view(lease, "w")
        before = whole_catalog(catalog)
        with pytest.raises(UnknownView):
            catalog.begin_intent(lease, "refresh", {}, {})
        with pytest.raises(UnknownView):
            catalog.publish_vector_only(lease, vector={"Sales": 9}, pending_vector={})
        assert whole_catalog(catalog) == before
        catalog.release(lease)
        assert catalog.holder("big_sales") is None

    def test_there_and_back(self, catalog: Catalog) -> None:
        with_view(catalog)
        for name, following in (("Big_Sales", "w"), ("w", "Big_Sales")):
            lease = lease_on(catalog, name)
            do_refresh(catalog, lease)
            catalog.rename_view(lease, following)
            catalog.release(lease)
        assert do_refresh(catalog, lease_on(catalog)) == 3
        assert len(catalog.refreshes("big_sales")) == 3


class TestTicks:
    def test_moved_on_once(self, catalog: Catalog) -> None:
        with_ticks(catalog)
        assert catalog.claim_tick("BIG_SALES", "refresh", LATER, LATER + timedelta(days=1))
        assert not catalog.claim_tick("big_sales", "refresh", LATER, LATER + timedelta(days=1))
        assert ticks(catalog) == (LATER + timedelta(days=1), SOON)
        assert catalog.claim_tick("big_sales", "propagate", SOON, None)
        assert not catalog.claim_tick("big_sales", "propagate", SOON, None)
        assert ticks(catalog) == (LATER + timedelta(days=1), None)

    def test_each_kind_by_itself(self, catalog: Catalog) -> None:
        with_ticks(catalog)
        assert not catalog.claim_tick("big_sales", "refresh", SOON, None)
        assert not catalog.claim_tick("big_sales", "propagate", LATER, None)
        assert ticks(catalog) == (LATER, SOON)

    def test_of_one_view_only(self, catalog: Catalog) -> None:
        other = replace(with_ticks(catalog), name="other")
        catalog.create_view(other, [SALES])
        assert catalog.claim_tick("big_sales", "refresh", LATER, None)
        assert catalog.view("other") == other

    def test_not_one_that_is_not_there(self, catalog: Catalog) -> None:
        with_view(catalog)
        assert not catalog.claim_tick("big_sales", "refresh", SOON, LATER)
        assert not catalog.claim_tick("nothing", "refresh", SOON, LATER)
        assert ticks(catalog) == (None, None)

    def test_exactly_the_moment_that_was_seen(self, catalog: Catalog) -> None:
        with_ticks(catalog)
        assert not catalog.claim_tick("big_sales", "refresh", LATER + timedelta(microseconds=1), None)
        assert catalog.claim_tick("big_sales", "refresh", catalog.view("big_sales").next_refresh or SOON, None)

    @pytest.mark.parametrize("kind", ["refresh", "propagate"])
    def test_one_of_several_gets_it(self, catalog: Catalog, kind: TickKind) -> None:
        catalog.add_table(a_table())
        catalog.create_view(replace(a_view(), next_refresh=THEN, next_propagate=THEN), [SALES])
        moments = [THEN + timedelta(minutes=i) for i in range(11)]
        claimed: list[int] = []

        def work() -> None:
            for i in range(10):
                if catalog.claim_tick("big_sales", kind, moments[i], moments[i + 1]):
                    claimed.append(i)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(claimed) == list(range(len(claimed)))
        assert ticks(catalog)[0 if kind == "refresh" else 1] == moments[len(claimed)] != THEN


def with_ticks(catalog: Catalog) -> ViewRecord:
    catalog.add_table(a_table())
    record = replace(a_view(), next_refresh=LATER, next_propagate=SOON)
    catalog.create_view(record, [SALES])
    return record


def ticks(catalog: Catalog) -> tuple[object, object]:
    view = catalog.view("big_sales")
    return view.next_refresh, view.next_propagate
