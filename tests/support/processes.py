"""Processes of this machine, as a test looks for them."""

from __future__ import annotations

import os
from pathlib import Path


def processes_with(mark: str) -> list[int]:
    """Ids of living processes whose command line or environment holds a mark; zombies have neither."""
    return [pid for pid in _others() if mark.encode() in _content(pid, "cmdline") + _content(pid, "environ")]


def sleepers(mark: str) -> list[int]:
    """Those that have become the program `sleep`; the shells that start it carry the mark, too."""
    return [pid for pid in _others() if _content(pid, "cmdline") == f"sleep\0{mark}\0".encode()]


def _others() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _content(pid: int, name: str) -> bytes:
    """A file of a process; nothing when it is gone or another user's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def zombie_children() -> list[int]:
    """Children of this process that ended and were not waited for."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        try:
            fields = (
                Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split() if name.isdigit() else []
            )
        except OSError:
            continue
        if fields and fields[0] == "Z" and int(fields[1]) == os.getpid():
            found.append(int(name))
    return found
