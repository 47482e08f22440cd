"""The process behind a report: its memory, its descriptors and its view of paths.

A thread of the process may change all of them at any time: they tell what it asks for, never what it may do.
"""

from __future__ import annotations

import contextlib
import os

AT_FDCWD = 0xFFFFFF9C
PATH_MAX = 4096
_PAGE = 4096
_MAX_LINKS = 40
NO_FILE = ("pipe:", "socket:", "anon_inode:", "/memfd:")
"""Beginnings of link targets in `/proc/PID/fd` that are not paths."""


def read_memory(pid: int, address: int, size: int, *, until_zero: bool = False) -> bytes:
    """Read memory of a process up to the first page that is not there, or the page with the first zero byte.
    Raises `OSError` when it may not be read."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        data = b""
        while len(data) < size:
            start = address + len(data)
            step = min(size - len(data), _PAGE - start % _PAGE)
            try:
                piece = os.pread(memory.fileno(), step, start)
            except (OSError, OverflowError):  # an address outside any mapping
                break
            data += piece
            if not piece or (until_zero and b"\0" in piece):
                break
        return data


def read_path(pid: int, pointer: int) -> str:
    """Read a path from the memory of a process."""
    return os.fsdecode(read_memory(pid, pointer, PATH_MAX, until_zero=True).split(b"\0", 1)[0])


def resolve_path(pid: int, folder: int, path: str, *, follow: bool) -> str:
    """Resolve the path as the process means it: relative to its working folder or a descriptor, following
    links as the process sees them; `follow` also follows the last name.

    A link may change until the kernel follows it, as every argument may.
    """
    where = "cwd" if folder == AT_FDCWD else f"fd/{folder}"
    real = "" if path.startswith("/") else os.readlink(f"/proc/{pid}/{where}").rstrip("/")
    view = f"/proc/{pid}/root"
    names = [name for name in reversed(path.split("/")) if name not in ("", ".")]
    links = 0
    while names:
        name = names.pop()
        if name == "..":
            real = real.rpartition("/")[0]
            continue
        if real == "/proc" and name in ("self", "thread-self"):  # buddy's resolve to buddy itself
            names += reversed(_own_names(pid, name))
            continue
        target = ""
        if names or follow:
            with contextlib.suppress(OSError):  # not a link, or missing
                target = os.readlink(f"{view}{real}/{name}")
        links += bool(target)
        if not target or links > _MAX_LINKS or target.startswith(NO_FILE):
            real = f"{real}/{name}"
            continue
        if target.startswith("/"):
            real = ""
        names += [one for one in reversed(target.split("/")) if one not in ("", ".")]
    return real or "/"


def _own_names(pid: int, name: str) -> tuple[str, ...]:
    """Return the paths behind `/proc/self` or `/proc/thread-self` for a thread, with the numbers of its own
    namespace."""
    numbers = namespace_numbers(pid)
    process, thread = numbers["NStgid"][-1], numbers["NSpid"][-1]
    return (process,) if name == "self" else (process, "task", thread)


def namespace_numbers(pid: int) -> dict[str, list[str]]:
    """Return a thread's numbers in the namespaces from buddy's to its own."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return {line.split(":")[0]: line.split()[1:] for line in file if line.startswith("NS")}
