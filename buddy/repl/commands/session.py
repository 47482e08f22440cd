"""Commands about the session and the conversation: coming back, naming, emptying, shortening, exporting."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import pairwise

from buddy.agent.budget import TokenMeter, message_tokens
from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.formatting import format_count
from buddy.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from buddy.repl.commands.models import session_cost
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.render import numbers as words
from buddy.repl.view.blocks import NoteBlock, PlainText, TableBlock, TaskHeading
from buddy.repl.view.replay import blocks_of
from buddy.sessions.export import ExportFormat, export_session
from buddy.sessions.folder import FolderError
from buddy.sessions.listing import SessionSummary
from buddy.sessions.lock import LockedError
from buddy.sessions.store import SessionError
from buddy.tasks.board import TaskBoard
from buddy.tasks.dependencies import ModelAccess
from buddy.tasks.summarise import CompactionFigures, compact_task, compaction_figures, uncompact_task


@command(
    family="session",
    usage="[list|resume ID|show ID|fork [ID]|new|delete ID]",
    aliases=("sessions",),
    choices=("list", "resume", "show", "fork", "new", "delete"),
    completes=("session",),
)
async def session(context: Context, argument: str) -> None:
    """List the sessions of this folder, or go to another one"""
    what, _, rest = argument.partition(" ")
    match what:
        case "" | "list":
            await _list(context)
        case "resume":
            await _resume(context, rest.strip())
        case "show":
            await _show(context, rest.strip())
        case "fork":
            await _fork(context, rest.strip())
        case "new":
            _new(context)
        case "delete":
            await _delete(context, rest.strip())
        case _:
            raise CommandError(f"expected list, resume ID, show ID, fork, new or delete ID, found {what!r}")


async def _list(context: Context) -> None:
    found = await asyncio.to_thread(context.session.store.list)
    rows = tuple(_row(one, here=one.session_id == context.session.session_id) for one in found[:30])
    context.screen.print(TableBlock(("", "session", "last", "tasks", "what"), rows))
    context.screen.hint("/session resume ID goes to one")
    for _what, where in _worktrees(context):
        context.screen.print(NoteBlock("hint", f"this session works in the worktree {where} too"))


def _row(one: SessionSummary, *, here: bool) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_at))
    marks = "" if here else one.marks()
    what = f"{one.name or one.title}{f' ({marks})' if marks else ''}"
    return ("▸" if here else " ", one.session_id, at, str(one.tasks), what)


async def _resume(context: Context, reference: str) -> None:
    if not reference:
        raise CommandError("Which session? /session resume ID, a name, or last. /session lists them.")
    session_id = await _found(context, reference, but=context.session.session_id)
    if session_id == context.session.session_id:
        raise CommandError("You are in that session.")
    why = await asyncio.to_thread(_why_not, context, session_id)
    if why:
        raise CommandError(
            f"{why}. /session show {session_id} shows it, /session fork {session_id} continues in a copy."
        )
    _leave_for(context, session_id)


async def _found(context: Context, reference: str, *, but: str = "") -> str:
    """The id of the session that is meant; "last" is the newest one but this."""
    try:
        if reference == "last":
            return await asyncio.to_thread(_newest, context, but)
        return os.path.basename(await asyncio.to_thread(context.session.store.find, reference))
    except (SessionError, FolderError) as error:
        raise CommandError(str(error)) from error


def _newest(context: Context, but: str) -> str:
    for one in context.session.store.list():
        if not one.foreign and one.session_id != but:
            return one.session_id
    raise SessionError("there is no other session in this folder")


def _why_not(context: Context, session_id: str) -> str:
    """Why a session can't be gone on with, "" when it can: asked before this one is left."""
    for one in context.session.store.list():
        if one.session_id == session_id:
            if one.foreign:
                return f"Session {session_id} was not made by you on this machine"
            if one.newer:
                return f"Session {session_id} was written by a newer buddy"
            if one.locked:
                return f"Session {session_id} is open in another buddy"
    return ""


async def _show(context: Context, reference: str) -> None:
    """Look at a session without opening it."""
    if not reference:
        raise CommandError("Which session? /session show ID. /session lists them.")
    try:
        loaded = await asyncio.to_thread(context.session.store.read, reference)
    except (SessionError, FolderError, OSError) as error:
        raise CommandError(str(error)) from error
    for one in loaded.tasks:
        context.screen.print(TaskHeading(one.record.task_id, one.record.task.title))
        kept, task = one.record, one.record.task
        copied, copy_of = task.copied, task.copy_of
        context.screen.print(
            *blocks_of(kept.history, kept.task_id, kept.receipt, copied=copied, copy_of=copy_of)
        )
    context.screen.print(
        NoteBlock(
            "info", f"That was session {reference}, shown only. /session resume {reference} goes on with it."
        )
    )


async def _fork(context: Context, reference: str) -> None:
    """Go on in a copy of a session, this one by default."""
    await context.session.writer.journal.flush()
    wanted = await _found(context, reference) if reference else context.session.session_id
    try:
        copy = await asyncio.to_thread(context.session.store.fork, wanted)
    except (SessionError, FolderError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"the copy can't be written: {error.strerror}") from error
    _leave_for(context, copy)


