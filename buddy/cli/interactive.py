"""`buddy` on a terminal: the first frame first, everything else later.

The screen is drawn from the settings alone. The session (tools, models, board) is imported in a thread and
opened while the user can already type; what is sent before it is ready waits, in order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from buddy.agent.interpreter import collect_from_here, giving_way
from buddy.app.launch import LaunchContext, check_yolo, find_launch, read_settings, refresh_launch
from buddy.app.options import Options
from buddy.app.stderr import tell
from buddy.cli.arguments import take_reference
from buddy.cli.front import Front, Surface
from buddy.cli.log import start_log
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError, DisplaySettings
from buddy.repl.early import Controller, LateCompleter
from buddy.repl.exit import Ending, hold_interrupts
from buddy.repl.intents import Prompt
from buddy.repl.render.style import ASCII, DUMB, Ground, Look, choose_look
from buddy.repl.view.blocks import NoteBlock
from buddy.repl.view.state import SessionFacts
from buddy.safety.sanitise import clean
from buddy.workspace.sandbox.status import NO_SANDBOX

CLOSE_LIMIT_S = 6
GREETED_WITHIN_S = 15.0
"""How long plain lines delay the first prompt for the notices of the opening session, which belong above
it."""
FIRST_TURNS = 6
"""Turns of the event loop before further imports: the first frame, the keys typed before it, and their
echo."""
_log = logging.getLogger("buddy.terminal")


def run_interactive(options: Options, environment: Mapping[str, str], modes: list[Any] | None = None) -> int:
    """Run the REPL and return the exit code. `modes` are the terminal's modes before buddy changed them."""
    options = take_reference(options)
    launch = find_launch(options, environment)
    check_yolo(options, environment)
    try:
        loaded = read_settings(launch, options)
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return 4
    log_path = start_log(launch.where, debug=options.debug)
    with (
        hold_interrupts()
    ):  # Ctrl-C is a key on the screen; before and after it, no interrupt breaks start-up or cleanup
        return _run_loop(run_screen(options, launch, loaded, log_path, modes))


def _run_loop(work: Coroutine[Any, Any, int]) -> int:
    """Run to the end. Closing the loop starts a thread; when that fails, all the work is already done."""
    code = None
    try:
        with asyncio.Runner() as runner:
            code = runner.run(work)
    except RuntimeError:
        if code is None:
            raise
        _log.warning("the event loop could not be closed in order", exc_info=True)
    return code


async def run_screen(
    options: Options,
    launch: LaunchContext,
    loaded: LoadedSettings,
    log_path: str,
    modes: list[Any] | None = None,
) -> int:
    """Show the screen, work with sessions behind it, and return the exit code."""
    settings = loaded.settings
    early = SessionFacts(
        focus=1,
        mode=options.permission_mode or settings.permissions.mode,
        model=options.model or settings.agent.model or settings.api.model or "no model",
        sandbox=NO_SANDBOX,
        queue=(),
        names={},
    )
    controller, completer = Controller(early, lambda text: screen.put(text, over=True)), LateCompleter()
    send_first_prompt(options, controller)
    screen = open_surface(launch, loaded, controller, completer, modes, plain=options.plain)
    front = Front(screen, controller, completer, launch.environment)
    work = asyncio.create_task(_work_with_sessions(options, launch, loaded, front, log_path))
    code = 1
    try:
        ending: Ending = await screen.run(front.events())
        code = {"left": 0, "gone": 129}.get(ending, 143)
    finally:
        front.left = True
        front.gone.set()
        front.stop.set()
        await _await_end(work)
        for text in controller.take_unsent():  # the user left before a session was open
            tell(f"not sent: {clean(text)}\n", sys.stdout)
        if front.farewell:  # after a crash too: the session is saved
            tell(front.farewell + "\n", sys.stdout)
    return front.code or code


def send_first_prompt(options: Options, controller: Controller) -> None:
    """Send the prompt of the command line first."""
    if options.words and options.command != "demo":
        controller.act(Prompt(" ".join(options.words)))


async def _await_end(work: asyncio.Task[None]) -> None:
    """Wait until the session has ended everything it started; cancel it after a time limit."""
    done, _late = await asyncio.wait({work}, timeout=CLOSE_LIMIT_S)
    if not done:
        work.cancel()
        await asyncio.wait({work})
    if not work.cancelled() and work.exception() is not None:
        raise work.exception() or AssertionError


async def _work_with_sessions(
    options: Options, launch: LaunchContext, loaded: LoadedSettings, front: Front, log_path: str
) -> None:
    """Import the rest in a thread, then run one session after another."""
    for _ in range(FIRST_TURNS):
        await asyncio.sleep(0)
    try:
        with giving_way():
            work_with = await asyncio.to_thread(_session_loop)
        collect_from_here()
        reference: str | None = options.reference
        while reference is not None and not front.left:
            front.stop.clear()
            front.switch_to = None
            await work_with(options, launch, loaded, front, reference, log_path)
            reference = front.switch_to
            options, launch, loaded = refresh_settings(_without_prompt(options), launch, loaded, front)
        if not front.left:
            front.end_without_session(4)
    except Exception as error:  # noqa: BLE001 - the front end's border: shown on the screen, then left
        _log.exception("the session failed")
        front.print(NoteBlock("error", f"the session failed: {type(error).__name__}: {error}"))
        front.end_without_session(1)


