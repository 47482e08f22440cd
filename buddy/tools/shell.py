"""Running commands in a shell."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from buddy.agent.display import Command
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolContext, ToolError, ToolResult, any_access, tool
from buddy.safety.paths import Boundary, locate
from buddy.safety.sanitise import visible
from buddy.workspace.elsewhere import TargetShell, machine_of, target_shell
from buddy.workspace.files.approved_versions import Approved, confinement_of
from buddy.workspace.processes.child import Child, Exit
from buddy.workspace.processes.jobs import Job, Jobs
from buddy.workspace.processes.launch import TerminalSize, shell_argv
from buddy.workspace.processes.limits import NO_LIMITS, ProcessLimits, limit_reached
from buddy.workspace.processes.output import ProgressFeed
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest

DURATION = pattern(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|sec|m|min|h)?\s*", re.IGNORECASE)
UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "": 1}
SHOWN_CHARS = 16_000
FIRST_LOOK_S = 0.3
"""How long a command that goes to the background is watched, so that one that fails at once says so."""


class ShellSettings(msgspec.Struct, frozen=True):
    """Time limits for a command: the default, and the longest a call may ask for."""

    time_limit_s: float = 120.0
    longest_s: float = 3600.0
    terminal: TerminalSize = TerminalSize()


def _preview(ctx: ToolContext, arguments: Any) -> Command:
    shell = target_shell(ctx)
    how = " on a terminal" if arguments.pty else ""
    if shell is not None:
        folder = f", in {visible(arguments.cwd)}" if arguments.cwd else ""
        return Command(arguments.command, f"runs on {shell.shown}{folder}{how}", None, "", 0.0)
    folder = locate(ctx.service(Boundary), arguments.cwd or ".").real
    return Command(arguments.command, runs_in(ctx, folder) + how, None, "", 0.0)


def runs_in(ctx: ToolContext, folder: str) -> str:
    """Return the place of a command as an approval shows it, "" for the top of the workspace."""
    return "" if folder == ctx.service(Boundary).root else f"runs in {visible(folder)}"


@tool(
    anywhere=True,
    risk="high",
    core=True,
    category="shell",
    confined=True,
    access=any_access,
    preview=_preview,
    command=lambda arguments: arguments.command,
    change_name="command",
    aliases=(
        "bash",
        "shell",
        "run_command",
        "execute_command",
        "run_terminal_cmd",
        "terminal",
        "local_shell",
    ),
    argument_aliases={
        "cmd": "command",
        "script": "command",
        "code": "command",
        "timeout_s": "timeout",
        "timeout_seconds": "timeout",
        "run_in_background": "background",
        "is_background": "background",
        "workdir": "cwd",
        "working_directory": "cwd",
        "dir": "cwd",
        "tty": "pty",
    },
)
async def run_shell(
    ctx: ToolContext,
    command: str,
    wait: bool | float | str = True,
    timeout: float | None = None,
    cwd: str = "",
    background: bool = False,
    pty: bool = False,
) -> ToolResult:
    """Run a command with bash; stdin is empty. Each starts in the working directory or `cwd`: a `cd` does not
    last. `wait`: how long for, like "10m", or false, as `background`: true; `timeout`: that in seconds. What
    is not done by then goes on as a job (read_job, stop_job). `pty`: true starts a job on a terminal
    (send_keys, capture_pane). Long output is cut in the middle; the result names the file with all of it.
    """
    settings = ctx.find(ShellSettings) or ShellSettings()
    if not command.strip():
        raise ToolError("the command is empty; give the command line to run")
    shell = target_shell(ctx)
    if shell is not None:
        if pty:
            return await _on_terminal_there(ctx, shell, command, cwd, settings)
        limit_s = FIRST_LOOK_S if background else _limit_s(wait, timeout, settings)
        return await _run_there(ctx, shell, command, cwd, limit_s)
    boundary = ctx.service(Boundary)
    folder = locate(boundary, cwd).real if cwd else boundary.cwd
    approved = ctx.find(Approved)
    if approved is not None:
        if cwd:
            approved.check_path(ctx.call_id, cwd, folder)
        await asyncio.to_thread(approved.check_scripts, ctx.call_id, boundary)
    request = CommandRequest(
        shell_argv(command),
        folder,
        ctx.task_id,
        env=_required_environment(ctx),
        confinement=confinement_of(ctx),
        only_reads=approved is not None and approved.only_reads(ctx.call_id),
    )
    if pty:
        return await _on_terminal(ctx, request, command, settings)
    limit_s = FIRST_LOOK_S if background else _limit_s(wait, timeout, settings)
    return await _run(ctx, request, command, limit_s)


def _required_environment(ctx: ToolContext) -> Mapping[str, str]:
    """Return the environment variables this call's command must run with, so that its judgement holds."""
    approved = ctx.find(Approved)
    return approved.environment(ctx.call_id) if approved is not None else {}


