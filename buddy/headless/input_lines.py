"""Input of a program on stdin: JSON lines, and the messages in them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import deque
from typing import Any, cast

from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Image
from buddy.agent.tool import ToolError

MAX_LINE_BYTES = 32_000_000
"""A line with some pictures; a longer one is answered with an error."""
MAX_QUEUED_BYTES = 32_000_000
"""Bytes of lines that are read ahead; the longest line fits."""
LINE_OVERHEAD_BYTES = 100
"""Memory of a line besides its bytes: millions of short lines are no small queue."""
READ_BYTES = 65_536
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

Line = bytes | EOFError | None
"""A line; None stands for one that was too long, EOFError for the end."""

_SURROGATE = pattern(r"\\u[dD][89a-fA-F]")


class InputError(Exception):
    """A line or request that can't be used; the message is for the program that sent it."""


class LineSplitter:
    """Cuts bytes into lines. A line that is too long becomes None."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that are complete now."""
        *ends, rest = data.split(b"\n")
        lines = [self._end(end) for end in ends]
        self._add(rest)
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line, which has no end."""
        return [self._end(b"")] if self._pending or self._skipping else []

    def _add(self, data: bytes) -> None:
        if len(self._pending) + len(data) > self._limit:
            self._skipping = True
            self._pending.clear()
        elif not self._skipping:
            self._pending += data

    def _end(self, data: bytes) -> bytes | None:
        self._add(data)
        line = None if self._skipping else bytes(self._pending)
        self._pending.clear()
        self._skipping = False
        return line


class LineQueue:
    """Lines in their order, from one writer to one reader. It holds a number of bytes, not of lines."""

    def __init__(self, limit: int = MAX_QUEUED_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._lines: deque[Line] = deque()
        self._changed = asyncio.Condition()

    async def put(self, line: Line) -> None:
        """Add a line once there is room for it. An empty queue has room for any."""
        size = _size(line)
        async with self._changed:
            await self._changed.wait_for(lambda: not self._lines or self._bytes + size <= self._limit)
            self._lines.append(line)
            self._bytes += size
            self._changed.notify_all()

    async def get(self) -> Line:
        """Wait for the next line and take it."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._lines))
            line = self._lines.popleft()
            self._bytes -= _size(line)
            self._changed.notify_all()
            return line


def _size(line: Line) -> int:
    return LINE_OVERHEAD_BYTES + (len(line) if isinstance(line, bytes) else 0)


def read_lines(descriptor: int, loop: asyncio.AbstractEventLoop) -> LineQueue:
    """Read lines in a thread: stdin may be a pipe, a file or a terminal. A full queue stops the reading."""
    queue = LineQueue()

    def put(line: Line) -> None:
        asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()

    def read() -> None:
        splitter = LineSplitter()
        try:
            while data := os.read(descriptor, READ_BYTES):
                for line in splitter.feed(data):
                    put(line)
            for line in splitter.finish():
                put(line)
            put(EOFError())
        except (OSError, RuntimeError):
            return  # the run is over and its loop closed

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return queue


def parse_line(line: bytes | None) -> dict[str, Any]:
    """Return the object of a line, {} for an empty one. Half a character (a surrogate alone), which no file
    or request can hold, is replaced by U+FFFD. Raises `InputError`."""
    if line is None:
        raise InputError(f"expected a line of at most {MAX_LINE_BYTES:,} bytes; it was left out")
    if not line.strip():
        return {}
    try:
        text = line.decode("utf-8-sig")
        data: Any = json.loads(text)
        if _SURROGATE().search(text):
            halves = json.dumps(data, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
            data = json.loads(halves.decode("utf-16-le", "replace"))
        return as_object(data)
    except (ValueError, RecursionError) as error:
        raise InputError("expected one JSON object a line") from error


def _shrunk(image: Image) -> Image:
    from buddy.tools.files.read_pictures import shrink  # with a picture only

    try:
        return shrink(image, "an image block")
    except ToolError as error:
        raise InputError(str(error)) from error


def message_content(message: dict[str, Any]) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the pictures of a user message. Raises `InputError`."""
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InputError("expected text or a list of blocks as message.content")
    texts: list[str] = []
    images: list[Image] = []
    for block in map(as_object, cast("list[Any]", content)):
        source = block.get("source")
        match block.get("type"), block.get("text"), source:
            case "text", str(text), _:
                texts.append(text)
            case "image", _, {"type": "base64", "media_type": str(kind), "data": str(data)} if (
                kind in IMAGE_TYPES
            ):
                images.append(_shrunk(Image(kind, data)))
            case "document", _, {"type": "text", "data": str(data)}:
                title = str(block.get("title") or "document")[:200]
                texts.append(f"[{title}]\n{data}")
            case "document", _, _:
                raise InputError(
                    "expected text in a document block: a PDF can't be sent; put it into the workspace and "
                    "name its path"
                )
            case _:
                raise InputError(
                    "expected text blocks, base64 image blocks or document blocks of text, found "
                    f"{str(block.get('type'))[:60]!r}"
                )
    text = "\n\n".join(texts)
    if not text.strip() and not images:
        raise InputError("the message is empty")
    return text, tuple(images)


def as_object(data: Any) -> dict[str, Any]:
    """Return an object of JSON. Raises `InputError`."""
    if not isinstance(data, dict):
        raise InputError(f"expected an object, found {type(data).__name__}")
    return cast("dict[str, Any]", data)
