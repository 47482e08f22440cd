"""The output of a local client: read as long as it runs, however much comes, and kept in little memory."""

from __future__ import annotations

import os
import select
import threading
import time

READ_BYTES = 65_536
MAX_KEPT_BYTES = 16_384
FREE_BYTES = 1_000_000
BREATH_S = 0.02
"""Pause after each read once so much came: what prints without end must not take the processor."""
LOOK_S = 1.0


class BoundedReader:
    """A pipe for a program to write to. Kept are its last words, and the lines that begin with
    `prefix`, the reports of a script over there."""

    def __init__(self, prefix: str = "") -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._prefix = prefix.encode()
        self._lock = threading.Lock()
        self._reports, self._line, self._last = bytearray(), bytearray(), bytearray()
        self._total = 0
        threading.Thread(target=self._run, name="output of a target", daemon=True).start()

    def close_writing(self) -> None:
        """Close our end of the pipe after the program got its own."""
        with self._lock:
            if self.writing >= 0:
                os.close(self.writing)
                self.writing = -1

    def reports(self) -> str:
        """Return the lines with the prefix."""
        with self._lock:
            self._drain()
            return self._reports.decode("utf-8", "replace")

    def last_words(self) -> str:
        """Return the end of everything it wrote."""
        with self._lock:
            self._drain()
            return self._last.decode("utf-8", "replace")

    def close(self) -> None:
        """Stop reading. What was read stays."""
        self.close_writing()
        with self._lock:
            self._drain()
            self._stop()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while True:
            poll.poll(LOOK_S * 1000)
            with self._lock:
                if self._reading < 0 or not self._read():
                    return
            if self._total > FREE_BYTES:
                time.sleep(BREATH_S)

    def _drain(self) -> None:
        """Read what is there, up to what a pipe may hold."""
        before = self._total
        while self._reading >= 0 and self._total - before < FREE_BYTES:
            total = self._total
            if not self._read() or self._total == total:
                return

    def _read(self) -> bool:
        """Read once; tell whether more may come."""
        try:
            data = os.read(self._reading, READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            self._stop()
            return False
        self._total += len(data)
        self._last = (self._last + data)[-MAX_KEPT_BYTES:]
        if self._prefix:
            self._take_reports(data)
        return True

    def _take_reports(self, data: bytes) -> None:
        *lines, rest = (self._line + data).split(b"\n")
        for line in lines:
            if line.startswith(self._prefix) and len(self._reports) + len(line) < MAX_KEPT_BYTES:
                self._reports += line + b"\n"
        # So long a line is no report, and the rest of it is none either.
        self._line = rest if len(rest) < MAX_KEPT_BYTES else bytearray(b"-")

    def _stop(self) -> None:
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1
