"""Everything that a failed operation must leave alone, as one value that can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from monus import MonusError, Warehouse


def picture(wh: Warehouse) -> dict[str, Any]:
    """The catalog, the files and the session's names; a view's rows are its files at its published version."""
    catalog = wh._catalog
    files = sorted(
        str(path.relative_to(wh.root))
        for folder in ("tables", "views", "pending")
        for path in Path(wh.root, folder).rglob("*")
        if path.is_file() and not path.name.startswith(".")
        # A task of Spark that fails in a table leaves its file to VACUUM; no version has it.
        if folder != "tables" or path.parent.name == "_delta_log"
    )
    return {
        "tables": catalog.tables(),
        "views": catalog.views(),
        "sources": {view.name: catalog.sources(view.name) for view in catalog.views()},
        "files": files,
        "names": sorted(row.tableName for row in wh.spark.sql("SHOW TABLES").collect()),
    }


@contextmanager
def refused(wh: Warehouse, kind: type[MonusError], *said: str) -> Iterator[pytest.ExceptionInfo[MonusError]]:
    """The block raises exactly this error, which says these things and what to do next, and nothing has changed."""
    before = picture(wh)
    with pytest.raises(MonusError) as caught:
        yield caught
    error = caught.value
    assert type(error) is kind, error
    assert error.code == kind.code
    assert error.hint, error
    for words in said:
        assert words in error.message, error
    assert picture(wh) == before
