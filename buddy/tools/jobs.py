"""Looking after commands that run in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from buddy.agent.display import Command, Plain
from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolContext, ToolError, ToolResult, any_access, no_access, tool
from buddy.tools.shell import ending_note, serves_inside, tail_for_display
from buddy.workspace.elsewhere import machine_of
from buddy.workspace.processes.jobs import Job, Jobs, JobStatus
from buddy.workspace.processes.output import from_character, whole_characters
from buddy.workspace.processes.terminal import JobTerminal

READ_BYTES = 50_000
LONGEST_WAIT_S = 60.0


@tool(anywhere=True, risk="low", category="shell", access=no_access, aliases=("jobs",))
async def list_jobs(ctx: ToolContext) -> ToolResult:
    """List commands that run in the background, and those that ended lately."""
    jobs = ctx.service(Jobs).all()
    lines = [job_line(job) for job in jobs]
    running = sum(job.state != "ended" for job in jobs)
    summary = f"{running} running, {len(jobs) - running} ended"
    return ToolResult("\n".join(lines) or "no jobs", Plain(summary, "\n".join(lines)))


def job_line(job: JobStatus) -> str:
    """Describe a job in one line."""
    state = "running" if job.exit is None else ending_note(job.exit)
    if job.state == "shell ended":
        state += ", processes it started still run"
    terminal = ", terminal" if job.has_terminal else ""
    facts = f"{job.seconds:.0f} s, {format_count(job.bytes_written, 'byte')}{terminal}"
    command = " ".join(job.command.split())[:200]
    where = f", on {job.machine}" if job.machine else ""
    return f"job {job.id}: {state} ({facts}, task {job.task_id}{where}): {command}"


@tool(
    anywhere=True,
    risk="low",
    category="shell",
    access=no_access,
    aliases=("job_output", "read_output", "bash_output"),
    argument_aliases={"job_id": "job", "id": "job", "bash_id": "job"},
)
async def read_job(ctx: ToolContext, job: int, offset: int = 0, wait: float = 0) -> ToolResult:
    """Read what a job wrote, from byte `offset` on (negative: from the end); the result says what comes
    next. `wait`: seconds, at most 60, for it to write something new or to end."""
    jobs = ctx.service(Jobs)
    found = jobs.get(job)
    if wait > 0 and offset >= 0:
        await jobs.news(found, offset=offset, wait_s=min(wait, LONGEST_WAIT_S), cancelled=ctx.cancelled)
    start, data = await found.log.read(offset, READ_BYTES)
    text, start, end = _as_text(start, data, more=start + len(data) < found.log.total)
    total = found.log.total
    status = found.status()
    skipped = (
        f" (bytes {offset}–{start} were not kept)" if offset >= 0 and start > min(offset, total) + 3 else ""
    )
    serving = await asyncio.to_thread(serves_inside, found)
    note = f"bytes {start}–{end} of {total}{skipped}; next offset {end}. {job_line(status)}{serving}"
    exit_code = status.exit.code if status.exit else None
    display = Command(found.command, tail_for_display(text), exit_code, status.state, status.seconds)
    return ToolResult(f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}[{note}]", display)


def _as_text(start: int, data: bytes, *, more: bool) -> tuple[str, int, int]:
    """Return text of whole characters, and the range of bytes it stands for."""
    whole = from_character(data) if start else data
    start += len(data) - len(whole)
    if more:
        whole = whole_characters(whole)
    return whole.decode("utf-8", "replace"), start, start + len(whole)


def _for_job(words: Callable[[Any], str]) -> Callable[[ToolContext, Any], Plain]:
    """Return the preview of a call about a job: its program stands where its number says nothing."""

    def preview(ctx: ToolContext, arguments: Any) -> Plain:
        job = ctx.service(Jobs).get(arguments.job)
        where = f" on {job.machine}" if job.machine else ""
        return Plain(words(arguments), f"job {job.id} runs{where}: {job.command}")

    return preview


def _for_typing(words: Callable[[Any], str]) -> Callable[[ToolContext, Any], Plain]:
    """Return the preview of a call that types into a job; one that can't is refused before a question."""
    preview = _for_job(words)

    def check_first(ctx: ToolContext, arguments: Any) -> Plain:
        _terminal(ctx, arguments.job)
        return preview(ctx, arguments)

    return check_first


