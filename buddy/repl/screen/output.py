"""Output to the terminal: bytes that never block the loop, frames in one piece, and stray prints sent to
the log."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import select
import struct
import sys
import termios
import time
from collections.abc import Callable, Generator
from typing import Protocol

from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

from buddy.safety.sanitise import one_line

BEGIN_FRAME = "\x1b[?2026h"
END_FRAME = "\x1b[?2026l"
RESET_MODES = "\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[0m"
"""The sequence written on every exit: frame closed, paste mode off, autowrap on, cursor shown, colours
off."""
CLEAR_DOWN = "\x1b[K\x1b[C\x1b[J\b"
"""Clears everything below from the first column. Not a plain `CSI J`: from the screen's first cell tmux takes
that for clearing the screen, and moves what stands there into the scrollback."""
RESET_SHAPE = "\x1b[0 q"
"""The cursor shape as the person has set it."""
_AS_IT_IS = CursorShape._NEVER_CHANGE  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no public name
_SHAPES = {
    CursorShape.BLOCK: "\x1b[2 q",
    CursorShape.BEAM: "\x1b[6 q",
    CursorShape.UNDERLINE: "\x1b[4 q",
}
LAST_WRITE_S = 1.0
SMALLEST_CELL, LARGEST_CELL = 3, 200
"""Pixels of a cell that can be true; some terminals state cells instead of pixels, or anything."""
_PICTURE, _JOINER, _NO_JOINER = "\ufe0f", "\u200d", "\u200c"
_SKIN = range(0x1F3FB, 0x1F400)
FIRST_EMOJI = "\u2600"
"""A joiner behind anything before that belongs to a script, which it shapes."""


_ALIKE = str.maketrans(
    "\u25b8\u276f\u2192\u00b7\u2022\u2026\u2013\u2014\u2212\u2018\u2019\u201c\u201d\u201e\u2502\u2500\u253c\u2713\u2717\u00a0",
    '!>>-*~---\'\'"""|-++x ',
)
"""Marks, dashes, quotation marks and lines, for terminals without them."""


