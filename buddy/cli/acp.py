"""`buddy acp`: an editor drives buddy over stdin and stdout with the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from buddy.agent.interpreter import collect_from_here
from buddy.app.launch import LaunchContext, check_yolo, find_launch, read_settings
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.app.session import ProgramSide, Session, open_session
from buddy.app.session_store import open_store
from buddy.app.stderr import tell
from buddy.app.trust import FolderTrust
from buddy.cli.doctor import report
from buddy.cli.log import start_log
from buddy.headless.acp.conversation import EditorCommand
from buddy.headless.acp.message_reader import MessageReader
from buddy.headless.acp.outflow import Outflow, PacedWriter
from buddy.headless.acp.server import BuddyAgent
from buddy.headless.exit_codes import TERMINATED
from buddy.repl.branch import Branch
from buddy.repl.commands.registry import CommandError, builtin_commands
from buddy.repl.context import Context, OwnWork, ScreenActions
from buddy.repl.dispatcher import Dispatcher
from buddy.repl.intents import Slash
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import choose_look
from buddy.repl.view.blocks import Block, CommandEcho
from buddy.sessions.listing import SessionSummary
from buddy.workspace.files.editor_buffers import EditorBuffers

MAX_LINE_BYTES = 50 * 1024 * 1024
"""One message of the editor; a prompt carries pictures."""
COLUMNS = 100
_OF_THE_SCREEN = frozenset({"screen", "talk", "approvals", "setup"})
"""Families of commands that need a terminal, or for which an editor has its own controls."""
_OF_THE_TERMINAL = frozenset(
    {"resume", "new", "fork", "session", "answer", "trust", "serve", "fg", "bg", "wait", "steer", "queue"}
)
"""Commands of other families that an editor does itself."""


def run_acp(options: Options, environment: Mapping[str, str]) -> int:
    """Serve an editor until it closes stdin. Returns the exit code. Raises `UsageError`."""
    check_yolo(options, environment)
    launch = find_launch(options, environment)
    start_log(launch.where, debug=options.debug)
    collect_from_here()
    return asyncio.run(_serve(EditorSessions(options, environment, launch)))


async def _serve(sessions: EditorSessions) -> int:
    from acp import run_agent  # here: pydantic and its models take half a second

    reader, writer = await _streams()
    agent = BuddyAgent(sessions)
    serving = asyncio.create_task(run_agent(agent, writer, reader, use_unstable_protocol=True))
    loop = asyncio.get_running_loop()
    code = 0

    def terminated() -> None:
        nonlocal code
        code = TERMINATED
        serving.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, terminated)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    finally:
        await agent.aclose()
    return code


async def _streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Take stdin and stdout for the protocol; what anything else prints goes to stderr from here on."""
    protocol_out = os.dup(1)
    os.dup2(2, 1)
    loop = asyncio.get_running_loop()
    outflow = Outflow()
    reader = MessageReader(tell, outflow, limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    out = os.fdopen(protocol_out, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, out)
    return reader, PacedWriter(transport, protocol, loop, outflow)


class EditorSessions:
    """Sessions of any folder an editor names, with the options `buddy acp` was started with."""

    def __init__(self, options: Options, environment: Mapping[str, str], started: LaunchContext) -> None:
        self._options = options
        self._environment = environment
        self._started = started

    @contextlib.asynccontextmanager
    async def open(
        self,
        folder: str,
        extra: Sequence[str],
        *,
        reference: str,
        fork: bool,
        servers: str,
        buffers: EditorBuffers | None,
    ) -> AsyncGenerator[Session]:
        """Open a session of a folder: a new one, or the one of a reference or a copy of it."""
        options = replace(
            self._options,
            add_dir=(*self._options.add_dir, *extra),
            mcp_config=(*self._options.mcp_config, *filter(None, (servers,))),
            words=(),
            command="",
        )
        launch = await asyncio.to_thread(self._find_launch, options, folder)
        loaded = await asyncio.to_thread(read_settings, launch, options)
        store = open_store(launch, loaded.settings, tell)
        if fork:
            reference = await asyncio.to_thread(store.fork, reference)
        models = Models(loaded.settings, launch)
        opening = open_session(
            launch,
            loaded,
            options,
            models=models,
            store=store,
            reference=reference,
            attended=True,
            program=ProgramSide(buffers=buffers),
        )
        async with opening as session:
            for note in session.notes:
                tell(f"buddy: {note}\n")
            if session.mcp is not None:
                session.mcp.begin()
            yield session

    def _find_launch(self, options: Options, folder: str) -> LaunchContext:
        """Find the launch context of a folder. `--trust` holds for the project buddy was started in, not for
        every folder an editor opens."""
        launch = find_launch(replace(options, trust=False), self._environment, folder=folder)
        if not options.trust or launch.boundary.root != self._started.boundary.root:
            return launch
        return find_launch(options, self._environment, folder=folder)

    def commands(self, session: Session) -> EditorCommands:
        """Return the slash commands of an open session."""
        return EditorCommands(session, self._options)

    def list(self, folder: str) -> Sequence[SessionSummary]:
        """Return the saved sessions of a folder. Raises `UsageError` when it does not exist."""
        launch = self._find_launch(self._options, folder)
        return open_store(launch, read_settings(launch, self._options).settings, tell).list()


class EditorCommands:
    """buddy's slash commands for an editor: what they print becomes text."""

    def __init__(self, session: Session, options: Options) -> None:
        self._printed: list[Block] = []
        self._work: list[Coroutine[Any, Any, None]] = []
        look = choose_look(environ={}, color="never", theme="auto", encoding="utf-8", is_terminal=False)
        self._painter = Painter(look)
        self._commands = builtin_commands()
        context = Context(
            session,
            self._screen(),
            OwnWork(session.board.parts.clock.now, lambda: None),
            FolderTrust(session.launch),
            doctor=lambda: report(options, session.launch),
            log_path="",
            branch=Branch(),
            page=_NoPage(),
        )
        self._dispatcher = Dispatcher(context, self._commands)

    def list(self) -> Sequence[EditorCommand]:
        """Return the commands that work without a terminal."""
        return [
            EditorCommand(command.name, command.help, command.usage)
            for command in self._commands.all()
            if command.family not in _OF_THE_SCREEN
            and command.name not in _OF_THE_TERMINAL
            and not command.only_explains
        ]

    async def run(self, line: str) -> str:
        """Carry out a line that begins with a slash; return what it prints, as a Markdown code block."""
        self._printed.clear()
        self._dispatcher.act(Slash(line))
        while self._work:
            await self._work.pop(0)
        text = "".join(self._painter.ansi(block, COLUMNS) for block in self._printed)
        return f"```text\n{text.strip()}\n```\n" if text.strip() else ""

    def _screen(self) -> ScreenActions:
        return ScreenActions(
            print=lambda *blocks: self._printed.extend(
                block for block in blocks if not isinstance(block, CommandEcho)
            ),
            hint=lambda text: None,
            redraw=_nothing,
            clear=_nothing,
            leave=_nothing,
            put=lambda text: None,
            give_back=lambda text: None,
            edit=_nothing,
            expand=_nothing,
            start=self._work.append,
            switch_session=lambda reference: self._refuse("the editor opens sessions"),
            reopen=lambda trusted: self._refuse("close the session and open it again"),
            copy=lambda text: False,
            theme=_no_theme,
        )

    def _refuse(self, why: str) -> None:
        raise CommandError(why)


class _NoPage:
    """The page of a session that an editor shows: none."""

    async def start(self, port: int) -> str:
        """Refuse."""
        raise CommandError("the editor shows this session; buddy serve shows another one")

    async def stop(self) -> bool:
        """Return that nothing was served."""
        return False


def _nothing() -> None:
    """Do nothing: there is no screen."""


async def _no_theme(_name: str) -> str:
    return "the editor chooses colours"
