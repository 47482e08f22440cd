"""Looking at a git repository: nothing here changes it, and nothing the repository names is run."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from buddy.agent.display import Diff, Plain
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.safety.git_repository import explain_outside_data, repository_around
from buddy.safety.paths import Boundary, locate
from buddy.safety.shell.git_objects import Objects, split_path
from buddy.tools.files.rejections import missing
from buddy.workspace.files.approved_versions import confinement_of
from buddy.workspace.files.locks import in_thread
from buddy.workspace.files.store import status_of
from buddy.workspace.git.diff import parse_diff
from buddy.workspace.git.run import GitRun, Repository, RepositoryTrust, find_repository, run_git
from buddy.workspace.processes.pool import ChildProcesses, FinishedCommand

MAX_REF_CHARS = 250
PLAIN_REF = pattern(r"HEAD(?:[~^][0-9]*)*")
"""A ref that can only be a commit."""

MAX_COMMITS = 200
MAX_REMARKS = 3
DIFF_OPTIONS = (
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
    "--submodule=short",
)
ANY_PATH = {"file": "path", "file_path": "path", "filename": "path"}
ANY_REF = {"commit": "ref", "revision": "ref", "rev": "ref", "branch": "ref", "object": "ref"}


def repository_of(ctx: ToolContext) -> Repository:
    """Return the repository of the working directory. Raises `ToolError` where there is none."""
    boundary = ctx.service(Boundary)
    return find_repository(boundary.cwd, boundary.root, boundary.main)


def git_run(ctx: ToolContext) -> GitRun:
    """Build the settings for running git in this call. Raises `ToolError` where the repository leads git
    outside."""
    repository, trusted = repository_of(ctx), is_trusted(ctx)
    _, git_dir = repository_around(repository.cwd)
    outside = explain_outside_data(ctx.service(Boundary), repository.top, git_dir, trusted=trusted)
    if outside:
        raise ToolError(f"git is not run here: {outside}")
    return GitRun(
        ctx.service(ChildProcesses),
        repository,
        ctx.task_id,
        ctx.cancelled,
        trusted=trusted,
        stays_inside=not trusted,
        confinement=confinement_of(ctx),
    )


def is_trusted(ctx: ToolContext) -> bool:
    """Tell whether hooks and filters of the repository may run."""
    trust = ctx.find(RepositoryTrust)
    return trust is not None and trust.trusted


def check_ref(ref: str, what: str = "ref") -> str:
    """Return a name of a commit, branch or range that can be nothing else. Raises `ToolError`."""
    if not ref or ref.startswith("-") or len(ref) > MAX_REF_CHARS:
        raise ToolError(f"expected a commit, branch or range as {what}, found {ref[:80]!r}")
    if any(character.isspace() or ord(character) < 32 or ord(character) == 127 for character in ref):
        raise ToolError(f"expected one name without blanks as {what}, found {ref[:80]!r}")
    return ref


def commit_ref(ref: str) -> str:
    """Return a ref that names commits, not files in them: their content has rules of its own. Raises
    `ToolError`."""
    if ":" in check_ref(ref):
        raise ToolError(
            f"expected a commit, branch or range, found {ref[:80]!r}; git_show shows a file of a commit"
        )
    return ref


def file_of_ref(ref: str) -> str:
    """Return the path in "commit:path" or ":stage:path"; "" where a ref names no file."""
    commit, path = split_path(ref)
    if path is None or (not commit and path.startswith("/")):
        return ""
    if not commit and path[:2] in ("0:", "1:", "2:", "3:"):
        return path[2:]
    return path


def path_arguments(ctx: ToolContext, paths: tuple[str, ...], repository: Repository) -> tuple[str, ...]:
    """Return paths after `--`, so that none can be an option; without any, what keeps git inside the
    workspace."""
    boundary = ctx.service(Boundary)
    located = tuple(locate(boundary, path).path for path in paths if path)
    return ("--", *(located or repository.scope)) if located or repository.scope else ()


def nothing(ctx: ToolContext, said: str, path: str) -> str:
    """Extend the sentence for an empty git result when the path does not exist: it may be misspelled, or a
    pattern."""
    if path:
        boundary = ctx.service(Boundary)
        found = locate(boundary, path)
        if status_of(found.real) is None and not os.path.islink(found.path):
            return f"{said}; {missing(found, boundary)}"
    return said


def output_of(finished: FinishedCommand) -> str:
    """Return git's output. Raises `ToolError` with its message when it failed."""
    if finished.ok:
        return finished.text
    code = finished.exit.code if finished.exit.code is not None else finished.exit.signal
    raise ToolError(f"git failed ({code}): {finished.text.strip()[:4000] or 'it said nothing'}")


