from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from monus.catalog.owners import Owner, Process

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def test_it_survives_being_stored() -> None:
    owner = Owner.here(jvm_pid=1)
    assert Owner.from_json(owner.to_json()) == owner


def test_each_piece_of_work_has_its_own_token() -> None:
    assert Owner.here().token != Owner.here().token


def test_this_process_is_alive() -> None:
    assert not Owner.here().is_dead()


def test_a_number_that_was_used_again_is_another_process() -> None:
    here = Owner.here()
    assert replace(here, processes=(Process(here.processes[0].pid, "before"),)).is_dead()


def test_another_host_is_never_known_to_be_dead() -> None:
    assert not replace(Owner.here(), host="elsewhere", processes=(Process(2**22 + 1, "1"),)).is_dead()


@ON_LINUX
def test_another_container_is_not_known_to_be_dead() -> None:
    assert not replace(Owner.here(), namespace="pid:[1]", processes=(Process(2**22 + 1, "1"),)).is_dead()


@ON_LINUX
def test_before_the_machine_was_started_anew() -> None:
    assert replace(Owner.here(), boot="another").is_dead()


def test_dead_only_when_its_java_process_is_too() -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        owner = Owner.here(jvm_pid=sleeper.pid)
        gone = replace(owner, processes=(Process(owner.processes[0].pid, "before"), owner.processes[1]))
        assert not gone.is_dead()
        assert gone.is_dying() and not owner.is_dying()
    finally:
        sleeper.kill()
    # It has died once its end can be collected; until it is collected, its number is still in use.
    deadline = time.monotonic() + 30
    while not gone.is_dead() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone.is_dead()
    sleeper.wait()
    assert gone.is_dead()
