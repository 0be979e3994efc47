"""Commits are parsed from their JSON lines without a JVM."""

from __future__ import annotations

import json

from monus.store.log import parse_commit

ADD = {
    "path": "p=1/part-0.parquet",
    "partitionValues": {"p": "1"},
    "size": 700,
    "modificationTime": 5,
    "dataChange": True,
    "stats": json.dumps({"numRecords": 10}),
}
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH", "offset": 4, "sizeInBytes": 40, "cardinality": 3}


def lines(*actions: dict[str, object]) -> str:
    return "\n".join(json.dumps(action) for action in actions)


def test_a_commit_with_everything() -> None:
    commit = parse_commit(
        7,
        lines(
            {"commitInfo": {"timestamp": 9, "operation": "MERGE", "userMetadata": '{"n": 1}'}},
            {"txn": {"appId": "monus:v", "version": 3}},
            {"metaData": {"id": "t", "schemaString": "{}", "partitionColumns": ["p"], "configuration": {"a": "b"}}},
            {"remove": {"path": "old.parquet", "deletionTimestamp": 8, "dataChange": True}},
            {"add": {**ADD, "deletionVector": VECTOR}},
            {"cdc": {"path": "_change_data/c.parquet", "partitionValues": {}, "size": 5, "dataChange": False}},
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7}},
        ),
    )
    assert (commit.version, commit.operation, commit.user_metadata, commit.timestamp) == (7, "MERGE", '{"n": 1}', 9)
    assert commit.txns == {"monus:v": 3}
    assert commit.metadata is not None and commit.metadata.partition_columns == ("p",)
    assert commit.is_data_change
    (add,), (remove,), (cdc,) = commit.adds, commit.removes, commit.cdc
    assert add.key == ("p=1/part-0.parquet", "uab^-aqEH@4")
    assert add.num_records == 7
    assert (remove.key, remove.size, remove.num_records, remove.timestamp) == (("old.parquet", None), None, None, 8)
    assert (cdc.size, cdc.data_change) == (5, False)


def test_compaction_changes_no_data() -> None:
    commit = parse_commit(1, lines({"add": {**ADD, "dataChange": False}}))
    assert not commit.is_data_change
    assert not parse_commit(2, "").is_data_change


def test_a_text_may_hold_line_separators() -> None:
    text = json.dumps({"add": {**ADD, "path": "a\u2028b\u0085c"}}, ensure_ascii=False)
    assert parse_commit(1, text + "\n").adds[0].path == "a\u2028b\u0085c"
