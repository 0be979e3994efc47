"""The bounds of a table's columns from the statistics of its files."""

from __future__ import annotations

import json

from monus.store.listing import _extents


def statistics(least: dict[str, object], most: dict[str, object], rows: int = 1) -> str:
    return json.dumps({"numRecords": rows, "minValues": least, "maxValues": most})


def test_bounds_are_those_of_all_files() -> None:
    files = [statistics({"a": 3}, {"a": 5}), statistics({"a": -1}, {"a": 4}), statistics({}, {}, rows=0)]
    assert _extents(files) == {"a": (-1, 5)}


def test_what_one_file_does_not_tell_is_not_known() -> None:
    known = statistics({"a": 3, "b": 1}, {"a": 5, "b": 2})
    assert _extents([known, statistics({"b": 0}, {"b": 1})]) == {"b": (0, 2)}
    assert _extents([known, None]) == {}
    assert _extents([]) == {}


def test_only_whole_numbers_have_bounds() -> None:
    assert _extents([statistics({"a": "x", "b": 1.5, "c": True}, {"a": "z", "b": 2.5, "c": True})]) == {}
