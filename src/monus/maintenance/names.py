"""Tables and views by name in the user's session, so that plain `spark.sql` reads them too.

Spark's own catalog takes only names of letters, digits and `_`, and the session may have another table of a
name already. Such a table is known to the session under a name made from its own; where nothing else has the
proper name, a temporary view shows it under that.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections import Counter

from pyspark.sql import SparkSession

from monus.catalog.records import key_of
from monus.errors import NameExists
from monus.frontend.jvm import java_class, quoted
from monus.frontend.substitution import session_view, table_identifier
from monus.maintenance.plans import same_path

logger = logging.getLogger(__name__)

# How many open warehouses of this process use a name of Spark's catalog that Monus put there.
_users: Counter[tuple[str, str, str]] = Counter()


class Names:
    """Names in the namespace that was current when the warehouse was opened."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root
        self.database = spark.catalog.currentDatabase()
        self._made: dict[str, str] = {}
        self._shown: set[str] = set()
        self._used: set[tuple[str, str, str]] = set()

    def own(self, parts: tuple[str, ...], database: str | None = None) -> str | None:
        """The name that these parts are in the warehouse; `database` is one that also stood for it once."""
        if len(parts) == 3 and parts[0].lower() == "spark_catalog":
            parts = parts[1:]
        databases = {self.database.lower(), (database or self.database).lower()}
        if len(parts) == 1:
            return parts[0]
        return parts[1] if len(parts) == 2 and parts[0].lower() in databases else None

    def session_name(self, name: str) -> str:
        """The name under which the session's catalog has it."""
        return self._made.get(key_of(name), name)

    def name_of(self, session_name: str) -> str:
        """The other way round."""
        return next((name for name, made in self._made.items() if made.lower() == session_name.lower()), session_name)

    def is_shown(self, name: str) -> bool:
        """Whether a temporary view of that name is there only because Monus shows a table by it."""
        return key_of(name) in self._shown

    def parts(self, name: str) -> tuple[str, str]:
        return self.database, self.session_name(name)

    def qualified(self, name: str) -> str:
        return ".".join(quoted(part) for part in self.parts(name))

    def location(self, name: str) -> str | None:
        """Where the session's table of that name is; None if there is none."""
        catalog = self._spark._jsparkSession.sessionState().catalog()
        jvm = self._spark._jvm
        identifier = table_identifier(jvm, name, self.database)
        if not catalog.tableExists(identifier):
            return None
        storage = catalog.getTableMetadata(identifier).storage().locationUri()
        if not storage.isDefined():
            return ""
        # As a path, not as a URI: a URI writes some characters in another way.
        return str(java_class(jvm, "org.apache.hadoop.fs.Path")(storage.get()).toString())

    def check_free(self, name: str) -> None:
        is_temporary = session_view(self._spark, (name,)) is not None and not self.is_shown(name)
        if is_temporary or self.location(name) is not None:
            kind = "a temporary view" if is_temporary else "a table or view"
            raise NameExists(
                f"The session has {kind} '{name}' already.",
                "Choose another name, or drop that one.",
                name=name,
            )

    def reserve(self, name: str) -> tuple[str, str]:
        """The parts under which a table that is about to be created will be registered."""
        if not _is_plain(name):
            self._made[key_of(name)] = self._make(name)
        return self.parts(name)

    def register(self, name: str, location: str) -> None:
        """Make the name known, or find it known already."""
        known = self.location(name) if _is_plain(name) else ""
        if known is not None and not same_path(known, location):
            self._made[key_of(name)] = self._make(name)
            if _is_plain(name):
                logger.warning("'%s' names another table in this session; read it through the warehouse", name)
        session_name = self.session_name(name)
        found = self.location(session_name)
        if found is None:
            path = location.replace("\\", "\\\\").replace("'", "\\'")
            self._spark.sql(f"CREATE TABLE IF NOT EXISTS {self.qualified(name)} USING DELTA LOCATION '{path}'")
        self.use(name)
        if not _is_plain(name) and session_view(self._spark, (name,)) is None:
            self._show(name)

    def use(self, name: str) -> None:
        """Count this warehouse among those that need the name in the session."""
        key = self._key(name)
        if key not in self._used:
            self._used.add(key)
            _users[key] += 1

    def forget(self, name: str) -> None:
        """The table or view was dropped."""
        if self.is_shown(name):
            self._spark.catalog.dropTempView(name)
            self._shown.discard(key_of(name))
        self._spark.sql(f"DROP TABLE IF EXISTS {self.qualified(name)}")
        self._used.discard(self._key(name))
        _users.pop(self._key(name), None)
        self._made.pop(key_of(name), None)

    def close(self) -> None:
        """Take back what only this process's own catalog knows; a metastore keeps it for others."""
        keeps = self._spark.conf.get("spark.sql.catalogImplementation") != "in-memory"
        for name in self._shown:
            self._spark.catalog.dropTempView(name)
        for key in self._used:
            _users[key] -= 1
            if _users[key] <= 0:
                del _users[key]
                if not keeps:
                    self._spark.sql(f"DROP TABLE IF EXISTS {quoted(key[1])}.{quoted(key[2])}")
        self._used.clear()
        self._shown.clear()

    def _show(self, name: str) -> None:
        columns = self._spark.table(self.qualified(name)).columns
        shown = ", ".join(quoted(column) for column in columns if not column.startswith("__"))
        self._spark.sql(f"CREATE TEMPORARY VIEW {quoted(name)} AS SELECT {shown} FROM {self.qualified(name)}")
        self._shown.add(key_of(name))

    def _make(self, name: str) -> str:
        """A name that Spark's catalog takes, always the same one for a name in a warehouse."""
        number = zlib.crc32(f"{self._root}\n{key_of(name)}".encode())
        return f"{re.sub('[^a-z0-9_]', '_', key_of(name))[:80]}_{number:08x}"

    def _key(self, name: str) -> tuple[str, str, str]:
        return str(self._spark.sparkContext.applicationId), self.database.lower(), self.session_name(name).lower()


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"\w+", name, re.ASCII) is not None
