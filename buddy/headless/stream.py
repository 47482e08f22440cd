"""Stream input: user messages and control requests of a program as JSON lines on stdin, one turn a message.

The words are those of Claude's protocol. A line that can't be used is answered with an error object and costs
nothing else; a request that asks for something unsupported is refused, never ignored. When stdin ends, the
messages that wait are still answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from buddy import __version__
from buddy.agent.messages import Image, UserPart
from buddy.config.settings import ConfigError
from buddy.headless.exec import ExecRun, run_exec
from buddy.headless.exit_codes import INTERRUPTED, OK, TERMINATED
from buddy.headless.formats import PROTOCOL, RunFacts, StreamJsonFormat
from buddy.safety.policy.decide import mode_by_name
from buddy.safety.policy.session import Policy
from buddy.tasks.board import TaskBoard
from buddy.tasks.task import TaskError

MAX_LINE_BYTES = 32_000_000
"""A line with some pictures; a longer one is answered with an error."""
MAX_WAITING = 100
"""Messages that may wait for their turn."""
READ_BYTES = 65_536
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


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


def read_lines(descriptor: int, loop: asyncio.AbstractEventLoop) -> asyncio.Queue[bytes | EOFError | None]:
    """Read lines in a thread: stdin may be a pipe, a file or a terminal. A full queue stops the reading."""
    queue: asyncio.Queue[bytes | EOFError | None] = asyncio.Queue(16)

    def put(line: bytes | EOFError | None) -> None:
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


class StreamRun(msgspec.Struct, frozen=True):
    """The parts of a run with stream input. `facts` are those of the session now, `expand` reads the files a
    prompt mentions, `reply` writes an object that belongs to no turn."""

    board: TaskBoard
    task_id: int
    policy: Policy
    facts: Callable[[], RunFacts]
    expand: Callable[[str], Awaitable[tuple[UserPart, ...]]]
    reply: Callable[[dict[str, Any]], None]
    warn: Callable[[str], None]
    stop_on_denial: bool = False


class StreamSession:
    """One run: it takes lines, answers requests at once and messages in order."""

    def __init__(self, run: StreamRun, lines: asyncio.Queue[bytes | EOFError | None]) -> None:
        self._run = run
        self._lines = lines
        self._waiting: deque[tuple[str, tuple[Image, ...]]] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self._interrupted = False
        self._signal = 0
        self._count = 0

    async def serve(self, output: StreamJsonFormat) -> int:
        """Answer until stdin ends; return the exit code of the last turn."""
        taking = asyncio.create_task(self._take_lines())
        code = OK
        try:
            while await self._next():
                text, images = self._waiting.popleft()
                parts = await self._run.expand(text) if text else ()
                content = (*parts, *images)
                self._interrupted = False
                turn = ExecRun(content, self._run.facts(), self._run.stop_on_denial, self._run.warn)
                code = await run_exec(self._run.board, self._run.task_id, turn, output)
                if code == TERMINATED or (code == INTERRUPTED and not self._interrupted):
                    return code
                code = OK if self._interrupted else code
            return self._signal or code
        finally:
            taking.cancel()

    async def _next(self) -> bool:
        """Wait for a message; False at the end of stdin or a signal."""
        loop = asyncio.get_running_loop()
        ends = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: TERMINATED}
        # A turn has handlers of its own and removes them when it ends.
        handled = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]
        for number in handled:
            loop.add_signal_handler(number, self._stop, ends[number])
        try:
            while not (self._waiting or self._ended or self._signal):
                self._changed.clear()
                await self._changed.wait()
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
        return bool(self._waiting) and not self._signal

    def _stop(self, code: int) -> None:
        self._signal = code
        self._changed.set()

    async def _take_lines(self) -> None:
        while not isinstance(line := await self._lines.get(), EOFError):
            self._count += 1
            try:
                self._take(line)
            except InputError as error:
                self._run.reply(
                    {"type": "system", "subtype": "input_error", "line": self._count, "error": str(error)}
                )
            self._changed.set()
        self._ended = True
        self._changed.set()

    def _take(self, line: bytes | None) -> None:
        if line is None:
            raise InputError(f"expected a line of at most {MAX_LINE_BYTES:,} bytes; it was left out")
        if not line.strip():
            return
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError("expected one JSON object a line") from error
        match _object(data).get("type"):
            case "user":
                self._take_message(_object(data.get("message")))
            case "control_request":
                self._take_request(data)
            case "control_response" | "control_cancel_request" | "keep_alive":
                pass  # nothing is asked of the program, and every request is answered at once
            case kind:
                raise InputError(f"expected type user or control_request, found {str(kind)[:60]!r}")

    def _take_message(self, message: dict[str, Any]) -> None:
        content = message_content(message)
        if len(self._waiting) >= MAX_WAITING:
            raise InputError(f"{MAX_WAITING} messages wait already; this one was left out")
        self._waiting.append(content)

    def _take_request(self, data: dict[str, Any]) -> None:
        request_id = data.get("request_id")
        if not isinstance(request_id, str):
            raise InputError("expected request_id as text in a control_request")
        try:
            answer = self._answer(_object(data.get("request")))
        except (InputError, TaskError, ConfigError, ValueError) as error:
            response = {"subtype": "error", "request_id": request_id, "error": str(error)}
        else:
            response = {"subtype": "success", "request_id": request_id, "response": answer}
        self._run.reply({"type": "control_response", "response": response})

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        board, task_id = self._run.board, self._run.task_id
        match request.get("subtype"):
            case "initialize":
                return self._initialize(request)
            case "interrupt":
                self._interrupted = board.task(task_id).running
                board.cancel(task_id, "interrupted")
                return {"still_queued": []}
            case "set_permission_mode":
                mode = mode_by_name(str(request.get("mode")))
                if mode is None:
                    raise InputError(f"there is no permission mode {str(request.get('mode'))[:60]!r}")
                self._run.policy.set_mode(mode)
                return {"mode": request.get("mode")}
            case "set_model":
                board.change_model(task_id, str(request.get("model") or ""))
                return {}
            case "mcp_status":
                return {"mcpServers": []}
            case "get_context_usage":
                return self._context_usage()
            case kind:
                raise InputError(f"{str(kind)[:60]!r} is not supported")

    def _initialize(self, request: dict[str, Any]) -> dict[str, Any]:
        """Describe the session. A guard or tool that would silently be missing is an error."""
        for name in ("hooks", "sdkMcpServers", "mcpServers", "agents", "jsonSchema", "plugins"):
            if request.get(name):
                raise InputError(f"initialize: {name} is not supported")
        model = self._run.facts().model
        return {
            "commands": [],
            "agents": [],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": [{"value": model, "displayName": model, "description": ""}],
            "account": {},
            "claude_code_version": f"{PROTOCOL} (buddy {__version__})",
        }

    def _context_usage(self) -> dict[str, Any]:
        task = self._run.board.task(self._run.task_id)
        used, limit = task.meter.context_tokens, task.meter.window.limit
        return {
            "totalTokens": used,
            "maxTokens": limit,
            "rawMaxTokens": limit,
            "percentage": round(used * 100 / max(1, limit)),
            "model": self._run.facts().model,
            "categories": [],
            "gridRows": [],
            "memoryFiles": [],
            "mcpTools": [],
            "agents": [],
            "isAutoCompactEnabled": True,
            "apiUsage": None,
        }


def message_content(message: dict[str, Any]) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the pictures of a user message. Raises `InputError`."""
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InputError("expected text or a list of blocks as message.content")
    texts: list[str] = []
    images: list[Image] = []
    for block in map(_object, cast("list[Any]", content)):
        source = block.get("source")
        match block.get("type"), block.get("text"), source:
            case "text", str(text), _:
                texts.append(text)
            case "image", _, {"type": "base64", "media_type": str(kind), "data": str(data)} if (
                kind in IMAGE_TYPES
            ):
                images.append(Image(kind, data))
            case _:
                raise InputError(
                    f"expected text or base64 image blocks, found {str(block.get('type'))[:60]!r}"
                )
    text = "\n\n".join(texts)
    if not text.strip() and not images:
        raise InputError("the message is empty")
    return text, tuple(images)


def _object(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError(f"expected an object, found {type(data).__name__}")
    return cast("dict[str, Any]", data)
