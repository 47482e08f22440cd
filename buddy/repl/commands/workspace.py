"""Commands about the workspace: changes, questions, tools, trust, jobs, the machine to work on."""

from __future__ import annotations

import asyncio
import os

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count
from buddy.agent.messages import Call
from buddy.agent.tool import ToolContext, ToolError
from buddy.app.session import Session
from buddy.repl.commands.changes import log_of
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.commands.tasks import job_blocks, task_id_of
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, PlainText, TableBlock, ToolCall
from buddy.safety.sanitise import visible
from buddy.tasks.task import TaskError
from buddy.tools.ask_user import Unanswered
from buddy.tools.files.task_diff import new_files, task_diff
from buddy.tools.git import git_diff, git_status
from buddy.workspace.processes.process_tree import LeftCommand, end_left, left_commands

NO_COMMIT = "## No commits yet"
LOCAL = "local"


@command(family="workspace", usage="[PATH|@N]", completes=("path",), essential=True)
async def diff(context: Context, argument: str) -> None:
    """Show the changes since the last commit, or (@3) those of a task"""
    if argument.startswith("@"):
        await _diff_of_task(context, task_id_of(context, argument))
        return
    task = context.board.task(context.focus)
    if task.workspace.target:
        raise CommandError(
            f"/diff shows changes on this machine, and task {task.task_id} works on {task.workspace.target}; "
            f"/diff @{task.task_id} shows the task's edits there"
        )
    call_context = ToolContext(task.task_id, "", lambda _text: None, asyncio.Event(), task.services.services)
    try:
        status = await git_status.run(call_context, git_status.arguments(path=argument))
        ref = "" if status.text.startswith(NO_COMMIT) else "HEAD"
        result = await git_diff.run(call_context, git_diff.arguments(path=argument, ref=ref, staged=False))
        added, more = await new_files(call_context, argument)
    except ToolError as error:
        raise CommandError(str(error)) from error
    new = [line[3:] for line in status.text.splitlines() if line.startswith("?? ")]
    call = Call("", git_diff.name, "{}")
    if new:
        context.screen.print(NoteBlock("info", f"new, not yet in git: {', '.join(new)}"))
    if added.files:
        context.screen.print(
            ToolCall(call, "new files", "low", "ok", "", added, 0.0, cached=False, task_id=context.focus)
        )
    if more:
        context.screen.print(
            NoteBlock("hint", f"{format_count(more, 'more new file')}: /diff PATH shows them")
        )
    if isinstance(result.display, Diff) and not result.display.files:
        if not new:
            missing = argument and not os.path.lexists(os.path.join(context.boundary.cwd, argument))
            why = f"there is no {argument}, and " if missing else ""
            context.screen.print(NoteBlock("info", f"{why}nothing changed since the last commit"))
        return
    context.screen.print(
        ToolCall(
            call, "diff", "low", "ok", result.text, result.display, 0.0, cached=False, task_id=context.focus
        )
    )


async def _diff_of_task(context: Context, task_id: int) -> None:
    log, machine = log_of(context, task_id), context.board.task(task_id).workspace.target
    shown = await asyncio.to_thread(task_diff, log, task_id, context.boundary.cwd, machine)
    if not shown.files:
        raise CommandError(f"task {task_id} has no changes that could be shown")
    call = Call("", "diff", "{}")
    title = f"diff of task {task_id}"
    context.screen.print(ToolCall(call, title, "low", "ok", "", shown, 0.0, cached=False, task_id=task_id))


@command(family="tasks", usage="[N] ANSWER", completes=("question",))
async def answer(context: Context, argument: str) -> None:
    """Answer a question of a model with an option's number or your own words"""
    questions = context.session.questions
    if not argument.strip():
        waiting = questions.waiting()
        if not waiting:
            raise CommandError("no question is open")
        context.screen.print(PlainText("\n".join(entry.text() for entry in waiting)))
        return
    try:
        question = questions.answer(_add_number(context, argument.strip()))
    except Unanswered as error:
        raise CommandError(str(error)) from error
    context.screen.hint(f"answered question {question.number} of task {question.task_id}")


def _add_number(context: Context, text: str) -> str:
    """Add the number of the foreground task's question to an answer that names none of several."""
    waiting = context.session.questions.waiting()
    first = text.split(None, 1)[0]
    front = [question for question in waiting if question.task_id == context.focus]
    if len(waiting) < 2 or not front or first.isdecimal():
        return text
    return f"{front[0].number} {text}"


@command(family="workspace", usage="[reload]", choices=("reload",))
async def tools(context: Context, argument: str) -> None:
    """List the tools: risk, category, source; reload: load .buddyx/ext again"""
    if argument.strip() == "reload":
        await _reload_tools(context)
        return
    rows = tuple(
        (tool.name, tool.risk, tool.category, tool.source, _first_sentence(tool.description))
        for tool in context.board.parts.tools.list_all()
    )
    context.screen.print(TableBlock(("tool", "risk", "category", "from", "what"), rows))


def _first_sentence(text: str) -> str:
    """Return the first sentence without the line breaks of the source."""
    first, end, _rest = " ".join(text.split()).partition(". ")
    return first + end.rstrip()


