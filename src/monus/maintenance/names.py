"""Tables and views by name in the user's session, so that plain `spark.sql` reads them too."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from monus.errors import NameExists
from monus.maintenance.plans import same_path

logger = logging.getLogger(__name__)


class Names:
    """Names in the namespace that was current when the warehouse was opened."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.database = spark.catalog.currentDatabase()

    def qualified(self, name: str) -> str:
        return f"{_quoted(self.database)}.{_quoted(name)}"

    def location(self, name: str) -> str | None:
        """Where the session's table of that name is; None if there is none."""
        catalog = self._spark._jsparkSession.sessionState().catalog()
        jvm = self._spark._jvm
        identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(  # type: ignore[union-attr]
            name,
            jvm.scala.Option.apply(self.database),  # type: ignore[union-attr]
        )
        if not catalog.tableExists(identifier):
            return None
        storage = catalog.getTableMetadata(identifier).storage().locationUri()
        return str(storage.get().toString()) if storage.isDefined() else ""

    def check_free(self, name: str) -> None:
        if self.location(name) is not None:
            raise NameExists(
                f"The session has a table or view '{name}' already.",
                "Choose another name, or drop that one.",
                name=name,
            )

    def register(self, name: str, location: str) -> None:
        known = self.location(name)
        if known is not None:
            if not same_path(known, location):
                logger.warning("'%s' names another table in this session; read it through the warehouse", name)
            return
        path = location.replace("'", "\\'")
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {self.qualified(name)} USING DELTA LOCATION '{path}'")

    def forget(self, name: str) -> None:
        self._spark.sql(f"DROP TABLE IF EXISTS {self.qualified(name)}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
