from __future__ import annotations

from dataclasses import replace

import pytest

from monus.catalog.catalog import Catalog
from monus.catalog.records import SourceRecord, Unusable
from monus.errors import DefinitionInvalid, InUse, LeaseLost, NameExists, UnknownTable, UnknownView
from tests.unit.catalog.samples import SALES, a_table, a_view, do_refresh, lease_on, with_view


def view_source(name: str) -> SourceRecord:
    return SourceRecord(name, "view")


def test_a_view_comes_back_as_it_went_in(catalog: Catalog) -> None:
    catalog.add_table(a_table())
    plain = a_view("plain")
    rebuilt = replace(
        a_view("rebuilt"),
        hidden=True,
        comment=None,
        columns=(),
        table_id="t-1",
        unusable_reason=Unusable("FOREIGN_COMMIT", "Somebody else wrote to it."),
        batch=4,
        version=17,
        vector={"sales": {"id": "x", "version": 3}},
        pending_vector={"sales": {"id": "x", "version": 5}},
        pending_from=3,
    )
    catalog.create_view(plain, [SALES])
    catalog.create_view(rebuilt, [SALES])
    assert catalog.views() == [plain, rebuilt]
    assert catalog.view("PLAIN") == plain
    assert plain.usable
    assert not rebuilt.usable


def test_unknown(catalog: Catalog) -> None:
    assert catalog.find_view("nothing") is None
    for attempt in (
        lambda: catalog.view("nothing"),
        lambda: catalog.mark_unusable("nothing", "CODE", "Why."),
        lambda: catalog.drop_view(lease_on(catalog, "nothing")),
    ):
        with pytest.raises(UnknownView, match="no materialized view named nothing"):
            attempt()


def test_a_source_must_exist(catalog: Catalog) -> None:
    with_view(catalog)
    with pytest.raises(UnknownTable):
        catalog.create_view(a_view("v"), [SourceRecord("nothing", "table")])
    with pytest.raises(UnknownView):
        catalog.create_view(a_view("v"), [view_source("Sales")])
    with pytest.raises(UnknownView):
        catalog.create_view(a_view("v"), [view_source("v2")])
    assert catalog.find_view("v") is None


def test_a_name_is_used_once(catalog: Catalog) -> None:
    with_view(catalog)
    with pytest.raises(NameExists):
        catalog.create_view(a_view("BIG_sales"), [SALES])


def test_sources_and_dependants(catalog: Catalog) -> None:
    with_view(catalog, "b")
    catalog.create_view(a_view("a"), [view_source("B"), SourceRecord("SALES", "table"), view_source("b")])
    assert catalog.sources("A") == [view_source("b"), SALES]
    assert catalog.dependants("sales") == ["a", "b"]
    assert catalog.dependants("b") == ["a"]
    assert catalog.dependants("a") == []


def test_dependency_order(catalog: Catalog) -> None:
    with_view(catalog, "d")
    catalog.create_view(a_view("c"), [view_source("d")])
    catalog.create_view(a_view("b"), [view_source("d")])
    catalog.create_view(a_view("a"), [view_source("c"), view_source("b")])
    catalog.create_view(a_view("e"), [])
    order = catalog.dependency_order()
    assert sorted(order) == ["a", "b", "c", "d", "e"]
    assert order.index("d") < min(order.index("b"), order.index("c"))
    assert order.index("a") > max(order.index("b"), order.index("c"))


def test_a_view_that_is_read_is_not_dropped(catalog: Catalog) -> None:
    with_view(catalog, "below")
    catalog.create_view(a_view("above"), [view_source("below")])
    with pytest.raises(InUse, match="below is read by above"):
        catalog.drop_view(lease_on(catalog, "below"))
    assert catalog.find_view("below") is not None


def test_dropping_keeps_the_history_only(catalog: Catalog) -> None:
    with_view(catalog)
    lease = lease_on(catalog)
    do_refresh(catalog, lease)
    catalog.begin_intent(lease, "refresh", {}, {})
    catalog.drop_view(lease)
    assert catalog.views() == []
    assert catalog.batches("Big_Sales", 0, 100) == []
    assert catalog.outstanding_intent("Big_Sales") is None
    assert len(catalog.refreshes("Big_Sales")) == 1
    catalog.release(lease)
    assert lease_on(catalog).outstanding is None


def test_replacing(catalog: Catalog) -> None:
    with_view(catalog)
    catalog.add_table(a_table("other"))
    lease = lease_on(catalog)
    do_refresh(catalog, lease)
    catalog.begin_intent(lease, "refresh", {}, {})
    replacement = replace(a_view("BIG_SALES"), definition={"text": "SELECT 2"})
    catalog.replace_view(lease, replacement, [SourceRecord("other", "table")])
    assert catalog.views() == [replacement]
    assert catalog.sources("big_sales") == [SourceRecord("other", "table")]
    assert catalog.batches("big_sales", 0, 100) == []
    assert catalog.outstanding_intent("big_sales") is None
    assert catalog.begin_intent(lease, "refresh", {}, {}) == 3


def test_replacing_does_not_make_a_circle(catalog: Catalog) -> None:
    with_view(catalog, "a")
    catalog.create_view(a_view("b"), [view_source("a")])
    catalog.create_view(a_view("c"), [view_source("b")])
    lease = lease_on(catalog, "a")
    for source in ("a", "c"):
        with pytest.raises(DefinitionInvalid, match="a would read itself"):
            catalog.replace_view(lease, a_view("a"), [view_source(source)])
    assert catalog.sources("a") == [SALES]


def test_only_the_owner_replaces_and_drops(catalog: Catalog) -> None:
    with_view(catalog)
    lease = lease_on(catalog)
    catalog.release(lease)
    with pytest.raises(LeaseLost):
        catalog.replace_view(lease, a_view(), [SALES])
    with pytest.raises(LeaseLost):
        catalog.drop_view(lease)
    assert catalog.find_view("big_sales") is not None


def test_usable_and_not(catalog: Catalog) -> None:
    with_view(catalog)
    catalog.mark_unusable("big_sales", "FOREIGN_COMMIT", "Somebody else wrote to it.")
    assert catalog.view("big_sales").unusable_reason == Unusable("FOREIGN_COMMIT", "Somebody else wrote to it.")
    lease = lease_on(catalog)
    catalog.mark_usable("big_sales", lease)
    assert catalog.view("big_sales").usable
    catalog.release(lease)
    with pytest.raises(LeaseLost):
        catalog.mark_unusable("big_sales", "CODE", "Too late.", lease)
    assert catalog.view("big_sales").usable
