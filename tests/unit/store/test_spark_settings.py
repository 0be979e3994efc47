"""Our defaults for a local Spark give way to what the user's environment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from monus.store import jars
from monus.store.spark_settings import (
    DELTA_CATALOG,
    DELTA_EXTENSION,
    GIGABYTE,
    default_driver_memory,
    local_settings,
    user_settings,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_defaults(tmp_path: Path) -> None:
    settings = local_settings(tmp_path / "ware house", {})
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.sql.extensions"] == DELTA_EXTENSION
    assert settings["spark.sql.catalog.spark_catalog"] == DELTA_CATALOG
    assert settings["spark.sql.warehouse.dir"].endswith("/ware%20house/spark-warehouse")
    assert settings["spark.jars.packages"] == jars.delta_coordinate()
    assert "log4j2.properties" in settings["spark.driver.extraJavaOptions"]
    assert "spark.sql.session.timeZone" not in settings
    assert int(settings["spark.sql.codegen.cache.maxEntries"]) > 1000


def test_the_coordinate_fits_the_pinned_versions() -> None:
    assert jars.delta_coordinate() == "io.delta:delta-spark_4.1_2.13:4.4.0"


@pytest.mark.parametrize(
    "environment",
    [
        {"SPARK_DRIVER_MEMORY": "3g"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-memory 3g pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.memory=3g pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf=spark.driver.memory=3g pyspark-shell"},
    ],
)
def test_the_user_sets_the_memory(environment: dict[str, str], tmp_path: Path) -> None:
    assert user_settings(environment)["spark.driver.memory"] == "3g"
    assert "spark.driver.memory" not in local_settings(tmp_path, environment)


def test_the_user_has_a_defaults_file(tmp_path: Path) -> None:
    lines = ["# a comment", "spark.driver.memory   2g", "spark.ui.enabled=true", "spark.sql.extensions a.B, c.D", ""]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines), encoding="utf-8")
    settings = local_settings(tmp_path, {"SPARK_CONF_DIR": str(tmp_path)})
    assert "spark.driver.memory" not in settings
    assert "spark.ui.enabled" not in settings
    assert settings["spark.sql.extensions"] == f"a.B,c.D,{DELTA_EXTENSION}"


def test_the_user_has_a_logging_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "log4j2.properties").touch()
    assert "spark.driver.extraJavaOptions" not in local_settings(tmp_path, {"SPARK_CONF_DIR": str(tmp_path)})


def test_a_local_spark_stays_local(tmp_path: Path) -> None:
    masters = {"local[1]": "local[1]", "spark://host:7077": "local[*]"}
    for master, expected in masters.items():
        environment = {"PYSPARK_SUBMIT_ARGS": f"--master {master} pyspark-shell"}
        assert local_settings(tmp_path, environment)["spark.master"] == expected


def test_remembered_jars_take_the_place_of_the_coordinate(tmp_path: Path) -> None:
    jar = tmp_path / "a jar.jar"
    jar.touch()
    jars.remember_jars([jar.as_uri()])
    assert jars.cached_jars() == (jar.as_uri(),)
    settings = local_settings(tmp_path, {})
    assert settings["spark.jars"] == jar.as_uri()
    assert "spark.jars.packages" not in settings


def test_packages_of_the_user_are_resolved_together_with_delta(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.touch()
    jars.remember_jars([jar.as_uri()])
    settings = local_settings(tmp_path, {"PYSPARK_SUBMIT_ARGS": "--packages g:a:1 pyspark-shell"})
    assert settings["spark.jars.packages"] == f"g:a:1,{jars.delta_coordinate()}"
    assert "spark.jars" not in settings


def test_a_jar_that_is_gone_is_fetched_again(tmp_path: Path) -> None:
    jars.remember_jars([(tmp_path / "gone.jar").as_uri()])
    assert jars.cached_jars() == ()


def test_a_cache_that_cannot_be_written_does_no_harm(cache: Path) -> None:
    cache.touch()
    jars.remember_jars(["file:///a.jar"])
    assert jars.cached_jars() == ()


@pytest.mark.parametrize(("gigabytes", "memory"), [(1, "1024m"), (6, "3072m"), (64, "8192m")])
def test_half_of_the_memory(gigabytes: int, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monus.store.spark_settings._usable_memory", lambda: gigabytes * GIGABYTE)
    assert default_driver_memory() == memory
