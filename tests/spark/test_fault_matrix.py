"""Whatever moment a process dies at, the warehouse is right when it is opened again, and goes on from there.

Every operation is run once, and an image of the disk is kept at every fault point that it reaches. Each image is
opened again: the tables hold all of a transaction or nothing of it, every view is what its query says at its vector,
nothing is left behind, and the next change is taken in incrementally (tried where a table, or a part of the catalog,
is in a state that none before was in). Recovery itself reaches fault points: there images are kept too, and opened in
their turn. Operations on different tables and views run side by side, in step, so that one image has all of them in
the middle; images that differ in nothing are opened once.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import monus
from monus.maintenance.fault_points import FaultPoint, listening
from tests.spark import fault_shop as shop
from tests.spark.crashes import reopen
from tests.spark.fault_matrix import SECONDS, Step, keep, pieces, put_back, stepped
from tests.spark.fault_rounds import (
    AFTER,
    BEFORE,
    OUTSIDE,
    ROUNDS,
    SQUARE,
    TRANSACTIONS,
    TRANSACTIONS_BEHIND,
    Round,
    done_at,
)
from tests.spark.fault_shop import Known, State

ROOT = Path(__file__).parents[2]
IN_THE_MIDDLE = 5
ELSEWHERE = {
    FaultPoint.BATCHES_GIVEN_UP: "VACUUM, in test_upkeep.py",
    FaultPoint.BATCHES_DROPPED: "VACUUM, in test_upkeep.py",
    FaultPoint.TABLE_FORGOTTEN: "DROP TABLE, in test_dropped.py",
    FaultPoint.TICK_CLAIMED: "a schedule, in test_schedule.py",
    FaultPoint.MARKED_UNUSABLE: "a view that cannot go on, in test_unusable.py",
}


@dataclass(frozen=True)
class Start:
    """A warehouse at rest."""

    image: Path
    state: State
    known: Known
    batches: dict[str, int]


@dataclass(frozen=True)
class Image:
    """What a process left that died; `done` are the operations that must be done nevertheless."""

    folder: Path
    title: str
    done: frozenset[str]
    is_of_recovery: bool = False


@dataclass
class Matrix:
    spark: SparkSession
    scratch: Path
    starts: dict[bool, Start] = field(default_factory=dict)
    reached: Counter[FaultPoint] = field(default_factory=Counter)
    in_recovery: Counter[FaultPoint] = field(default_factory=Counter)
    seen: set[frozenset[str]] = field(default_factory=set)
    gone_on: set[str] = field(default_factory=set)
    """What a change was taken in from."""
    opened: int = 0

    @property
    def folder(self) -> Path:
        return self.scratch / "warehouse"

    def make(self) -> None:
        """The warehouse at rest, before and after others have written to its tables."""
        wh, state = shop.make(self.folder, self.spark)
        known = Known().noted(wh, state)
        shop.change(wh, BEFORE)
        state = state.changed(BEFORE)
        known = known.noted(wh, state)
        self._start(wh, state, known)
        shop.change_outside(wh, OUTSIDE[0])
        state = state.changed_outside(OUTSIDE[0])
        for view in ("im", "bl", "dt", "c", "oq", "ei", "sl"):
            wh.view(view).propagate()
        known = known.noted(wh, state)
        shop.change_outside(wh, OUTSIDE[1])
        state = state.changed_outside(OUTSIDE[1])
        self._start(wh, state, known.noted(wh, state), is_behind=True)
        wh.close()

    def _start(self, wh: monus.Warehouse, state: State, known: Known, is_behind: bool = False) -> None:
        assert shop.wrong_rows(wh, state, known) == {}
        image = self.scratch / f"start{is_behind}"
        keep(self.folder, image)
        batches = {name: wh._catalog.view(name).batch for name in wh.views()}
        self.starts[is_behind] = Start(image, state, known, batches)

    # -- images of operations

    def run(self, name: str, round_: Round) -> list[Image]:
        """An image for every step of the operations that differs from those before."""
        put_back(self.starts[round_.is_behind].image, self.folder, self.spark)
        images: list[Image] = []
        counts: dict[str, Counter[FaultPoint]] = defaultdict(Counter)
        done: set[str] = set()
        self.seen.clear()

        def at_step(step: Step) -> None:
            for operation, (point, nth) in step.at.items():
                counts[operation][point] = nth
                self.reached[point] += 1
            done.update(done_at(round_, step))
            self._keep(images, Image(self.scratch / f"{name}-{step.number}", f"{name} {step}", frozenset(done)))

        with monus.connect(self.folder, spark=self.spark) as wh:
            stepped({key: lambda o=o: o.act(wh) for key, o in round_.operations.items()}, at_step)  # type: ignore[misc]
        assert done == round_.operations.keys(), {key: counts[key] for key in round_.operations.keys() - done}
        return images

    def _keep(self, images: list[Image], image: Image) -> None:
        keep(self.folder, image.folder)
        known = frozenset(pieces(image.folder))
        if known in self.seen:
            shutil.rmtree(image.folder)
        else:
            self.seen.add(known)
            images.append(image)

    # -- opening them

    def open(self, image: Image, round_: Round, again: bool) -> list[Image]:
        """Open it and look; with images of the recovery, all or those at fault points that none has yet."""
        images: list[Image] = []

        def in_recovery(point: FaultPoint) -> None:
            is_new = point not in self.in_recovery
            self.in_recovery[point] += 1
            if not image.is_of_recovery and (again or is_new):
                nth = self.in_recovery[point]
                folder = self.scratch / f"{image.folder.name}-{point.name}-{nth}"
                title = f"{image.title}, then recovery {point.name.lower()} {nth}"
                self._keep(images, Image(folder, title, image.done, is_of_recovery=True))

        put_back(image.folder, self.folder, self.spark)
        shutil.rmtree(image.folder)
        with listening(in_recovery):
            wh = reopen(self.folder, self.spark)
        try:
            self._look(wh, image, round_)
        finally:
            wh.close()
        self.opened += 1
        return images

    def _look(self, wh: monus.Warehouse, image: Image, round_: Round) -> None:
        start = self.starts[round_.is_behind]
        state = start.state
        for name, operation in round_.operations.items():
            if operation.is_done is not None:
                assert operation.is_done(wh, start.batches) == (name in image.done), name
            if name in image.done:
                state = operation.after(state)
        known = start.known.noted(wh, state)
        assert shop.leftovers(wh) == []
        recovered = pieces(self.folder)
        if recovered.keys() <= self.gone_on:
            assert shop.wrong_rows(wh, state, known) == {}
        else:  # what was wrong before is wrong after it
            self._go_on(wh, state, known, {name for piece, name in recovered.items() if piece not in self.gone_on})
            self.gone_on |= recovered.keys()

    def _go_on(self, wh: monus.Warehouse, state: State, known: Known, names: set[str]) -> None:
        """These tables get rows, and so do those that these views read; what reads them is refreshed."""
        views = {name for name in wh.views() if name in names or shop.reads(wh, name) & names}
        tables = {"s"}.union(names & shop.TABLES.keys(), *(shop.reads(wh, name) & shop.TABLES.keys() for name in views))
        shop.add(wh, AFTER, tables)
        state = state.added(AFTER, tables)
        for name in wh._catalog.dependency_order():
            assert name not in views or wh.view(name).refresh().incremental, name  # type: ignore[union-attr]
        known = known.noted(wh, state)
        behind = [name for name in views if known.of(wh, name).rows(name) != state.rows(name)]
        assert behind == []
        assert shop.leftovers(wh) == []
        assert shop.wrong_rows(wh, state, known) == {}

    def check(self, name: str, round_: Round, again: bool = False) -> None:
        """All of a round; what is wrong is told at the end, by image."""
        images = self.run(name, round_)
        failed: dict[str, str] = {}
        while images:
            image = images.pop(0)
            try:
                images += self.open(image, round_, again)
            except (AssertionError, monus.MonusError) as error:
                failed[image.title] = str(error)
        assert failed == {}

    # -- the same by a process that is really killed

    def kill(self, name: str, number: int) -> bool:
        """At this step of the round; False where all was done before it."""
        round_ = ROUNDS[name]
        put_back(self.starts[round_.is_behind].image, self.folder, self.spark)
        killed = subprocess.run(
            [sys.executable, "-m", "tests.spark.killed_round", self.folder, name, str(number)],
            cwd=ROOT, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        if killed.returncode == 0:
            return False
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-10_000:]
        told = json.loads(killed.stdout.splitlines()[-1])
        with monus.connect(self.folder, spark=self.spark) as wh:  # waits until its JVM has ended as well
            self._look(wh, Image(self.folder, f"{name} {told['step']}", frozenset(told["done"])), round_)
        return True


@pytest.fixture(scope="module")
def matrix(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    made = Matrix(spark, tmp_path_factory.mktemp("matrix"))
    made.make()
    return made


def test_every_fault_point(matrix: Matrix) -> None:
    matrix.check("transactions", TRANSACTIONS)
    matrix.check("views", SQUARE[0])
    assert matrix.reached.keys() | matrix.in_recovery.keys() | ELSEWHERE.keys() == set(FaultPoint)


def test_a_process_that_is_killed(matrix: Matrix) -> None:
    """In the middle of a transaction, two statements, CREATE, DROP and ALTER, a refresh and a propagate."""
    assert matrix.kill("transactions", IN_THE_MIDDLE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUNDS)
def test_a_process_that_is_killed_at_every_step(matrix: Matrix, name: str) -> None:
    number = 0
    while matrix.kill(name, number):
        number += 1
    assert number > IN_THE_MIDDLE


@pytest.mark.slow
def test_every_operation_on_every_view(matrix: Matrix) -> None:
    for nth, round_ in enumerate(SQUARE):
        matrix.check(f"square {nth}", round_, again=True)


@pytest.mark.slow
def test_transactions_on_views_that_are_behind(matrix: Matrix) -> None:
    matrix.check("transactions", TRANSACTIONS, again=True)
    matrix.check("behind", TRANSACTIONS_BEHIND, again=True)
