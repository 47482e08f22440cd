"""Running a project's tests and reading what came out."""

from __future__ import annotations

import os
import shlex
from typing import Any

import msgspec

from buddy.agent.display import Command
from buddy.agent.tool import Access, Survey, ToolContext, ToolError, ToolResult, tool
from buddy.safety.paths import Boundary, locate
from buddy.tools.shell import ending_note, runs_in, tail_for_display
from buddy.workspace.files.approved_versions import confinement_of
from buddy.workspace.processes.limits import NO_LIMITS, ProcessLimits
from buddy.workspace.processes.output import ProgressFeed
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest, FinishedCommand
from buddy.workspace.test_runners import ENVIRONMENT, ResultReader, Suite, SuiteCounts, SuiteName, find_suite

LONGEST_S = 3600.0
NAMED_FAILURES = 30


def _access(_arguments: Any) -> Access:
    return Access(reads=(".",), writes=(".",))


def _preview(ctx: ToolContext, arguments: Any) -> Command:
    folder = _folder(ctx.service(Boundary), arguments.cwd)
    suite = find_suite(folder, arguments.target, arguments.framework)
    return Command(shlex.join(suite.argv), runs_in(ctx, folder), None, "", 0.0)


def _survey(boundary: Boundary, arguments: Any) -> Survey:
    """Return the command line that would run: it is what an answer of the person is about."""
    folder = _folder(boundary, arguments.cwd)
    return Survey(argv=find_suite(folder, arguments.target, arguments.framework).argv)


@tool(
    risk="high",  # it runs the project's code
    risk_in_sandbox="medium",
    confined=True,
    runs_tests=True,
    effect="it runs the project's tests",
    survey=_survey,
    category="shell",
    access=_access,
    preview=_preview,
    aliases=("test", "run_test"),
    argument_aliases={"path": "target", "test": "target", "filter": "target", "directory": "cwd"},
)
async def run_tests(
    ctx: ToolContext,
    target: str = "",
    framework: SuiteName | None = None,
    cwd: str = "",
    timeout: float = 600,
) -> ToolResult:
    """Run the project's tests with the runner it uses: how many passed, failed and were skipped, and which
    failed. `target`: a file, folder or test as the runner names it; `cwd`: a subfolder with a project of its
    own; `timeout`: seconds."""
    folder = _folder(ctx.service(Boundary), cwd)
    suite = find_suite(folder, target, framework)
    reader, feed = ResultReader(), ProgressFeed(ctx.progress)

    def listen(data: bytes) -> None:
        reader.feed(data)
        feed.feed(data)

    children = ctx.service(ChildProcesses)
    limit_s = min(timeout, LONGEST_S) if timeout > 0 else LONGEST_S
    try:
        done = await children.run(
            CommandRequest(suite.argv, folder, ctx.task_id, env=ENVIRONMENT, confinement=confinement_of(ctx)),
            timeout_s=limit_s,
            cancelled=ctx.cancelled,
            listener=listen,
        )
    finally:
        feed.close()
    return _result(suite, done, reader.counts(), children.settings.limits)


def _folder(boundary: Boundary, cwd: str) -> str:
    if not cwd:
        return boundary.cwd
    located = locate(boundary, cwd)
    if not located.inside or not os.path.isdir(located.real):
        raise ToolError(f"expected a folder inside the workspace as cwd, found {located.shown}")
    return located.real


def _result(suite: Suite, done: FinishedCommand, counts: SuiteCounts, limits: ProcessLimits) -> ToolResult:
    summary = summary_line(suite.name, done, counts, limits)
    failures = "".join(f"  {name}\n" for name in counts.failures[:NAMED_FAILURES])
    more = len(counts.failures) - NAMED_FAILURES
    listed = f"failed:\n{failures}" if failures else ""
    listed += f"  … and {more} more\n" if more > 0 else ""
    display = Command(
        shlex.join(suite.argv),
        f"{summary}\n{listed}\n{tail_for_display(done.text)}",
        done.exit.code,
        done.exit.signal,
        done.exit.seconds,
    )
    return ToolResult(f"{summary}\n{listed}\n{done.text}", display, ok=done.ok, blocked=done.blocked)


def summary_line(
    name: str, done: FinishedCommand, counts: SuiteCounts, limits: ProcessLimits = NO_LIMITS
) -> str:
    """Return the outcome in one line."""
    said = f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
    if not counts.known:
        said = "no test counts in the output"
    limit = ", stopped at the time limit" if done.timed_out else ""
    ended = msgspec.structs.replace(done.exit, stopped_for="") if done.timed_out else done.exit
    return f"{said} ({name}, {ending_note(ended, limits, done.text)}{limit})"
