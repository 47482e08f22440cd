"""Process information from psutil, for systems without `/proc`, mainly macOS."""

from __future__ import annotations

import importlib
import os
from typing import Any

from buddy.workspace.processes.process_info import ProcessInfo

_ZOMBIE, _STOPPED = "zombie", "stopped"


def _psutil() -> Any:
    return importlib.import_module("psutil")  # 10 ms, and only a session that starts a process pays them


def read_process(pid: int) -> ProcessInfo | None:
    """Return the process with this id, or None when there is none."""
    psutil = _psutil()
    try:
        return _info(psutil.Process(pid))
    except (psutil.Error, OSError):
        return None


def all_processes() -> dict[int, ProcessInfo]:
    """Return every process that can be looked at, by id."""
    found = (read_process(pid) for pid in _psutil().pids() if pid)
    return {process.pid: process for process in found if process is not None}


def own_children() -> tuple[int, ...]:
    """Return the ids of this process's children."""
    return tuple(child.pid for child in _psutil().Process().children())


def variables_of(pid: int) -> dict[str, str]:
    """Return the environment a process was started with; empty when it may not be read."""
    psutil = _psutil()
    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}


def _info(process: Any) -> ProcessInfo:
    status = process.status()
    state = "Z" if status == _ZOMBIE else "T" if status == _STOPPED else "S"
    pid = int(process.pid)
    # Microseconds: two owners of one id are never as near.
    started = int(process.create_time() * 1_000_000)
    return ProcessInfo(pid, process.ppid(), os.getpgid(pid), os.getsid(pid), state, started)
