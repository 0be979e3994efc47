"""What must hold after every single step of a random sequence, whatever the step was.

Tables and views are read by plain Delta and compared with the model; the invariant of every view is verified; nothing
is computed in full or fails without a reason that the view gives; fresh reads see the present and write nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import monus
from monus.catalog.tasks import covers
from tests.spark.end_to_end import Mismatch
from tests.spark.random_sql import TABLES
from tests.spark.scenario_model import INVARIANTS, Bag, Model, ModelView, bags, same


@dataclass
class Checks:
    """`happened` counts what was checked, `strategies` what the views' histories tell."""

    warehouse: monus.Warehouse
    model: Model
    happened: Counter[str]
    strategies: Counter[str]
    _actual: dict[str, tuple[int, Bag]] = field(default_factory=dict)
    _verified: dict[str, object] = field(default_factory=dict)
    _told: dict[str, int] = field(default_factory=dict)

    def after_step(self, fresh: list[str] | None = None) -> None:
        self._check_rows()
        for name, view in self.model.views.items():
            record = self.warehouse._catalog.view(name)
            if not record.usable:
                raise Mismatch(f"{name} is unusable: {record.unusable_reason}")
            self._check_history(name)
            looked_at = (record, [self._version(source) for source in sorted(view.reads)])
            if self._verified.get(name) != looked_at:  # else it is what was verified before
                self._verify(name, view)
                self._verified[name] = looked_at
        self._check_tasks()
        for name in fresh or []:
            before = (self.versions(), self.warehouse._catalog.views())
            rows, expected = bags({name: self.warehouse.table(name, fresh=True)})[name], self.model.now([name])[name]
            self.agrees(name, rows, expected, f"{name} fresh")
            self.happened[
                "fresh read" if expected == self.model.views[name].stored else "fresh read of what is behind"
            ] += 1
            equal((self.versions(), self.warehouse._catalog.views()), before, "a fresh read wrote something")

    def _check_rows(self) -> None:
        """Tables and views, read by plain Delta where they have another version than before."""
        names = [*TABLES, *self.model.views]
        versions = {name: self._version(name) for name in names}
        new = [name for name in names if name not in self._actual or self._actual[name][0] != versions[name]]
        for name, rows in bags({name: self.plain(name) for name in new}).items():
            self._actual[name] = (versions[name], rows)
        for name in TABLES:
            if self._actual[name][1] != self.model.tables[name]:
                raise Mismatch(f"table {name}: {difference(self._actual[name][1], self.model.tables[name])}")
        for name, view in self.model.views.items():
            rows = self._actual[name][1]
            if view.stored == rows:
                continue
            kinds = [kind for _, kind in view.query.columns]
            if not same(rows, view.stored, kinds):
                # Whoever looked at what others had written may have brought the view up to date.
                if not view.may_lag or not same(rows, self.model.of(name), kinds):
                    raise Mismatch(f"view {name}: {difference(rows, view.stored)}")
                view.reached = rows
            if same(view.reached, rows, kinds):
                view.reached = rows
            view.stored = rows

    def _check_tasks(self) -> None:
        """A lazy view without a task is up to date, unless others wrote; and no task is left for what it reflects."""
        for name, view in self.model.views.items():
            if view.policy != "LAZY":
                continue
            tasks = self.warehouse.view(name).tasks()
            vector = self.warehouse._catalog.view(name).vector
            equal([task for task in tasks if covers(vector, task.changed)], [], f"tasks of {name} that are done")
            self.happened["with tasks" if tasks else "without tasks"] += 1
            if not tasks and not view.may_lag:
                self.agrees(name, view.stored, self.model.of(name), f"{name}, which has no task")

    def _verify(self, name: str, view: ModelView) -> None:
        found = self.warehouse.view(name).verify()
        self.happened[f"verified {found.invariant}"] += 1
        equal(found.invariant, INVARIANTS[view.policy], f"the invariant of {name}")
        if not found.ok:
            wrong = [each.name for each in found.checks if not each.ok]
            rows = f"missing {found.missing.collect()}, extra {found.extra.collect()}"
            raise Mismatch(f"{name}, {view.policy}: {wrong} does not hold; {rows}")

    def _check_history(self, name: str) -> None:
        """Nothing is computed in full, or fails, without a reason that the view itself gives."""
        history = self.warehouse.view(name).history()
        for done in history[: len(history) - self._told.get(name, 0)]:
            self.strategies[f"{done.operation} {done.strategy}"] += 1
            if done.error is not None and self.model.views[name].incremental:
                raise Mismatch(f"{name}: {done.operation} failed: {done.error}")
            if not done.incremental and done.code not in ("FIRST", "REQUESTED"):
                reasons = [reason.code for reason in self.warehouse.view(name).explain().reasons]
                if done.code not in reasons:
                    raise Mismatch(f"{name} was refreshed in full, {done.code}: {done.reason}")
        self._told[name] = len(history)

    def agrees(self, name: str, found: Bag, expected: Bag, what: str) -> None:
        kinds = [kind for _, kind in self.model.columns(name)] if name in self.model.views else []
        if not same(found, expected, kinds):
            raise Mismatch(f"{what}: {difference(found, expected)}")

    # -- what is on the disk

    def plain(self, name: str) -> Any:
        frame = self.warehouse.spark.read.format("delta").load(self._location(name))
        return frame.select(*(column for column, _ in self.model.columns(name)))

    def _location(self, name: str) -> str:
        catalog = self.warehouse._catalog
        return (catalog.table(name) if name in TABLES else catalog.view(name)).location

    def _version(self, name: str) -> int:
        return _last(Path(self._location(name).removeprefix("file:")))

    def table_versions(self) -> dict[str, int]:
        return {name: self._version(name) for name in TABLES}

    def versions(self) -> dict[str, int]:
        """Of everything that a statement could write to."""
        folders = [log.parent for log in self.warehouse.root.parent.glob("**/_delta_log")]
        return {str(folder): _last(folder) for folder in folders}


def _last(folder: Path) -> int:
    return max(int(file.stem) for file in (folder / "_delta_log").glob("*.json") if file.stem.isdigit())


def difference(found: Bag, expected: Bag) -> str:
    return f"extra {dict(found - expected)}, missing {dict(expected - found)}"


def equal(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise Mismatch(f"{what}: {found}, not {expected}")
