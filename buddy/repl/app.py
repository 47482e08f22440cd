"""The REPL: events become blocks and live lines, keys become intents."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from itertools import chain

import msgspec
from msgspec.structs import replace
from prompt_toolkit.completion import Completer
from prompt_toolkit.input import Input

from buddy.agent.events import TaskEvent, TextDelta, ThinkingDelta, ToolCallDelta, TurnFinished, TurnStarted
from buddy.repl.exit import Ending, end_on_crash, end_on_signals, hold_interrupts, restore_terminal
from buddy.repl.input.actions import Actions
from buddy.repl.input.editor import Editor, Pastes
from buddy.repl.input.history import open_history
from buddy.repl.input.keys import KeyFacts, bindings, escape_s
from buddy.repl.intents import Cancel, Intent
from buddy.repl.render.style import Ground, Look, PictureMode, PictureWay
from buddy.repl.screen import external_programs as outside
from buddy.repl.screen.application import build_application
from buddy.repl.screen.background import GroundQuestion
from buddy.repl.screen.graphics import GraphicsQuestion
from buddy.repl.screen.layout import cursor_shapes, sign
from buddy.repl.screen.output import RESET_SHAPE, FrameOutput, Terminal, cell_pixels, streams_to
from buddy.repl.screen.paint_queue import FirstPrint, LazyPainter
from buddy.repl.screen.screen import Screen
from buddy.repl.screen.scrollback import reflow_of
from buddy.repl.screen.terminal_status import Announcer, Notifications, progress_sequence
from buddy.repl.view.blocks import Block
from buddy.repl.view.state import SessionFacts, ViewState
from buddy.repl.view.status import Bars
from buddy.repl.view.view import focus, fold, release


class OwnedTasks:
    """Background tasks of the screen. An error in any of them goes to `on_crash`."""

    def __init__(self, on_crash: Callable[[BaseException], None]) -> None:
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Coroutine[None, None, None]) -> None:
        """Run a job in the background."""
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    async def end(self) -> None:
        """Cancel and await all jobs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_crash(error)


WARM_AFTER_S = 0.4
MAX_DROPPED_CHARS = 4_096
"""A longer paste is no path of a file that was dragged onto the terminal."""
ASK_AFTER_S = 0.02
"""Delay of the question about the background colour: the first frame and the echo of early keys come
first."""


class AppSettings(msgspec.Struct, frozen=True):
    """The user's settings of the screen. `history_path` is None for a history in memory only; `look_on`
    returns the look for a background colour, None when the terminal must not be asked for it. Pictures of the
    clipboard go to `picture_folder`; no program of the `workspace` is run to read it. `pictures` is the way
    to show them, unless the terminal may be asked for a better one. `look_of` returns the look for a theme's
    name, None where it can't be changed."""

    look: Look
    vi: bool
    title: bool
    bell: bool
    notifications: Notifications
    progress: bool
    history_path: str | None
    environ: Mapping[str, str]
    look_on: Callable[[Ground], Look] | None = None
    workspace: str = ""
    picture_folder: str = ""
    pictures: PictureMode = "off"
    may_ask_for_graphics: bool = False
    look_of: Callable[[str], Look] | None = None


