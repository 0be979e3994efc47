from __future__ import annotations

from dataclasses import replace

from monus.catalog.catalog import Catalog
from tests.unit.catalog.samples import a_refresh


def test_newest_first_and_as_many_as_asked_for(catalog: Catalog) -> None:
    records = [replace(a_refresh(), seconds=seconds) for seconds in (0.1, 0.2, 0.3)]
    for record in records:
        catalog.record_refresh(record)
    catalog.record_refresh(a_refresh("other"))
    assert catalog.refreshes("BIG_SALES") == records[::-1]
    assert catalog.refreshes("Big_Sales", limit=2) == records[:0:-1]
    assert catalog.refreshes("nothing") == []


def test_failures_are_kept_too(catalog: Catalog) -> None:
    failed = replace(a_refresh(error="SourceHistoryLost: gone"), strategy="none", commits=0)
    catalog.record_refresh(failed)
    assert catalog.refreshes("big_sales") == [failed]


def test_large_counts(catalog: Catalog) -> None:
    large = replace(a_refresh(), rows_inserted=5_000_000_000, rows_read={"Sales": 10**15})
    catalog.record_refresh(large)
    assert catalog.refreshes("big_sales") == [large]
