"""From what a user gives, a text or a DataFrame, to a definition that survives the process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from monus.catalog.records import ViewRecord
from monus.errors import MonusError
from monus.frontend.definition import Definition, capture
from monus.frontend.jvm import analyzed, option
from monus.frontend.same_plan import difference
from monus.frontend.to_sql import Leaf, not_storable, to_sql
from monus.maintenance.lookup import Lookup
from monus.maintenance.queries import Queries


@dataclass(frozen=True, slots=True)
class Definitions:
    spark: SparkSession
    lookup: Lookup
    queries: Queries

    def of(self, query: str | DataFrame) -> Definition:
        text = query if isinstance(query, str) else self._text_of(query)
        return capture(self.spark, text, self.lookup.knows, self._printed)

    def _text_of(self, frame: DataFrame) -> str:
        """The SQL that the DataFrame was made by, if that still means the same; else SQL made from its plan."""
        plan = analyzed(frame)
        text = option(frame._jdf.queryExecution().logical().origin().sqlText())
        if text is not None and self._difference(str(text), plan) is None:
            return str(text)
        return self._printed(plan)

    def _printed(self, plan: Any) -> str:
        text = to_sql(self.spark._jvm, plan, self._leaf)
        found = self._difference(text, plan)
        if found is not None:
            raise not_storable(f"its text reads back as something else: {found}")
        return text

    def _difference(self, text: str, plan: Any) -> str | None:
        """What differs when the text is analysed again; None if nothing does."""
        try:
            again = analyzed(self.queries.frame(text))
        except MonusError as error:
            return error.message
        except Exception as error:
            return str(error).split("\n")[0]
        return difference(self.spark._jvm, plan, again)

    def _leaf(self, path: str) -> Leaf | None:
        record = self.lookup.at(path)
        if record is None:
            return None
        is_hidden = not self.lookup.knows((record.name,))
        parts = (self.lookup.names.database, record.name) if is_hidden else (record.name,)
        return Leaf(parts, isinstance(record, ViewRecord))