def _new(context: Context) -> None:
    is_begun = any(task.history for task in context.board.tasks.values())
    back = f"; /session resume {context.session.session_id} goes back to the one before"
    context.screen.print(NoteBlock("info", f"a new session{back if is_begun else ''}"))
    _leave_for(context, "")


def _leave_for(context: Context, reference: str) -> None:
    running = [task.task_id for task in context.board.tasks.values() if task.running]
    if running:
        numbers = ", ".join(map(str, running))
        context.screen.print(
            NoteBlock("warning", f"Cancelled: task {numbers}. After a resume, /continue goes on with it.")
        )
    context.screen.switch_session(reference)


async def _delete(context: Context, reference: str) -> None:
    if not reference:
        raise CommandError("Which session? /session delete ID. /session lists them.")
    try:
        folder = await asyncio.to_thread(context.session.store.find, reference)
        if os.path.basename(folder) == context.session.session_id:
            raise CommandError("You are in this session. Leave it with /new, then delete it.")
        await asyncio.to_thread(context.session.store.delete, reference)
    except (SessionError, LockedError) as error:
        raise CommandError(str(error)) from error
    context.screen.print(NoteBlock("info", f"session {os.path.basename(folder)} is deleted"))


@command(family="session", usage="ID|NAME|last", completes=("session",), essential=True)
async def resume(context: Context, argument: str) -> None:
    """Go to another session of this folder"""
    await _resume(context, argument or "last")


@command(family="session", usage="[ID]")
async def fork(context: Context, argument: str) -> None:
    """Go on in a copy of this session; the original stays as it is"""
    await _fork(context, argument)


@command(family="session", destructive=True, essential=True)
async def new(context: Context, argument: str) -> None:
    """Begin a new session; this one can be resumed"""
    _new(context)


@command(family="session", usage="NAME")
async def rename(context: Context, argument: str) -> None:
    """Name this session"""
    if not argument:
        raise CommandError("expected a name: /rename parser rewrite")
    memory = context.session.writer
    await memory.rename(name=argument, title=memory.state().title)
    context.screen.hint(f"this session is called {argument!r}")


@command(family="session", destructive=True)
async def reset(context: Context, argument: str) -> None:
    """Empty the conversation in front; the journal keeps what was said"""
    context.board.reset(context.focus)
    context.screen.print(NoteBlock("info", "Conversation emptied. The model starts without it."))


@command(family="session", usage="[FOCUS|show|undo]", essential=True)
async def compact(context: Context, argument: str) -> None:
    """Let the model summarise the older part of the conversation; `show` shows it, `undo` takes it back"""
    board, number = context.board, context.focus
    if argument == "undo":
        await uncompact_task(board, number)
        context.screen.print(NoteBlock("info", "Compaction undone: the whole conversation is sent again."))
        return
    if argument == "show":
        _show_compaction(context, compaction_figures(board.task(number)))
        return
    with context.own.register("/compact") as work:
        try:
            await run_cancellable(compact_task(board, number, argument), work.cancelled)
        except TurnCancelled:
            context.screen.print(
                NoteBlock("info", "Not compacted: you cancelled it. The whole conversation is sent.")
            )
            return
    _show_compaction(context, compaction_figures(board.task(number)))


def _show_compaction(context: Context, seen: CompactionFigures) -> None:
    said = (
        f"Compacted: the first {format_count(seen.messages, 'message')} went from {seen.tokens_before:,} to "
        f"about {seen.tokens_after:,} tokens. {format_count(seen.kept, 'message')} (your words, the last "
        "turns) stay as they were. /compact undo reverses it."
    )
    context.screen.print(NoteBlock("info", said))
    context.screen.print(
        PlainText(seen.summary or "No summary was needed: only old tool results were left out.")
    )


@command(family="session", essential=True)
async def context_(context: Context, argument: str) -> None:
    """Show what fills the model's context"""
    task = context.board.task(context.focus)
    parts = context.board.parts
    meter = task.meter
    kinds: dict[str, float] = {"system prompt and instructions": len(task.workspace.system) / 4}
    kinds["tools"] = (
        sum(len(str(one.parameters)) + len(one.description) for one in parts.tools.list_all()) / 4
    )
    for message in task.history:
        kind = _kind(message)
        kinds[kind] = kinds.get(kind, 0) + message_tokens(message)
    limit = meter.window.limit
    used = meter.context_tokens or round(sum(kinds.values()))
    shares = _shared(used, list(kinds.values()))
    rows = [
        (kind, words.tokens(count), f"{count / limit:.1%}") for kind, count in zip(kinds, shares, strict=True)
    ]
    rows.append(("in use", words.tokens(used), f"{used / limit:.1%}"))
    rows.append(("limit" + (" (a guess)" if meter.window.guessed else ""), words.tokens(limit), ""))
    context.screen.print(TableBlock(("what", "tokens", "of the window"), tuple(rows)))
    counted = "The total is what the model counted; the rows are estimates."
    context.screen.print(NoteBlock("hint", counted if meter.context_tokens else "All numbers are estimates."))
    for name in context.session.instruction_names:
        context.screen.print(NoteBlock("hint", f"instructions: {name}"))
    kept = parts.cache.statistics()
    if kept.hits or kept.misses:
        said = f"tool results: {kept.hits:,} from the cache, {kept.misses:,} looked up"
        context.screen.print(NoteBlock("hint", said))


