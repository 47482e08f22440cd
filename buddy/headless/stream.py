"""Stream input: user messages and control requests of a program as JSON lines on stdin, one turn a message.

The words are those of Claude's protocol. A line that can't be used is answered with an error object and costs
nothing else; a request that asks for something unsupported is refused, never ignored. When stdin ends, the
messages that wait are still answered, but nothing is asked of the program any more.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from buddy.agent.host import Outcome
from buddy.agent.messages import NO_USAGE, Image, UserPart
from buddy.agent.tool import ToolError
from buddy.app.session import Session
from buddy.config.settings import ConfigError
from buddy.headless.control import ControlChannel
from buddy.headless.exec import ExecRun, run_exec
from buddy.headless.exit_codes import FAILED, INTERRUPTED, OK, TERMINATED
from buddy.headless.formats import Format, RunFacts, RunResult
from buddy.headless.input_lines import InputError, Line, LineQueue, as_object, message_content, parse_line
from buddy.headless.permission_requests import PermissionRequests
from buddy.headless.program_servers import ProgramServers
from buddy.headless.requests import Requests
from buddy.headless.structured import AnswerSchema
from buddy.tasks.task import TaskError

MAX_WAITING = 100
"""Messages that may wait for their turn."""
MAX_WAITING_BYTES = 64_000_000
"""Bytes of the lines of waiting messages: two of the longest."""


class ProgramInput:
    """The program's side of the run: its lines, and the channel to ask it something."""

    def __init__(self, lines: LineQueue, control: ControlChannel) -> None:
        self._lines = lines
        self._first: Line | Literal[False] = False
        self.control = control
        self.servers = ProgramServers(control)

    async def initialize_request(self) -> dict[str, Any]:
        """Wait for the first line; return its request if it is `initialize`, {} otherwise. The line still
        comes next."""
        self._first = await self._lines.get()
        if isinstance(self._first, EOFError):
            return {}
        try:
            line = parse_line(self._first)
            request = as_object(line.get("request"))
        except InputError:
            return {}
        is_initialize = line.get("type") == "control_request" and request.get("subtype") == "initialize"
        return request if is_initialize else {}

    async def next(self) -> Line:
        """Return the next line."""
        if self._first is not False:
            line, self._first = self._first, False
            return line
        return await self._lines.get()


class StreamRun(msgspec.Struct, frozen=True):
    """The parts of a run with stream input. `facts` are those of the session now, `expand` reads the files a
    prompt mentions, `reply` writes an object that belongs to no turn, `settle` waits for the tools of
    servers; `replays`: messages are written back as their turn begins."""

    session: Session
    task_id: int
    facts: Callable[[], RunFacts]
    expand: Callable[[str], Awaitable[tuple[UserPart, ...]]]
    reply: Callable[[dict[str, Any]], None]
    warn: Callable[[str], None]
    settle: Callable[[], Awaitable[None]]
    schema: AnswerSchema | None = None
    stop_on_denial: bool = False
    replays: bool = False


class QueuedMessage(msgspec.Struct, frozen=True):
    """A message that waits for its turn, as the bytes it came in: what they mean takes several times their
    memory. `line` is the number of its line."""

    data: bytes
    line: int


class ProgramMessage(msgspec.Struct, frozen=True):
    """A message whose turn begins. `uuid` is the program's own name for it, `fields` are all of its line,
    `line` the number of that."""

    text: str
    images: tuple[Image, ...]
    uuid: str
    fields: dict[str, Any]
    line: int


