"""An editor for tests: the client of the protocol's own package, driving the real `buddy acp`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema, spawn_agent_process
from acp.client.connection import ClientSideConnection

from tests.fake_llm.script import Reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import DEADLINE_S, Program, running

TOOLS = ("read_file", "write_file", "edit_file", "delete_file", "move_file", "run_shell", "todo", "ask_user")


class Editor:
    """A client that keeps every update and answers permission requests with a prepared option."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.updates: list[Any] = []
        self.requests: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.changed = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_meta: Any) -> None:
        self.updates.append(update)
        self.changed.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **_meta: Any
    ) -> schema.RequestPermissionResponse:
        self.requests.append((tool_call, options))
        if self.answer == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.answer)
        return schema.RequestPermissionResponse(outcome=outcome)

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    def text(self) -> str:
        return "".join(update.content.text for update in self.of("agent_message_chunk"))

    async def until(self, kind: str) -> None:
        async with asyncio.timeout(20):
            while not self.of(kind):
                self.changed.clear()
                await self.changed.wait()

    def capabilities(self) -> schema.ClientCapabilities:
        """Return what this editor declares."""
        return schema.ClientCapabilities()

    def on_connect(self, _agent: object) -> None:
        """The connection is handed over by `connected`."""


@asynccontextmanager
async def connected(
    program: Program, editor: Editor, *options_of_buddy: str
) -> AsyncGenerator[ClientSideConnection]:
    variables = program.variables()
    command = (sys.executable, "-m", "buddy", "acp", *options_of_buddy)
    options = {"cwd": program.repo, "env": variables, "use_unstable_protocol": True}
    async with spawn_agent_process(editor, *command, **options) as (connection, _process):  # type: ignore[arg-type]
        await connection.initialize(
            protocol_version=PROTOCOL_VERSION, client_capabilities=editor.capabilities()
        )
        yield connection


@asynccontextmanager
async def opened(
    folder: Path,
    replies: Sequence[Reply],
    *,
    answer: str = "once",
    options: Sequence[str] = (),
    editor: Editor | None = None,
) -> AsyncGenerator[tuple[Program, Editor, ClientSideConnection, str, FakeLLM]]:
    async with FakeLLM(replies) as server:
        program = Program(folder, server.url, "chat", TOOLS)
        program.files(a__py="x = 1\ny = 2\n")
        editor = editor or Editor(answer)
        async with connected(program, editor, *options) as connection:
            session = await connection.new_session(cwd=str(program.repo), mcp_servers=[])
            yield program, editor, connection, session.session_id, server


class FileEditor(Editor):
    """An editor with open files: `buffers` are unsaved texts by path. It saves what it has to write,
    unless the file was unsaved before."""

    def __init__(self, answer: str, *, writes: bool = True) -> None:
        super().__init__(answer)
        self.buffers: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.writes = writes

    def capabilities(self) -> schema.ClientCapabilities:
        files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=self.writes)
        return schema.ClientCapabilities(fs=files)

    async def read_text_file(
        self, session_id: str, path: str, **_options: Any
    ) -> schema.ReadTextFileResponse:
        self.asked.append(("read", path))
        if path in self.buffers:
            return schema.ReadTextFileResponse(content=self.buffers[path])
        if not Path(path).is_file():
            raise RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=Path(path).read_text())

    async def write_text_file(
        self, session_id: str, path: str, content: str, **_options: Any
    ) -> schema.WriteTextFileResponse:
        self.asked.append(("write", path))
        if path in self.buffers:
            self.buffers[path] = content
        else:
            Path(path).write_text(content, newline="")
        return schema.WriteTextFileResponse()


class RawEditor:
    """An editor that writes lines of its own; every line of buddy is kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.messages: list[dict[str, Any]] = []
        self._count = 1_000  # beyond the numbers that tests choose

    def write(self, *lines: str | bytes) -> None:
        """Write lines as they are."""
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write((line.encode() if isinstance(line, str) else line) + b"\n")

    def send(self, **message: Any) -> None:
        """Write a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    async def until(self, matches: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read on to the message that matches."""
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            async for line in self.process.stdout:
                self.messages.append(json.loads(line))
                if matches(self.messages[-1]):
                    return self.messages[-1]
        raise AssertionError("buddy ended before that message")

    async def ask(self, number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and read on to its response."""
        self.send(id=number, method=method, params=params)
        return await self.response(number)

    def request(self, method: str, **params: Any) -> int:
        """Send a request; return its number."""
        self._count += 1
        self.send(id=self._count, method=method, params=params)
        return self._count

    async def response(self, number: int) -> dict[str, Any]:
        """Read on to the response to a request."""
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def permission(self) -> dict[str, Any]:
        """Read on to the next request for permission."""
        return await self.until(lambda message: message.get("method") == "session/request_permission")

    def choose(self, asked: dict[str, Any], option: str) -> None:
        """Answer a request for permission."""
        self.send(id=asked["id"], result={"outcome": {"outcome": "selected", "optionId": option}})


@asynccontextmanager
async def raw_editor(program: Program) -> AsyncGenerator[tuple[RawEditor, str]]:
    """A raw editor with an open session."""
    pipes = {"stdin": asyncio.subprocess.PIPE, "limit": 200_000_000}
    async with running(program, "acp", **pipes) as process:
        editor = RawEditor(process)
        await editor.ask(1, "initialize", {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": {}})
        created = await editor.ask(2, "session/new", {"cwd": str(program.repo), "mcpServers": []})
        yield editor, created["result"]["sessionId"]
