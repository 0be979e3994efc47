from __future__ import annotations

from dataclasses import replace

import pytest

from monus.catalog.catalog import Catalog
from monus.errors import InUse, NameExists, UnknownTable
from tests.unit.catalog.samples import SALES, a_table, a_view, lease_on, with_view


def test_a_table_comes_back_as_it_went_in(catalog: Catalog) -> None:
    plain = a_table()
    attached = replace(a_table("orders"), identifier="spark_catalog.default.orders", managed=False)
    catalog.add_table(plain)
    catalog.add_table(attached)
    assert catalog.table("Sales") == plain
    assert catalog.tables() == [attached, plain]


def test_names_compare_without_case_and_keep_their_spelling(catalog: Catalog) -> None:
    catalog.add_table(a_table("Sales"))
    assert catalog.table("SALES").name == "Sales"
    with pytest.raises(NameExists, match="A table named Sales exists"):
        catalog.add_table(a_table("sALES"))


def test_any_name_will_do(catalog: Catalog) -> None:
    for name in ["Größe", "a b`c'd\"e;", "union", "日本", "%", "a.b"]:
        catalog.add_table(a_table(name))
        assert catalog.table(name).name == name


def test_tables_and_views_share_their_names(catalog: Catalog) -> None:
    with_view(catalog)
    with pytest.raises(NameExists, match="A view named Big_Sales exists"):
        catalog.add_table(a_table("BIG_SALES"))
    with pytest.raises(NameExists, match="A table named Sales exists"):
        catalog.create_view(a_view("sales"), [SALES])
    assert [view.name for view in catalog.views()] == ["Big_Sales"]


def test_update(catalog: Catalog) -> None:
    catalog.add_table(a_table())
    catalog.update_table(a_table(table_id="id-2"))
    assert catalog.table("sales").table_id == "id-2"
    with pytest.raises(UnknownTable):
        catalog.update_table(a_table("other"))


def test_unknown(catalog: Catalog) -> None:
    assert catalog.find_table("nothing") is None
    with pytest.raises(UnknownTable, match="no table named nothing"):
        catalog.table("nothing")
    with pytest.raises(UnknownTable):
        catalog.drop_table("nothing")


def test_a_table_that_is_read_is_not_dropped(catalog: Catalog) -> None:
    with_view(catalog)
    with pytest.raises(InUse, match="Sales is read by Big_Sales"):
        catalog.drop_table("Sales")
    catalog.drop_view(lease_on(catalog))
    catalog.drop_table("Sales")
    assert catalog.tables() == []
    catalog.add_table(a_table())
