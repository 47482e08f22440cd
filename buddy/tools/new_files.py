"""The content of files that git does not track yet, as a diff for the person: bounded, without secrets."""

from __future__ import annotations

import asyncio

from buddy.agent.display import Diff, FileDiff
from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.paths import Boundary, locate
from buddy.tools.changing import difference
from buddy.tools.git import git_run, path_arguments, succeeded
from buddy.workspace.files import load
from buddy.workspace.git import run_git

MAX_FILES = 20
MAX_BYTES = 100_000
MAX_LINES = 200


async def new_files(ctx: ToolContext, path: str = "") -> tuple[Diff, int]:
    """New files below a path, each up to its first lines, and how many more there are. Raises `ToolError`."""
    run = git_run(ctx)
    arguments = ("ls-files", "-z", "--others", "--exclude-standard")
    done = await run_git(run, (*arguments, *path_arguments(ctx, (path,), run.repository)), "read")
    names = [name for name in succeeded(done).split("\0") if name]
    shown = await asyncio.to_thread(_diffs, ctx.service(Boundary), names[:MAX_FILES])
    return Diff(tuple(shown)), max(0, len(names) - MAX_FILES)


def _diffs(boundary: Boundary, names: list[str]) -> list[FileDiff]:
    return [_diff(boundary, name) for name in names]


def _diff(boundary: Boundary, name: str) -> FileDiff:
    found = locate(boundary, name)
    if found.secret:
        return FileDiff(name, "add", f"not shown: {found.secret}\n", 0, 0)
    if not found.inside:
        return FileDiff(name, "add", "not shown: it lies outside the workspace\n", 0, 0)
    try:
        loaded = load(found.real, found.shown, max_bytes=MAX_BYTES)
    except (ToolError, OSError):
        return FileDiff(name, "add", f"not shown: no text file of at most {MAX_BYTES:,} bytes\n", 0, 0)
    data = loaded.data if loaded is not None else b""
    lines = data.splitlines(keepends=True)
    whole = difference(b"", b"".join(lines[:MAX_LINES]))
    missing = len(lines) - MAX_LINES
    more = f"… {missing:,} more lines\n" if missing > 0 else ""
    return FileDiff(name, "add", whole.diff + more, max(whole.added, len(lines) if more else 0), 0)
