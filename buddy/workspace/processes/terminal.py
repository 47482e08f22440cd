"""A command on a terminal of its own: what its screen shows, and typing into it."""

from __future__ import annotations

import asyncio
import os
import time

from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolError
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.launch import TerminalSize

DRAW_EVERY_S = 0.005
DRAW_BYTES = 2 * 1024
"""A model of a screen takes up to four milliseconds per kilobyte: so much at a time, on the loop's thread."""

BACKLOG_BYTES = 64 * 1024
MAX_TYPED_BYTES = 64 * 1024
TYPING_LIMIT_S = 5.0


class JobTerminal:
    """The terminal of one job. Output is drawn in small portions; when more arrives than can be drawn, the
    oldest of it is left out and only the end reaches the screen."""

    def __init__(self, child: Child, size: TerminalSize) -> None:
        from buddy.workspace.processes.screen_model import ScreenModel  # pyte: 20 ms, only for terminal jobs

        self._model = ScreenModel(size)
        self._child = child
        self._backlog = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = child.duplicate_descriptor()
        self._typing = asyncio.Lock()
        child.listeners.append(self._receive)
        if child.log.total:  # on another machine it may have begun before
            self._receive(child.log.text().encode())

    def _receive(self, data: bytes) -> None:
        self._backlog += data
        if len(self._backlog) > BACKLOG_BYTES:
            del self._backlog[:-BACKLOG_BYTES]
        self._later()

    def _later(self) -> None:
        if self._timer is None and self._backlog:
            self._timer = asyncio.get_running_loop().call_later(DRAW_EVERY_S, self._draw)

    def _draw(self) -> None:
        self._timer = None
        self._model.feed(bytes(self._backlog[:DRAW_BYTES]))
        del self._backlog[:DRAW_BYTES]
        self._answer()
        self._later()

    def _answer(self) -> None:
        """Answer programs that ask the terminal for its cursor position; without an answer some wait for
        ever."""
        for answer in self._model.take_answers():
            if self._descriptor >= 0:
                try:
                    os.write(self._descriptor, answer)
                except OSError:
                    return

    async def screen(self) -> tuple[str, ...]:
        """Return the lines of the screen as they are now, without blanks at their ends. What arrives while
        they are drawn is not waited for: there may be no end of it."""
        due = len(self._backlog)
        while self._backlog and due > 0:
            if self._timer is not None:
                self._timer.cancel()
            due -= DRAW_BYTES
            self._draw()
            await asyncio.sleep(0)
        return self._model.lines()

    def encode(self, keys: tuple[str, ...]) -> bytes:
        """Convert named keys and text to terminal input. Raises `ToolError` for an unknown name."""
        return b"".join(self._model.key(name) for name in keys)

    async def write(self, data: bytes) -> None:
        """Type into the terminal. Raises `ToolError` when the job ended, or does not read for five
        seconds."""
        if len(data) > MAX_TYPED_BYTES:
            raise ToolError(
                f"{format_count(len(data), 'byte')} are too much to type at once; "
                f"send at most {MAX_TYPED_BYTES}"
            )
        async with self._typing:
            end = time.monotonic() + TYPING_LIMIT_S
            while data:
                data = data[self._write_some(data) :]
                if data and time.monotonic() > end:
                    raise ToolError(f"the job does not read; {format_count(len(data), 'byte')} not taken")
                if data:
                    await asyncio.sleep(0.01)

    def _write_some(self, data: bytes) -> int:
        if self._descriptor < 0 or self._child.is_closed:
            raise ToolError("the job has ended; nothing can be typed into it")
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ToolError("the job has closed its terminal; nothing can be typed into it") from error

    async def close(self) -> None:
        """Draw the rest after the job ended, and close the terminal."""
        await self.screen()
        if self._timer is not None:
            self._timer.cancel()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