def _limit_s(wait: bool | float | str, timeout: float | None, settings: ShellSettings) -> float:
    """Return seconds to wait before the command becomes a job. Raises `ToolError` for a duration it cannot
    read."""
    wanted = timeout
    if isinstance(wait, str):
        word = wait.strip().lower()
        if word in ("false", "no"):
            return FIRST_LOOK_S
        if word not in ("true", "yes", ""):
            wanted = duration_s(wait)
    elif wait is False:
        return FIRST_LOOK_S
    elif wait is not True:
        wanted = wait
    if wanted is None or wanted <= 0:
        return settings.time_limit_s
    return min(wanted, settings.longest_s)


def duration_s(text: str) -> float:
    """Parse "90", "90s", "10m", "1.5h" or "500ms" as seconds. Raises `ToolError`."""
    found = DURATION().fullmatch(text)
    if found is None:
        raise ToolError(
            f'expected true, false or a duration like "30s" or "10m" for wait, found {text[:40]!r}'
        )
    return float(found[1]) * UNITS[(found[2] or "").lower()]


async def _run(ctx: ToolContext, request: CommandRequest, command: str, limit_s: float) -> ToolResult:
    children = ctx.service(ChildProcesses)
    return await _attend(ctx, children.start(request), command, limit_s, children.limits_of(request))


async def _run_there(
    ctx: ToolContext, shell: TargetShell, command: str, cwd: str, limit_s: float
) -> ToolResult:
    """Run a command on another machine; only its client here is a child of this one."""
    started = await shell.start(ctx, command, cwd, in_background=limit_s <= FIRST_LOOK_S)
    result = await _attend(ctx, started.child, command, limit_s, NO_LIMITS)
    note = started.note() if started.child.exit is not None else started.advice
    return msgspec.structs.replace(result, text=f"{result.text}\n[{note}]") if note else result


async def _attend(
    ctx: ToolContext, child: Child, command: str, limit_s: float, limits: ProcessLimits
) -> ToolResult:
    children, jobs = ctx.service(ChildProcesses), ctx.service(Jobs)
    feed = ProgressFeed(ctx.progress)
    child.listeners.append(feed.feed)
    try:
        ended = await children.attend(child, timeout_s=limit_s, cancelled=ctx.cancelled)
    finally:
        child.listeners.remove(feed.feed)
        feed.close()
    if ended is not None and not ended.left_running:
        return _exit_result(command, child, ended, limits)
    job = jobs.adopt(child, command=command, task_id=ctx.task_id, machine=machine_of(ctx))
    return _goes_on(job, ended, limits)


def _exit_result(command: str, child: Child, ended: Exit, limits: ProcessLimits) -> ToolResult:
    text = child.log.text()
    note, limit = ending_note(ended, limits, text), _limit_of(ended, limits, text)
    display = Command(command, tail_for_display(text), ended.code, ended.signal, ended.seconds, limit)
    return ToolResult(_append_note(text, note), display, ok=ended.code == 0, blocked=child.blocked_accesses)


def ending_note(ended: Exit, limits: ProcessLimits = NO_LIMITS, text: str = "") -> str:
    """Describe how a command ended; given its output, also the limit it seems to have reached."""
    how = f"ended by {ended.signal}" if ended.signal else "its exit code is not known"
    if ended.code is not None:
        how = f"exit code {ended.code}"
    if ended.lost:
        how = f"{ended.lost}: how it ended is not known"
    limit = _limit_of(ended, limits, text)
    return f"{how}, {ended.seconds:.1f} s{f'; {limit}' if limit else ''}"


