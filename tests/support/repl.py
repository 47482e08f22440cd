"""A whole session behind a surface of paper: the real controller, commands, task board, files, children and
journal against a real server; what would be on the screen is kept as text.

    async with open_repl(tmp_path, [reply("Hello")]) as repl:
        await repl.say("hi")
        await repl.shows("Hello")
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from buddy.agent.events import TaskEvent
from buddy.app.launch import find_launch, read_settings
from buddy.cli.arguments import parse
from buddy.cli.front import Front
from buddy.cli.interactive import refresh_settings, send_first_prompt
from buddy.cli.session_loop import run_session
from buddy.repl.context import Context
from buddy.repl.dispatcher import Dispatcher
from buddy.repl.early import Controller, LateCompleter
from buddy.repl.exit import Ending
from buddy.repl.intents import Intent, parse_line
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.blocks import Block, TurnSummary
from buddy.repl.view.state import NO_SESSION, ViewState
from buddy.repl.view.view import focus, fold
from tests.fake_llm.script import Script
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

DEADLINE_S = 50.0
COLUMNS = 400


class Paper:
    """A surface that keeps what is printed, hinted, put into the line and written raw."""

    def __init__(self) -> None:
        self.state = ViewState()
        self.printed: list[Block] = []
        self.hints: list[str] = []
        self.line = ""
        self.raw: list[str] = []
        self.drawn: list[str] = []
        self.facts: Callable[[], object] = lambda: NO_SESSION
        self._ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._painter = Painter(Look("mono", UNICODE, ansi=False))

    def leave(self) -> None:
        self.end("left")

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        show = asyncio.ensure_future(self._show(events))
        try:
            return await self._ended
        finally:
            show.cancel()
            await asyncio.wait({show})

    async def _show(self, events: AsyncIterator[list[TaskEvent]]) -> None:
        async for batch in events:
            self.touch()
            for event in batch:
                self.print(*fold(self.state, event))

    def touch(self) -> None:
        self.print(*focus(self.state, self.facts()))  # type: ignore[arg-type]  # the controller's facts

    def end(self, ending: Ending) -> None:
        if not self._ended.done():
            self._ended.set_result(ending)

    def print(self, *blocks: Block) -> None:
        self.printed += blocks

    def hint(self, text: str) -> None:
        self.hints.append(text)

    def redraw(self) -> None:
        self.drawn.append("redraw")
        self.touch()

    def clear(self) -> None:
        self.drawn.append("clear")

    def edit(self) -> None:
        self.drawn.append("edit")

    def expand(self) -> None:
        self.drawn.append("expand")

    def put(self, text: str, *, over: bool) -> None:
        if text and (over or not self.line):
            self.line = f"{text}\n{self.line}" if self.line else text

    def theme(self, name: str) -> bool:
        self.drawn.append(f"theme {name}")
        return name != "plain"

    def write(self, sequence: str) -> bool:
        self.raw.append(sequence)
        return True

    def text(self) -> str:
        """Everything printed, as a wide terminal without colours shows it."""
        return "".join(self._painter.ansi(block, COLUMNS) for block in self.printed)


class Repl:
    """A running session and its levers."""

    def __init__(self, program: Program, server: FakeLLM, paper: Paper, front: Front) -> None:
        self.program = program
        self.server = server
        self.paper = paper
        self.front = front

    @property
    def context(self) -> Context:
        """The context of the open session."""
        dispatcher = self.front.controller.dispatcher
        assert isinstance(dispatcher, Dispatcher)
        return dispatcher.context

    def act(self, intent: Intent) -> None:
        """As a key does."""
        self.front.controller.act(intent)

    def say(self, line: str, *, typed: bool = True) -> None:
        """As a line that is sent."""
        self.paper.touch()
        intent = parse_line(line, typed=typed)
        assert intent is not None
        self.paper.line = ""
        self.act(intent)

    async def until(self, claim: Callable[[], bool], what: str = "") -> None:
        """Wait until something is true; what was printed is shown when it never is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while not claim():
            if loop.time() > deadline:
                raise AssertionError(
                    f"never: {what}; printed:\n{self.paper.text()}\nhints: {self.paper.hints}"
                )
            await asyncio.sleep(0.005)

    async def shows(self, *texts: str) -> None:
        """Wait until every text was printed."""
        await self.until(lambda: all(text in self.paper.text() for text in texts), str(texts))

    async def hints(self, text: str) -> None:
        """Wait until something was hinted."""
        await self.until(lambda: any(text in hint for hint in self.paper.hints), f"hint {text}")

    async def said(self, line: str, *texts: str) -> str:
        """Send a line and wait for what it prints; what was printed since."""
        before = len(self.paper.text())
        self.say(line)
        await self.until(
            lambda: all(text in self.paper.text()[before:] for text in texts), f"{line}: {texts}"
        )
        return self.paper.text()[before:]

    async def turn(self, line: str) -> None:
        """Send a line and wait until the turn it begins is over."""
        before = self.ended_turns()
        self.say(line)
        await self.until(lambda: self.ended_turns() > before, f"the end of the turn of {line!r}")
        await self.quiet()

    def ended_turns(self) -> int:
        """Count the turns printed to their end."""
        return sum(isinstance(block, TurnSummary) for block in self.paper.printed)

    async def quiet(self) -> None:
        """Wait until no task runs."""
        board = self.context.board
        await self.until(lambda: not any(task.running for task in board.tasks.values()), "quiet")
        await asyncio.sleep(0)

    async def reopened(self, than: str) -> None:
        """Wait until another session than this one is open."""
        controller = self.front.controller
        await self.until(
            lambda: controller.dispatcher is not None and self.context.session.session_id != than,
            f"another session than {than}",
        )


