"""A channel to a server that runs as a child process: one JSON message a line on its stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.tool import ToolError
from buddy.extend.mcp.channel import ChannelClosed
from buddy.extend.mcp.guard import MessageGuard
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.processes.termination import run_to_end
from buddy.workspace.sandbox.profile import Confinement

CLOSING_S = 0.5
"""The time a server has to end by itself after its stdin closed."""
MAX_UNSENT_BYTES = 32_000_000
READ_BYTES = 64 * 1024
TAIL_BYTES = 8 * 1024
_NO_LIMIT = 1 << 62
_SMALL = OutputBounds(head_bytes=0, tail_bytes=1, cap_bytes=_NO_LIMIT)


class StderrTail:
    """The end of what a server says on stderr."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Take what was just read."""
        self._kept += data[-TAIL_BYTES:]
        del self._kept[:-TAIL_BYTES]

    def text(self) -> str:
        """Return it as text, not yet fit for a terminal."""
        return bytes(self._kept).decode("utf-8", "replace").strip()


class ServerProcess(msgspec.Struct, frozen=True):
    """The process to start. `env` is what the definition adds to the allowed environment."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    confinement: Confinement | None


class StdioChannel:
    """A running server. `tie` sees to it that the process ends with buddy, however that ends."""

    def __init__(
        self,
        children: ChildProcesses,
        process: ServerProcess,
        stderr: StderrTail,
        tie: Callable[[Child], None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._stderr = stderr
        self.guard = MessageGuard(now)
        self._line = bytearray()
        self._scanned = 0
        self._messages: deque[dict[str, Any]] = deque()
        self._arrived = asyncio.Event()
        self._problem: ChannelClosed | None = None
        self._unsent = bytearray()
        self._is_writing = False
        theirs_in, self._input = os.pipe()
        self._errors, theirs_err = os.pipe()
        request = CommandRequest(
            process.argv,
            process.cwd,
            0,
            env=process.env,
            confinement=process.confinement,
            kept=False,
            limited=False,
            bounds=_SMALL,
            stdin=theirs_in,
        )
        try:
            with on_failure(_close_both, (self._input, self._errors)):
                os.set_blocking(self._input, False)
                os.set_blocking(self._errors, False)
                self._child = children.start(request, errors=theirs_err)
        except ToolError as error:
            raise ChannelClosed(str(error)) from error
        finally:
            _close_both((theirs_in, theirs_err))
        self._child.listeners.append(self._take)
        self._loop.add_reader(self._errors, self._read_errors)
        tie(self._child)
        self._watching = self._loop.create_task(self._watch())

    @property
    def pid(self) -> int:
        """The process id of what was started."""
        return self._child.pid

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises `ChannelClosed`."""
        if self._problem is not None:
            raise self._problem
        self.guard.note_sent(message)
        self._unsent += msgspec.json.encode(message) + b"\n"
        if len(self._unsent) > MAX_UNSENT_BYTES:
            self._break(ChannelClosed(f"it does not read its input; {MAX_UNSENT_BYTES // 1_000_000} MB wait"))
            return
        if not self._is_writing:
            self._write()

    async def receive(self) -> dict[str, Any]:
        """Return the next message. Raises `ChannelClosed`."""
        while not self._messages:
            if self._problem is not None:
                raise self._problem
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages.popleft()

    async def aclose(self) -> None:
        """Close stdin, wait a moment, then end the whole process group. Runs to its end."""
        await run_to_end(self._end())

    async def _end(self) -> None:
        self._break(ChannelClosed("the connection was closed"))
        self._close_input()
        if self._child.exit is None:
            await asyncio.wait({asyncio.ensure_future(self._child.wait())}, timeout=CLOSING_S)
        await self._child.end("the server was stopped")
        self._watching.cancel()
        await asyncio.wait({self._watching})
        self._close_errors()

    # What it says

    def _take(self, data: bytes) -> None:
        if self._problem is not None:
            return
        self._line += data
        try:
            self._split()
        except ChannelClosed as error:
            self._break(error)

    def _split(self) -> None:
        while (end := self._line.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._line[:end])
            del self._line[: end + 1]
            self._scanned = 0
            self._take_line(line)
        self._scanned = len(self._line)
        self.guard.check_size(self._scanned)

    def _take_line(self, line: bytes) -> None:
        if not line.strip():
            return
        self.guard.check_size(len(line))
        try:
            found: object = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.guard.note_noise(len(line))  # many servers print to stdout before they know better
            self._stderr.add(line[:500] + b"\n")
            return
        message = self.guard.admit(found, len(line))
        if message is not None:
            self._messages.append(message)
            self._arrived.set()

    def _read_errors(self) -> None:
        try:
            data = os.read(self._errors, READ_BYTES)
        except BlockingIOError:
            return
        self._stderr.add(data)
        if not data:
            self._close_errors()

    # What it is told

    def _write(self) -> None:
        try:
            sent = os.write(self._input, self._unsent[: READ_BYTES * 4])
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._break(ChannelClosed(f"it closed its input ({error.strerror})"))
            self._close_input()
            return
        del self._unsent[:sent]
        if self._unsent and not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._input, self._write)
        elif not self._unsent and self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._input)

    # Its end

    async def _watch(self) -> None:
        ended = await self._child.wait()
        how = f"was ended by {ended.signal}" if ended.signal else f"ended with exit code {ended.code}"
        self._break(ChannelClosed(f"it {how}"))

    def _break(self, problem: ChannelClosed) -> None:
        """Take no more; the first reason counts. What a flooding process says is no longer read as messages,
        and whoever receives ends it."""
        if self._problem is None:
            self._problem = problem
            self._line.clear()
            self._arrived.set()

    def _close_input(self) -> None:
        if self._input >= 0:
            if self._is_writing:
                self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = -1

    def _close_errors(self) -> None:
        if self._errors >= 0:
            self._loop.remove_reader(self._errors)
            os.close(self._errors)
            self._errors = -1


def _close_both(descriptors: tuple[int, int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
