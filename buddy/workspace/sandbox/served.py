"""The ports a sandboxed command serves: nobody outside of its network namespace reaches them."""

from __future__ import annotations

import os

from buddy.workspace.process_tree import all_processes, tag_number

_LISTENS = b"0A"


def served_ports(leader: int, number: int) -> tuple[int, ...]:
    """Return the TCP ports that processes with the mark `number` listen on; `leader` is one of them."""
    listening = _listening(leader)
    if not listening:
        return ()
    sockets = {socket for pid in all_processes() if tag_number(pid) == number for socket in _sockets(pid)}
    return tuple(sorted({port for socket, port in listening.items() if socket in sockets}))


def _listening(pid: int) -> dict[str, int]:
    """Listening sockets of a process's network namespace: by inode, their ports."""
    found: dict[str, int] = {}
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", "rb") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for fields in (line.split() for line in lines):
            if len(fields) > 9 and fields[3] == _LISTENS:
                found[fields[9].decode()] = int(fields[1].rpartition(b":")[2], 16)
    return found


def _sockets(pid: int) -> set[str]:
    try:
        targets = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return set()
    return {target[8:-1] for target in targets if target.startswith("socket:[")}
