"""The channels to the files of one target: a slow transfer holds up one of them, not the others."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import BufferedReader
from typing import cast

import msgspec

from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.pipes import LOOK_S
from buddy.workspace.targets.transport import Cancellation, FileClient, TargetError

MOST = 3
"""Channels at once: an ssh server allows ten sessions to a connection, and commands need some."""


class _Channel(msgspec.Struct, frozen=True):
    """A client and the local program it talks through."""

    client: FileClient
    process: subprocess.Popen[bytes]

    @property
    def is_usable(self) -> bool:
        return self.client.is_usable and self.process.poll() is None


class FileChannels:
    """Channels that are opened when they are needed and used by one caller at a time. `prepare` gets every
    new client; `lost` makes the error for a channel that ends."""

    def __init__(
        self,
        connection: TargetConnection,
        prepare: Callable[[FileClient], None],
        lost: Callable[[str], TargetError],
    ) -> None:
        self._connection, self._prepare, self._lost = connection, prepare, lost
        self._free = threading.Condition()
        self._idle: list[_Channel] = []
        self._open = 0

    @contextmanager
    def borrow(self, cancellation: Cancellation | None = None) -> Generator[FileClient]:
        """Lend a client for one request of a call that may be cancelled; connects. Raises `TargetError`.
        Nobody borrows two: that could wait for itself."""
        self._connection.ensure()
        channel = self._take(cancellation)
        try:
            if channel is None:
                channel = self._start()
            channel.client.begin(cancellation)
            yield channel.client
        finally:
            self._give_back(channel)

    def _take(self, cancellation: Cancellation | None) -> _Channel | None:
        """Return an idle channel, or None with the right to open one."""
        with self._free:
            while True:
                while self._idle:
                    channel = self._idle.pop()
                    if channel.is_usable:
                        return channel
                    self._open -= 1
                    channel.process.kill()
                if self._open < MOST:
                    self._open += 1
                    return None
                if cancellation is not None and cancellation.is_over():
                    raise self._lost("the call was cancelled")
                self._free.wait(LOOK_S)

    def _give_back(self, channel: _Channel | None) -> None:
        with self._free:
            if channel is not None and channel.is_usable:
                self._idle.append(channel)
            else:
                self._open -= 1
                if channel is not None:  # a server that does not answer would keep its channel
                    channel.process.kill()
            self._free.notify()

    def _start(self) -> _Channel:
        process = self._connection.start_files()
        if process.stdin is None or process.stdout is None:
            raise TargetError("the channel for files could not be started")
        back = cast(BufferedReader, process.stdout)
        try:
            client = self._connection.destination.file_client(process.stdin, back, self._lost)
            self._prepare(client)
        except (OSError, TargetError):
            process.kill()
            raise
        return _Channel(client, process)
