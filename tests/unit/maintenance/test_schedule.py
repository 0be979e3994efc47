"""What the clock asks for, on a real catalog; the maintainer only writes down what it was asked to do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monus.catalog.catalog import Catalog
from monus.catalog.owners import Owner, Process
from monus.catalog.records import RefreshRecord, SourceRecord, Unusable, ViewRecord
from monus.errors import RefreshFailed, SourceHistoryLost, UnknownView, ViewBusy
from monus.maintenance.schedule import Due, Scheduler, due, first_ticks, following
from monus.sql.policy import SECONDS, Every, Interval, Policy, parse_policy
from tests.unit.catalog.samples import LONG, SALES, THEN, FakeClock, a_refresh, a_table, a_view

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
POLICY_1 = "EVERY 1 DAY PROPAGATE EVERY 1 HOUR"
POLICY_2 = "EVERY 1 DAY PARTIAL PROPAGATE EVERY 1 HOUR"
WHEN_IDLE = "EVERY 1 DAY PROPAGATE WHEN IDLE"


def scheduled(policy: str, name: str = "v", start: datetime = THEN, batch: int = 1) -> ViewRecord:
    """A view with rows, whose policy was given at `start`."""
    refresh, propagate = first_ticks(parse_policy(policy), start)
    return replace(a_view(name, batch), policy=policy, next_refresh=refresh, next_propagate=propagate)


# -- ticks


@pytest.mark.parametrize(
    ("policy", "refresh", "propagate"),
    [
        ("EVERY 1 DAY", DAY, None),
        ("EVERY 90 SECONDS PARTIAL", timedelta(seconds=90), None),
        (POLICY_1, DAY, HOUR),
        (POLICY_2, DAY, HOUR),
        ("EVERY 2 WEEKS PROPAGATE EVERY 3 MINUTES", 14 * DAY, 3 * MINUTE),
        (WHEN_IDLE, DAY, None),
        ("IMMEDIATE", None, None),
        ("LAZY", None, None),
        ("ON QUERY PARTIAL", None, None),
        ("ON DEMAND USING COMBINED", None, None),
    ],
)
def test_first_ticks(policy: str, refresh: timedelta | None, propagate: timedelta | None) -> None:
    expected = tuple(None if after is None else THEN + after for after in (refresh, propagate))
    assert first_ticks(parse_policy(policy), THEN) == expected


@pytest.mark.parametrize("count", [420_000, 999_999_999])
def test_a_tick_after_the_year_9999_never_comes(count: int) -> None:
    policy: Policy = Every(Interval(count, "WEEK"), propagate_every=Interval(1, "WEEK"))
    assert first_ticks(policy, THEN) == (None, THEN + 7 * DAY)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (timedelta(0), HOUR),
        (timedelta(microseconds=1), HOUR),
        (HOUR - timedelta(microseconds=1), HOUR),
        (HOUR, 2 * HOUR),
        (50.5 * HOUR, 51 * HOUR),
        (-HOUR, HOUR),
        (-100 * DAY, HOUR),
    ],
)
def test_the_following_tick(now: timedelta, expected: timedelta) -> None:
    assert following(THEN, Interval(1, "HOUR"), THEN + now) == THEN + expected


moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
intervals = st.builds(Interval, st.integers(1, 100), st.sampled_from(list(SECONDS)))


@given(moments, intervals, moments)
def test_the_grid_stays_anchored(tick: datetime, interval: Interval, now: datetime) -> None:
    step = timedelta(seconds=interval.seconds)
    found = following(tick, interval, now)
    assert (found - tick) % step == timedelta(0)
    assert found - step <= max(now, tick) < found


# -- what is due


def names_and_operations(found: list[Due]) -> list[tuple[str, str]]:
    return [(each.view, each.operation + (" (superseded)" if each.is_superseded else "")) for each in found]


def test_nothing_is_due_before_its_time() -> None:
    records = [scheduled(POLICY_1), scheduled(POLICY_2, "w"), scheduled("LAZY", "x")]
    assert due(records, THEN + HOUR - timedelta(microseconds=1)) == []
    assert due([], THEN) == []


def test_a_tick_is_due_from_its_moment_on() -> None:
    hourly = Interval(1, "HOUR")
    assert due([scheduled(POLICY_1)], THEN + HOUR) == [Due("v", "propagate", THEN + HOUR, hourly)]
    assert due([scheduled("EVERY 1 HOUR")], THEN + 5 * HOUR) == [Due("v", "refresh", THEN + HOUR, hourly)]
    assert due([scheduled("EVERY 1 HOUR PARTIAL")], THEN + 5 * HOUR) == [
        Due("v", "partial_refresh", THEN + HOUR, hourly)
    ]


def test_policy_1_a_refresh_supersedes_the_propagate_that_is_due_with_it() -> None:
    same = replace(scheduled(POLICY_1), next_propagate=THEN + DAY)
    assert due([same], THEN + DAY) == [
        Due("v", "propagate", THEN + DAY, Interval(1, "HOUR"), is_superseded=True),
        Due("v", "refresh", THEN + DAY, Interval(1, "DAY")),
    ]
    # Both were missed, whichever of them first: they are made up for at one moment.
    for propagate in (THEN + 3 * HOUR, THEN + 25 * HOUR):
        missed = replace(scheduled(POLICY_1), next_propagate=propagate)
        assert {each.operation: each.is_superseded for each in due([missed], THEN + 2 * DAY)} == {
            "propagate": True,
            "refresh": False,
        }


def test_policy_2_a_propagate_goes_before_the_partial_refresh_of_its_moment() -> None:
    record = replace(scheduled(POLICY_2), next_propagate=THEN + DAY)
    assert names_and_operations(due([record], THEN + DAY)) == [("v", "propagate"), ("v", "partial_refresh")]


def test_the_oldest_tick_first() -> None:
    records = [
        scheduled("EVERY 1 HOUR", "late", THEN + 2 * MINUTE),
        replace(scheduled(POLICY_2, "both", THEN + MINUTE - DAY), next_propagate=THEN + HOUR + 3 * MINUTE),
        scheduled("EVERY 1 HOUR", "early", THEN),
    ]
    assert names_and_operations(due(records, THEN + 2 * HOUR)) == [
        ("both", "partial_refresh"),
        ("early", "refresh"),
        ("late", "refresh"),
        ("both", "propagate"),
    ]


def test_views_of_one_moment_in_the_order_that_is_given() -> None:
    records = [scheduled("EVERY 1 HOUR", name) for name in ("c", "a", "b")]
    assert [each.view for each in due(records, THEN + HOUR)] == ["c", "a", "b"]


def test_a_view_that_was_not_filled_yet_is_not_due() -> None:
    assert due([scheduled("EVERY 1 HOUR", batch=0)], THEN + DAY) == []


def test_ticks_without_their_policy_are_none() -> None:
    assert due([replace(scheduled("EVERY 1 HOUR"), policy="LAZY")], THEN + DAY) == []
    stray = replace(scheduled("EVERY 1 DAY"), next_propagate=THEN)
    assert due([stray], THEN + HOUR) == []


# -- the scheduler


@dataclass
class Recorder:
    """A maintainer that writes down what it is asked to do; `before` may do something then, or fail."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    before: Callable[[str, str], object] = lambda operation, name: None

    def refresh(self, name: str) -> RefreshRecord:
        return self._do("refresh", name)

    def propagate(self, name: str) -> RefreshRecord:
        return self._do("propagate", name)

    def partial_refresh(self, name: str) -> RefreshRecord:
        return self._do("partial_refresh", name)

    def _do(self, operation: str, name: str) -> RefreshRecord:
        self.calls.append((operation, name))
        self.before(operation, name)
        if name in self.failures:
            raise self.failures[name]
        return a_refresh(name, operation)


