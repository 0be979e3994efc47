"""A refresh can be stopped from another thread, and leaves the old state."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import MonusError, RefreshCancelled


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_a_refresh_is_cancelled(spark: SparkSession, tmp_path: Path, full: bool) -> None:
    with monus.connect(tmp_path / "warehouse", spark=spark) as wh:
        wh.sql("CREATE TABLE many (x BIGINT)")
        # Slow row by row: a task that is killed ends with the rows that it has read, but not within one.
        slow = "aggregate(sequence(1, 2000), 0L, (sum, y) -> sum + y * x % 7) >= 0"
        wh.create_view("counted", f"SELECT count(*) AS n FROM many WHERE {slow}")
        view = wh.view("counted")
        wh.sql("INSERT INTO many SELECT id FROM range(2000000)")
        assert not view.cancel(), "nothing is running"
        errors: list[MonusError] = []

        def work() -> None:
            try:
                view.refresh(full=full)
            except MonusError as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        deadline = time.monotonic() + 60
        while thread.is_alive() and time.monotonic() < deadline:
            time.sleep(2)  # there are minutes of work
            view.cancel()
        thread.join(60)
        assert [type(error) for error in errors] == [RefreshCancelled]
        assert wh.table("counted").collect()[0]["n"] == 0
        assert view.verify().ok and not view.status().fresh
        wh.sql("DELETE FROM many WHERE x >= 100")
        done = view.refresh()
        assert isinstance(done, monus.Refresh) and done.incremental
        assert view.verify().ok and view.status().fresh
        wh.drop_view("counted")
        wh.sql("DROP TABLE many")
