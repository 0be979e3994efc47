"""How a view may be refreshed: which strategies the engine may choose from."""

from __future__ import annotations

from enum import Enum

from monus.sql.cursor import Cursor


class Mode(Enum):
    AUTO = "AUTO"  # by cost
    INCREMENTAL = "INCREMENTAL"  # in full only where nothing else is possible
    STRICT = "STRICT"  # never in full; refused at creation otherwise
    FULL = "FULL"  # always in full

    def __str__(self) -> str:
        return self.value


def parse_mode(text: str) -> Mode:
    """The mode that `create_view(mode=...)` names, in any case."""
    cursor = Cursor(text)
    mode = read_mode(cursor)
    cursor.expect_end()
    return mode


def read_mode(cursor: Cursor) -> Mode:
    return Mode(cursor.one_of(*(mode.value for mode in Mode)))
