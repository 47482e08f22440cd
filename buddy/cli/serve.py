"""`buddy serve`: a session as a page in the browser, without a terminal of its own."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping

from buddy.agent.interpreter import collect_from_here
from buddy.app.launch import LaunchContext, check_yolo, find_launch, read_settings
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.app.session import Session, open_session
from buddy.app.session_store import KEEP_ELSEWHERE, open_store
from buddy.app.stderr import tell
from buddy.cli.arguments import take_reference
from buddy.cli.log import start_log
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError
from buddy.headless.exit_codes import CONFIGURATION, OK, TERMINATED, USAGE
from buddy.headless.serve.server import AddressError, listen_on_port, listen_on_socket, serve_page
from buddy.safety.sanitise import one_line
from buddy.sessions.errors import (
    FolderError,
    ForeignSessionError,
    NotSavedError,
    ReadOnlySessionError,
    SessionError,
)
from buddy.sessions.lock import LockedError
from buddy.tasks.task import TaskError

MAX_NOTE_CHARS = 400


def run_serve(options: Options, environment: Mapping[str, str]) -> int:
    """Serve a session until Ctrl+C. Return the exit code; raises `UsageError`."""
    options = take_reference(options)
    check_yolo(options, environment)
    launch = find_launch(options, environment)
    try:
        loaded = read_settings(launch, options)
        start_log(launch.where, debug=options.debug)
        collect_from_here()
        # First, because no session is to be made for a page that can't be shown.
        listener = listen_on_socket(options.socket) if options.socket else listen_on_port(options.port)
        with listener:
            return asyncio.run(_serve(options, launch, loaded, listener))
    except AddressError as error:
        return _fail(str(error), USAGE)
    except LockedError as error:
        ways = "Type /serve there to show it in the browser; `--fork` continues in a copy."
        return _fail(f"{error}. {ways}", USAGE)
    except (ForeignSessionError, ReadOnlySessionError) as error:
        return _fail(f"{error}. `--fork` continues in a copy.", USAGE)
    except (ConfigError, FolderError) as error:
        return _fail(str(error), CONFIGURATION)
    except NotSavedError as error:
        return _fail(f"the session is not saved: {error}", 1)
    except (SessionError, TaskError) as error:
        return _fail(str(error), USAGE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(
            f"{where}{error.strerror}: the session can't be saved there; {KEEP_ELSEWHERE}", CONFIGURATION
        )


async def _serve(
    options: Options, launch: LaunchContext, loaded: LoadedSettings, listener: socket.socket
) -> int:
    models = Models(loaded.settings, launch)
    reference = options.reference
    models.access(options.model)  # for its error: an unknown model must fail before a session is written
    if options.model or not reference:  # a resumed session brings its own model
        await models.require_key(options.model)
    store = open_store(launch, loaded.settings, _tell_line)
    if options.fork and reference:
        reference = await asyncio.to_thread(store.fork, reference)
    opening = open_session(
        launch, loaded, options, models=models, store=store, reference=reference, attended=True
    )
    async with opening as session:
        code = await _show(session, options, listener)
    if any(task.history for task in session.board.tasks.values()):
        tell(f"resume with: buddy resume {session.session_id}\n")
    else:
        await asyncio.to_thread(store.delete, session.session_id)
    return code


async def _show(session: Session, options: Options, listener: socket.socket) -> int:
    """Serve an open session until a signal; return the exit code."""
    task = session.board.task(session.board.focus)
    if options.model and task.model != options.model and not task.closed:
        session.board.change_model(task.task_id, options.model)
    for note in session.notes:
        _tell_line(note)
    ending = asyncio.Event()
    code = OK

    def end(number: signal.Signals) -> None:
        nonlocal code
        code = OK if number == signal.SIGINT else TERMINATED
        loop.remove_signal_handler(number)  # a second one ends at once
        ending.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # `nohup buddy serve`
            loop.add_signal_handler(number, end, number)
    async with serve_page(session, listener, _tell_line) as address:
        sys.stdout.write(f"{address.text()}\n")
        sys.stdout.flush()
        tell("Who has this address can do what you can. Ctrl+C ends the page and the session.\n")
        if session.mcp is not None:
            session.mcp.begin()
        await ending.wait()
    return code


def _tell_line(text: str) -> None:
    tell(f"buddy: {one_line(text, MAX_NOTE_CHARS)}\n")


def _fail(text: str, code: int) -> int:
    tell(f"buddy: {text}\n")
    return code
