"""buddy on a real terminal: a pty, keys typed into it, and a screen model that shows what a person would see.

async with on_terminal(program) as terminal:
    await terminal.line("what does main.py do")
    await terminal.shows("a program")
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Sequence

import pyte

from tests.support.program import Program
from tests.support.screen_text import ScreenText

DEADLINE_S = 50.0
BEGIN_FRAME = b"\x1b[?2026h"
END_FRAME = b"\x1b[?2026l"
KEY_S = 0.02
SEEN_S = 0.4
"""An answer counts only to a request that was on the screen before it was begun."""
ENTER_S = 0.35
"""Before Enter, and between two keys of a person: what comes faster is taken for a paste."""


def _as_a_shell_does() -> None:
    """Take the terminal; and hear the signals that whoever started the tests may have ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _whole_frames(data: bytes) -> int:
    """Return the part of the output that a terminal with synchronized output shows: not the frame that is
    still being written, nor what may be the beginning of one."""
    begin = data.rfind(BEGIN_FRAME)
    if begin >= 0 and data.find(END_FRAME, begin) < 0:
        return begin
    for length in range(len(BEGIN_FRAME) - 1, 0, -1):
        if data.endswith(BEGIN_FRAME[:length]):
            return len(data) - length
    return len(data)


class Terminal:
    """A terminal with buddy in it."""

    def __init__(
        self,
        program: Program,
        command: Sequence[str],
        *,
        columns: int,
        rows: int,
        term: str = "xterm-256color",
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=0.5)
        self.output = b""
        self._held = b""
        self._text = ScreenText(self.screen)
        self._master, slave = pty.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=program.repo,
            env={**program.variables(), "TERM": term},
            start_new_session=True,
            preexec_fn=_as_a_shell_does,
        )
        self._slave = slave
        os.set_blocking(self._master, False)
        asyncio.get_running_loop().add_reader(self._master, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except BlockingIOError:
            return
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)
            return
        self.output += data
        self._held += data
        whole = _whole_frames(self._held)
        self._text.feed(self._held[:whole])
        self._held = self._held[whole:]

    def _show_the_rest(self) -> None:
        """Half a frame is shown when its other half will never come."""
        if self._held and self.process.poll() is not None:
            self._text.feed(self._held)
            self._held = b""

    def rows(self) -> list[str]:
        """The screen, without blank lines at its end; never in the middle of a frame."""
        self._show_the_rest()
        return self._text.rows()

    def everything(self) -> list[str]:
        """Scrollback and screen."""
        self._show_the_rest()
        return self._text.everything()

    def input_line(self) -> str:
        """Return the text of the input line, wrapped rows joined."""
        rows = self.rows()
        rules = [at for at, row in enumerate(rows) if row and set(row) == {"─"}]
        if not rules:
            return ""
        below = rows[rules[-1] + 1 : -1]
        typed = [row[2:] for row in itertools.takewhile(lambda row: row[:2] in ("❯", "❯ ", "  "), below)]
        return "".join(typed).rstrip()

    async def until(self, claim: Callable[[], bool], what: str = "") -> None:
        """Wait until something is true, at most for the deadline; the screen is shown when it never is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while not claim():
            if loop.time() > deadline:
                raise AssertionError("\n".join([f"never: {what or claim}; the screen:", *self.everything()]))
            await asyncio.sleep(0.01)

    async def shows(self, *texts: str) -> None:
        """Wait until every text is somewhere on the screen."""
        await self.until(lambda: all(any(text in row for row in self.rows()) for text in texts), str(texts))

    async def has_shown(self, *texts: str) -> None:
        """Wait until every text is on the screen or in the scrollback."""
        await self.until(lambda: all(any(t in row for row in self.everything()) for t in texts), str(texts))

    async def shows_not(self, text: str) -> None:
        """Wait until a text is gone from the screen."""
        await self.until(lambda: not any(text in row for row in self.rows()), f"gone: {text}")

    def keys(self, keys: str) -> None:
        """Send keys as they are."""
        os.write(self._master, keys.encode())

    async def feed(self, data: bytes) -> None:
        """Send more than a terminal holds at a time."""
        while data:
            try:
                data = data[os.write(self._master, data[:65536]) :]
            except BlockingIOError:
                await asyncio.sleep(0.005)

    async def type(self, text: str) -> None:
        """Type as a person does, a key at a time."""
        for key in text:
            self.keys(key)
            await asyncio.sleep(KEY_S)

    async def line(self, text: str) -> None:
        """Type a line and send it."""
        await self.type(text)
        await self.until(lambda: self.input_line().endswith(text.rstrip()), f"typed: {text}")
        await asyncio.sleep(ENTER_S)
        self.keys("\r")
        await asyncio.sleep(ENTER_S)  # text that follows Enter at once would be a paste

    async def answer(self, line: str, shown: str) -> None:
        """Answer a request, again as often as it was not on the screen long enough before the line was begun,
        until `shown` is there."""
        again = "Answer again."

        def is_there(text: str) -> bool:
            return any(text in row for row in self.everything())

        while not is_there(shown):
            await asyncio.sleep(SEEN_S)
            await self.line(line)
            await self.until(lambda: is_there(shown) or any(again in row for row in self.rows()), shown)

    async def kill(self) -> None:
        """End the program as a crash of the machine would."""
        os.kill(self.process.pid, signal.SIGKILL)
        await self.exit_code()

    async def exit_code(self) -> int:
        """Wait for the end of the program."""
        await self.until(lambda: self.process.poll() is not None, "the end")
        await asyncio.sleep(0.05)
        return self.process.returncode

    async def leaves(self, keys: str = "\x04") -> int:
        """Leave with Ctrl+D, and once more as long as it asks because something still runs; the exit code."""
        self.keys(keys)
        asked = 0
        while self.process.poll() is None and asked < DEADLINE_S:
            asked += 1
            await self._ends_within(1.0)
            if self.process.poll() is None:
                self.keys("\x04")
        return await self.exit_code()

    async def _ends_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.process.poll() is None and loop.time() < until:
            await asyncio.sleep(0.01)

    async def has_read(self) -> None:
        """Wait until the program has taken every key that was sent."""
        waiting = bytearray(4)

        def none_waits() -> bool:
            fcntl.ioctl(self._slave, termios.FIONREAD, waiting)
            return not any(waiting)

        await self.until(none_waits, "keys read")

    @property
    def master(self) -> int:
        """Our side of the terminal."""
        return self._master

    @property
    def tty(self) -> int:
        """The program's side of the terminal."""
        return self._slave

    def is_restored(self) -> bool:
        """Tell whether the line discipline is restored."""
        return termios.tcgetattr(self._slave) == self.before

    def hang_up(self) -> None:
        """Take the terminal away, as a connection that breaks does."""
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            os.close(self._slave)
            self._master = -1

    def close(self) -> None:
        """Kill what is left, close the terminal."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.hang_up()


@contextlib.asynccontextmanager
async def on_terminal(
    program: Program,
    *arguments: str,
    columns: int = 100,
    rows: int = 36,
    command: Sequence[str] = (sys.executable, "-m", "buddy"),
    ready: str = "❯",
    term: str = "xterm-256color",
) -> AsyncGenerator[Terminal]:
    """buddy (or another program) on a terminal, its prompt drawn."""
    terminal = Terminal(program, (*command, *arguments), columns=columns, rows=rows, term=term)
    try:
        await terminal.until(lambda: any(ready in row for row in terminal.rows()), "the prompt")
        yield terminal
    finally:
        terminal.close()
