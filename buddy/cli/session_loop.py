"""One session behind the screen: open it, work with it, close it. Imported after the first frame."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import logging
import os
from collections.abc import Coroutine
from functools import partial
from typing import Any

from buddy import __version__
from buddy.agent.events import TurnFinished
from buddy.agent.formatting import format_count
from buddy.agent.interpreter import giving_way
from buddy.app.launch import LaunchContext
from buddy.app.options import Options
from buddy.app.policy import change_settings
from buddy.app.providers import Models
from buddy.app.session import Session, open_session
from buddy.app.session_store import KEEP_ELSEWHERE, open_store
from buddy.app.trust import FolderTrust
from buddy.cli.demo_model import FAREWELL, HINTS, DemoModels
from buddy.cli.doctor import report
from buddy.cli.first_run import first_run_text
from buddy.cli.front import Front
from buddy.cli.page_server import SessionPage
from buddy.config.loading import IGNORED, LoadedSettings
from buddy.config.settings import ConfigError
from buddy.llm.scripted import Pace
from buddy.repl.branch import Branch, read_branch
from buddy.repl.commands.registry import builtin_commands
from buddy.repl.context import Context, OwnWork, ScreenActions
from buddy.repl.dispatcher import Dispatcher
from buddy.repl.input.completion import SessionCompleter
from buddy.repl.view.blocks import NoteBlock, PlainText, QuestionAsked, Welcome
from buddy.repl.view.replay import blocks_of
from buddy.safety.sanitise import one_line
from buddy.sessions.errors import (
    ForeignSessionError,
    NoSuchSessionError,
    NotSavedError,
    ReadOnlySessionError,
    SessionError,
)
from buddy.sessions.loading import UNFINISHED_REASON
from buddy.sessions.lock import LockedError
from buddy.tasks.event_hub import EventReader
from buddy.tasks.task import Task, TaskError
from buddy.tools.ask_user import OpenQuestion
from buddy.workspace.files.name_index import FileIndexes
from buddy.workspace.files.name_index import best_matches as files_found

_log = logging.getLogger(__name__)
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT})
"""Errors that say what the machine has no more of."""

USAGE = 2
LAST_TITLE_CHARS = 60
WELCOME_WITHIN_S = 0.3
"""How long the first screen waits for the branch name from git."""
PREPARE_AFTER_S = 1.0
"""Delay of the preparation, after the rest of the start-up and the first keys."""
PROBLEM_WITHIN_S = 0.7
"""How long the first prompt waits for the check whether a key exists. A keyring or a key command may take
half a minute, and commands need no key."""


async def run_session(
    options: Options,
    launch: LaunchContext,
    loaded: LoadedSettings,
    front: Front,
    reference: str,
    log_path: str,
) -> None:
    """Open a session ("": a new one), work with it until the user leaves or switches, close it."""
    models = _models(options, launch, loaded, front)
    # In a thread: the catalogue, a lane and unknown prices take 9 to 24 ms, which would delay keys.
    with giving_way():
        await asyncio.to_thread(models.access_or_explain, options.model)
    try:
        store = open_store(
            launch, loaded.settings, lambda text: front.print(NoteBlock("warning", text.strip()))
        )
        if options.fork and reference:
            reference = await asyncio.to_thread(store.fork, reference)
        opening = open_session(
            launch, loaded, options, models=models, store=store, reference=reference, attended=True
        )
        async with opening as session:
            if not front.previous:
                _answer_with(session, options.model)
            await _work(session, options, front, log_path)
        await _finish(session, front)
    except NotSavedError as error:
        front.report_loss(f"the session is not saved: {error}")
    except (SessionError, ConfigError, TaskError) as error:
        front.print(NoteBlock("error", _describe_error(error, reference)))
        if isinstance(error, NoSuchSessionError) and not front.previous:  # the id came from the command line
            front.end_without_session(USAGE)
        elif reference:
            front.switch_to = front.previous if front.previous != reference else ""
            front.previous = ""
            front.controller.take_back()  # it was meant for this session, not for the one opened instead
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        front.print(
            NoteBlock("error", f"{where}{error.strerror}: the session can't be saved there; {KEEP_ELSEWHERE}")
        )
    finally:
        await front.drain()


def _answer_with(session: Session, model: str) -> None:
    """Use the model of the command line in the foreground task of a resumed session; its other tasks and
    later sessions keep theirs."""
    task = session.board.task(session.board.focus)
    if model and task.model != model and not task.closed:
        session.board.change_model(task.task_id, model)


def _describe_error(error: Exception, reference: str) -> str:
    """Describe an error of a session and what to do about it."""
    match error:
        case ForeignSessionError() | ReadOnlySessionError() | LockedError():
            ways = f"/session show {reference} shows it, /session fork {reference} continues in a copy."
            return f"{error}. {ways}"
        case _:
            return str(error)


def _models(options: Options, launch: LaunchContext, loaded: LoadedSettings, front: Front) -> Models:
    if options.command != "demo":
        return Models(loaded.settings, launch)
    return DemoModels(loaded.settings, launch, pace=Pace(characters=6, seconds=0.02))


async def _work(session: Session, options: Options, front: Front, log_path: str) -> None:
    reader = session.board.reader()
    branch = Branch(partial(read_branch, session.children, session.launch.boundary))
    pump = asyncio.create_task(_pump(reader, front, branch))
    jobs: set[asyncio.Task[None]] = set()
    page = SessionPage(session, lambda text: front.print(NoteBlock("warning", text)))
    try:
        screen = _screen_actions(front, jobs, session)
        screen.start(branch.watch(front.screen.touch))
        await _begin(session, options, front, screen, log_path, branch, page)
        screen.start(_prepare(session, front))
        await front.stop.wait()
    finally:
        front.controller.close()
        front.completer.source = None
        for job in jobs:
            job.cancel()
        await page.stop()
        await session.board.close()
        reader.close()
        await asyncio.wait({pump, *jobs})


async def _begin(
    session: Session,
    options: Options,
    front: Front,
    screen: ScreenActions,
    log_path: str,
    branch: Branch,
    page: SessionPage,
) -> None:
    """Show the notices of the session, then let it handle what the user types and has typed."""
    folder = FolderTrust(session.launch)
    own = OwnWork(session.board.parts.clock.now, front.screen.touch)
    context = Context(
        session,
        screen,
        own,
        folder,
        doctor=lambda: report(options, session.launch),
        log_path=log_path,
        branch=branch,
        page=page,
    )
    _listen(session, front)
    trust_question, facts = await asyncio.to_thread(lambda: (folder.ask(), _collect_facts(session)))
    await _greet(session, front, screen, branch, facts)
    for note in session.notes:
        if not (trust_question and note in (IGNORED, session.launch.trust_note)):
            front.print(NoteBlock("warning", note))
    if trust_question:
        front.print(PlainText(trust_question))
    commands = builtin_commands()
    files = FileIndexes()
    front.completer.source = SessionCompleter(
        commands,
        context,
        lambda: context.boundary.cwd,
        lambda text: files_found(files.of(context.boundary.cwd), text),
    )
    if not front.left:
        front.controller.open(Dispatcher(context, commands))
    front.screen.touch()


async def _prepare(session: Session, front: Front) -> None:
    """Prepare what the first prompt will need while the user types it."""
    await asyncio.sleep(PREPARE_AFTER_S)
    if session.mcp is not None:
        session.mcp.begin()
    await session.sandbox.handle.ready()
    front.screen.touch()
    await session.models.prepare(session.board.task(session.board.focus).model, offers_models=True)


def _listen(session: Session, front: Front) -> None:
    """Print questions of models when they arrive; `/answer` answers them."""

    def print_question(question: OpenQuestion) -> None:
        before = "" if question.task_id == session.board.focus else f"@{question.task_id} "
        earlier = [other.number for other in session.questions.waiting() if other.task_id == question.task_id]
        then = f"After question {earlier[0]}: " if earlier[0] != question.number else ""
        how = question.ways(before)
        how = then + (how[0].lower() if then else how[0]) + how[1:]
        front.print(QuestionAsked(question.task_id, question.words(), how))
        front.screen.touch()

    session.questions.listeners.append(print_question)


async def _pump(reader: EventReader, front: Front, branch: Branch) -> None:
    while batch := await reader.batch():
        front.batches.put_nowait(batch)
        if any(isinstance(event.event, TurnFinished) for event in batch):
            branch.refresh()


async def _greet(
    session: Session, front: Front, screen: ScreenActions, branch: Branch, facts: tuple[str, ...]
) -> None:
    """Show the last messages of a resumed session, or the welcome of a new one."""
    board = session.board
    front_task = board.task(board.focus)
    history = front_task.history
    if history and session.session_id == front.previous:  # reopened: its messages are still on the screen
        return
    if any(task.history for task in board.tasks.values()):
        task_id = board.focus if len(board.tasks) > 1 else 0
        copied, copy_of = front_task.copied, front_task.copy_of
        front.print(*blocks_of(history, task_id, front_task.receipt, copied=copied, copy_of=copy_of))
        front.print(
            *(
                NoteBlock("info", _describe_paused(task))
                for task in board.tasks.values()
                if task.state == "paused"
            )
        )
        return
    if isinstance(session.models, DemoModels):
        front.print(PlainText(HINTS))
        return
    front.print(await _welcome(session, branch, facts))
    is_checked = asyncio.Event()
    screen.start(_tell_problem(session, front, is_checked))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PROBLEM_WITHIN_S):
            await is_checked.wait()


async def _welcome(session: Session, branch: Branch, facts: tuple[str, ...]) -> Welcome:
    """Return the first screen. Git has a moment to name the branch."""
    branch_name = await branch.first(WELCOME_WITHIN_S)
    home, folder = os.path.expanduser("~"), session.launch.boundary.cwd
    name = f"~{folder.removeprefix(home)}" if folder == home or folder.startswith(home + "/") else folder
    model = session.board.parts.model(session.board.task(session.board.focus).model).name
    return Welcome(__version__, name, branch_name, model, f"{session.policy.mode} mode", facts)


def _collect_facts(session: Session) -> tuple[str, ...]:
    """Return facts about the folder: instruction files, trust, the last session. Reads the disk."""
    facts = [", ".join(session.instruction_names)] if session.instruction_names else []
    facts += ["trusted folder"] if session.launch.trusted else []
    others = (summary for summary in session.store.list() if summary.session_id != session.session_id)
    last = next((summary for summary in others if not summary.foreign), None)
    if last is not None:
        title = one_line(last.name or last.title, LAST_TITLE_CHARS)
        facts.append(f"/resume: {title}" if title else "/resume: the last session")
    return (" · ".join(facts),) if facts else ()


async def _tell_problem(session: Session, front: Front, is_checked: asyncio.Event) -> None:
    """Show the first-run text if no model can be used; set `told` afterwards."""
    try:
        model = session.board.task(session.board.focus).model
        problem = await session.models.problem(model)
        if problem:
            catalogue, environment = session.models.catalogue(), session.launch.environment
            front.print(PlainText(await first_run_text(problem, catalogue, environment, chosen=model != "")))
    finally:
        is_checked.set()


def _describe_paused(task: Task) -> str:
    """Describe a paused task, and the calls that `/continue` will run."""
    reason = "" if task.reason in ("", UNFINISHED_REASON) else f" ({task.reason})"
    sentence = f"Task {task.task_id} was interrupted{reason}. /continue {task.task_id} resumes it"
    match len(task.not_run):
        case 0:
            return f"{sentence}."
        case 1:
            return f"{sentence}; its one call that did not run will ask for your approval if it needs it."
        case count:
            calls = f"{count} calls that did not run"
            return f"{sentence}; its {calls} will ask for your approval where they need it."


async def _finish(session: Session, front: Front) -> None:
    """Delete a session without messages; for others, prepare the farewell."""
    session_id = session.session_id
    if isinstance(session.models, DemoModels):
        front.farewell = FAREWELL
    elif any(task.history for task in session.board.tasks.values()):
        left = [task for task in session.board.tasks.values() if task.worktree_state]
        changes = [task.worktree_state for task in left if task.variant is None]
        if count := len(left) - len(changes):
            changes.append(
                f"{format_count(count, 'variant')} with changes: /variants compares them after a resume"
            )
        front.farewell = "\n".join((*changes, f"resume with: buddy resume {session_id}"))
    else:
        await asyncio.to_thread(session.store.delete, session_id)


def describe_failure(error: BaseException) -> str:
    """Return a sentence about the error that ended a command."""
    if isinstance(error, OSError) and error.errno in _SHORTAGES:
        return f"the command was not carried out: {error.strerror}. ↑ brings it back"
    return f"{type(error).__name__}: {error} (this is a bug; the log has more)"


def _screen_actions(front: Front, jobs: set[asyncio.Task[None]], session: Session) -> ScreenActions:
    screen = front.screen
    session_id = session.session_id
    inside_tmux = bool(front.environment.get("TMUX"))

    def start(work: Coroutine[Any, Any, None]) -> None:
        job = asyncio.get_running_loop().create_task(work)
        jobs.add(job)
        job.add_done_callback(forget)

    def forget(job: asyncio.Task[None]) -> None:
        jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            _log.error("a command failed", exc_info=error)
            front.print(NoteBlock("error", describe_failure(error)))

    def switch(reference: str) -> None:
        front.switch_to = reference
        front.previous = session_id
        front.stop.set()

    def reopen(trusted: bool) -> None:
        front.trusted = front.trusted or trusted
        switch(session_id if any(task.history for task in session.board.tasks.values()) else "")

    return ScreenActions(
        print=front.print,
        hint=screen.hint,
        redraw=screen.redraw,
        clear=screen.clear,
        leave=screen.leave,
        put=lambda text: screen.put(text, over=True),
        give_back=lambda text: screen.put(text, over=False),
        edit=screen.edit,
        expand=screen.expand,
        start=start,
        switch_session=switch,
        reopen=reopen,
        copy=lambda text: screen.write(clipboard(text, inside_tmux=inside_tmux)),
        theme=lambda name: _switch_theme(front, session, name),
    )


async def _switch_theme(front: Front, session: Session, name: str) -> str:
    """Switch the theme and save it in buddy's own settings file; return a text for the user. Without a name,
    only the text. Raises `ConfigError` when it can't be saved."""
    display = session.settings.display
    if not name:
        return f"theme {front.theme or display.theme}, color {display.color}"
    front.theme = name
    is_seen = front.screen.theme(name)
    path = os.path.join(session.launch.where.config, "settings.toml")

    def set_theme(table: dict[str, Any]) -> None:
        table["display"] = {**table.get("display", {}), "theme": name}

    await asyncio.to_thread(change_settings, path, set_theme)
    unseen = "" if is_seen else "; there are no colours here (the terminal, NO_COLOR or [display] color)"
    return f"theme {name}, saved in {path}{unseen}"


def clipboard(text: str, *, inside_tmux: bool) -> str:
    """Return the sequence that copies text to the terminal's clipboard (OSC 52), also over ssh. tmux swallows
    it unless it is wrapped."""
    sequence = f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07"
    return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\" if inside_tmux else sequence