class World:
    """A catalog and a scheduler at a moment that the test decides."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.catalog = Catalog.open(path, clock=self.clock)
        self.catalog.add_table(a_table())
        self.recorder = Recorder()
        self.idle = False
        self.asked = 0
        self.scheduler = Scheduler(self.catalog, self.recorder, self.is_idle, self.clock)

    def is_idle(self) -> bool:
        self.asked += 1
        return self.idle

    def add(self, *records: ViewRecord) -> None:
        for record in records:
            self.catalog.create_view(record, [SALES])

    def at(self, after: timedelta) -> list[tuple[str, str]]:
        """What is run at that time after the beginning."""
        self.clock.now = THEN + after
        self.recorder.calls.clear()
        done = self.scheduler.run_due()
        assert [(record.operation, record.view) for record in done] == self.recorder.calls
        return list(self.recorder.calls)

    def ticks(self, view: str = "v") -> tuple[datetime | None, datetime | None]:
        record = self.catalog.view(view)
        return record.next_refresh, record.next_propagate


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "catalog.db")
    yield made
    made.catalog.close()


def test_a_day_of_policy_1(world: World) -> None:
    """Propagated every hour and refreshed once a day, when the propagate of that hour is left out."""
    world.add(scheduled(POLICY_1))
    ran = {hour: world.at(hour * HOUR) for hour in range(26)}
    assert ran == {0: [], 24: [("refresh", "v")]} | {hour: [("propagate", "v")] for hour in [*range(1, 24), 25]}
    assert world.ticks() == (THEN + 2 * DAY, THEN + 26 * HOUR)


def test_a_day_of_policy_2(world: World) -> None:
    world.add(scheduled(POLICY_2))
    ran = {hour: world.at(hour * HOUR) for hour in range(26)}
    assert ran == {0: [], 24: [("propagate", "v"), ("partial_refresh", "v")]} | {
        hour: [("propagate", "v")] for hour in [*range(1, 24), 25]
    }
    assert world.ticks() == (THEN + 2 * DAY, THEN + 26 * HOUR)


def test_missed_ticks_run_once_and_the_grid_stays(world: World) -> None:
    world.add(scheduled("EVERY 10 MINUTES", "one"), scheduled(POLICY_1, "other"))
    assert world.at(95 * MINUTE) == [("refresh", "one"), ("propagate", "other")]
    assert world.at(95 * MINUTE) == []
    assert world.ticks("one") == (THEN + 100 * MINUTE, None)
    assert world.ticks("other") == (THEN + DAY, THEN + 2 * HOUR)
    assert world.at(100 * MINUTE) == [("refresh", "one")]


def test_a_superseded_tick_is_moved_on(world: World) -> None:
    world.add(replace(scheduled(POLICY_1), next_propagate=THEN + DAY))
    assert world.at(DAY) == [("refresh", "v")]
    assert world.ticks() == (THEN + 2 * DAY, THEN + DAY + HOUR)


def test_at_a_moment_that_is_given(world: World) -> None:
    world.add(scheduled("EVERY 1 HOUR"))
    assert world.scheduler.run_due(THEN + HOUR - MINUTE) == []
    assert [record.view for record in world.scheduler.run_due(THEN + HOUR)] == ["v"]
    assert world.ticks() == (THEN + 2 * HOUR, None)


def test_what_takes_longer_than_its_interval_is_not_owed(world: World) -> None:
    """The next tick is after the moment at which a view's turn comes, not after that at which the round began."""
    world.add(scheduled("EVERY 1 MINUTE", "a"), scheduled("EVERY 1 MINUTE", "b"))
    world.recorder.before = lambda operation, name: world.clock.pass_seconds(600 if name == "a" else 0)
    assert world.at(MINUTE) == [("refresh", "a"), ("refresh", "b")]
    assert world.ticks("b") == (THEN + 12 * MINUTE, None)