def _session_loop() -> Callable[..., Coroutine[Any, Any, None]]:
    from buddy.cli.session_loop import run_session  # 200 ms, called in a thread

    return run_session


def refresh_settings(
    options: Options, launch: LaunchContext, loaded: LoadedSettings, front: Front
) -> tuple[Options, LaunchContext, LoadedSettings]:
    """Return the options, folders and settings for the next session: the user may have trusted the folder
    meanwhile. If the settings can't be read, all three stay."""
    trusting = msgspec.structs.replace(options, trust=options.trust or front.trusted)
    refreshed = refresh_launch(launch, trusting)
    if refreshed == launch:
        return options, launch, loaded
    try:
        return trusting, refreshed, read_settings(refreshed, trusting)
    except ConfigError as error:
        front.print(NoteBlock("error", f"{error}; the folder's settings are ignored"))
        return options, launch, loaded


def _without_prompt(options: Options) -> Options:
    command = options.command if options.command == "demo" else ""
    return msgspec.structs.replace(options, words=(), command=command, fork=False)


class Looks:
    """The looks of this terminal, by the last chosen theme and, once known, its background."""

    def __init__(self, display: DisplaySettings, environ: Mapping[str, str], encoding: str) -> None:
        self._display, self._environ, self._encoding = display, environ, encoding
        self._theme = display.theme
        self._ground: Ground | None = None

    def of(self, theme: str) -> Look:
        """Return the look of a theme."""
        self._theme, display = theme, self._display
        look = choose_look(
            environ=self._environ,
            color=display.color,
            theme=theme,
            encoding=self._encoding,
            is_terminal=True,
            ground=self._ground,
        )
        return msgspec.structs.replace(
            look, fold_lines=display.fold_lines, thoughts=display.show_thinking, numbers=display.show_tokens
        )

    def on(self, ground: Ground) -> Look:
        """Return the look for a background."""
        self._ground = ground
        return self.of(self._theme)


def open_surface(
    launch: LaunchContext,
    loaded: LoadedSettings,
    controller: Controller,
    completer: LateCompleter,
    modes: list[Any] | None = None,
    *,
    plain: bool = False,
) -> Surface:
    """Create the front end: the screen, or plain lines on a dumb terminal and on request (as for a screen
    reader). Nothing is drawn yet."""
    display, environ = loaded.settings.display, launch.environment
    encoding = sys.stdout.encoding or "ascii"  # read now: the screen redirects stdout to the log

    looks = Looks(display, environ, encoding)
    look = looks.of(display.theme)
    if plain:
        return _plain_lines(msgspec.structs.replace(look, theme="mono", ansi=False), controller)
    if environ.get("TERM", "") in DUMB:
        return _plain_lines(look, controller)
    return _screen(looks, launch, loaded, controller, completer, modes)


def _plain_lines(look: Look, controller: Controller) -> Surface:
    from buddy.repl.plain import LineRepl  # only needed for plain lines

    return LineRepl(
        look=msgspec.structs.replace(look, glyphs=ASCII, unfold="/more"),
        stdin=sys.stdin.fileno(),
        stdout=sys.stdout.fileno(),
        encoding=sys.stdout.encoding or "ascii",
        facts=controller.facts,
        act=controller.act,
        clock=time.monotonic,
        greeting_within_s=GREETED_WITHIN_S,
    )


def _without_own_keys(environ: Mapping[str, str], loaded: LoadedSettings) -> dict[str, str]:
    """Return the environment without the variables that the user's profiles read keys from."""
    profiles = (loaded.settings.api, *loaded.settings.models.values())
    names = {profile.api_key_env for profile in profiles}
    return {name: value for name, value in environ.items() if name not in names}


def _screen(
    looks: Looks,
    launch: LaunchContext,
    loaded: LoadedSettings,
    controller: Controller,
    completer: LateCompleter,
    modes: list[Any] | None,
) -> Surface:
    from buddy.repl.app import AppSettings  # prompt_toolkit: 60 ms that a dumb terminal does not need
    from buddy.repl.screen.background import may_be_asked
    from buddy.repl.screen.graphics import may_be_asked as may_ask_for_graphics
    from buddy.repl.screen.graphics import picture_mode
    from buddy.repl.screen.terminal_status import notifications_of, supports_progress
    from buddy.repl.start import open_repl

    display, environ = loaded.settings.display, _without_own_keys(launch.environment, loaded)
    look = looks.of(display.theme)
    pictures = picture_mode(display.pictures, environ, look)
    return open_repl(
        settings=AppSettings(
            look=look,
            vi=display.vi,
            title=display.title,
            bell=display.bell,
            notifications=notifications_of(display.notifications, environ),
            progress=supports_progress(display.progress, environ),
            history_path=os.path.join(launch.where.state, "history"),
            environ=environ,
            look_on=looks.on if display.theme == "auto" and may_be_asked(environ) else None,
            workspace=launch.boundary.root,
            picture_folder=os.path.join(launch.where.cache, "pictures"),
            pictures=pictures,
            may_ask_for_graphics=may_ask_for_graphics(display.pictures, environ, look),
            look_of=looks.of,
        ),
        facts=controller.facts,
        act=controller.act,
        log=lambda line: _log.warning("%s", line),
        completer=completer,
        modes=modes,
    )
