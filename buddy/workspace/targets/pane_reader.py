"""The reader of one command in a pane: the program that stands for it among the children of a session.

Run as a script, `python -I -S pane_reader.py PIPE`, with the tag of the marks on stdin: reads what the pane
writes, from the command's first mark to its last, writes it without escape sequences and ends with the
command's exit code. What it learns on the way goes to stderr, a line each. It reads as fast as the pane
writes, because tmux holds in memory what is not read: what nobody takes from it in time is left out. Imports
only the standard library.
"""

import os
import re
import select
import shutil
import signal
import sys
import time

MARK = "7791"
READ_BYTES = 65_536
MAX_WAITING_BYTES = 8_000_000
MAX_SEQUENCE_BYTES = 4_096
LOOK_EVERY_MS = 200
LOOKS = 5
"""A command whose process is gone so many looks long, and that has no mark at its end, was interrupted."""

_SEQUENCE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\x1b[\]PX^_k][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and the other strings
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-jl-~]"
    rb"|[\x00\x07\x0e\x0f]"
)
_OVERWRITTEN = re.compile(rb"[^\r\n]*\r(?=[^\r\n])")
"""What a progress line said before the program wrote over it."""
_ERASED = re.compile(rb"[ -~]\x08")


class TerminalText:
    """The text of a terminal's output that comes in pieces."""

    def __init__(self) -> None:
        self._held: bytes = b""
        self._is_in_line = False

    def feed(self, data: bytes) -> bytes:
        """Return the text of the next piece; a sequence or line end that is not whole yet is held back."""
        data = self._held + data
        cut = len(data)
        start = data.rfind(b"\x1b")
        if start >= 0 and len(data) - start < MAX_SEQUENCE_BYTES and not _SEQUENCE.match(data, start):
            cut = start
            before = data.rfind(b"\x1b", 0, start)
            if data[start:] == b"\x1b" and before >= 0 and not _SEQUENCE.match(data, before):
                cut = before  # the end of a string that is not whole yet
        while cut and data[cut - 1 : cut] == b"\r":
            cut -= 1
        self._held = data[cut:]
        return self._plain(data[:cut])

    def finish(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return self._plain(held).replace(b"\x1b", b"")

    def _plain(self, data: bytes) -> bytes:
        if b"\x1b" in data or b"\x07" in data or b"\0" in data:
            data = _SEQUENCE.sub(b"", data)
        data = re.sub(rb"\r+\n", b"\n", data)
        if b"\r" in data:
            data = _OVERWRITTEN.sub(self._overwrite, data)
        if b"\x08" in data:
            data = _ERASED.sub(b"", data)
        if data:
            self._is_in_line = not data.endswith(b"\n")
        return data

    def _overwrite(self, found: re.Match[bytes]) -> bytes:
        """Drop what was overwritten; what was passed on before can only be marked as such."""
        return b"\r" if self._is_in_line and found.start() == 0 else b""


class RawText:
    """The output of a terminal with its escape sequences."""

    def feed(self, data: bytes) -> bytes:
        """Return the piece as it is."""
        return data

    def finish(self) -> bytes:
        """Return nothing: nothing was held back."""
        return b""


class CommandOutput:
    """Finds the marks of one command in what a pane writes. `pid` is its process, `code` its exit code, None
    until they are known."""

    def __init__(self, tag: str, text: "TerminalText | RawText | None" = None) -> None:
        self._begin = re.compile(rf"\x1b\]{MARK};{re.escape(tag)};begin;(\d{{1,9}})\x07".encode())
        self._end = re.compile(rf"\x1b\]{MARK};{re.escape(tag)};end;(\d{{1,9}})\x07".encode())
        self._mark = f"\x1b]{MARK};{tag};".encode()
        self._longest = len(self._mark) + 32
        self._held: bytes = b""
        self._text = text or TerminalText()
        self.pid: int | None = None
        self.code: int | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the text of the command in the next piece."""
        data = self._held + data
        self._held = b""
        if self.code is not None:
            return b""
        if self.pid is None:
            found = self._begin.search(data)
            if found is None:
                self._held = data[-self._longest :]
                return b""
            self.pid, data = int(found[1]), data[found.end() :]
        found = self._end.search(data)
        if found is not None:
            self.code = int(found[1])
            return self._text.feed(data[: found.start()]) + self._text.finish()
        cut = self._start_of_mark(data)
        self._held = data[cut:]
        return self._text.feed(data[:cut])

    def finish(self) -> bytes:
        """Return the text that was held back."""
        return self._text.feed(self._held) + self._text.finish() if self.pid is not None else b""

    def _start_of_mark(self, data: bytes) -> int:
        """Return where a mark that is not whole yet may begin."""
        start = data.rfind(b"\x1b", max(0, len(data) - self._longest))
        if start >= 0 and self._mark.startswith(data[start : start + len(self._mark)]):
            return start
        return len(data)


class Reader:
    """Passes on what one command writes."""

    def __init__(self, pipe: str, tag: str) -> None:
        self._folder = os.path.dirname(pipe)
        self._source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self._output = CommandOutput(tag)
        self._tag = tag
        self._waiting = bytearray()
        self._left_out = 0
        self._has_begun = self._is_gone = False
        self._looks = 0
        os.set_blocking(1, False)

    def run(self) -> int:
        """Read to the command's end; return its exit code, -1 when that is not known."""
        self._say("reading")
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        while self._output.code is None and not self._is_gone and self._looks < LOOKS:
            poll.register(1, select.POLLOUT if self._waiting else 0)
            ready = dict(poll.poll(LOOK_EVERY_MS))
            if ready.get(1, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                self._leave()
            if self._waiting:
                self._write()
            if ready.get(self._source):
                self._read()
            elif not ready:
                self._look()
        self._take(self._output.finish())
        os.set_blocking(1, True)
        while self._waiting or self._left_out:
            self._write()
        return -1 if self._output.code is None else self._output.code

    def _read(self) -> None:
        try:
            data = os.read(self._source, READ_BYTES)
        except BlockingIOError:
            return
        self._looks = 0
        if not data and not self._has_begun:
            time.sleep(0.01)  # the pane's side is not open yet
            return
        self._has_begun = True
        if not data:
            self._is_gone = True
            self._say("gone")
            return
        is_new = self._output.pid is None
        self._take(self._output.feed(data))
        if is_new and self._output.pid is not None:
            self._say(f"pid={self._output.pid}")
        if self._output.code is not None:
            self._say(f"end={self._output.code}")
            if _is_alive(self._output.pid or 0):
                self._say("stopped")

    def _look(self) -> None:
        """Notice the end of a command that was interrupted together with the file its shell read."""
        pid = self._output.pid
        if pid is None or _is_alive(pid):
            self._looks = 0
            return
        self._looks += 1
        if self._looks == LOOKS:
            self._say("interrupted")

    def _take(self, text: bytes) -> None:
        if len(self._waiting) + len(text) > MAX_WAITING_BYTES:
            self._left_out += len(text)
        elif self._left_out:
            self._note_left_out()
            self._waiting += text
        else:
            self._waiting += text

    def _note_left_out(self) -> None:
        note = f"[… {self._left_out} bytes left out: the pane wrote faster than they could be read …]"
        self._waiting += f"\n{note}\n".encode()
        self._left_out = 0

    def _write(self) -> None:
        if self._left_out and not self._waiting:
            self._note_left_out()
        try:
            del self._waiting[: os.write(1, self._waiting[:READ_BYTES])]
        except BlockingIOError:
            return
        except OSError:
            self._leave()

    def _leave(self) -> None:
        """Nobody reads any more: buddy was killed. The command goes on; its files have served."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(1)

    def _say(self, words: str) -> None:
        os.write(2, f"buddy:{self._tag} {words}\n".encode())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it runs as another user
    except OSError:
        return False
    return True


def main() -> None:
    """Read one command; end as it ended."""
    code = Reader(sys.argv[1], sys.stdin.read()).run()
    if code < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(code)


if __name__ == "__main__":
    main()
