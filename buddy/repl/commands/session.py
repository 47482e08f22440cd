"""Commands about sessions and the conversation: resuming, naming, clearing, compacting, exporting, serving a
page."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from itertools import pairwise

from buddy.agent.budget import TokenMeter, message_tokens
from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.formatting import format_count, whole_number
from buddy.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from buddy.agent.tool import ToolRegistry
from buddy.repl.commands.models import session_cost
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.render import numbers as words
from buddy.repl.view.blocks import NoteBlock, PlainText, TableBlock, TaskHeading
from buddy.repl.view.replay import blocks_of
from buddy.safety.sanitise import visible
from buddy.sessions.errors import FolderError, SessionError
from buddy.sessions.export import ExportFormat, export_session
from buddy.sessions.listing import SessionSummary
from buddy.tasks.board import TaskBoard
from buddy.tasks.dependencies import ModelAccess
from buddy.tasks.summarise import CompactionFigures, compact_task, compaction_figures, uncompact_task
from buddy.tools.search_tools import declared_tokens

MAX_LISTED = 30


@command(
    family="session",
    usage="[list|resume [ID]|show ID|fork [ID]|new|delete ID]",
    aliases=("sessions",),
    choices=("list", "resume", "show", "fork", "new", "delete"),
    completes=("session",),
)
async def session(context: Context, argument: str) -> None:
    """List the sessions of this folder, or switch to another one"""
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
    summaries = await asyncio.to_thread(context.session.store.list)
    rows = tuple(
        _row(summary, here=summary.session_id == context.session.session_id)
        for summary in summaries[:MAX_LISTED]
    )
    context.screen.print(TableBlock(("", "session", "last", "tasks", "what"), rows))
    context.screen.hint("/session resume ID switches to one")
    for _what, where in _worktrees(context):
        context.screen.print(NoteBlock("hint", f"this session also works in the worktree {where}"))
    tasks = context.board.tasks.values()
    for shown in dict.fromkeys(task.workspace.target_shown for task in tasks if task.workspace.target):
        context.screen.print(NoteBlock("hint", f"this session also works on {visible(shown)}"))


def _row(summary: SessionSummary, *, here: bool) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.last_at))
    marks = "" if here else summary.marks()
    what = f"{summary.name or summary.title}{f' ({marks})' if marks else ''}"
    return ("▸" if here else " ", summary.session_id, at, str(summary.tasks), what)


async def _resume(context: Context, reference: str) -> None:
    if not reference:
        await _offer_sessions(context)
        return
    session_id = await _find_session(context, reference, but=context.session.session_id)
    if session_id == context.session.session_id:
        raise CommandError("You are already in that session.")
    obstacle = await asyncio.to_thread(_explain_obstacle, context, session_id)
    if obstacle:
        raise CommandError(
            f"{obstacle}. /session show {session_id} shows it, /session fork {session_id} continues "
            f"in a copy."
        )
    _leave_for(context, session_id)


async def _offer_sessions(context: Context) -> None:
    """Print the sessions to choose from, and put the command into the line, where Tab completes their ids."""
    summaries = await asyncio.to_thread(context.session.store.list)
    others = [one for one in summaries if one.session_id != context.session.session_id and not one.foreign]
    if not others:
        raise CommandError("there is no other session in this folder")
    rows = tuple(_row(summary, here=False) for summary in others[:MAX_LISTED])
    context.screen.print(TableBlock(("", "session", "last", "tasks", "what"), rows))
    context.screen.hint("which one? an ID (Tab completes it), a name, or last")
    context.screen.put("/session resume ")


async def _find_session(context: Context, reference: str, *, but: str = "") -> str:
    """Return the id of the session; "last" is the newest one except `but`."""
    try:
        if reference == "last":
            return await asyncio.to_thread(_newest, context, but)
        return os.path.basename(await asyncio.to_thread(context.session.store.find, reference))
    except SessionError as error:
        raise CommandError(str(error)) from error


def _newest(context: Context, but: str) -> str:
    for summary in context.session.store.list():
        if not summary.foreign and summary.session_id != but:
            return summary.session_id
    raise SessionError("there is no other session in this folder")


def _explain_obstacle(context: Context, session_id: str) -> str:
    """Explain why a session can't be resumed, "" when it can; checked before this session is closed."""
    for summary in context.session.store.list():
        if summary.session_id == session_id:
            if summary.foreign:
                return f"Session {session_id} was not made by you on this machine"
            if summary.newer:
                return f"Session {session_id} was written by a newer buddy"
            if summary.locked:
                return f"Session {session_id} is open in another buddy"
    return ""


