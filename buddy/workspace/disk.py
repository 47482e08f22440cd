"""The few system calls a write consists of, as an argument: tests make them fail, nothing else replaces
them."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from buddy.workspace.swap import exchange


class Disk(msgspec.Struct, frozen=True):
    """Replaceable disk operations: write bytes to a descriptor, flush it, rename a file over another one
    (source name, target name, folder descriptor), exchange two names (False: not supported here)."""

    write: Callable[[int, memoryview], int]
    sync: Callable[[int], None]
    rename: Callable[[str, str, int], None]
    exchange: Callable[[str, str, int], bool]


def _rename(source: str, target: str, folder: int) -> None:
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


DISK = Disk(os.write, os.fsync, _rename, exchange)


def write_all(disk: Disk, descriptor: int, data: bytes) -> None:
    """Write everything, then make it last."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(descriptor, rest) :]
    disk.sync(descriptor)