async def _reload_tools(context: Context) -> None:
    plugins = context.session.plugin_tools
    result = await asyncio.to_thread(plugins.load)
    for problem in result.problems:
        context.screen.print(NoteBlock("warning", problem))
    if not plugins.trusted:
        raise CommandError(f"{plugins.folder} is not loaded until you trust this folder (/trust)")
    parts = [f"new or changed: {', '.join(result.added)}"] if result.added else []
    parts += [f"removed: {', '.join(result.removed)}"] if result.removed else []
    context.screen.print(NoteBlock("info", "; ".join(parts) or "plug-ins: nothing changed"))


@command(family="workspace", usage="[show|once|always|no]", choices=("show", "once", "always", "no"))
async def trust(context: Context, argument: str) -> None:
    """Show what this folder would configure; trust it for this run, until it changes, or not"""
    word = {"off": "no"}.get(argument, argument)
    if word not in ("", "show", "once", "always", "no"):
        raise CommandError(f"expected show, once, always or no, found {argument!r}")
    answer = await asyncio.to_thread(context.trust.answer, word)
    context.screen.print(PlainText(answer.text))
    if answer.changes == "no":
        return
    running = [str(task.task_id) for task in context.board.tasks.values() if task.running]
    if running:
        said = f"task {', '.join(running)} is running, so this takes effect in the next session (/new)"
        context.screen.print(NoteBlock("info", said))
    else:
        context.screen.reopen(answer.changes == "once")


@command(family="workspace", usage="[stop N]", choices=("stop",))
async def jobs(context: Context, argument: str) -> None:
    """List the commands that run in the background, or stop one"""
    leftovers = await asyncio.to_thread(left_commands, context.session.session_id)
    if argument:
        await _stop_job(context, argument, leftovers)
        return
    statuses = context.session.jobs.all()
    if not statuses and not leftovers:
        raise CommandError("no job is running")
    context.screen.print(*await asyncio.to_thread(job_blocks, context.session.jobs, statuses, leftovers))


async def _stop_job(context: Context, argument: str, left: tuple[LeftCommand, ...]) -> None:
    names = {f"left{number}": command for number, command in enumerate(left, 1)}
    running = [str(job.id) for job in context.session.jobs.all() if job.state != "ended"]
    word, _, name = argument.partition(" ")
    name = name.strip()
    if word != "stop" or (name not in names and name not in running):
        known = ", ".join((*running, *names)) or "none"
        raise CommandError(f"expected /jobs stop and a job, found {argument[:40]!r}; jobs: {known}")
    if name in running:
        await context.session.jobs.stop(int(name))
        return  # its end is announced
    survivors = await end_left(names[name])
    if survivors is not None:
        raise CommandError(f"the system could not end {survivors.pids}: {survivors.command}")
    context.screen.print(NoteBlock("info", f"ended: {names[name].command}"))


@command(family="workspace")
async def memory(context: Context, argument: str) -> None:
    """Show the instruction files the model got"""
    names = context.session.instruction_names
    context.screen.print(PlainText("\n".join(names) if names else "no instruction files; AGENTS.md is read"))


@command(family="workspace", usage="[NAME|local]")
async def target(context: Context, argument: str) -> None:
    """List the machines to work on; work on one from now on, and connect to it again after a loss"""
    session, name = context.session, argument.strip()
    if not name:
        context.screen.print(TableBlock(("target", "where", "state"), _rows(context)))
        return
    if name != LOCAL and name not in session.settings.targets:
        known = ", ".join((LOCAL, *session.settings.targets))
        raise CommandError(f"there is no target {visible(name)!r} in your buddy.toml; known: {known}")
    task = context.board.task(context.focus)
    if task.running:
        raise CommandError(f"task {task.task_id} is running: wait for it, or cancel it (Esc)")
    if name == LOCAL:
        _move(context, "")
        context.screen.print(NoteBlock("info", f"task {task.task_id} works on this machine"))
        return
    try:
        await session.targets().connect(name)
    except ToolError as error:
        raise CommandError(str(error)) from error
    _move(context, name)
    shown = context.board.task(context.focus).workspace.target_shown
    context.screen.print(
        NoteBlock("info", f"task {task.task_id} works on {visible(shown)}; tasks you start now do, too")
    )


def _move(context: Context, name: str) -> None:
    try:
        context.board.change_target(context.focus, name)
    except TaskError as error:
        raise CommandError(str(error)) from error


def _rows(context: Context) -> tuple[tuple[str, ...], ...]:
    session = context.session
    here = context.board.task(context.focus).workspace.target
    rows = [(_marked(LOCAL, not here), "this machine", "")]
    rows += [(_marked(name, name == here), *_state(session, name)) for name in session.settings.targets]
    if here and here not in session.settings.targets:
        rows.append((_marked(visible(here), True), "", "not in your buddy.toml any more"))
    return tuple(rows)


def _state(session: Session, name: str) -> tuple[str, str]:
    try:
        standing = session.targets().standing(name)
    except ToolError as error:
        return "", str(error)
    state = {"closed": "not connected", "open": "connected", "lost": "lost"}[standing.state]
    return visible(standing.shown), f"{state}: {standing.reason}" if standing.reason else state


def _marked(name: str, is_here: bool) -> str:
    return f"* {name}" if is_here else f"  {name}"
