"""Several real processes at one catalog: racing, killed, and stopped past their lease."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from monus.catalog.catalog import Catalog
from monus.catalog.owners import Owner
from monus.errors import ViewBusy
from tests.unit.catalog import workers
from tests.unit.catalog.samples import LONG, a_table, publish, with_view

SPAWN = multiprocessing.get_context("spawn")


@contextmanager
def running(work: Callable[..., None], *args: Any) -> Iterator[tuple[BaseProcess, Connection]]:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=work, args=(*args, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def answer(pipe: Connection) -> Any:
    assert pipe.poll(60), "the other process did not answer"
    return pipe.recv()


def test_two_processes_refresh_one_view(location: str, tmp_path: Path) -> None:
    times = 20
    counter = tmp_path / "counter"
    counter.write_text("0")
    with Catalog.open(location) as catalog:
        with_view(catalog)
        arguments = (workers.refresh_often, location, counter, times)
        with running(*arguments) as (_, one), running(*arguments) as (_, other):
            for pipe in (one, other):
                answer(pipe)
            for pipe in (one, other):
                pipe.send("go")
            numbers = answer(one) + answer(other)
        assert sorted(numbers) == list(range(1, 2 * times + 1))
        assert counter.read_text() == str(2 * times)
        assert [batch.number for batch in catalog.batches("big_sales", 0, 1000)] == sorted(numbers)
        assert len(catalog.refreshes("big_sales")) == 2 * times


def test_one_of_two_gets_the_lease(location: str) -> None:
    with Catalog.open(location) as catalog:
        with_view(catalog)
    with running(workers.acquire_once, location) as (_, one), running(workers.acquire_once, location) as (_, other):
        for pipe in (one, other):
            answer(pipe)
        for pipe in (one, other):
            pipe.send("go")
        assert sorted(map(str, (answer(one), answer(other)))) == ["1", "VIEW_BUSY"]


def test_one_of_two_gets_all_of_the_leases(location: str) -> None:
    Catalog.open(location).close()
    work = workers.acquire_all_once
    with running(work, location, ["a", "b"]) as (_, one), running(work, location, ["c", "b"]) as (_, other):
        for pipe in (one, other):
            answer(pipe)
        for pipe in (one, other):
            pipe.send("go")
        answers = [answer(one), answer(other)]
        assert answers.count("VIEW_BUSY") == 1
        with Catalog.open(location) as catalog:
            held = [name for name in ("a", "b", "c") if catalog.holder(name) is not None]
        assert held in answers


def test_two_processes_commit_transactions_over_tables_in_common(location: str) -> None:
    times = 15
    with Catalog.open(location) as catalog:
        catalog.add_table(a_table())
        catalog.add_table(a_table("Items"))
        work = workers.change_often
        with (
            running(work, location, ["Sales", "Items"], times) as (_, one),
            running(work, location, ["Sales"], times) as (_, other),
        ):
            for pipe in (one, other):
                answer(pipe)
            for pipe in (one, other):
                pipe.send("go")
            given = answer(one) + answer(other)
        assert sorted(numbers["Sales"] for numbers in given) == list(range(1, 2 * times + 1))
        assert sorted(numbers["Items"] for numbers in given if "Items" in numbers) == list(range(1, times + 1))
        of_sales = catalog.transactions("sales", 100)
        assert [record.sequence for record in of_sales] == list(range(2 * times, 0, -1))
        assert all(part.reached == record.sequence for record in of_sales for part in record.parts)
        assert (catalog.ledger().count, catalog.ledger().outstanding) == (4 * times, ())


def test_several_processes_make_the_catalog_at_once(location: str) -> None:
    with (
        running(workers.open_and_say_hello, location) as (_, one),
        running(workers.open_and_say_hello, location) as (_, other),
        running(workers.open_and_say_hello, location) as (_, third),
    ):
        pipes = (one, other, third)
        for pipe in pipes:
            answer(pipe)
        for pipe in pipes:
            pipe.send("go")
        assert [answer(pipe) for pipe in pipes] == [0, 0, 0]


def test_a_killed_holder_is_taken_over_at_once(location: str) -> None:
    with Catalog.open(location) as catalog:
        with_view(catalog)
        with running(workers.hold, location, LONG) as (process, pipe):
            epoch, number = answer(pipe)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            started = time.monotonic()
            lease = catalog.acquire("big_sales", Owner.here(), LONG, wait_seconds=20)
            assert time.monotonic() - started < 5
        assert lease.epoch == epoch + 1
        assert lease.outstanding == number
        intent = catalog.outstanding_intent("big_sales")
        assert intent is not None
        assert (intent.number, intent.epoch) == (number, epoch)
        publish(catalog, lease, number)


def test_a_killed_transaction_is_taken_over_at_once(location: str) -> None:
    with Catalog.open(location) as catalog:
        catalog.add_table(a_table())
        catalog.add_table(a_table("Items"))
        with running(workers.hold_all, location, ["Items", "Sales"]) as (process, pipe):
            record = answer(pipe)
            with pytest.raises(ViewBusy):
                catalog.acquire_all(["Sales", "Items"], Owner.here(), LONG)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            held = catalog.acquire_all(["Sales", "Items"], Owner.here(), LONG)
        (found,) = catalog.ledger().outstanding
        assert found == record
        assert [lease.outstanding for lease in held.values()] == [1, 1]
        catalog.end_transaction(held, found)
        assert catalog.ledger().outstanding == ()


def test_a_stopped_holder_goes_on_and_finds_its_lease_lost(location: str) -> None:
    with Catalog.open(location) as catalog:
        with_view(catalog)
        with running(workers.hold, location, 0.5) as (process, pipe):
            epoch, number = answer(pipe)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGSTOP)
            lease = catalog.acquire("big_sales", Owner.here(), LONG, wait_seconds=20)
            assert (lease.epoch, lease.outstanding) == (epoch + 1, number)
            os.kill(process.pid, signal.SIGCONT)
            pipe.send("go on")
            assert answer(pipe) == "LEASE_LOST"
        assert catalog.view("big_sales").version is None
        publish(catalog, lease, number)
        assert catalog.view("big_sales").version == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_connections_of_its_own(location: str) -> None:
    with Catalog.open(location) as catalog:
        catalog.add_table(a_table("before"))
        child = os.fork()
        if child == 0:
            try:
                catalog.add_table(a_table("child"))
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        catalog.add_table(a_table("after"))
        assert [table.name for table in catalog.tables()] == ["after", "before", "child"]
