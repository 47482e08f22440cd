"""The REPL's two sides, side by side: events become blocks and live lines, keys become intents.

START at `Repl.run`. It owns the terminal from the first frame to the last byte, and gives it back as it
was on every way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from importlib import import_module

import msgspec
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input

from buddy.agent.events import TaskEvent
from buddy.repl import outside
from buddy.repl.actions import Actions
from buddy.repl.blocks import Block, Expanded, PlainText
from buddy.repl.chrome import below_lines, top_lines
from buddy.repl.editor import Editor
from buddy.repl.fragments import color_depth, fragments, toolkit_style
from buddy.repl.history import open_history
from buddy.repl.intents import Intent
from buddy.repl.keys import ESCAPE_S, SEQUENCE_S, Facts, bindings, teach_shift_enter
from buddy.repl.layout import build_layout
from buddy.repl.leaving import Ending, crashes_end, signals_end, terminal_restored
from buddy.repl.log_stream import streams_to
from buddy.repl.output import FrameOutput, Terminal
from buddy.repl.screen import InlineApplication, Screen
from buddy.repl.style import Line, Look
from buddy.repl.view import focus, fold
from buddy.repl.view_state import DeskFacts, ViewState

HINT_S = 4.0
WARM_AFTER_S = 0.4


class Settings(msgspec.Struct, frozen=True):
    """What a person may choose. `history_path` is None for a history in memory."""

    look: Look
    vi: bool
    title: bool
    bell: bool
    history_path: str | None
    environ: Mapping[str, str]


class Repl:
    """The screen and the keys. `desk` says what does not come as events; `act` carries out intents; `log`
    takes lines that must not reach the terminal."""

    def __init__(
        self,
        *,
        settings: Settings,
        terminal: Terminal,
        keyboard: Input,
        output: FrameOutput,
        desk: Callable[[], DeskFacts],
        act: Callable[[Intent], None],
        log: Callable[[str], None],
        completer: Completer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        teach_shift_enter()
        self.state = ViewState()
        self.state.desk = desk()
        self._settings = settings
        self._terminal = terminal
        self._keyboard = keyboard
        self._output = output
        self._desk = desk
        self._log = log
        self._clock = clock
        self._modes = outside.terminal_modes(keyboard.fileno())
        self._hint, self._hint_until = "", 0.0
        self._top: list[Line] = []
        self._marked_fits = True
        self._title, self._rung = "", ""
        self._ending: Ending = "left"
        self._painter: Callable[[Block, int], str] | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self.editor = Editor(open_history(settings.history_path, log), completer, clock)
        actions = Actions(
            editor=self.editor,
            state=self.state,
            stage=self,
            act=act,
            tasks=lambda: self.state.desk.names,
            clock=clock,
        )
        facts = Facts(
            self.editor, actions.focused_runs, lambda: any(r.kind == "note" for r in self.state.desk.queue)
        )
        look = settings.look
        self._app = InlineApplication(
            layout=build_layout(
                self.editor.buffer,
                top=lambda: fragments(self._top),
                sign=look.glyphs.prompt,
                below=self._below,
                input_rows=lambda: output.get_size().rows // 2,
            ),
            style=toolkit_style(look),
            include_default_pygments_style=False,
            key_bindings=bindings(actions.do, self.editor, facts),
            editing_mode=EditingMode.VI if settings.vi else EditingMode.EMACS,
            color_depth=color_depth(look),
            erase_when_done=True,
            max_render_postpone_time=None,
            terminal_size_polling_interval=None,
            input=keyboard,
            output=output,
        )
        self._app.ttimeoutlen, self._app.timeoutlen = ESCAPE_S, SEQUENCE_S
        self.screen = Screen(
            self._app,
            output,
            self._paint,
            is_stalled=lambda: terminal.is_stalled,
            prepare=self._prepare,
            drawn=self._drawn,
        )

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Read, show, until the person leaves or the terminal does. An error in here is raised after the
        terminal is restored."""
        loop = asyncio.get_running_loop()
        self._terminal.attach(loop, self.screen.resume)
        with contextlib.ExitStack() as stack:
            stack.callback(self._terminal.close)
            stack.enter_context(
                terminal_restored(
                    self._terminal, self._keyboard.fileno(), self._modes, title=self._settings.title
                )
            )
            stack.enter_context(streams_to(self._log))
            stack.enter_context(
                signals_end(loop, self.end, lambda: self.outside("suspend"), self.screen.repair)
            )
            stack.enter_context(crashes_end(loop, self._crashed))
            stack.callback(self.screen.close)
            self._start(self._show(events))
            warm = loop.call_later(WARM_AFTER_S, self._warm)
            stack.callback(warm.cancel)
            try:
                self._prepare()
                await self._app.run_async(set_exception_handler=False)
            except EOFError:
                self._ending = "gone"
            finally:
                for job in self._jobs:
                    job.cancel()
                await asyncio.gather(*self._jobs, return_exceptions=True)
        return self._ending

    async def _show(self, events: AsyncIterator[list[TaskEvent]]) -> None:
        """The show side: everything that has come is folded before anything is drawn."""
        async for batch in events:
            blocks: list[Block] = []
            for event in batch:
                blocks += fold(self.state, event)
            self.screen.show(blocks)

    def print(self, *blocks: Block) -> None:
        """Print blocks above the prompt."""
        self.screen.show(blocks)

    def show_expanded(self, block: Expanded | PlainText) -> None:
        """Print what the person asked to see."""
        self.screen.show([block])

    def hint(self, text: str) -> None:
        """Show a line above the footer for a few seconds."""
        self._hint, self._hint_until = text, self._clock() + HINT_S
        self.screen.touch()

    def leave(self) -> None:
        """End the program as the person wished."""
        self.end("left")

    def end(self, ending: Ending) -> None:
        """Leave the screen; the first reason counts."""
        if self._app.is_running and not self._app.is_done:
            self._ending = ending
            self._app.exit()

    def outside(self, what: str) -> None:
        """Hand the terminal over: "suspend" and "edit" to another program, "redraw" to nobody."""
        if what == "redraw":
            self.screen.repair()
        elif not self._app.is_away:
            self._start(self._suspend() if what == "suspend" else self._edit())

    async def _suspend(self) -> None:
        await outside.suspend(self.screen, self._keyboard.fileno(), self._modes)

    async def _edit(self) -> None:
        text = await outside.edit(self.screen, self.editor.resolved(), self._settings.environ)
        if text is None:
            self.hint("the editor failed; set VISUAL or EDITOR")
        else:
            self.editor.put(text)

    def _start(self, job: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error)

    def _prepare(self) -> tuple[int, bool]:
        """Before a frame: the desk's facts, the lines above the input, the title."""
        brought = focus(self.state, self._desk())
        if brought:
            self.screen.show(brought)
        size = self._output.get_size()
        now = self._clock()
        self._top, self._marked_fits = top_lines(
            self.state, now, size.columns, size.rows, self._settings.look
        )
        self._announce()
        return len(self._top), bool(self.state.running() or self.state.inbox or now < self._hint_until)

    def _announce(self) -> None:
        """Title and bell when something waits."""
        waiting, running = len(self.state.inbox), len(self.state.running())
        title = (
            f"buddy: {waiting} waiting" if waiting else f"buddy: {running} running" if running else "buddy"
        )
        if self._settings.title and title != self._title:
            self._title = title
            self._output.set_title(title)
        newest = self.state.inbox[-1].request_id if self.state.inbox else ""
        if self._settings.bell and newest and newest != self._rung:
            self._output.write_raw("\a")
        self._rung = newest

    def _drawn(self) -> None:
        """A frame is on the terminal: requests in it have been seen from now on."""
        if self._terminal.is_stalled or not self._marked_fits:
            return
        now = self._clock()
        for index, row in enumerate(self.state.inbox):
            row.drawn_at = now if row.drawn_at is None else row.drawn_at
            if index == 0 and row.marked_at is None:
                row.marked_at = now

    def _below(self) -> StyleAndTextTuples:
        size = self._output.get_size()
        hint = self._hint if self._clock() < self._hint_until else ""
        lines = below_lines(self.state, self.editor.text, hint, size.columns, size.rows, self._settings.look)
        return fragments(lines)

    def _paint(self, block: Block, columns: int) -> str:
        if self._painter is None:
            # Measured: 100 ms and 9 MB for the Markdown parser and the highlighter, never before a frame.
            from buddy.repl.paint import Painter

            self._painter = Painter(self._settings.look).ansi
        return self._painter(block, columns)

    def _warm(self) -> None:
        """Import what drawing needs while nobody waits for it."""
        asyncio.get_running_loop().run_in_executor(None, import_module, "buddy.repl.paint")
