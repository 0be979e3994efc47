"""Who holds a lease, and whether that process is certainly dead.

Certainty matters more than speed: whoever cannot be proven dead keeps the lease until it expires. A process is
known by its id *and* its start, because ids come back; it can be looked up only from the same machine and the
same id namespace. The Java process does the writing and outlives a killed Python by some seconds, so an owner
counts as dead only when all its processes are.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_ENDED: set[str] = set()
"""The tokens of works of this process that ended with their leases still in the catalog."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine; `started` is empty where the system does not tell."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class Owner:
    """One piece of work of one process; the random token tells it from others of the same process."""

    host: str
    boot: str
    namespace: str
    processes: tuple[Process, ...]
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @classmethod
    def here(cls, jvm_pid: int | None = None) -> Owner:
        """This process, with a new token, and the Java process that works for it."""
        pids = [os.getpid()] + ([] if jvm_pid is None else [jvm_pid])
        processes = tuple(Process(pid, _start_of(pid) or "") for pid in pids)
        return cls(socket.gethostname(), _boot(), _namespace(), processes)

    def end(self) -> None:
        """This process knows that the work is done, even if its leases could not be given back."""
        _ENDED.add(self.token)

    def is_dead(self) -> bool:
        """Whether every process of the owner is certainly gone, seen from here; or its work has ended in this one."""
        if self.token in _ENDED:
            return True
        if self.host != socket.gethostname():
            return False
        if self.boot and _boot() and self.boot != _boot():
            return True  # the machine was started anew since
        if self.namespace != _namespace():
            return False  # another container: its ids mean nothing here
        return all(_is_gone(process) for process in self.processes)

    def is_dying(self) -> bool:
        """Whether the first process is certainly gone: the others, its Java process, follow within seconds."""
        return self.is_dead() or (
            self.host == socket.gethostname() and self.namespace == _namespace() and _is_gone(self.processes[0])
        )

    def __str__(self) -> str:
        return f"process {self.processes[0].pid} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "boot": self.boot,
            "namespace": self.namespace,
            "processes": [[process.pid, process.started] for process in self.processes],
            "token": self.token,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Owner:
        processes = tuple(Process(pid, started) for pid, started in stored["processes"])
        return cls(stored["host"], stored["boot"], stored["namespace"], processes, stored["token"])


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _is_gone(process: Process) -> bool:
    if platform.system() == "Windows":
        return False  # there is no harmless way to ask
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it is another user's, or its id was used again: its start will tell
    started = _start_of(process.pid)
    if started is None:
        return False
    return started == "" or (process.started != "" and started != process.started)


def _start_of(pid: int) -> str | None:
    """When the process started, in the words of its system; empty for a dead one that waits for its parent."""
    try:
        # The name in parentheses may hold anything; the state is the first field after it, the start the twentieth.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _start_by_ps(pid)
    return "" if fields[0] in "ZX" else fields[19]


def _start_by_ps(pid: int) -> str | None:
    if platform.system() != "Darwin":
        return None
    command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    state, _, started = answer.stdout.strip().partition(" ")
    if not state:
        return None
    return "" if state.startswith("Z") else started.strip()