async def _show(context: Context, reference: str) -> None:
    """Print a session without opening it."""
    if not reference:
        raise CommandError("Which session? /session show ID. /session lists them.")
    try:
        loaded = await asyncio.to_thread(context.session.store.read, reference)
    except (SessionError, OSError) as error:
        raise CommandError(str(error)) from error
    for saved in loaded.tasks:
        context.screen.print(TaskHeading(saved.record.task_id, saved.record.task.title))
        record, task = saved.record, saved.record.task
        copied, copy_of = task.copied, task.copy_of
        context.screen.print(
            *blocks_of(record.history, record.task_id, record.receipt, copied=copied, copy_of=copy_of)
        )
    context.screen.print(
        NoteBlock("info", f"That was session {reference}, not opened. /session resume {reference} opens it.")
    )


async def _fork(context: Context, reference: str) -> None:
    """Continue in a copy of a session, by default this one."""
    await context.session.writer.journal.flush()
    session_id = await _find_session(context, reference) if reference else context.session.session_id
    try:
        copy = await asyncio.to_thread(context.session.store.fork, session_id)
    except SessionError as error:
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
            NoteBlock("warning", f"Cancelled: task {numbers}. After a resume, /continue continues it.")
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
    except SessionError as error:
        raise CommandError(str(error)) from error
    context.screen.print(NoteBlock("info", f"session {os.path.basename(folder)} is deleted"))


@command(family="session", usage="ID|NAME|last", completes=("session",), essential=True)
async def resume(context: Context, argument: str) -> None:
    """Switch to another session of this folder"""
    await _resume(context, argument or "last")


@command(family="session", usage="[ID]")
async def fork(context: Context, argument: str) -> None:
    """Continue in a copy of this session; the original stays unchanged"""
    await _fork(context, argument)


@command(family="session", destructive=True, essential=True)
async def new(context: Context, argument: str) -> None:
    """Start a new session; this one can be resumed"""
    _new(context)


@command(family="session", usage="NAME")
async def rename(context: Context, argument: str) -> None:
    """Name this session"""
    if not argument:
        raise CommandError("expected a name: /rename parser rewrite")
    journal = context.session.writer
    await journal.rename(name=argument, title=journal.state().title)
    context.screen.hint(f"this session is now called {argument!r}")


@command(family="session", destructive=True)
async def reset(context: Context, argument: str) -> None:
    """Clear the foreground conversation; the journal keeps its messages"""
    context.board.reset(context.focus)
    context.screen.print(NoteBlock("info", "Conversation cleared. The model starts without it."))


@command(family="session", usage="[FOCUS|show|undo]", essential=True)
async def compact(context: Context, argument: str) -> None:
    """Summarise the older part of the conversation; `show` prints the summary, `undo` restores the full
    text"""
    board, task_id = context.board, context.focus
    if argument == "undo":
        await uncompact_task(board, task_id)
        context.screen.print(
            NoteBlock("info", "Compaction undone: the model gets the whole conversation again.")
        )
        return
    if argument == "show":
        _show_compaction(context, compaction_figures(board.task(task_id)))
        return
    with context.own.register("/compact") as work:
        try:
            await run_cancellable(compact_task(board, task_id, argument), work.cancelled)
        except TurnCancelled:
            context.screen.print(
                NoteBlock("info", "Not compacted: cancelled. The model gets the whole conversation.")
            )
            return
    _show_compaction(context, compaction_figures(board.task(task_id)))


def _show_compaction(context: Context, figures: CompactionFigures) -> None:
    sentence = (
        f"Compacted: the first {format_count(figures.messages, 'message')} went from "
        f"{figures.tokens_before:,} to "
        f"about {figures.tokens_after:,} tokens. {format_count(figures.kept, 'message')} (your "
        f"words, the last "
        "turns) stay as they were. /compact undo reverses it."
    )
    context.screen.print(NoteBlock("info", sentence))
    context.screen.print(
        PlainText(figures.summary or "No summary was needed: only old tool results were left out.")
    )


@command(family="session", essential=True)
async def context_(context: Context, argument: str) -> None:
    """Show what fills the model's context"""
    task = context.board.task(context.focus)
    parts = context.board.parts
    meter = task.meter
    kinds: dict[str, float] = {
        "system prompt and instructions": len(task.system_prompt(context.board.parts)) / 4
    }
    tools = context.board.tools_of(context.focus)
    kinds["tools"] = declared_tokens(tools.list_all())
    for message in task.history:
        kind = _kind(message)
        kinds[kind] = kinds.get(kind, 0) + message_tokens(message)
    limit = meter.window.limit
    used = meter.context_tokens or round(sum(kinds.values()))
    shares = _split_total(used, list(kinds.values()))
    rows = [
        (kind, words.tokens(count), f"{count / limit:.1%}") for kind, count in zip(kinds, shares, strict=True)
    ]
    rows.append(("in use", words.tokens(used), f"{used / limit:.1%}"))
    rows.append(("limit" + (" (a guess)" if meter.window.guessed else ""), words.tokens(limit), ""))
    context.screen.print(TableBlock(("what", "tokens", "of the window"), tuple(rows)))
    explanation = "The total is what the model counted; the rows are estimates."
    context.screen.print(
        NoteBlock("hint", explanation if meter.context_tokens else "All numbers are estimates.")
    )
    for name in context.session.instruction_names:
        context.screen.print(NoteBlock("hint", f"instructions: {name}"))
    if tools.deferred():
        context.screen.print(NoteBlock("hint", _offer(tools, task.loaded_tools)))
    statistics = parts.cache.statistics()
    if statistics.hits or statistics.misses:
        summary = f"tool results: {statistics.hits:,} from the cache, {statistics.misses:,} looked up"
        context.screen.print(NoteBlock("hint", summary))