def test_views_of_one_moment_after_those_that_they_read(world: World) -> None:
    world.add(scheduled("EVERY 1 HOUR", "z"))
    world.catalog.create_view(scheduled("EVERY 1 HOUR", "a"), [SourceRecord("z", "view")])
    assert world.at(HOUR) == [("refresh", "z"), ("refresh", "a")]


def test_other_policies_are_left_alone(world: World) -> None:
    world.idle = True
    world.add(*(scheduled(policy, policy.split()[-1]) for policy in ("IMMEDIATE", "LAZY", "ON QUERY", "ON DEMAND")))
    assert world.at(100 * DAY) == []


def test_a_failure_is_told_at_the_end_and_holds_nobody_up(world: World) -> None:
    world.add(*(scheduled("EVERY 1 HOUR", name) for name in ("a", "b", "c", "d")))
    lost = SourceHistoryLost("The log of sales is gone.", "Refresh in full.")
    world.recorder.failures = {"a": lost, "c": RuntimeError("Spark could not open a source.")}
    world.clock.now = THEN + HOUR
    with pytest.raises(RefreshFailed) as caught:
        world.scheduler.run_due()
    assert [name for _, name in world.recorder.calls] == ["a", "b", "c", "d"]
    failures = caught.value.fields["failures"]
    assert failures["a"] is lost is caught.value.__cause__
    assert isinstance(failures["c"], RefreshFailed)
    assert "The refresh of 'c' failed: Spark could not open a source." in failures["c"].message
    assert [record.view for record in caught.value.fields["refreshed"]] == ["b", "d"]
    for told in ("2 of 4 scheduled operations failed", "a: [SOURCE_HISTORY_LOST]", "c: [REFRESH_FAILED]"):
        assert told in caught.value.message


