"""Commands about targets: the machine a task works on."""

from __future__ import annotations

from buddy.agent.tool import ToolError
from buddy.app.session import Session
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.safety.sanitise import visible
from buddy.tasks.task import TaskError

LOCAL = "local"


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
