"""The pipes of a channel to another machine, with a time limit on every wait. Blocks; used in threads."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from io import BufferedReader
from typing import IO

from buddy.workspace.targets.transport import Cancellation, TargetError

READ_BYTES = 1_000_000
REQUEST_LIMIT_S = 60.0
"""The time of one request beside that of its bytes: a server must not hold it up with an answer in drops."""
SLOWEST_BYTES_PER_S = 1_000
LOOK_S = 0.25
"""The time between two looks whether the call is cancelled."""


class ChannelPipes:
    """A channel's stdin and stdout. Its end, `limit_s` seconds without a byte, a request that takes longer
    than its bytes explain, and the end of a cancelled call's time are `lost(reason)`; after that the channel
    is of no use any more. `silent` is the reason for the second, with `{}` for the time."""

    def __init__(
        self,
        to: IO[bytes],
        back: BufferedReader,
        lost: Callable[[str], TargetError],
        *,
        silent: str,
        limit_s: float,
    ) -> None:
        self._to, self._back, self._lost = to, back, lost
        self._silent, self._limit_s = silent, limit_s
        self._received = bytearray()
        self._cancellation: Cancellation | None = None
        self._began, self._moved = time.monotonic(), 0
        self.is_usable = True

    def begin(self, cancellation: Cancellation | None) -> None:
        """Begin a request, of a call that may be cancelled."""
        self._cancellation = cancellation
        self._began, self._moved = time.monotonic(), 0

    def send(self, data: bytes) -> None:
        """Write all of it."""
        deadline = self._deadline()
        try:
            # A pipe that can be written to takes so much without blocking.
            for at in range(0, len(data), select.PIPE_BUF):
                self._wait_for(self._to, select.POLLOUT, deadline)
                piece = data[at : at + select.PIPE_BUF]
                self._to.write(piece)
                self._to.flush()
                self._moved += len(piece)
        except (OSError, ValueError) as error:
            raise self.broken("") from error

    def exactly(self, size: int) -> bytes:
        """Read so many bytes."""
        deadline = self._deadline()
        while len(self._received) < size:
            self._read_more(deadline)
        return self._take(size)

    def until(self, mark: bytes, max_bytes: int) -> bytes | None:
        """Read up to a mark and drop it; None, and the end of the channel's use, when it does not come in so
        many bytes."""
        searched = 0
        while (at := self._received.find(mark, searched)) < 0:
            searched = max(0, len(self._received) - len(mark) + 1)
            if searched > max_bytes:
                self.is_usable = False
                return None
            self._read_more(self._deadline())  # a long answer may take its time as long as it comes
        data = self._take(at)
        del self._received[: len(mark)]
        return data

    def broken(self, reason: str) -> TargetError:
        """Return the error that ends the use of the channel."""
        self.is_usable = False
        return self._lost(reason)

    def _deadline(self) -> float:
        return time.monotonic() + self._limit_s

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return data

    def _read_more(self, deadline: float) -> None:
        try:
            self._wait_for(self._back, select.POLLIN, deadline)
            piece = self._back.read1(READ_BYTES)  # keeps nothing in the stream's own buffer
        except (OSError, ValueError) as error:
            raise self.broken("") from error
        if not piece:
            raise self.broken("")
        self._received += piece
        self._moved += len(piece)

    def _wait_for(self, stream: IO[bytes], event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(stream.fileno(), event)
        whole = self._began + REQUEST_LIMIT_S + self._moved / SLOWEST_BYTES_PER_S
        while True:
            now = time.monotonic()
            if self._cancellation is not None and self._cancellation.is_over():
                raise self.broken("the call was cancelled")
            if now >= whole:
                raise self.broken(f"it had not answered in full after {now - self._began:.0f} s")
            if poll.poll(max(0.0, min(LOOK_S, deadline - now)) * 1000):
                return
            if time.monotonic() >= deadline:
                raise self.broken(self._silent.format(f"{self._limit_s:g} s"))