def test_of_two_failures_of_one_view_both_are_told(world: World) -> None:
    world.add(replace(scheduled(POLICY_2), next_propagate=THEN + DAY))
    errors = iter([SourceHistoryLost("First.", ""), ViewBusy("Second.", "")])

    def fail(operation: str, name: str) -> None:
        raise next(errors)

    world.recorder.before = fail
    with pytest.raises(RefreshFailed, match=r"2 of 2 .*First.*Second") as caught:
        world.scheduler.run_due(THEN + DAY)
    assert str(caught.value.fields["failures"]["v"]) == "[SOURCE_HISTORY_LOST] First."


def test_a_tick_that_failed_is_tried_again_at_the_next_one_and_not_before(world: World) -> None:
    world.add(scheduled("EVERY 1 HOUR"))
    world.recorder.failures["v"] = SourceHistoryLost("Gone.", "")
    with pytest.raises(RefreshFailed):
        world.at(HOUR)
    assert world.at(HOUR + MINUTE) == []
    with pytest.raises(RefreshFailed):
        world.at(2 * HOUR)
    world.recorder.failures.clear()
    assert world.at(3 * HOUR) == [("refresh", "v")]


def test_a_view_that_was_dropped_meanwhile_is_no_failure(world: World) -> None:
    world.add(scheduled("EVERY 1 HOUR", "a"), scheduled("EVERY 1 HOUR", "b"), scheduled("EVERY 1 HOUR", "c"))

    def drop(operation: str, name: str) -> None:
        if name == "a":
            world.catalog.drop_view(world.catalog.acquire("b", Owner.here(), LONG))  # before its tick is claimed
        if name == "c":
            world.catalog.drop_view(world.catalog.acquire("c", Owner.here(), LONG))  # after
            raise UnknownView("There is no materialized view named c.", "")

    world.recorder.before = drop
    assert [record.view for record in world.scheduler.run_due(THEN + HOUR)] == ["a"]
    assert [name for _, name in world.recorder.calls] == ["a", "c"]


def test_an_unknown_source_is_a_failure(world: World) -> None:
    world.add(scheduled("EVERY 1 HOUR"))
    world.recorder.failures["v"] = UnknownView("There is no materialized view named w.", "")
    with pytest.raises(RefreshFailed, match="named w"):
        world.scheduler.run_due(THEN + HOUR)