def with_remarks(text: str, done: FinishedCommand) -> str:
    """Append git's warnings and errors to its answer for the model; its advice and traces are left out."""
    said = [line for line in done.remarks.splitlines() if line.startswith(("warning: ", "error: "))]
    if not said:
        return text
    more = f"; and {len(said) - MAX_REMARKS} more" if len(said) > MAX_REMARKS else ""
    return f"{text}[git says: {'; '.join(line[:300] for line in said[:MAX_REMARKS])}{more}]\n"


def _reads(arguments: Any) -> Access:
    ref, path = getattr(arguments, "ref", ""), getattr(arguments, "path", "")
    named = [path] if path else []
    if file_of_ref(ref):
        named.append(file_of_ref(ref))
    return Access(reads=tuple(named) or (".",))


@tool(risk="low", category="git", access=_reads, argument_aliases=ANY_PATH, cache_s=5)
async def git_status(ctx: ToolContext, path: str = "") -> ToolResult:
    """Show the branch and the changed, staged and untracked files, as `git status --short` does."""
    run = git_run(ctx)
    arguments = ("status", "--short", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty")
    done = await run_git(run, (*arguments, *path_arguments(ctx, (path,), run.repository)), "read")
    text = output_of(done)
    changed = len(text.splitlines()) - 1
    summary = "clean" if changed <= 0 else format_count(changed, "changed path")
    quiet = "" if changed > 0 else f"{nothing(ctx, 'nothing changed, nothing untracked', path)}\n"
    return ToolResult(with_remarks(text + quiet, done), Plain(summary, text))


@tool(
    risk="low",
    category="git",
    access=_reads,
    argument_aliases={**ANY_PATH, **ANY_REF, "cached": "staged"},
    cache_s=5,
)
async def git_diff(ctx: ToolContext, path: str = "", ref: str = "", staged: bool = False) -> ToolResult:
    """Show changes as a diff: of the working tree, of what is staged, against a commit (`ref`), or between
    two ("main..topic"). `path` limits it to a file or folder."""
    run = git_run(ctx)
    what = ("--staged",) if staged else ()
    against = (commit_ref(ref),) if ref else ()
    if ref:
        await _refuse_content(run, ref)
    paths = path_arguments(ctx, (path,), run.repository) or ("--",)
    done = await run_git(run, ("diff", *DIFF_OPTIONS, *what, *against, *paths), "read")
    return diff_result(ctx, done, named=path, empty=nothing(ctx, "no differences", path))


@tool(
    risk="low",
    category="git",
    access=_reads,
    argument_aliases={**ANY_PATH, **ANY_REF, "n": "limit", "max_count": "limit", "count": "limit"},
    cache_s=60,
)
async def git_log(ctx: ToolContext, path: str = "", ref: str = "", limit: int = 20) -> ToolResult:
    """List commits, newest first: hash, date, author, subject, names that point there. `ref` is where to
    start, or a range; `path` limits it to commits that touch it."""
    run = git_run(ctx)
    count = max(1, min(limit, MAX_COMMITS))
    arguments = (
        "log",
        "--no-color",
        "--no-show-signature",
        "--date=short",
        "--pretty=tformat:%h %ad %an: %s%d",
        f"--max-count={count}",
        *((commit_ref(ref),) if ref else ()),
        *(path_arguments(ctx, (path,), run.repository) or ("--",)),
    )
    done = await run_git(run, arguments, "read")
    text = output_of(done)
    summary = format_count(len(text.splitlines()), "commit")
    told = text or f"{nothing(ctx, 'no commits', path)}\n"
    return ToolResult(with_remarks(told, done), Plain(summary, text))


@tool(risk="low", category="git", access=_reads, argument_aliases={**ANY_PATH, **ANY_REF}, cache_s=60)
async def git_show(ctx: ToolContext, ref: str = "HEAD", path: str = "") -> ToolResult:
    """Show a commit with its changes, or a file as it was: "HEAD~2:src/main.py". `path` limits the changes
    to a file or folder."""
    run = git_run(ctx)
    # A merge is compared with its first parent, whatever log.diffMerges says: that is what it brought.
    options = (
        *DIFF_OPTIONS,
        "-m",
        "--first-parent",
        "--no-show-signature",
        "--date=iso",
        "--stat",
        "--patch",
    )
    name = check_ref(ref)
    if file_of_ref(name):
        _check_named_file(ctx, run.repository, name)
        # git takes "HEAD:a-g1234567" for the object 1234567, whatever file it is.
        _, git_dir = repository_around(run.repository.cwd)
        if (await in_thread(lambda: Objects(git_dir).kinds(name))) - {"commit"}:
            raise _nameless(name)
        text = output_of(await run_git(run, ("show", "--no-color", "--no-textconv", name), "read"))
        return ToolResult(text, Plain(name, text))
    await _refuse_content(run, name)
    paths = path_arguments(ctx, (path,), run.repository) or ("--",)
    done = await run_git(run, ("show", *options, name, *paths), "read")
    if not done.text and done.ok:
        return ToolResult(with_remarks(f"{await _explain_unchanged(ctx, run, name, path)}\n", done), Diff(()))
    result = diff_result(ctx, done, named=path, empty="nothing")
    if any(line.startswith("Merge: ") for line in parse_diff(done.text).prelude.splitlines()):
        return msgspec.structs.replace(
            result, text=f"{result.text}[a merge, compared with its first parent]\n"
        )
    return result


async def _refuse_content(run: GitRun, ref: str) -> None:
    """Raise `ToolError` for a ref that leads to a file's content without its name: names tell secret files
    from others."""
    if PLAIN_REF().fullmatch(ref):
        return
    parsed = await run_git(run, ("rev-parse", "--revs-only", ref), "read")
    for line in dict.fromkeys(parsed.text.split()):
        kind = await run_git(run, ("cat-file", "-t", f"{line.removeprefix('^')}^{{}}"), "read")
        if kind.ok and kind.text.strip() == "blob":
            raise _nameless(ref)


def _nameless(ref: str) -> ToolError:
    return ToolError(
        f"{ref[:80]} is the content of a file without its name; "
        'give the file as "COMMIT:PATH", like "HEAD:src/main.py"'
    )


async def _explain_unchanged(ctx: ToolContext, run: GitRun, name: str, path: str) -> str:
    """Say that a commit changes nothing at a path, and where the file itself is."""
    if not path:
        return f"{name} shows nothing"
    inside = os.path.relpath(locate(ctx.service(Boundary), path).path, run.repository.top)
    said = f"{name} does not change {inside}"
    if ".." not in name and not inside.startswith("../"):
        kind = await run_git(run, ("cat-file", "-t", f"{name}:{inside}"), "read")
        if kind.ok and kind.text.strip() == "blob":
            return f"{said}; the file itself is {name}:{inside}"
    return nothing(ctx, said, path)


def _check_named_file(ctx: ToolContext, repository: Repository, name: str) -> None:
    """Check the path of `commit:path`, which starts at the top of the repository (or, with "./", here).
    Raises `ToolError` for a path outside the workspace."""
    path = file_of_ref(name)
    if ".." in name.replace("../", ""):
        raise ToolError(f"expected one file of one commit, found {name[:80]!r}")
    boundary = ctx.service(Boundary)
    base = boundary.cwd if path.startswith(("./", "../")) else repository.top
    if not locate(boundary, f"{base}/{path}").inside:
        raise ToolError(f"{path[:200]!r} is outside the workspace; its history is not shown")


@tool(risk="low", category="git", argument_aliases={"remote": "remotes", "all": "remotes"}, cache_s=10)
async def git_branch(ctx: ToolContext, remotes: bool = False) -> ToolResult:
    """List branches, the current one with a star: name, commit, what it follows, subject."""
    run = git_run(ctx)
    follows = "%(if)%(upstream)%(then) [%(upstream:short)]%(end)"
    form = f"%(HEAD) %(refname:short) %(objectname:short){follows} %(subject)"
    which = ("--all",) if remotes else ()
    done = await run_git(run, ("branch", "--list", "--no-color", *which, f"--format={form}"), "read")
    text = output_of(done)
    count = len(text.splitlines())
    told = with_remarks(text or "no branches yet\n", done)
    return ToolResult(told, Plain(format_count(count, "branch", "branches"), text))


def diff_result(ctx: ToolContext, done: FinishedCommand, *, named: str, empty: str) -> ToolResult:
    """Return a diff as a result. Files that hold secrets are shown only when they were named."""
    boundary = ctx.service(Boundary)
    top = repository_of(ctx).top

    def secret(path: str) -> str:
        located = locate(boundary, f"{top}/{path}")
        return "" if named and locate(boundary, named).path == located.path else located.secret

    parsed = parse_diff(output_of(done)).without(secret)
    return ToolResult(with_remarks(parsed.text or f"{empty}\n", done), Diff(parsed.files))
