"""Another process on a warehouse: it connects, looks at what is there by name, refreshes and verifies."""

from __future__ import annotations

import sys
from pathlib import Path

import monus
from tests.spark.quick_spark import quick_session


def main(folder: str, view: str) -> None:
    spark = quick_session(Path(folder).parent / "second")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    with monus.connect(folder, spark=spark) as wh:
        names = {row.tableName for row in spark.sql("SHOW TABLES").collect()}
        assert {view, "sales"} <= names, names
        assert spark.sql("SELECT * FROM sales").count() > 0
        assert spark.sql(f"SELECT * FROM {view} VERSION AS OF 1").count() > 0
        done = wh.view(view).refresh()
        assert isinstance(done, monus.Refresh)
        assert done.incremental and done.rows_inserted == 1, done
        assert wh.view(view).verify().ok
        for row in wh.sql(f"SELECT * FROM {view}").collect():
            sys.stdout.write(f"{' '.join(map(str, row))}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