@tool(
    anywhere=True,
    risk="medium",
    category="shell",
    access=no_access,
    preview=_for_job(lambda arguments: f"stop job {arguments.job}"),
    aliases=("kill_job", "kill_shell"),
    argument_aliases={"job_id": "job", "id": "job", "shell_id": "job"},
)
async def stop_job(ctx: ToolContext, job: int) -> ToolResult:
    """End a job with every process it started."""
    jobs = ctx.service(Jobs)
    found = jobs.get(job)
    if found.status().state == "ended":
        return ToolResult(f"already ended. {job_line(found.status())}", Plain(f"job {job} had ended"))
    ending = await jobs.stop(job)
    if ending.survivors:
        ids = ", ".join(str(pid) for pid in ending.survivors)
        raise ToolError(f"job {job} was told to end, but the system still holds processes {ids}")
    how = "had to be killed" if ending.forced else "ended"
    return ToolResult(f"job {job} {how} after {ending.seconds:.1f} s", Plain(f"stopped job {job}"))


@tool(
    anywhere=True,
    risk="high",
    category="shell",
    access=any_access,
    preview=_for_typing(lambda arguments: f"type into job {arguments.job}: {arguments.text!r}"),
    effect="it types into a running command",
    aliases=("write_stdin",),
    argument_aliases={"job_id": "job", "id": "job", "input": "text", "chars": "text", "data": "text"},
)
async def write_job(ctx: ToolContext, job: int, text: str) -> ToolResult:
    """Type text into a job that runs on a terminal. A line is sent with its line end: "yes\\n"."""
    terminal = _terminal(ctx, job)
    await terminal.write(text.replace("\n", "\r").encode("utf-8", "replace"))
    return ToolResult(
        f"typed {format_count(len(text), 'character')} into job {job}", Plain(f"typed into job {job}", text)
    )


@tool(
    anywhere=True,
    risk="high",
    category="shell",
    access=any_access,
    preview=_for_typing(lambda arguments: f"press in job {arguments.job}: {' '.join(arguments.keys)}"),
    effect="it types into a running command",
    argument_aliases={"job_id": "job", "id": "job", "key": "keys"},
)
async def send_keys(ctx: ToolContext, job: int, keys: list[str]) -> ToolResult:
    """Press keys in a job that runs on a terminal: names like "Enter", "Up", "C-c", "M-x", "F5", or single
    characters, in order."""
    terminal = _terminal(ctx, job)
    await terminal.write(terminal.encode(tuple(keys)))
    pressed = " ".join(keys)
    return ToolResult(
        f"pressed {format_count(len(keys), 'key')} in job {job}", Plain(f"pressed keys in job {job}", pressed)
    )


@tool(
    anywhere=True,
    risk="low",
    category="shell",
    access=no_access,
    aliases=("capture_screen",),
    argument_aliases={"job_id": "job", "id": "job"},
)
async def capture_pane(ctx: ToolContext, job: int) -> ToolResult:
    """Show the screen of a job that runs on a terminal, as it is now."""
    found = ctx.service(Jobs).get(job)
    if found.terminal is None:
        raise ToolError(_no_terminal(found))
    screen = "\n".join(await found.terminal.screen())
    text = f"{screen}\n[{job_line(found.status())}]"
    return ToolResult(text, Plain(f"screen of job {job}", screen))


def _terminal(ctx: ToolContext, number: int) -> JobTerminal:
    """Return the terminal to type into. It is on the machine the task works on: that is the one whose rules
    the call was judged by, and which the question names."""
    found = ctx.service(Jobs).get(number)
    here = machine_of(ctx)
    if found.machine != here:
        raise ToolError(
            f"job {found.id} runs on {found.machine or 'this machine'}, and this task works on "
            f"{here or 'this machine'}: nothing was typed. stop_job ends it; the person goes there with "
            f"/target {found.machine or 'local'}"
        )
    if found.terminal is None:
        raise ToolError(_no_terminal(found))
    return found.terminal


def _no_terminal(job: Job) -> str:
    return f"job {job.id} does not run on a terminal; use read_job, or start it with run_shell(pty=true)"