class Repl:
    """The screen and the keys. `facts` returns what does not arrive as events; `act` carries out intents;
    `log` receives lines that must not reach the terminal."""

    def __init__(
        self,
        *,
        settings: AppSettings,
        terminal: Terminal,
        keyboard: Input,
        output: FrameOutput,
        facts: Callable[[], SessionFacts],
        act: Callable[[Intent], None],
        log: Callable[[str], None],
        completer: Completer | None = None,
        modes: outside.Modes | None = None,
        clock: Callable[[], float] = time.monotonic,
        graphics: GraphicsQuestion | None = None,
    ) -> None:
        self.state = ViewState()
        self.state.facts = facts()
        self._settings, self._look = settings, settings.look
        self._terminal, self._keyboard = terminal, keyboard
        self._act, self._log = act, log
        self._modes = modes or outside.terminal_modes(keyboard.fileno())
        self.ground: GroundQuestion | None = None
        self._ending: Ending = "left"
        self._jobs = OwnedTasks(self._crash)
        self.graphics = graphics
        mode = graphics.mode if graphics else lambda: settings.pictures
        self._painter = LazyPainter(settings.look, lambda: PictureWay(mode(), cell_pixels(output.fileno())))
        self._first = FirstPrint(self._painter, lambda blocks: self.screen.show(blocks))
        self._folding = EventPump(self.state, facts, self._first.print, clock)
        self.editor = editor = _editor(settings, completer, log, clock)
        announcer = _announcer(settings, self.state, output, clock, lambda: editor.touched_at)
        self._bars = Bars(
            self.state,
            output,
            look=settings.look,
            clock=clock,
            facts=facts,
            announcer=announcer,
            sign=lambda: sign(self._app),
            colour=self._painter.code,
            prose=self._painter.prose,
        )
        self._actions = actions = Actions(
            editor=self.editor,
            state=self.state,
            stage=self,
            act=self._carry_out,
            last_folded=lambda: self._painter.expand_last(self.state.folded, output.get_size().columns),
            clock=clock,
            coming=lambda: facts().coming,
        )
        self.expand = actions.expand
        key_facts = KeyFacts(self.editor, actions.is_task_busy, actions.note_waits, actions.request_waits)
        self._app = build_application(
            self.editor,
            bindings(actions.do, self.editor, key_facts),
            top=self._bars.top,
            below=lambda: self._bars.below(self.editor.text),
            look=settings.look,
            vi=settings.vi,
            cursor=cursor_shapes(settings.environ, vi=settings.vi),
            escape_s=escape_s(settings.environ),
            keyboard=keyboard,
            output=output,
        )
        self.screen = Screen(
            self._app,
            output,
            self._painter,
            is_stalled=lambda: terminal.is_stalled,
            prepare=lambda: self._bars.refresh(self._first.print),
            drawn=lambda: None if terminal.is_stalled else self._bars.note_seen(self._unprinted()),
            lending=announcer.withdraw,
            reflow=reflow_of(settings.environ),
        )

    def _unprinted(self) -> Iterator[Block]:
        return chain(self._first.waiting, self.screen.waiting)

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> Ending:
        """Show events and read keys until the user leaves or the terminal is gone. Errors are raised after
        the terminal is restored."""
        loop = asyncio.get_running_loop()
        self._terminal.attach(loop, self.screen.touch)
        if self.graphics is not None:
            self.graphics.attach(loop)
        with contextlib.ExitStack() as stack:
            stack.enter_context(hold_interrupts(lambda: loop.call_soon_threadsafe(self._app.interrupt)))
            stack.callback(self._terminal.close)
            modes = (self._keyboard.fileno(), self._modes)
            restored = restore_terminal(
                self._terminal, *modes, title=self._settings.title, also=_reset_sequence(self._settings)
            )
            stack.enter_context(restored)
            stack.enter_context(streams_to(self._log))
            stack.enter_context(end_on_signals(loop, self.end, self.suspend, self.screen.repair))
            stack.enter_context(end_on_crash(loop, self._crash))
            stack.callback(self.screen.close)
            warm = loop.call_later(WARM_AFTER_S, self._first.warm)
            stack.callback(warm.cancel)
            if self.ground is not None:
                asking = loop.call_later(ASK_AFTER_S, self.ground.ask)
                stack.callback(asking.cancel)
            self._jobs.start(self._folding.run(events))
            try:
                self._bars.refresh(self._first.print)
                await self._app.run_async(set_exception_handler=False, handle_sigint=False)
            except EOFError:
                self._ending = "gone"
            finally:
                await self._jobs.end()
        return self._ending

    def print(self, *blocks: Block) -> None:
        """Print blocks above the prompt."""
        self._first.print(blocks)

    def _carry_out(self, intent: Intent) -> None:
        """Carry out an intent and redraw: it may have changed the session's facts."""
        if isinstance(intent, Cancel):
            self.screen.hold()
        self._act(intent)
        self.screen.touch()

    def hint(self, text: str) -> None:
        """Show a line above the footer for a few seconds."""
        self._bars.hint(text)
        self.screen.touch()

    def put(self, text: str, *, over: bool) -> None:
        """Put text into the line, before its content; with `over` false, as a refused line."""
        if over:
            self.editor.put_back(text)
        elif text:
            self.give_back(text)

    def give_back(self, text: str) -> None:
        """Put a refused line into the editor: Enter alone does not send it, and typing replaces it."""
        if self.editor.offer(text):
            self._actions.remember_refused(text)
            self.hint("Not sent. Type to replace it, or edit it (arrow keys, Backspace). Up brings it back.")
        else:
            self.hint("An earlier line was not sent. Up brings it back.")

    def end(self, ending: Ending) -> None:
        """Leave the screen; the first reason counts."""
        if self._app.is_running and not self._app.is_done:
            self._ending = ending
            if self.ground is not None and ending in ("left", "terminated"):
                self.ground.wait(self._keyboard.fileno(), self._keyboard.read_keys)
            self._folding.step()
            self._first.print(release(self.state))
            self._first.flush()
            self.screen.flush()
            self._app.exit()

    def leave(self) -> None:
        """Leave as `/quit` does: the first time while something runs, say what would end."""
        self._actions.leave("/quit")

    def touch(self) -> None:
        """Draw what has changed with the next frame."""
        self.screen.touch()

    def redraw(self) -> None:
        """Draw the last screenful again."""
        self.screen.repair()

    def clear(self) -> None:
        """Empty the screen."""
        self.screen.clear()

    def write(self, sequence: str) -> bool:
        """Write a control sequence with the next frame."""
        self.screen.write(sequence)
        return True

    def theme(self, name: str) -> bool:
        """Switch the theme; return whether the terminal can show it."""
        if self._settings.look_of is None:
            return False
        look = self._settings.look_of(name)
        self.restyle(look)
        return look.theme != "mono" or name == "plain"

    def restyle(self, look: Look) -> None:
        """Redraw everything with another look, including the visible scrollback."""
        if look == self._look:
            return
        self._look = look
        self._painter.restyle(look)
        self._bars.restyle(look)
        self._app.restyle(look)
        self.screen.repair()

    def suspend(self) -> None:
        """Stop, as Ctrl+Z does in a shell."""
        if not self._app.is_away:
            self._jobs.start(outside.suspend(self.screen, self._keyboard.fileno(), self._modes))

    def edit(self) -> None:
        """Open the line in the user's editor."""
        if not self._app.is_away:
            self._jobs.start(self._edit())

    async def _edit(self) -> None:
        terminal = (self._keyboard.fileno(), self._modes)
        text = await outside.edit(self.screen, self.editor.expand(), self._settings.environ, terminal)
        if text is None:
            self.hint("the editor failed; set VISUAL or EDITOR")
        elif text != self.editor.expand():
            self.editor.put(text)

    def paste_picture(self) -> None:
        """Attach the picture on the user's clipboard."""
        self._jobs.start(self._paste_picture())

    async def _paste_picture(self) -> None:
        from buddy.repl.input.dropped_pictures import mentions_of_pictures  # these with a picture only
        from buddy.workspace.clipboard import ClipboardError, Desktop, picture_on_clipboard, save_picture

        settings = self._settings
        desktop = Desktop(settings.environ, sys.platform, settings.workspace)
        self.hint("reading the clipboard …")
        try:
            data = await asyncio.to_thread(picture_on_clipboard, desktop)
            path = await asyncio.to_thread(save_picture, data, settings.picture_folder, time.time())
        except ClipboardError as error:
            self.hint(str(error))
        except OSError as error:
            self.hint(f"the picture could not be kept in {settings.picture_folder}: {error.strerror}")
        else:
            self.hint("")
            self.editor.mention(mentions_of_pictures(path, settings.environ.get("HOME", "")))

    def _crash(self, error: BaseException) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error)


