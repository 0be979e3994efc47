"""Random transactions and maintenance under every scenario: after each step every view is under its invariant.

Besides `verify`, what tables and views hold, read by plain Delta, is compared (`scenario_checks`) with a model that
plain Spark works out over local rows (`scenario_model`): makesafe, propagate, partial refresh and refresh as Figure 3
of Colby et al. says, which is Theorem 5 and Lemma 4 for the states that a sequence leads through.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import monus
from monus.catalog.records import RefreshRecord
from monus.errors import AssertionViolated, NotIncremental, TransactionConflict
from monus.maintenance.transaction import Transaction
from tests.spark.end_to_end import Mismatch
from tests.spark.limits import drawn_limits
from tests.spark.random_sql import TABLES, Generator, Query
from tests.spark.scenario_checks import Checks, difference, equal
from tests.spark.scenario_model import INVARIANTS, KEPT, Bag, Model, ModelView, bags, same
from tests.spark.scenario_statements import Statement, Statements

POLICIES = list(INVARIANTS)
LIKELY = [*POLICIES, *POLICIES, *KEPT, *KEPT, *KEPT]


@dataclass
class Scenarios:
    """One run; `log` is all that it did, so that it can be done again by hand."""

    warehouse: monus.Warehouse
    seed: int
    steps: int = 6
    log: list[str] = field(default_factory=list)
    strategies: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        self._rng = random.Random(self.seed)
        self._model = Model(self.warehouse.spark)
        self._checks = Checks(self.warehouse, self._model, self.happened, self.strategies)
        self._clock = datetime.now(UTC)
        self._statements = Statements(self._rng, lambda table: self._model.tables[table].total())
        try:
            self._fill()
            self._create_views()
            self._create_assertion()
            for _ in range(self.steps):
                self._step()
            self._checks.after_step(fresh=list(self._model.views))
        except Exception as error:
            raise Mismatch(f"scenarios of seed {self.seed}: {error}\n" + "\n".join(self.log)) from error
        finally:
            for name in list(self._model.assertions):
                self._drop_assertion(name)
            for name in reversed(list(self._model.views)):
                self.warehouse.drop_view(name)

    # -- the beginning

    def _fill(self) -> None:
        """Tables that depend on the seed alone."""
        for name in TABLES:
            self._model.tables[name] = Counter()
            rows = self._statements._values(name, self._rng.choice([0, 2, 5, 8]))
            self.log.append(f"INSERT OVERWRITE {name} {rows}")
            self.warehouse.spark.sql(self.log[-1])
        found = bags({name: self._checks.plain(name) for name in TABLES})
        self._model.tables = found

    def _create_views(self) -> None:
        rng, model = self._rng, self._model
        for i in range(rng.choice([1, 2, 2, 3])):
            known = rng.sample(list(model.views), min(len(model.views), rng.randint(0, 2)))
            columns = {name: list(model.views[name].query.columns) for name in known}
            query = Generator(rng, rng.choice([1, 2, 2, 3]), columns or None).query()
            incremental: bool | None = None
            for j, policy in enumerate(dict.fromkeys(rng.choice(LIKELY) for _ in range(rng.randint(1, 3)))):
                name = f"s{self.seed}_{i}{j}"
                if incremental is None:
                    incremental = self.warehouse.explain_create(name, query.sql).incremental
                self._create(name, query, policy, incremental)
        self._checks.after_step()

    def _create(self, name: str, query: Query, policy: str, incremental: bool) -> None:
        if policy == "ON DEMAND USING DIFFERENTIAL" and not incremental:
            self._refuses(lambda: self.warehouse.create_view(name, query.sql, refresh=policy), NotIncremental)
            equal(name in self.warehouse.views(), False, f"{name} was made all the same")
            self._did("DIFFERENTIAL refused")
            policy = "ON DEMAND USING COMBINED"
        self.log.append(f"CREATE MATERIALIZED VIEW {name} REFRESH {policy} AS {query.sql}")
        self.warehouse.create_view(name, query.sql, refresh=policy)
        view = self._model.views[name] = ModelView(query, policy, incremental)
        view.stored = view.reached = self._model.of(name)
        self._did(f"{'view' if incremental else 'full view'} {policy}")
        for source in view.reads & set(self._model.views):
            below = "kept" if self._model.views[source].policy in KEPT else "deferred"
            self._did(f"{'kept' if policy in KEPT else 'deferred'} view over a {below} one")

    def _create_assertion(self) -> None:
        """A query that is empty now: a selection or a join, perhaps grouped."""
        if self._rng.random() < 0.55:
            return
        name, (table, other) = f"c{self.seed}", self._rng.sample(list(TABLES), 2)
        key = {"r": "a", "t": "a", "u": "b"}[table]
        on = {"r": "b", "t": "c", "u": "b"}[other]
        text = self._rng.choice(
            [
                f"SELECT * FROM {table} WHERE {key} = {self._rng.choice([2, 3, 7, -1])}",
                f"SELECT x.{key} FROM {table} x JOIN {other} y ON x.{key} = y.{on} AND x.{key} > 2",
                f"SELECT {key}, count(*) AS n FROM {table} GROUP BY {key} HAVING count(*) > 3",
            ]
        )
        columns = self.warehouse.spark.sql(text).schema.fields
        query = Query(text, tuple((column.name, column.dataType.simpleString()) for column in columns))
        is_violated = bool(self._model.evaluate({"c": (text, [kind for _, kind in query.columns])})["c"])
        self.log.append(f"CREATE ASSERTION {name} CHECK (NOT EXISTS ({text}))")
        if is_violated:
            self._refuses(
                lambda: self.warehouse.sql(f"CREATE ASSERTION {name} CHECK (NOT EXISTS ({text}))"), AssertionViolated
            )
            return
        self.warehouse.sql(self.log[-1])
        self._model.assertions[name] = query
        self._did("assertion")

    def _drop_assertion(self, name: str) -> None:
        self.log.append(f"DROP ASSERTION {name}")
        self.warehouse.sql(self.log[-1])
        del self._model.assertions[name]

    # -- the steps

    def _step(self) -> None:
        kinds: list[tuple[float, Callable[[], None]]] = [
            (35, self._transaction), (9, self._overlapping), (11, self._single), (11, self._outside),
            (9, self._propagate), (8, self._partial_refresh), (5, self._refresh), (3, self._refresh_all),
            (7, self._alter), (6, self._run_due), (7, self._read),
        ]  # fmt: skip
        step = self._rng.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
        with drawn_limits(self._rng) if self._rng.random() < 0.5 else nullcontext([]) as low:
            if low:
                self.log.append(f"-- low limits: {', '.join(low)}")
            step()
            staging = self.warehouse.root / "staging"
            equal(list(staging.glob("*")) if staging.exists() else [], [], "what is left of a transaction")
            views = list(self._model.views)
            self._checks.after_step(fresh=self._rng.sample(views, 1) if self._rng.random() < 0.6 else [])

    def _transaction(self) -> None:
        by_sql = self._rng.random() < 0.2
        self.log.append("BEGIN TRANSACTION")
        if by_sql:
            self.warehouse.sql("BEGIN TRANSACTION")
        transaction = self.warehouse.open_transaction if by_sql else self.warehouse.transaction()
        assert transaction is not None
        try:
            after, touched, _ = self._staged(transaction, by_sql)
            if self._rng.random() < 0.12:
                self.log.append("ROLLBACK")
                before = self._checks.versions()
                self.warehouse.sql("ROLLBACK") if by_sql else transaction.rollback()
                equal(self._checks.versions(), before, "a rollback wrote something")
                self._did("rolled back")
                return
            self.log.append("COMMIT")
            self._committed(lambda: self.warehouse.sql("COMMIT") if by_sql else transaction.commit(), after, touched)
            self._did("committed by SQL" if by_sql else "committed")
        finally:
            if transaction.is_open:
                transaction.rollback()

    def _staged(self, transaction: Transaction, is_current: bool = False) -> tuple[dict[str, Bag], set[str], set[str]]:
        """Statements and reads; the tables as they are to be, those that it names, and those that it replaces."""
        tables, touched, replaced = dict(self._model.tables), set[str](), set[str]()
        statements = Statements(self._rng, lambda table: tables[table].total())
        before = self._checks.versions()
        for _ in range(self._rng.randint(1, 4)):
            kind, group = statements.group()
            self._did(f"staged: {kind}")
            for statement in group:
                self.log.append(f"  {statement.text}")
                statement.in_transaction(transaction, self.warehouse, is_current)
                self._did(statement.kind)
                tables = self._model.after(statement.after, tables)
                touched |= set(statement.after)
                replaced |= set(statement.after) if statement.replaces_all else set()
            if self._rng.random() < 0.3:
                self._read_inside(transaction, tables, is_current)
        for name in touched:
            self._checks.agrees(name, bags({name: transaction.table(name)})[name], tables[name], f"{name} inside")
        equal(self._checks.versions(), before, "something was written before the transaction committed")
        if len(touched) > 1:
            self._did("staged: several tables")
        if tables == self._model.tables:
            self._did("staged: nothing in the end")
        return tables, touched, replaced

    def _read_inside(self, transaction: Transaction, tables: dict[str, Bag], is_current: bool) -> None:
        name = self._rng.choice([*self._model.views, *self._model.views, "query"])
        if name == "query":
            query = Generator(self._rng, 2).query()
            self.log.append(f"  {query.sql}")
            kinds = [kind for _, kind in query.columns]
            expected = self._model.evaluate({"q": (query.sql, kinds)}, tables)["q"]
            found = bags({"q": (self.warehouse if is_current else transaction).sql(query.sql)})["q"]
            self._did("read inside: a query")
            if not same(found, expected, kinds):
                raise Mismatch(f"a query inside a transaction: {difference(found, expected)}")
            return
        self.log.append(f"  SELECT * FROM {name}")
        found = bags({name: (self.warehouse if is_current else transaction).table(name)})[name]
        self._did(f"read inside: a {'current' if self._model.views[name].reads_now else 'deferred'} view")
        self._checks.agrees(name, found, self._model.read_inside(name, tables), f"{name} inside a transaction")

    def _overlapping(self) -> None:
        """Two transactions, or a transaction and somebody else's statement, of which the second commits last."""
        model, before = self._model, dict(self._model.tables)
        self.log.append("BEGIN TRANSACTION (the second)")
        second = self.warehouse.transaction()
        try:
            after, touched, replaced = self._staged(second)
            if self._rng.random() < 0.5:
                self._outside()
            else:
                self.log.append("BEGIN TRANSACTION (the first)")
                with_first = self.warehouse.transaction()
                theirs, named, _ = self._staged(with_first)
                self.log.append("COMMIT (the first)")
                self._committed(with_first.commit, theirs, named)
            self._checks.after_step()
            changed = {name for name in TABLES if model.tables[name] != before[name]}
            overlap = {name for name in TABLES if _gone(before, model.tables, name) & _gone(before, after, name)}
            merged = {
                name: model.tables[name] - (before[name] - after[name]) + (after[name] - before[name])
                for name in TABLES
            }
            self.log.append("COMMIT (the second)")
            try:
                self._committed(second.commit, merged, touched)
            except TransactionConflict as conflict:
                self._did("conflict")
                self.log.append(f"  {conflict.message}")
                # OPTIMIZE and the like change no row, and a table whose rows are all to leave is one with any change.
                if not overlap and not replaced & changed:
                    raise Mismatch(f"no reason for the conflict: {conflict}") from conflict
                return
            if overlap:
                raise Mismatch(f"rows of {overlap} were changed by both transactions")
            self._did("both committed")
            if any(after[name] != before[name] for name in changed):
                self._did("both committed on one table")
        finally:
            if second.is_open:
                second.rollback()

    def _committed(self, commit: Callable[[], object], after: dict[str, Bag], touched: set[str]) -> None:
        """A transaction of the warehouse ends; it may be refused only for the reason that the model knows."""
        model, before = self._model, self._checks.table_versions()
        changed = {name for name in TABLES if after[name] != model.tables[name]}
        violated = model.violated(touched, after)
        try:
            commit()
        except AssertionViolated as refused:
            self.log.append(f"  {refused.message}")
            name = refused.fields["assertion"]
            if name not in violated:
                raise
            equal(self._checks.table_versions(), before, "a refused transaction wrote something")
            if model.violated(set(TABLES), model.tables):  # by others
                self._did("refused for what others wrote")
                if self._rng.random() < 0.5:
                    self._drop_assertion(name)
            else:
                self._did("refused by an assertion")
            return
        if violated & model.violated(changed, after):
            raise Mismatch(f"the transaction violates {violated}, and was not refused")
        model.tables = after
        reached = self._checks.table_versions()
        model.committed({name for name in TABLES if reached[name] != before[name]})

    def _single(self) -> None:
        statement = self._statements.sql()
        self.log.append(statement.text)
        self._did(f"alone: {statement.kind.split()[0]}")
        after = self._model.after(statement.after, self._model.tables)
        self._committed(lambda: statement.alone(self.warehouse), after, set(statement.after))

    def _outside(self) -> None:
        """By plain Spark, which knows nothing of Monus."""
        statement = self._statements.sql()
        if self._rng.random() < 0.1:
            statement = Statement(f"OPTIMIZE {self._rng.choice(list(TABLES))}", {})
        self.log.append(f"spark: {statement.text}")
        self.warehouse.spark.sql(statement.text)
        self._did(f"outside: {statement.kind.split()[0]}")
        self._model.tables = self._model.after(statement.after, self._model.tables)
        self._model.written_outside(set(statement.after))

    def _propagate(self) -> None:
        name = self._rng.choice(list(self._model.views))
        self.log.append(f"PROPAGATE MATERIALIZED VIEW {name}")
        done = self.warehouse.view(name).propagate()
        self._note(done)
        self._did(f"propagate {done.strategy}")
        self._model.propagate(name)
        if self._rng.random() < 0.4:
            self._checks.after_step()
            if self._rng.random() < 0.5:
                self._single()
                self._checks.after_step()
            self._partial_refresh(name)

    def _partial_refresh(self, name: str | None = None) -> None:
        name = name or self._rng.choice(list(self._model.views))
        self.log.append(f"REFRESH MATERIALIZED VIEW {name} PARTIAL")
        done = self.warehouse.view(name).partial_refresh()
        self._note(done)
        self._did("partial refresh of nothing" if done.code == "NOTHING_PENDING" else "partial refresh")
        self._model.partial_refresh(name)

    def _refresh(self) -> None:
        name, full = self._rng.choice(list(self._model.views)), self._rng.random() < 0.2
        self.log.append(f"REFRESH MATERIALIZED VIEW {name}{' FULL' if full else ''}")
        done = self.warehouse.view(name).refresh(full=full)
        assert isinstance(done, RefreshRecord)
        self._note(done)
        self._did("refresh in full" if full else "refresh")
        self._model.refresh(name)

    def _refresh_all(self) -> None:
        self.log.append("refresh all")
        for done in self.warehouse.refresh():
            self._note(done)
        self._did("refresh all")
        self._model.refresh_all()

    def _alter(self) -> None:
        name, policy = self._rng.choice(list(self._model.views)), self._rng.choice(POLICIES)
        if policy == "ON DEMAND USING DIFFERENTIAL" and not self._model.views[name].incremental:
            self._refuses(lambda: self.warehouse.view(name).alter(refresh=policy), NotIncremental)
            self._did("DIFFERENTIAL refused")
            return
        self._did(f"altered to {policy}")
        self._set_policy(name, policy)

    def _set_policy(self, name: str, policy: str) -> None:
        self.log.append(f"ALTER MATERIALIZED VIEW {name} SET REFRESH {policy}")
        self.warehouse.sql(self.log[-1])
        self._model.views[name].policy = policy
        if policy == "IMMEDIATE":
            self._model.refresh(name)
        elif policy == "ON DEMAND USING DIFFERENTIAL":
            self._model.propagate(name)

    def _run_due(self) -> None:
        self._clock += timedelta(minutes=self._rng.choice([11, 31, 61]))
        self.log.append(f"run_due({self._clock})")
        for done in self.warehouse.run_due(self._clock):
            self._note(done)
            equal(self._model.views[done.view].policy[:5], "EVERY", f"{done.view} is not due by the clock")
            self._did(f"due: {done.operation}")
            getattr(self._model, done.operation)(done.view)

    def _read(self) -> None:
        name = self._rng.choice(list(self._model.views))
        self.log.append(f"SELECT * FROM {name}")
        by_sql = self._rng.random() < 0.5
        found = self.warehouse.sql(f"SELECT * FROM {name}") if by_sql else self.warehouse.table(name)
        rows = bags({name: found})[name]
        self._did(f"read: {self._model.views[name].policy}")
        self._checks.agrees(name, rows, self._model.read(name), f"{name} as it is read")

    def _note(self, done: RefreshRecord) -> None:
        rows = f"+{done.rows_inserted} -{done.rows_deleted}"
        self.log.append(f"  {done.view}: {done.operation} {done.strategy} {done.code} {rows}")

    def _did(self, what: str) -> None:
        self.happened[what] += 1

    def _refuses(self, action: Callable[[], object], error: type[Exception]) -> None:
        try:
            action()
        except error:
            return
        raise Mismatch(f"{error.__name__} was to be raised")


def _gone(before: dict[str, Bag], after: dict[str, Bag], name: str) -> set[Any]:
    return set(before[name] - after[name])