def _limit_of(ended: Exit, limits: ProcessLimits, text: str) -> str:
    if ended.stopped_for == "output limit":
        return "it wrote more than is kept, so it was stopped"
    if ended.stopped_for:
        return f"stopped: {ended.stopped_for}"
    return limit_reached(limits, ended.code, ended.signal, text)


def _goes_on(job: Job, ended: Exit | None, limits: ProcessLimits) -> ToolResult:
    text = job.log.text()
    seconds = job.child.seconds
    call = f"job={job.id}"
    read = f"read_job({call}, offset={job.log.total}) shows what comes next, stop_job({call}) ends it"
    if ended is None:
        note = f"still running after {seconds:.1f} s; it goes on in the background as job {job.id}. {read}"
        note += serves_inside(job)
        ports = ", ".join(map(str, job.child.ports_inside))
        inside = f", serves {ports} inside the sandbox only" if ports else ""
        display = Command(
            job.command, tail_for_display(text), None, f"running as job {job.id}{inside}", seconds
        )
        return ToolResult(_append_note(text, note), display)
    how = ending_note(ended, limits, text)
    note = f"{how}; processes it started are still running: they are job {job.id}. {read}"
    ending = f"left job {job.id} running"
    return ToolResult(
        _append_note(text, note),
        Command(job.command, tail_for_display(text), ended.code, ending, seconds),
        ok=ended.code == 0,
        blocked=job.child.blocked_accesses,
    )


def serves_inside(job: Job) -> str:
    """Tell the model about ports that the person's browser cannot reach; "" where there are none. Walks over
    the processes where the command serves something."""
    ports = job.child.ports_inside
    if not ports:
        return ""
    served = f"port{'s' if len(ports) > 1 else ''} {', '.join(map(str, ports))}"
    return (
        f". It serves {served} inside the sandbox: commands here reach that, the person's browser does not; "
        'an allow rule of the person with sandbox = "off" runs a command outside'
    )


async def _on_terminal(
    ctx: ToolContext, request: CommandRequest, command: str, settings: ShellSettings
) -> ToolResult:
    env = {**request.env, "TERM": "xterm-256color"}
    with_terminal = msgspec.structs.replace(request, terminal=settings.terminal, env=env)
    job = ctx.service(Jobs).start(with_terminal, command=command)
    return await _first_screen(ctx, job, ctx.service(ChildProcesses).limits_of(request))


async def _on_terminal_there(
    ctx: ToolContext, shell: TargetShell, command: str, cwd: str, settings: ShellSettings
) -> ToolResult:
    """Run a command on a terminal of another machine."""
    started = await shell.start_terminal(ctx, command, cwd, settings.terminal)
    job = ctx.service(Jobs).adopt(
        started.child,
        command=command,
        task_id=ctx.task_id,
        terminal=settings.terminal,
        machine=machine_of(ctx),
    )
    result = await _first_screen(ctx, job, NO_LIMITS)
    note = started.note() if started.child.exit is not None else ""
    return msgspec.structs.replace(result, text=f"{result.text}\n[{note}]") if note else result


async def _first_screen(ctx: ToolContext, job: Job, limits: ProcessLimits) -> ToolResult:
    await ctx.service(ChildProcesses).attend(job.child, timeout_s=FIRST_LOOK_S, cancelled=ctx.cancelled)
    screen = "\n".join(await job.terminal.screen()) if job.terminal else ""
    if job.child.exit is not None:
        return _exit_result(job.command, job.child, job.child.exit, limits)
    call = f"job={job.id}"
    note = f"running on a terminal as job {job.id}: capture_pane({call}), send_keys({call}, keys=[…])"
    return ToolResult(
        _append_note(screen, note),
        Command(job.command, tail_for_display(screen), None, f"running as job {job.id}", job.child.seconds),
    )


def tail_for_display(text: str) -> str:
    """Shorten an output for display: its end, when it is long."""
    if len(text) <= SHOWN_CHARS:
        return text
    return f"[… {format_count(len(text) - SHOWN_CHARS, 'character')} before this …]\n{text[-SHOWN_CHARS:]}"


def _append_note(text: str, note: str) -> str:
    between = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{between}[{note}]"
