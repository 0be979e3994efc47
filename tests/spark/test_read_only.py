"""Folders and files that nobody may write to, while an operation wants to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

import monus
from tests.spark.disk_lab import OPERATIONS, Lab, check_in_the_end, tried
from tests.spark.small_disk import catalog_opened_anew, read_only


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("folders")
    with monus.connect(folder / "wh", spark=spark) as wh:
        yield Lab(wh, folder)


@pytest.mark.parametrize(
    ("where", "name", "code"),
    [
        ("views/bl", "refresh", "FOLDER_READ_ONLY"),
        ("pending/bl", "refresh", "FOLDER_READ_ONLY"),
        ("pending/c", "propagate", "FOLDER_READ_ONLY"),
        ("views/c", "partial refresh", "FOLDER_READ_ONLY"),
        ("tables/t", "insert", "FOLDER_READ_ONLY"),
        ("tables/a", "transaction", "FOLDER_READ_ONLY"),
        ("tables/b", "transaction", "FOLDER_READ_ONLY"),
        ("views/im", "transaction", "TRANSACTION_OUTSTANDING"),
        ("pending/dt", "deletion", "TRANSACTION_OUTSTANDING"),
        (".", "refresh", None),
        (".", "transaction", None),
        (".", "delete", None),
        ("catalog.db", "refresh", "CATALOG_UNAVAILABLE"),
        ("catalog.db", "transaction", "CATALOG_UNAVAILABLE"),
        ("catalog.db", "insert", None),
    ],
)
def test_a_read_only_folder(lab: Lab, where: str, name: str, code: str | None) -> None:
    operation = OPERATIONS[name]
    operation.prepare(lab)
    stack = ExitStack()
    if where in (".", "catalog.db"):
        stack.enter_context(catalog_opened_anew(lab.wh))
    stack.enter_context(read_only(lab.wh.root / where))
    error = tried(lab, operation, ExitStack(), stack.close)
    assert error is None or code is None or error.code == code
    assert (error is None) == ((where, name) == ("catalog.db", "insert"))


def test_after_read_only_folders(lab: Lab) -> None:
    check_in_the_end(lab)