def _shared(total: int, estimates: list[float]) -> list[int]:
    """A total in whole parts as large beside each other as the estimates."""
    scale = total / (sum(estimates) or 1)
    ends = [round(sum(estimates[:count]) * scale) for count in range(len(estimates) + 1)]
    return [after - before for before, after in pairwise(ends)]


def _kind(message: Message) -> str:
    match message:
        case UserMessage():
            return "you"
        case AssistantMessage():
            return "the model"
        case ToolMessage():
            return f"results of {message.name}"


@command(family="session", usage="[FILE.md|.html|.json]", completes=("path",))
async def export(context: Context, argument: str) -> None:
    """Write the session to a file, without known secrets"""
    kinds: dict[str, ExportFormat] = {".md": "markdown", ".html": "html", ".json": "json"}
    kind = kinds.get(os.path.splitext(argument)[1].lower()) if argument else "markdown"
    if kind is None:
        raise CommandError(f"expected a file ending in .md, .html or .json, found {argument!r}")
    session_id = context.session.session_id
    if argument:
        target = os.path.normpath(os.path.join(context.boundary.cwd, os.path.expanduser(argument)))
    else:
        folder = await asyncio.to_thread(_exports, context)
        target = os.path.join(folder, f"{time.strftime('%Y-%m-%d-%H%M%S')}-{session_id}.md")
    text = await asyncio.to_thread(
        export_session, context.session.writer.state(), kind, context.board.parts.redact_text
    )
    await _write_new(target, text)
    context.screen.print(NoteBlock("info", f"written: {target}"))
    more = "" if argument else " /export FILE.html or FILE.json writes another form where you want it."
    hint = f"Known secrets are left out; read it before you share it.{more}"
    context.screen.print(NoteBlock("hint", hint))


def _exports(context: Context) -> str:
    try:
        return context.session.store.make_exports_folder()
    except FolderError as error:
        raise CommandError(str(error)) from error


async def _write_new(target: str, text: str) -> None:
    import aiofiles  # here: few sessions are exported

    def private(path: str, flags: int) -> int:
        return os.open(path, flags, 0o600)

    try:
        async with aiofiles.open(target, "x", encoding="utf-8", errors="replace", opener=private) as file:
            await file.write(text)
    except FileExistsError:
        raise CommandError(f"{target} is there already; give another name") from None
    except OSError as error:
        raise CommandError(f"{target} can't be written: {error.strerror}") from error


@command(family="session")
async def status(context: Context, argument: str) -> None:
    """Show the session, the model, the mode and what is loaded"""
    session, board = context.session, context.board
    task = board.task(board.focus)
    access = board.parts.model(task.model)
    rows = (
        ("session", session.session_id),
        ("saved", "yes" if session.writer.save_state.saved else f"NO: {session.writer.save_state.reason}"),
        ("workspace", context.boundary.root),
        *_worktrees(context),
        ("trusted", "yes" if session.launch.trusted else "no (/trust says what of it would be in force)"),
        ("model", _model(access)),
        ("context", _filled(task.meter)),
        ("used", _used(board)),
        ("mode", session.policy.mode),
        ("sandbox", "; ".join(session.sandbox.status.lines())),
        ("instructions", ", ".join(session.instruction_names) or "none"),
        ("tools", str(len(board.parts.tools.list_all()))),
        ("jobs", str(len(session.jobs.all()))),
    )
    context.screen.print(TableBlock((), rows))


def _worktrees(context: Context) -> tuple[tuple[str, str], ...]:
    """The worktrees of the session's tasks, with the branch each is on."""
    found = {
        task.task_id: task.workspace.worktree
        for task in context.board.tasks.values()
        if task.workspace.worktree is not None and os.path.isdir(task.workspace.worktree.path)
    }
    return tuple(
        ("worktree", f"{tree.display_path} (task {number}, {tree.branch})") for number, tree in found.items()
    )


def _filled(meter: TokenMeter) -> str:
    used, limit = meter.context_tokens, meter.window.limit
    return f"{words.tokens(used)} of {words.tokens(limit)} tokens ({used / limit:.0%})"


def _used(board: TaskBoard) -> str:
    """Describe the session's usage; dollars as far as prices are known."""
    dollars, known = session_cost(board)
    return f"{words.tokens(board.spending()[1])} tokens, {words.cost(dollars, known=known)}"


def _model(access: ModelAccess) -> str:
    if access.provider.lane == "none":
        return "none: set one with -m, /model or buddy init"
    guess = ", a guess" if access.window.guessed else ""
    return f"{access.name} ({access.provider.lane} lane, {access.window.limit:,} tokens{guess})"