@contextlib.asynccontextmanager
async def open_repl(
    folder: Path, script: Script, *arguments: str, settings: Mapping[str, Any] | None = None, **files: str
) -> AsyncGenerator[Repl]:
    """A session that is open; left at the end as a person leaves it."""
    async with FakeLLM(script) as server:
        program = Program(folder, server.url, settings=settings or {})
        program.files(**(files or {"main__py": "print(1)\n"}))
        async with open_repl_in(program, server, *arguments) as repl:
            yield repl


@contextlib.asynccontextmanager
async def open_repl_in(program: Program, server: FakeLLM, *arguments: str) -> AsyncGenerator[Repl]:
    """A session in a repository that is there already."""
    options = parse(arguments)
    with contextlib.chdir(program.repo):
        launch = find_launch(options, {**os.environ, **program.variables()})
    loaded = read_settings(launch, options)
    paper = Paper()
    controller = Controller(NO_SESSION, lambda text: paper.put(text, over=True))
    send_first_prompt(options, controller)
    paper.facts = controller.facts
    front = Front(paper, controller, LateCompleter(), launch.environment)
    shown = asyncio.ensure_future(paper.run(front.events()))
    running = asyncio.ensure_future(_sat(options, launch, loaded, front))
    repl = Repl(program, server, paper, front)
    try:
        await repl.until(lambda: controller.dispatcher is not None or running.done(), "an open session")
        yield repl
    finally:
        front.left = True
        front.gone.set()
        front.stop.set()
        await running
        paper.end("left")
        await shown
        await asyncio.sleep(0.01)  # closed connections let their sockets go with the loop's next rounds


async def _sat(options: Any, launch: Any, loaded: Any, front: Front) -> None:
    reference: str | None = options.resume or ("last" if options.resume_last else "")
    while reference is not None and not front.left:
        front.stop.clear()
        front.switch_to = None
        await run_session(options, launch, loaded, front, reference, "")
        reference = front.switch_to
        options, launch, loaded = refresh_settings(options, launch, loaded, front)
