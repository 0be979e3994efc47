"""Readable, unique names for Spark's attributes: `custId`, and `custId#2` for the next of that name."""

from __future__ import annotations

from typing import Any

from monus.frontend.expressions import attribute_id


class Names:
    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}
        self._used: set[str] = set()

    def new(self, attribute: Any) -> str:
        """The name of an attribute that an operator makes; the same id keeps its name."""
        key = attribute_id(attribute)
        if key not in self._by_id:
            self._by_id[key] = self.unused(attribute.name())
        return self._by_id[key]

    def of(self, key: str) -> str:
        return self._by_id[key]

    def alias(self, attribute: Any, name: str) -> None:
        """Another attribute for a column that has a name."""
        self._by_id[attribute_id(attribute)] = name

    def unused(self, name: str) -> str:
        """A name that no column has yet."""
        candidate, n = name, 1
        while candidate in self._used:
            n += 1
            candidate = f"{name}#{n}"
        self._used.add(candidate)
        return candidate