def test_another_policy_meanwhile_is_respected(world: World) -> None:
    world.add(scheduled("EVERY 1 HOUR", "a"), scheduled("EVERY 1 HOUR", "b"))

    def alter(operation: str, name: str) -> None:
        world.catalog.set_policy(world.catalog.acquire("b", Owner.here(), LONG), "LAZY", None, None)

    world.recorder.before = alter
    assert world.at(HOUR) == [("refresh", "a")]
    assert world.ticks("b") == (None, None)


def test_of_two_schedulers_one_runs_each_tick(world: World) -> None:
    names = [f"v{i}" for i in range(8)]
    world.add(*(replace(scheduled(POLICY_2, name), next_propagate=THEN + DAY) for name in names))
    together = threading.Barrier(2)
    recorders = [Recorder(before=lambda operation, name: time.sleep(0.001)) for _ in range(2)]

    def work(recorder: Recorder) -> None:
        scheduler = Scheduler(world.catalog, recorder, world.is_idle, world.clock)
        together.wait(30)
        scheduler.run_due(THEN + DAY)

    threads = [threading.Thread(target=work, args=(recorder,)) for recorder in recorders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = recorders[0].calls + recorders[1].calls
    assert sorted(calls) == sorted(
        (operation, name) for name in names for operation in ("propagate", "partial_refresh")
    )


# -- when idle


def test_propagated_when_idle_after_what_is_due(world: World) -> None:
    world.add(scheduled(WHEN_IDLE, "a"), scheduled("EVERY 1 HOUR", "b"), scheduled(POLICY_1, "c"))
    assert world.at(MINUTE) == []
    world.idle = True
    assert world.at(MINUTE) == [("propagate", "a")]
    assert world.at(2 * MINUTE) == [("propagate", "a")]
    assert world.at(HOUR) == [("refresh", "b"), ("propagate", "c"), ("propagate", "a")]
    world.idle = False
    assert world.at(DAY) == [("refresh", "b"), ("refresh", "a"), ("refresh", "c")]


def test_it_is_asked_before_each_view_whether_anything_runs(world: World) -> None:
    world.add(*(scheduled(WHEN_IDLE, name) for name in ("a", "b", "c")))
    world.idle = True

    def busy_after(operation: str, name: str) -> None:
        world.idle = name != "b"

    world.recorder.before = busy_after
    assert world.at(MINUTE) == [("propagate", "a"), ("propagate", "b")]


def test_it_is_not_asked_when_nobody_wants_to_know(world: World) -> None:
    world.add(scheduled(POLICY_1), scheduled("LAZY", "w"))
    world.at(HOUR)
    assert world.asked == 0


def test_when_idle_only_what_can_be_propagated(world: World) -> None:
    world.idle = True
    unusable = replace(scheduled(WHEN_IDLE, "b"), unusable_reason=Unusable("FOREIGN_COMMIT", "Somebody wrote."))
    world.add(scheduled(WHEN_IDLE, "a", batch=0), unusable, scheduled(WHEN_IDLE, "c"))
    assert world.at(MINUTE) == [("propagate", "c")]


def test_when_idle_nobody_is_waited_for(world: World) -> None:
    world.idle = True
    world.add(scheduled(WHEN_IDLE, "a"), scheduled(WHEN_IDLE, "b"), scheduled(WHEN_IDLE, "c"))
    here = Owner.here()
    world.catalog.acquire("a", here, LONG)
    dead = replace(here, processes=(Process(here.processes[0].pid, "before"),), token="another")
    world.catalog.acquire("b", dead, LONG)
    assert world.at(MINUTE) == [("propagate", "b"), ("propagate", "c")]


def test_a_propagate_that_failed_when_idle_waits_for_the_refresh(world: World) -> None:
    """It would fail again every second."""
    world.idle = True
    world.add(scheduled(WHEN_IDLE, "a"), scheduled(WHEN_IDLE, "b"))
    world.recorder.failures["a"] = SourceHistoryLost("Gone.", "")
    with pytest.raises(RefreshFailed, match="1 of 2"):
        world.at(MINUTE)
    assert world.at(2 * MINUTE) == [("propagate", "b")]
    world.recorder.failures.clear()
    assert world.at(3 * MINUTE) == [("propagate", "b")]
    assert world.at(DAY)[:2] == [("refresh", "a"), ("refresh", "b")]
    assert world.at(DAY + MINUTE) == [("propagate", "a"), ("propagate", "b")]


def test_a_propagate_that_somebody_was_in_the_way_of_is_tried_again(world: World) -> None:
    world.idle = True
    world.add(scheduled(WHEN_IDLE))
    world.recorder.failures["v"] = ViewBusy("v is being maintained.", "")
    with pytest.raises(RefreshFailed):
        world.at(MINUTE)
    world.recorder.failures.clear()
    assert world.at(2 * MINUTE) == [("propagate", "v")]


# -- the thread


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def test_the_thread_runs_what_becomes_due_until_the_block_ends(world: World) -> None:
    world.add(scheduled("EVERY 1 HOUR"))
    with world.scheduler.running(seconds=0.01):
        time.sleep(0.05)
        assert world.recorder.calls == []
        for hours in (1, 2):
            world.clock.now = THEN + hours * HOUR
            wait_until(lambda hours=hours: len(world.recorder.calls) == hours)  # type: ignore[misc]
    world.clock.now = THEN + 3 * HOUR
    time.sleep(0.05)
    assert world.recorder.calls == [("refresh", "v")] * 2
    assert not [thread for thread in threading.enumerate() if thread.name == "monus-scheduler"]


def test_the_block_ends_without_waiting_for_the_next_round(world: World) -> None:
    started = time.monotonic()
    with world.scheduler.running(seconds=600):
        pass
    assert time.monotonic() - started < 30


def test_when_the_block_ends_what_runs_is_finished_and_the_rest_stays_due(world: World) -> None:
    world.idle = True
    world.add(scheduled("EVERY 1 HOUR", "a"), scheduled("EVERY 1 HOUR", "b"), scheduled(WHEN_IDLE, "c"))
    begun, go_on = threading.Event(), threading.Event()
    finished: list[str] = []

    def work(operation: str, name: str) -> None:
        begun.set()
        assert go_on.wait(30)
        finished.append(name)

    world.recorder.before = work
    world.clock.now = THEN + HOUR
    with world.scheduler.running(seconds=0.01):
        assert begun.wait(30)
        threading.Timer(0.1, go_on.set).start()
    assert world.recorder.calls == [("refresh", "a")]
    assert finished == ["a"]
    assert world.ticks("b") == (THEN + HOUR, None)


def test_the_thread_survives_failures_and_logs_them(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add(scheduled("EVERY 1 HOUR"))
    world.recorder.failures["v"] = SourceHistoryLost("The log of sales is gone.", "")
    with caplog.at_level(logging.ERROR, "monus.maintenance.schedule"), world.scheduler.running(seconds=0.01):
        world.clock.now = THEN + HOUR
        wait_until(lambda: "The log of sales is gone." in caplog.text)
        world.recorder.failures.clear()
        world.clock.now = THEN + 2 * HOUR
        wait_until(lambda: len(world.recorder.calls) == 2)


def test_the_thread_survives_a_catalog_that_is_closed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "monus.maintenance.schedule"), world.scheduler.running(seconds=0.01):
        world.catalog.close()
        wait_until(lambda: caplog.text.count("WAREHOUSE_CLOSED") >= 2)


def test_an_error_inside_the_block_ends_the_thread(world: World) -> None:
    with suppress(KeyError), world.scheduler.running(seconds=0.01):
        raise KeyError
    assert not [thread for thread in threading.enumerate() if thread.name == "monus-scheduler"]