class StreamSession:
    """One run: it takes lines, answers requests at once and messages in order."""

    def __init__(self, run: StreamRun, program: ProgramInput) -> None:
        self._run = run
        self._program = program
        self._positions: dict[str, int] = {}
        self._answers = Requests(
            run.session,
            run.task_id,
            run.facts,
            program.control,
            program.servers,
            self._positions,
            self.interrupt,
            run.warn,
        )
        self._waiting: deque[QueuedMessage] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._interrupted = False
        self._signal = 0
        self._count = 0
        self._requests: set[asyncio.Task[None]] = set()

    async def serve(self, output: Format) -> int:
        """Answer until stdin ends; return the exit code of the last turn."""
        run = self._run
        permissions = PermissionRequests(
            run.session, self._program.control, interrupt=self.interrupt, warn=run.warn
        )
        jobs = [asyncio.create_task(self._take_lines()), asyncio.create_task(permissions.run())]
        code = OK
        try:
            while await self._next():
                queued = self._waiting.popleft()
                self._waiting_bytes -= len(queued.data)
                message = _read_message(parse_line(queued.data), queued.line)
                try:
                    parts = await run.expand(message.text) if message.text else ()
                except (TaskError, ConfigError) as error:
                    self._report(error, message.line)
                    self._finish_refused(message, error, output)
                    code = FAILED
                    continue
                self._begin(message)
                self._interrupted = False
                turn = ExecRun(
                    (*parts, *message.images), run.facts(), run.stop_on_denial, run.warn, run.schema
                )
                code = await run_exec(run.session.board, run.task_id, turn, output)
                if code == TERMINATED or (code == INTERRUPTED and not self._interrupted):
                    return code
                code = OK if self._interrupted else code
            return self._signal or code
        finally:
            for job in (*jobs, *self._requests):
                job.cancel()
            await asyncio.wait({*jobs, *self._requests})

    def interrupt(self) -> None:
        """Cancel the running turn and go on with the next message."""
        board, task_id = self._run.session.board, self._run.task_id
        self._interrupted = board.task(task_id).running
        board.cancel(task_id, "interrupted")

    def _finish_refused(self, message: ProgramMessage, error: Exception, output: Format) -> None:
        """Write a turn that could not begin: programs wait for one result a message."""
        board, task_id = self._run.session.board, self._run.task_id
        output.start(self._run.facts(), board.message(message.text, "prompt"))
        output.finish(
            RunResult(
                outcome=Outcome("failed", str(error), "", 0, ()),
                answer="",
                usage=NO_USAGE,
                cost_usd=board.task(task_id).meter.cost_usd,
                duration_ms=0,
                denials=(),
            )
        )

    def _begin(self, message: ProgramMessage) -> None:
        task = self._run.session.board.task(self._run.task_id)
        if message.uuid:
            self._positions[message.uuid] = len(task.history)
        if self._run.replays:
            self._run.reply({**message.fields, "session_id": self._run.session.session_id, "isReplay": True})

    async def _next(self) -> bool:
        """Wait for a message and for the servers; False at the end of stdin or a signal."""
        loop = asyncio.get_running_loop()
        ends = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED, signal.SIGHUP: TERMINATED}
        # A turn has handlers of its own and removes them when it ends.
        handled = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]
        for number in handled:
            loop.add_signal_handler(number, self._stop, ends[number])
        try:
            # A turn begins when the requests before its message are answered.
            while not self._signal and (self._requests or not (self._waiting or self._ended)):
                self._changed.clear()
                await self._changed.wait()
            settling = asyncio.ensure_future(self._run.settle() if self._waiting else asyncio.sleep(0))
            settling.add_done_callback(lambda _: self._changed.set())
            while not (self._signal or settling.done()):
                self._changed.clear()
                await self._changed.wait()
            settling.cancel()
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
        return bool(self._waiting) and not self._signal

    def _stop(self, code: int) -> None:
        self._signal = code
        self._changed.set()

    async def _take_lines(self) -> None:
        while not isinstance(line := await self._program.next(), EOFError):
            self._count += 1
            try:
                self._take(parse_line(line), line or b"")
            except InputError as error:
                self._report(error, self._count)
            self._changed.set()
        self._ended = True
        self._program.control.close()
        self._changed.set()

    def _report(self, error: Exception, line: int) -> None:
        self._run.reply({"type": "system", "subtype": "input_error", "line": line, "error": str(error)})

    def _take(self, fields: dict[str, Any], data: bytes) -> None:
        if not fields:
            return
        match fields.get("type"):
            case "user":
                self._take_message(fields, data)
            case "control_request":
                self._take_request(fields)
            case "control_response":
                self._program.control.take_answer(as_object(fields.get("response")))
            case "control_cancel_request" | "keep_alive":
                pass  # every request is answered as fast as it can be
            case kind:
                raise InputError(f"expected type user or control_request, found {str(kind)[:60]!r}")

    def _take_message(self, fields: dict[str, Any], data: bytes) -> None:
        _read_message(fields, self._count)
        if len(self._waiting) >= MAX_WAITING:
            raise InputError(
                f"{MAX_WAITING} messages wait already; this one was left out: send it after the next result"
            )
        if self._waiting and self._waiting_bytes + len(data) > MAX_WAITING_BYTES:
            raise InputError(
                f"expected at most {MAX_WAITING_BYTES:,} bytes of waiting messages, found "
                f"{self._waiting_bytes + len(data):,} with this one; it was left out: send it after the next "
                "result"
            )
        self._waiting.append(QueuedMessage(data, self._count))
        self._waiting_bytes += len(data)

    def _take_request(self, data: dict[str, Any]) -> None:
        request_id = data.get("request_id")
        if not isinstance(request_id, str):
            raise InputError("expected request_id as text in a control_request")
        request = as_object(data.get("request"))
        answering = asyncio.create_task(self._answer(request_id, request))
        self._requests.add(answering)
        answering.add_done_callback(self._forget_request)

    def _forget_request(self, answering: asyncio.Task[None]) -> None:
        self._requests.discard(answering)
        self._changed.set()

    async def _answer(self, request_id: str, request: dict[str, Any]) -> None:
        try:
            answer = await self._answers.answer(request)
        except (InputError, TaskError, ConfigError, ToolError, ValueError) as error:
            response = {"subtype": "error", "request_id": request_id, "error": str(error)}
        else:
            response = {"subtype": "success", "request_id": request_id, "response": answer}
        self._run.reply({"type": "control_response", "response": response})


def _read_message(fields: dict[str, Any], line: int) -> ProgramMessage:
    """Return the message of a line. Raises `InputError`."""
    text, images = message_content(as_object(fields.get("message")))
    uuid = fields.get("uuid")
    return ProgramMessage(text, images, uuid if isinstance(uuid, str) else "", fields, line)
