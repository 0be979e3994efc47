"""The statements of Monus, carried out; each answers with a DataFrame, as Spark's own commands do."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, assert_never

from pyspark.sql import DataFrame

from monus.errors import StatementInvalid, TransactionClosed, UnknownAssertion, UnknownView
from monus.sql.statements import (
    Alteration,
    AlterView,
    BeginTransaction,
    Commit,
    CreateAssertion,
    CreateView,
    DropAssertion,
    DropView,
    ExplainCreate,
    ExplainView,
    Name,
    PropagateView,
    Rebuild,
    RefreshView,
    RenameTo,
    Rollback,
    SetMode,
    SetPolicy,
    ShowAssertions,
    ShowRefreshes,
    ShowViews,
    Statement,
    VerifyView,
)

if TYPE_CHECKING:
    from monus.catalog.records import RefreshRecord
    from monus.warehouse import View, Warehouse


def run_statement(warehouse: Warehouse, statement: Statement) -> DataFrame:
    match statement:
        case CreateView():
            return _create(warehouse, statement)
        case RefreshView(name, full, partial):
            view = warehouse.view(_name(warehouse, name))
            done = view.partial_refresh() if partial else view.refresh(full)
            return _refreshes(warehouse, [done])  # type: ignore[list-item]  # not a dry run
        case PropagateView(name):
            return _refreshes(warehouse, [warehouse.view(_name(warehouse, name)).propagate()])
        case ExplainView(name):
            return _text(warehouse, str(warehouse.view(_name(warehouse, name)).explain()))
        case ExplainCreate(create):
            name = _new_name(warehouse, create.name)
            return _text(warehouse, str(warehouse.explain_create(name, create.query, create.columns)))
        case VerifyView(name):
            found = warehouse.view(_name(warehouse, name)).verify()
            counts = (found.view, found.ok, *((0, 0) if found.ok else (found.missing.count(), found.extra.count())))
            return _rows(warehouse, [counts], "view string, ok boolean, missing bigint, extra bigint")
        case ShowViews():
            return _show(warehouse)
        case ShowRefreshes(name):
            return _refreshes(warehouse, warehouse.view(_name(warehouse, name)).history())
        case DropView(name, if_exists):
            return _drop(warehouse, _name(warehouse, name), if_exists)
        case AlterView(name, action):
            return _alter(warehouse, warehouse.view(_name(warehouse, name)), action)
        case CreateAssertion(name, query):
            warehouse.create_assertion(_new_name(warehouse, name), query)
            return _text(warehouse, "")
        case DropAssertion(name, if_exists):
            return _drop_assertion(warehouse, _new_name(warehouse, name), if_exists)
        case ShowAssertions():
            rows = [(found.name, found.query, found.usable) for found in warehouse.assertions()]
            return _rows(warehouse, rows, "name string, query string, usable boolean")
        case BeginTransaction():
            warehouse.begin()
            return _text(warehouse, "")
        case Commit() | Rollback():
            raise TransactionClosed("No transaction is open.", "BEGIN TRANSACTION begins one.")
        case _:
            assert_never(statement)


def _create(warehouse: Warehouse, statement: CreateView) -> DataFrame:
    name = _new_name(warehouse, statement.name)
    if statement.if_not_exists and name.lower() in (view.lower() for view in warehouse.views()):
        return _refreshes(warehouse, [])
    view = warehouse.create_view(
        name,
        statement.query,
        statement.policy,
        statement.mode,
        columns=statement.columns,
        comment=statement.comment,
        partitioned_by=statement.partitioned_by,
        cluster_by=statement.cluster_by,
        replace=statement.or_replace,
    )
    return _refreshes(warehouse, view.history(1))


def _alter(warehouse: Warehouse, view: View, action: Alteration) -> DataFrame:
    match action:
        case SetPolicy(policy):
            view.alter(refresh=policy)
        case SetMode(mode):
            view.alter(mode=mode)
        case RenameTo(name):
            view.rename(_new_name(warehouse, name))
        case Rebuild():
            return _refreshes(warehouse, [view.refresh(full=True)])  # type: ignore[list-item]  # not a dry run
        case _:
            assert_never(action)
    return _text(warehouse, "")


def _drop_assertion(warehouse: Warehouse, name: str, if_exists: bool) -> DataFrame:
    try:
        warehouse.drop_assertion(name)
    except UnknownAssertion:
        if not if_exists:
            raise
    return _text(warehouse, "")


def _drop(warehouse: Warehouse, name: str, if_exists: bool) -> DataFrame:
    try:
        warehouse.drop_view(name)
    except UnknownView:
        if not if_exists:
            raise
    return _text(warehouse, "")


def _show(warehouse: Warehouse) -> DataFrame:
    rows = []
    for name in warehouse.views():
        status = warehouse.view(name).status()
        rows.append((name, status.fresh, status.behind.transactions, status.policy, status.mode, status.usable))
    ddl = "name string, fresh boolean, behind bigint, policy string, mode string, usable boolean"
    return _rows(warehouse, rows, ddl)


REFRESH_COLUMNS = (
    "view string, operation string, strategy string, incremental boolean, code string, reason string, "
    "rows_inserted bigint, rows_deleted bigint, seconds double, spark_jobs bigint, commits bigint, "
    "rows_read string, from_versions string, to_versions string, started_at timestamp, error string"
)


def _refreshes(warehouse: Warehouse, records: list[RefreshRecord]) -> DataFrame:
    rows = [tuple(_cell(getattr(record, f.name)) for f in fields(record)) for record in records]
    return _rows(warehouse, rows, REFRESH_COLUMNS)


def _cell(value: Any) -> Any:
    return ", ".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, dict) else value


def _rows(warehouse: Warehouse, rows: list[tuple[Any, ...]], ddl: str) -> DataFrame:
    return warehouse.spark.createDataFrame(rows, ddl)


def _text(warehouse: Warehouse, text: str) -> DataFrame:
    return _rows(warehouse, [(line,) for line in text.splitlines()], "plan string")


def _name(warehouse: Warehouse, parts: Name) -> str:
    """The name of a view that is there."""
    name = warehouse._names.own(parts)
    if name is None:
        raise UnknownView(
            f"'{'.'.join(parts)}' is outside the warehouse.", "Write the name of the view without a qualifier."
        )
    return name


def _new_name(warehouse: Warehouse, parts: Name) -> str:
    name = warehouse._names.own(parts)
    if name is None:
        raise StatementInvalid(
            f"'{'.'.join(parts)}' is outside the warehouse: names in it have one part.", "Leave the qualifier out."
        )
    return name
