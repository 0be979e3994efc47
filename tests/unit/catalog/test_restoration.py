from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from monus.catalog.catalog import Catalog, set_aside_if_damaged
from monus.catalog.records import BatchRecord, SourceRecord
from monus.catalog.restoration import FoundView
from monus.errors import CatalogUnavailable, NameExists, UnknownTable
from tests.unit.catalog.samples import SALES, THEN, a_table, a_view, lease_on, with_view

VIEW = replace(a_view(batch=5), version=9, pending_from=6, table_id="t-9", vector={"Sales": 3})
BATCH = BatchRecord("Big_Sales", 5, "refresh", 9, {}, {"Sales": 3}, True, THEN)
ABOVE = FoundView(a_view("Above"), (SourceRecord("Big_Sales", "view"),), (), 2)


def test_what_was_lost_is_back(catalog: Catalog) -> None:
    assert catalog.is_empty()
    catalog.restore([a_table()], [ABOVE, FoundView(VIEW, (SALES,), (BATCH,), 8)])
    assert not catalog.is_empty()
    assert catalog.tables() == [a_table()]
    assert catalog.view("big_sales") == VIEW
    assert catalog.sources("big_sales") == [SALES]
    assert catalog.dependency_order() == ["Big_Sales", "Above"]
    assert catalog.batches("big_sales", 0, 9) == [BATCH]


def test_numbers_go_on_above_those_that_were_used(catalog: Catalog) -> None:
    catalog.restore([a_table()], [FoundView(VIEW, (SALES,), (), 8)])
    assert catalog.begin_intent(lease_on(catalog), "refresh", {}, {}) == 9


@pytest.mark.parametrize(
    ("tables", "error"), [([], UnknownTable), ([a_table(), a_table("big_sales")], NameExists)], ids=["source", "name"]
)
def test_all_or_nothing(catalog: Catalog, tables: list, error: type[Exception]) -> None:  # type: ignore[type-arg]
    with pytest.raises(error):
        catalog.restore(tables, [FoundView(VIEW, (SALES,), (), 8)])
    assert catalog.is_empty()


def test_a_sound_catalog_stays_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog:
        with_view(catalog)
    assert set_aside_if_damaged(path) is None
    with Catalog.open(path) as catalog:
        assert [view.name for view in catalog.views()] == ["Big_Sales"]


def test_no_database_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_bytes(b"nothing" * 1000)
    aside = set_aside_if_damaged(path)
    assert aside is not None and aside.read_bytes() == b"nothing" * 1000
    assert not path.exists()


def test_damage_that_opening_does_not_notice(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path) as catalog:
        for number in range(200):
            catalog.add_table(a_table(f"table_{number}"))
    pages = bytearray(path.read_bytes())
    pages[-4096 * 4 :] = bytes(4096 * 4)
    path.write_bytes(pages)
    assert set_aside_if_damaged(path) is not None


def test_a_catalog_that_cannot_be_opened_for_another_reason_is_not_moved(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.mkdir()
    with pytest.raises(CatalogUnavailable):
        set_aside_if_damaged(path)
    assert path.is_dir()