def _editor(
    settings: AppSettings, completer: Completer | None, log: Callable[[str], None], clock: Callable[[], float]
) -> Editor:
    pastes = Pastes()
    history = open_history(settings.history_path, log, pastes.expand)
    home = settings.environ.get("HOME", "")

    def mentions(pasted: str) -> str:
        if "/" not in pasted or len(pasted) > MAX_DROPPED_CHARS:
            return ""
        from buddy.repl.input.dropped_pictures import mentions_of_pictures  # with such a paste only

        return mentions_of_pictures(pasted, home)

    return Editor(history, completer, clock, pastes, mentions)


def _announcer(
    settings: AppSettings,
    state: ViewState,
    output: FrameOutput,
    clock: Callable[[], float],
    typed_at: Callable[[], float],
) -> Announcer:
    return Announcer(
        state,
        output,
        title=settings.title,
        bell=settings.bell,
        kind=settings.notifications,
        progress=settings.progress,
        inside_tmux="TMUX" in settings.environ,
        clock=clock,
        typed_at=typed_at,
    )


def _reset_sequence(settings: AppSettings) -> str:
    """Return the sequence that clears the progress mark of the tab and resets the cursor shape; "" if neither
    was changed."""
    progress = progress_sequence("none", inside_tmux="TMUX" in settings.environ) if settings.progress else ""
    return progress + (RESET_SHAPE if cursor_shapes(settings.environ, vi=settings.vi) else "")


