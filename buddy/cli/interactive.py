"""`buddy`: the terminal first, everything else after the first frame.

The screen is drawn from the settings alone; the desk (tools, models, session) is imported in a thread and
opened while the person can already type. What is sent before it is ready waits, in order.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping

from buddy.agent.events import TaskEvent
from buddy.cli.arguments import Options
from buddy.cli.log import start_log
from buddy.cli.place import Place, check_yolo, find_place, read_settings
from buddy.config import ConfigError, Loaded
from buddy.repl.blocks import Block, Note
from buddy.repl.commands.registry import Commands
from buddy.repl.controller import Controller
from buddy.repl.leaving import Ending
from buddy.repl.line_mode import LineRepl
from buddy.repl.style import choose_look
from buddy.repl.view_state import DeskFacts, ViewState

CLOSE_LIMIT_S = 6
_log = logging.getLogger("buddy.terminal")


def run_interactive(options: Options, environment: Mapping[str, str]) -> int:
    """Run the REPL. Returns the exit code."""
    place = find_place(options, environment)
    check_yolo(options, environment)
    try:
        loaded = read_settings(place, options)
    except ConfigError as error:
        sys.stderr.write(f"buddy: {error}\n")
        return 4
    log_path = start_log(place.where, debug=options.debug)
    return asyncio.run(run_screen(options, place, loaded, log_path))


class Front:
    """The terminal's side of a run: what a sitting prints to, and what it is told when the person leaves.
    `left` is set when the screen is gone; `switch_to` names the session to open next, None when there is
    none."""

    def __init__(self, screen: object, state: ViewState, controller: Controller) -> None:
        self.screen = screen
        self.state = state
        self.controller = controller
        self.stop = asyncio.Event()
        self.left = False
        self.switch_to: str | None = None
        self.farewell = ""
        self.batches: asyncio.Queue[list[TaskEvent]] = asyncio.Queue()

    def print(self, *blocks: Block) -> None:
        """Print above the prompt; afterwards, when the screen is gone, nowhere."""
        if not self.left:
            self.screen.print(*blocks)  # type: ignore[attr-defined]

    async def events(self) -> AsyncIterator[list[TaskEvent]]:
        """What the board says, across sessions."""
        while True:
            yield await self.batches.get()


async def run_screen(options: Options, place: Place, loaded: Loaded, log_path: str) -> int:
    """Show the screen and sit behind it. Returns the exit code."""
    settings = loaded.settings
    early = DeskFacts(
        focus=1,
        mode=options.permission_mode or settings.permissions.mode,
        model=options.model or settings.agent.model or settings.api.model or "no model",
        sandbox="",
        queue=(),
        names={},
    )
    controller = Controller(_commands, early)
    screen, state = _screen(place, loaded, controller)
    front = Front(screen, state, controller)
    sitting = asyncio.create_task(_sit(options, place, loaded, front, log_path))
    code = 1
    try:
        ending: Ending = await screen.run(front.events())
        code = {"left": 0, "gone": 129}.get(ending, 143)
    finally:
        front.left = True
        front.stop.set()
        await _settled(sitting)
    if front.farewell:
        sys.stdout.write(front.farewell + "\n")
    return code


async def _settled(sitting: asyncio.Task[None]) -> None:
    """The sitting ends everything it started; a second Ctrl-C does not have to wait for it."""
    done, _late = await asyncio.wait({sitting}, timeout=CLOSE_LIMIT_S)
    if not done:
        sitting.cancel()
        await asyncio.wait({sitting})
    if not sitting.cancelled() and sitting.exception() is not None:
        raise sitting.exception() or AssertionError


async def _sit(options: Options, place: Place, loaded: Loaded, front: Front, log_path: str) -> None:
    """Import the rest off the loop's thread, then sit at one session after another."""
    await asyncio.sleep(0)  # the first frame
    try:
        sitting = await asyncio.to_thread(importlib.import_module, "buddy.cli.sitting")
        reference: str | None = _reference(options)
        while reference is not None and not front.left:
            front.stop.clear()
            front.switch_to = None
            await sitting.sit(options, place, loaded, front, reference, log_path)
            reference = front.switch_to
            options = _without_prompt(options)
    except Exception as error:  # noqa: BLE001 - the front end's border: said on the screen, which stays usable
        _log.exception("the session failed")
        front.print(Note("error", f"the session can't go on: {type(error).__name__}: {error}"))


def _commands() -> Commands:
    from buddy.repl.commands.builtin import builtin_commands  # after the first frame

    return builtin_commands()


def _reference(options: Options) -> str:
    if options.command == "resume":
        return options.words[0] if options.words else "last"
    return options.resume or ("last" if options.resume_last else "")


def _without_prompt(options: Options) -> Options:
    import msgspec

    return msgspec.structs.replace(options, words=(), command="", permission_mode="")


def _screen(place: Place, loaded: Loaded, controller: Controller):  # noqa: ANN202 - one of two screens
    display = loaded.settings.display
    environ = place.environment
    encoding = sys.stdout.encoding or "ascii"
    look = choose_look(
        environ=environ, color=display.color, theme=display.theme, encoding=encoding, is_terminal=True
    )
    if not look.ansi and environ.get("TERM", "") in ("dumb", "unknown", ""):
        line = LineRepl(
            look=look,
            stdin=sys.stdin.fileno(),
            stdout=sys.stdout.fileno(),
            encoding=encoding,
            desk=controller.facts,
            act=controller.act,
            clock=time.monotonic,
        )
        return line, line.state
    from buddy.repl.app import Settings  # prompt_toolkit: 60 ms that a dumb terminal does not need
    from buddy.repl.completion import DeskCompleter
    from buddy.repl.start import open_repl

    repl = open_repl(
        settings=Settings(
            look=look,
            vi=display.vi,
            title=display.title,
            bell=display.bell,
            history_path=os.path.join(place.where.state, "history"),
            environ=environ,
        ),
        desk=controller.facts,
        act=controller.act,
        log=lambda line: _log.warning("%s", line),
        completer=DeskCompleter(controller, place.boundary.cwd),
    )
    return repl, repl.state