class Terminal(Protocol):
    """Destination of the bytes to write."""

    @property
    def is_stalled(self) -> bool:
        """Tell whether written bytes are still pending; nothing more should be drawn then."""
        ...

    def attach(self, loop: asyncio.AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        """Let a loop finish writes the terminal did not take; `on_drained` follows."""
        ...

    def write(self, data: bytes) -> None:
        """Write now what can be written now."""
        ...

    def close(self) -> None:
        """Write what is left, then let go."""
        ...


class TerminalWriter:
    """Writes to a terminal that may be slow, stopped or gone. What it does not take at once waits; when it
    is gone everything is dropped and `on_gone` is called once."""

    def __init__(self, fd: int, on_gone: Callable[[], None]) -> None:
        self._on_gone = on_gone
        self._waiting = bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_drained: Callable[[], None] = lambda: None
        self.gone = False
        self._fd, self._owned = _own_description(fd)

    @property
    def is_stalled(self) -> bool:
        """Tell whether the terminal has not yet taken all written bytes; nothing more should be drawn
        then."""
        return bool(self._waiting)

    def attach(self, loop: asyncio.AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        """Let a loop finish writes the terminal did not take; `on_drained` follows."""
        self._loop = loop
        self._on_drained = on_drained

    def write(self, data: bytes) -> None:
        """Write now what can be written now."""
        if self.gone:
            return
        self._waiting += data
        self._push()
        if self._waiting and self._loop is not None and not self._loop.is_closed():
            self._loop.add_writer(self._fd, self._resume)

    def close(self) -> None:
        """Give a slow terminal a moment for the last bytes, then let go."""
        self._forget_loop()
        deadline = time.monotonic() + LAST_WRITE_S
        while self._waiting and not self.gone and (left := deadline - time.monotonic()) > 0:
            if select.select([], [self._fd], [], left)[1]:
                self._push()
        if self._owned and self._fd >= 0:
            os.close(self._fd)
        self._fd, self.gone = -1, True

    def _resume(self) -> None:
        self._push()
        if self._waiting:
            return
        self._drop_writer()
        self._on_drained()

    def _push(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(self._fd, self._waiting[:65536])]
        except BlockingIOError:
            return
        except OSError:  # EIO, EPIPE: the terminal was closed, or the connection to it
            self._waiting.clear()
            self.gone = True
            self._drop_writer()
            self._on_gone()

    def _drop_writer(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_writer(self._fd)

    def _forget_loop(self) -> None:
        self._drop_writer()
        self._loop = None


def _own_description(fd: int) -> tuple[int, bool]:
    """Return the same terminal, opened once more without blocking. O_NONBLOCK on the given descriptor would
    change it for the shell as well, because the description is shared."""
    try:
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(os.ttyname(fd), flags), True
    except OSError:
        return fd, False


class FrameOutput(Vt100_Output):
    """prompt_toolkit's output with frames. No cursor position requests: replies leak over slow lines."""

    def __init__(
        self, write: Callable[[str], None], get_size: Callable[[], Size], *, fd: int, encoding: str
    ) -> None:
        super().__init__(io.StringIO(), get_size, term="xterm", enable_cpr=False)
        self._write = write
        self._fd = fd
        self._encoding = encoding
        self._in_frame = self._is_clear_below = False
        self._paste_wanted = self._paste_sent = False
        self._cursor_wanted = self._cursor_sent = True
        self._shape_wanted = self._shape_sent = _AS_IT_IS

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._fd

    def encoding(self) -> str:
        """Return the terminal's encoding."""
        return self._encoding

    @contextlib.contextmanager
    def frame(self) -> Generator[None]:
        """Collect everything written inside into one write at the end."""
        if self._in_frame:
            yield
            return
        self._in_frame, self._is_clear_below = True, False
        try:
            yield
        finally:
            self._in_frame = False
            self._send(BEGIN_FRAME, END_FRAME)

    def flush(self) -> None:
        """Write what has been drawn, unless a frame is open."""
        if not self._in_frame:
            self._send("", "")

    def _send(self, before: str, after: str) -> None:
        self._settle_modes()
        if self._buffer:
            data = "".join(self._buffer)
            self._buffer = []
            self._write(before + data + after)

    def _settle_modes(self) -> None:
        if self._paste_wanted != self._paste_sent:
            self._paste_sent = self._paste_wanted
            self.write_raw("\x1b[?2004h" if self._paste_wanted else "\x1b[?2004l")
        if self._cursor_wanted != self._cursor_sent:
            self._cursor_sent = self._cursor_wanted
            self.write_raw("\x1b[?25h" if self._cursor_wanted else "\x1b[?25l")
        if self._shape_wanted != self._shape_sent:
            self._shape_sent = self._shape_wanted
            self.write_raw(_SHAPES.get(self._shape_wanted, RESET_SHAPE))

    def forget_modes(self) -> None:
        """Send paste mode and cursor shape again: another program had the terminal."""
        self._paste_sent = False
        self._cursor_sent = True
        self._shape_sent = _AS_IT_IS

    def write(self, data: str) -> None:
        """Write a cell of the application. Emoji are written apart, not joined into one picture: terminals
        disagree about how wide that is, and everything behind it would stand where the cursor is not."""
        if not data.isascii():
            data = _apart(data)
        super().write(data)

    def line_end(self) -> str:
        """Return what begins a new row: most drivers of terminals add the return themselves, as they do for
        the programs that write lines."""
        try:
            modes = termios.tcgetattr(self._fd)[1]
        except (termios.error, OSError, ValueError):
            return "\r\n"
        adds_return = termios.OPOST | termios.ONLCR
        return "\n" if modes & adds_return == adds_return else "\r\n"

    def erase_down(self) -> None:
        """Clear what is below the cursor, which stands in the first column; once per frame."""
        if not (self._in_frame and self._is_clear_below):
            self.write_raw(CLEAR_DOWN)
            self._is_clear_below = True

    def enable_bracketed_paste(self) -> None:
        """Ask for paste mode at the next flush."""
        self._paste_wanted = True

    def disable_bracketed_paste(self) -> None:
        """End paste mode at the next flush."""
        self._paste_wanted = False

    def hide_cursor(self) -> None:
        """Hide the cursor at the next flush, if it is still to be hidden then."""
        self._cursor_wanted = False

    def show_cursor(self) -> None:
        """Show the cursor. Its blinking stays as the person has it."""
        self._cursor_wanted = True

    def set_cursor_shape(self, cursor_shape: CursorShape) -> None:
        """Give the cursor a shape at the next flush."""
        self._shape_wanted = cursor_shape

    def reset_cursor_shape(self) -> None:
        """Give the cursor back the person's shape at the next flush, if it has none by then."""
        self._shape_wanted = _AS_IT_IS

    def set_title(self, title: str) -> None:
        """Set the window title, inert and short."""
        self.write_raw(f"\x1b]2;{one_line(title)}\x07")


def _apart(cell: str) -> str:
    """Return a cell whose sign no terminal joins with the one before or behind it, nor makes a picture of."""
    if ord(cell[0]) in _SKIN:
        return _NO_JOINER + cell
    cell = cell.replace(_PICTURE, "") or cell
    return cell.rstrip(_JOINER) or cell if cell[0] >= FIRST_EMOJI else cell


def encode(text: str, encoding: str) -> bytes:
    """Encode text for the terminal. Characters it lacks are replaced: common signs by a similar one of the
    same width, others by a question mark."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ALIKE).encode(encoding, "replace")


def terminal_size(fd: int) -> Size:
    """Return rows and columns; 24 by 80 where the terminal does not say."""
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        return Size(rows=24, columns=80)
    return Size(rows=size.lines or 24, columns=size.columns or 80)


def cell_pixels(fd: int) -> tuple[int, int] | None:
    """Return width and height of a cell in pixels; None where the terminal does not state them."""
    try:
        rows, columns, width, height = struct.unpack("4H", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    except (OSError, ValueError):
        return None
    if not (rows and columns):
        return None
    cell = width // columns, height // rows
    return cell if min(cell) >= SMALLEST_CELL and max(cell) <= LARGEST_CELL else None


def up_and_clear(rows: int) -> str:
    """Return the sequence that moves some rows up and clears from there on."""
    return (f"\x1b[{rows}A" if rows else "") + "\r" + CLEAR_DOWN


CLEAR_PICTURES = "\x1b_Ga=d,d=a,q=2\x1b\\"
"""Takes all pictures of kitty's kind off the screen; clearing the rows below them leaves them."""


def clear_screen(rows: int, *, has_graphics: bool = False) -> str:
    """Return the sequence that clears all rows, one by one: a terminal told to clear its screen may move it
    into the scrollback."""
    pictures = CLEAR_PICTURES if has_graphics else ""
    return pictures + "\x1b[H" + "\r\x1b[2K\x1b[B" * (rows - 1) + "\r\x1b[2K\x1b[H"


MAX_LINE_CHARS = 100_000


class LogStream(io.TextIOBase):
    """A text stream that gives every complete line to `log`."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__()
        self._log = log
        self._line = ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str, /) -> int:
        """Take text; complete lines are logged."""
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > MAX_LINE_CHARS:
            lines.append(self._line)
            self._line = ""
        for line in lines:
            self._log(line)
        return len(text)

    def finish(self) -> None:
        """Log text left without a line end."""
        if self._line:
            self._log(self._line)
            self._line = ""


@contextlib.contextmanager
def streams_to(log: Callable[[str], None]) -> Generator[None]:
    """Redirect prints and warnings to the log, so that only the screen writes to the terminal."""
    stream = LogStream(log)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        try:
            yield
        finally:
            stream.finish()
            sys.stdout.flush()
