"""The local session has Delta, the maintenance session has its own settings, and jobs can be counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from monus.errors import SessionInvalid
from monus.store import session as sessions
from monus.store.session import local_session, maintenance_session, require_delta, spark_is_running


def test_writes_and_reads_delta(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "t"))
    assert spark.read.format("delta").load(str(tmp_path / "t")).count() == 3


def test_a_second_local_session_is_the_same_spark(spark: SparkSession, warehouse_path: Path) -> None:
    assert spark_is_running()
    assert local_session(warehouse_path).sparkContext is spark.sparkContext


def test_maintenance_has_settings_of_its_own(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    spark.catalog.setCurrentDatabase("elsewhere")
    try:
        settings = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
        session = maintenance_session(spark, settings)
        assert session.catalog.currentDatabase() == "elsewhere"
        assert session.conf.get("spark.sql.adaptive.enabled") == "false"
        assert {name: session.conf.get(name) for name in settings} == settings
        assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
        assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    finally:
        spark.catalog.setCurrentDatabase("default")
        spark.sql("DROP DATABASE elsewhere")


def test_counts_jobs(spark: SparkSession, job_counter: Callable[[], AbstractContextManager[Any]]) -> None:
    with job_counter() as none:
        spark.range(10).schema  # noqa: B018 - asking for the schema is the point
    with job_counter() as one:
        spark.range(10).collect()
    assert (none.jobs, one.jobs) == (0, 1)


def test_counts_jobs_of_other_sessions(spark: SparkSession, job_counter: Callable[[], Any]) -> None:
    session = maintenance_session(spark, {})
    with job_counter() as count:
        session.range(10).collect()
    assert count.jobs == 1


def test_a_session_with_delta_is_accepted(spark: SparkSession) -> None:
    require_delta(spark)


class Conf:
    """Stands for the configuration of a Spark that was started by somebody else."""

    def __init__(self, **settings: str) -> None:
        self.settings = settings

    def get(self, name: str) -> str | None:
        return self.settings.get(name.rsplit(".", 1)[-1])


@pytest.mark.parametrize(
    ("conf", "has_classes", "missing"),
    [
        (Conf(), False, ["spark.jars.packages", "spark.sql.extensions", "spark.sql.catalog.spark_catalog"]),
        (Conf(extensions=f"a.B,{sessions.DELTA_EXTENSION}"), True, ["spark.sql.catalog.spark_catalog"]),
        (Conf(spark_catalog=sessions.DELTA_CATALOG), True, ["spark.sql.extensions"]),
    ],
)
def test_a_session_without_delta_is_told_the_lines_to_add(
    spark: SparkSession, conf: Conf, has_classes: bool, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: conf)
    monkeypatch.setattr(sessions, "_has_delta_classes", lambda _: has_classes)
    with pytest.raises(SessionInvalid) as caught:
        require_delta(spark)
    lines = caught.value.fields["missing"]
    assert [line.split('"')[1] for line in lines] == missing
    assert all(line in str(caught.value) for line in lines)