STEP_S = 0.004
"""The longest a key waits for folding, apart from one slice."""
SLICE_CHARS = 4096
"""Longer pieces are sliced; folding one slice takes 1 to 5 ms."""


class EventPump:
    """The buffer of events that are not folded yet. `facts` returns the session's current facts, so that a
    turn that starts and ends between two frames still gets its name; `show` prints blocks."""

    def __init__(
        self,
        state: ViewState,
        facts: Callable[[], SessionFacts],
        show: Callable[[list[Block]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._facts = facts
        self._show = show
        self._clock = clock
        self._waiting: deque[TaskEvent] = deque()

    async def run(self, events: AsyncIterator[list[TaskEvent]]) -> None:
        """Fold all events, and let keys run between two steps."""
        async for batch in events:
            for event in batch:
                self._waiting.extend(slices(event))
            while self._waiting:
                self.step(STEP_S)
                if self._waiting:
                    await asyncio.sleep(0)

    def step(self, seconds: float = float("inf")) -> None:
        """Fold waiting events for at least this long."""
        until = self._clock() + seconds
        blocks: list[Block] = []
        while self._waiting:
            event = self._waiting.popleft()
            if isinstance(event.event, TurnStarted | TurnFinished):
                blocks += focus(self._state, self._facts())
            blocks += fold(self._state, event)
            if self._clock() >= until:
                break
        self._show(blocks)


def slices(event: TaskEvent) -> Iterator[TaskEvent]:
    """Yield the event, or several for a piece of an answer that is too long."""
    match event.event:
        case TextDelta(text=text) | ThinkingDelta(text=text) if len(text) > SLICE_CHARS:
            for part in _parts(text):
                yield replace(event, event=replace(event.event, text=part))
        case ToolCallDelta(arguments=arguments) if len(arguments) > SLICE_CHARS:
            for part in _parts(arguments):
                yield replace(event, event=replace(event.event, arguments=part))
        case _:
            yield event


def _parts(text: str) -> list[str]:
    return [text[at : at + SLICE_CHARS] for at in range(0, len(text), SLICE_CHARS)]