def _offer(tools: ToolRegistry, loaded: Sequence[str]) -> str:
    present = [name for name in loaded if tools.get(name) is not None]
    found = f" (found so far: {', '.join(map(visible, present))})" if present else ""
    return (
        f"tools: {len(tools.list_all())} in every request{found}, {len(tools.deferred())} more "
        f"({words.tokens(declared_tokens(tools.deferred()))} tokens) when search_tools finds them"
    )


def _split_total(total: int, estimates: list[float]) -> list[int]:
    """Split a total into whole numbers in proportion to the estimates."""
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
    more = (
        "" if argument else " /export FILE.html or FILE.json writes another format to a file of your choice."
    )
    hint = f"Known secrets are left out; read it before you share it.{more}"
    context.screen.print(NoteBlock("hint", hint))


def _exports(context: Context) -> str:
    try:
        return context.session.store.make_exports_folder()
    except FolderError as error:
        raise CommandError(str(error)) from error


async def _write_new(target: str, text: str) -> None:
    import aiofiles  # imported here: few sessions are exported

    def private(path: str, flags: int) -> int:
        return os.open(path, flags, 0o600)

    try:
        async with aiofiles.open(target, "x", encoding="utf-8", errors="replace", opener=private) as file:
            await file.write(text)
    except FileExistsError:
        raise CommandError(f"{target} already exists; choose another name") from None
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
        ("trusted", "yes" if session.launch.trusted else "no (/trust shows what trusting would enable)"),
        ("model", _model(access)),
        ("context", _describe_context(task.meter)),
        ("used", _describe_usage(board)),
        ("mode", session.policy.mode),
        ("sandbox", "; ".join(session.sandbox.status.lines())),
        ("instructions", ", ".join(session.instruction_names) or "none"),
        ("tools", str(len(board.parts.tools.list_all()))),
        ("jobs", str(len(session.jobs.all()))),
    )
    context.screen.print(TableBlock((), rows))


def _worktrees(context: Context) -> tuple[tuple[str, str], ...]:
    """Return the worktrees of the session's tasks, with their branches."""
    trees = {
        task.task_id: task.workspace.worktree
        for task in context.board.tasks.values()
        if task.workspace.worktree is not None and os.path.isdir(task.workspace.worktree.path)
    }
    return tuple(
        ("worktree", f"{tree.display_path} (task {task_id}, {tree.branch})")
        for task_id, tree in trees.items()
    )


def _describe_context(meter: TokenMeter) -> str:
    used, limit = meter.context_tokens, meter.window.limit
    return f"{words.tokens(used)} of {words.tokens(limit)} tokens ({used / limit:.0%})"


def _describe_usage(board: TaskBoard) -> str:
    """Describe the session's usage; dollars as far as prices are known."""
    dollars, known = session_cost(board)
    return f"{words.tokens(board.spending()[1])} tokens, {words.cost(dollars, known=known)}"


def _model(access: ModelAccess) -> str:
    if access.provider.lane == "none":
        return "none: set one with -m, /model or buddy init"
    guess = ", a guess" if access.window.guessed else ""
    return f"{access.name} ({access.provider.lane} lane, {access.window.limit:,} tokens{guess})"


@command(family="session", usage="[PORT|off]", choices=("off",))
async def serve(context: Context, argument: str) -> None:
    """Show this session as a page in a browser of this machine; /serve off ends it"""
    if argument == "off":
        was_served = await context.page.stop()
        context.screen.print(NoteBlock("info", "The page is closed." if was_served else "There is no page."))
        return
    port = whole_number(argument) if argument else 0
    if port is None or not 0 <= port < 65_536:
        raise CommandError(f"expected /serve, /serve PORT (0 to 65535) or /serve off, found {argument!r}")
    address = await context.page.start(port)
    ending = "Who has this address can do what you can; /serve off closes the page."
    context.screen.print(NoteBlock("info", f"{address}\n{ending}"))
