"""The few system calls a write consists of, as an argument: tests make them fail, nothing else replaces
them."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec


class Disk(msgspec.Struct, frozen=True):
    """How bytes reach a descriptor, how they are made to last, how a file takes another's place (source name,
    target name, folder descriptor)."""

    write: Callable[[int, memoryview], int]
    sync: Callable[[int], None]
    rename: Callable[[str, str, int], None]


def _rename(source: str, target: str, folder: int) -> None:
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


DISK = Disk(os.write, os.fsync, _rename)


def write_all(disk: Disk, descriptor: int, data: bytes) -> None:
    """Write everything, then make it last."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(descriptor, rest) :]
    disk.sync(descriptor)
