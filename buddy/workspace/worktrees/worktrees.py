"""Worktrees of the project for single tasks: made, looked at, removed.

They lie in `.buddyx/worktrees`, where no search, no status and no checkpoint of the main tree looks: NAME is
the checkout, on the branch `buddy/NAME`, and NAME.state what is kept about it. Nothing the repository names
is run for any of this: no hooks, no filters.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from buddy.agent.json_codec import decode
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.git_repository import git_folders, read_regular
from buddy.safety.paths import remove_tree, replace_file
from buddy.workspace.git.run import GitKind, GitLock, GitRun, Repository, run_git
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, FinishedCommand
from buddy.workspace.processes.termination import run_to_end

FOLDERS = (".buddyx", "worktrees")
BRANCHES = "buddy/"
NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,46}[A-Za-z0-9])?")
_WORD = pattern(r"[a-z0-9]+")
MAX_WORDS = 5
MAX_NAME_CHARS = 32
MAX_TRIES = 100
_MAX_KEPT_BYTES = 10_000
_BOUNDS = OutputBounds(head_bytes=32_000_000)
"""Lists of files are taken apart: a cut one would have other files in it."""


class Worktree(msgspec.Struct, frozen=True):
    """A worktree by its name; whether it is there, `Worktrees.missing` says. `main`: the tree it is of."""

    name: str
    main: str

    @property
    def path(self) -> str:
        """Return the path of the checkout."""
        return os.path.join(self.main, *FOLDERS, self.name)

    @property
    def record_folder(self) -> str:
        """Folder of buddy's records about the worktree."""
        return f"{self.path}.state"

    @property
    def branch(self) -> str:
        """Branch the worktree was made on."""
        return BRANCHES + self.name

    @property
    def display_path(self) -> str:
        """Path of the worktree as displayed, relative to the main tree."""
        return os.path.relpath(self.path, self.main)


class Kept(msgspec.Struct, frozen=True):
    """Record of a worktree's origin: the commit it was made from, and its files at that time as a tree of its
    private repository ("" when unknown)."""

    commit: str
    state: str = ""


class WorktreeStanding(msgspec.Struct, frozen=True):
    """State of a worktree. `changed`: paths that are not committed, with git's two letters; `ahead` and
    `behind` count commits against the main tree; `own` counts the commits only its branch holds."""

    changed: tuple[str, ...]
    ahead: int
    behind: int
    own: int

    @property
    def is_untouched(self) -> bool:
        """Tell whether removing the worktree with its branch loses nothing."""
        return not self.changed and not self.own


class Worktrees:
    """The worktrees of one main tree. `lock` is the one all git operations of the session take."""

    def __init__(self, children: ChildProcesses, main: str, lock: GitLock) -> None:
        self._children = children
        self.main = main
        self._lock = lock

    def by_name(self, name: str) -> Worktree:
        """Return a worktree by its name. Raises `ToolError` for what can't be one."""
        if not NAME().fullmatch(name):
            raise ToolError(
                "expected a name of letters, digits, - and _ (at most 48) for the worktree, "
                f"found {name[:80]!r}"
            )
        return Worktree(name, self.main)

    def all(self) -> tuple[Worktree, ...]:
        """Return all worktrees, by name."""
        with suppress(OSError):
            names = sorted(os.listdir(os.path.join(self.main, *FOLDERS)))
            return tuple(
                tree
                for tree in (Worktree(name, self.main) for name in names if NAME().fullmatch(name))
                if os.path.lexists(os.path.join(tree.path, ".git"))
            )
        return ()

    def missing(self, tree: Worktree) -> str:
        """Return the reason a worktree can't be worked in, "" when it can. Looks at some files."""
        if not os.path.isdir(tree.path) or os.path.islink(tree.path):
            return f"its worktree {tree.display_path} is gone (branch {tree.branch})"
        if not os.path.lexists(os.path.join(tree.path, ".git")):
            return f"{tree.display_path} is no worktree any more: it has no .git"
        shared, own = (os.path.realpath(git_folders(top)[-1]) for top in (self.main, tree.path))
        if shared != own:
            return f"{tree.display_path} belongs to another repository: its .git leads to {own}"
        return ""

    async def uncommitted_paths(self, top: str = "") -> tuple[str, ...]:
        """Return the paths of a working tree (the main one unless given) that are changed and not committed,
        with git's two letters. Raises `ToolError`."""
        return await self._changed_paths(top or self.main)

    async def make(self, wanted: str, *, start: str = "", exact: bool = False) -> Worktree:
        """Return a new worktree from the commit that `start` (a working tree; the main one unless given)
        stands on. `wanted` is its name, or, unless `exact`, words to make one from. Raises `ToolError`; then
        nothing is left of it."""
        async with self._lock:
            commit = await self._head(start or self.main)
            await asyncio.to_thread(_make_folders, self.main)
            tree = await self._free(
                self.by_name(wanted) if exact else Worktree(_slug(wanted), self.main), exact
            )
            try:
                await self._add(tree, commit)
            except (ToolError, asyncio.CancelledError):
                await run_to_end(self._take_back(tree, commit))
                raise
            return tree

    async def standing(self, tree: Worktree) -> WorktreeStanding:
        """Compare a worktree with the main tree. Raises `ToolError`."""
        why = self.missing(tree)
        if why:
            raise ToolError(why)
        changed = await self._changed_paths(tree.path)
        if os.path.lexists(os.path.join(git_folders(tree.path)[0], "modules")):
            changed = (*changed, "?? (submodules of its own)")
        head = await self._head(self.main)
        counts = await self._query(("rev-list", "--left-right", "--count", f"{head}...HEAD"), tree.path)
        behind, ahead = (int(count) for count in counts.split())
        return WorktreeStanding(changed, ahead, behind, await self._own_commits(tree, head))

    async def ignored_of(self, tree: Worktree, paths: Sequence[str]) -> tuple[str, ...]:
        """Return those of these paths that are files git ignores. Raises `ToolError`."""
        options = ("-z", "--others", "--ignored", "--exclude-standard", "--")
        return tuple(filter(None, (await self._query(("ls-files", *options, *paths), tree.path)).split("\0")))

    async def remove(self, tree: Worktree, *, discard: bool = False, untouched: bool = False) -> str:
        """Remove a worktree and, unless it has commits of its own, its branch; `discard`: whatever is lost
        with it; `untouched`: only where nothing is. The last commit of a branch that went, "" when it stays.
        Raises `ToolError`."""
        async with self._lock:
            standing, tip = await self.standing(tree), await self._tip(tree)
            if untouched and not standing.is_untouched:
                raise ToolError(f"{tree.display_path} has changes by now; it stays")
            await self._execute(("worktree", "remove", "--force", tree.path))
            if tip and (discard or not standing.own):
                # Only if it still is what was looked at: a commit made meanwhile is kept.
                await self._execute(("update-ref", "-d", f"refs/heads/{tree.branch}", tip))
            else:
                tip = ""
            await asyncio.to_thread(_remove_folder, tree.record_folder)
            return tip

    async def forget(self, tree: Worktree) -> None:
        """Forget a worktree whose folder is gone; its branch stays. Raises `ToolError`."""
        async with self._lock:
            await self._execute(("worktree", "prune"))
            await asyncio.to_thread(_remove_folder, tree.record_folder)

    # -- the inside ----------------------------------------------------------------------------------------

    async def _head(self, top: str) -> str:
        if not os.path.lexists(os.path.join(self.main, ".git")):
            raise ToolError(
                f"a worktree needs a git repository, and {self.main} is none; git init makes one, "
                "and a first commit what a worktree can start from"
            )
        if os.path.isdir(os.path.join(self.main, ".git")):
            bare = await self._run(("config", "--type=bool", "--get", "core.bare"), self.main, "read")
            if _answer(bare) == "true":
                raise ToolError("the repository is bare: it has no working tree of its own to come back to")
        found = await self._run(("rev-parse", "--verify", "--quiet", "HEAD^{commit}"), top, "read")
        if not found.ok:
            raise ToolError("the repository has no commit yet that a worktree could start from; commit first")
        return _answer(found)

    async def _free(self, tree: Worktree, exact: bool) -> Worktree:
        """Return the worktree, by another name where its path or its branch is taken."""
        for attempt in range(1, MAX_TRIES):
            one = tree if attempt == 1 else Worktree(f"{tree.name}-{attempt}", tree.main)
            taken = [path for path in (one.path, one.record_folder) if os.path.lexists(path)]
            if not taken and not await self._tip(one):
                return one
            if exact:
                found = (
                    f"{one.display_path} is there already"
                    if taken
                    else f"there is a branch {one.branch} already"
                )
                raise ToolError(f"{found}; give the worktree another name")
        raise ToolError(f"there are {MAX_TRIES - 1} worktrees called {tree.name} already; drop some")

    async def _tip(self, tree: Worktree) -> str:
        """Return the last commit of its branch, "" where there is no such branch."""
        name = f"refs/heads/{tree.branch}"
        found = await self._run(("rev-parse", "--verify", "--quiet", name), self.main, "read")
        return _answer(found) if found.ok else ""

    async def _add(self, tree: Worktree, commit: str) -> None:
        try:
            os.mkdir(tree.record_folder, 0o700)
            keep(tree, Kept(commit))
        except OSError as error:
            raise ToolError(f"{tree.record_folder} can't be written: {error.strerror}") from error
        added = await self._run(
            ("worktree", "add", "--no-track", "-b", tree.branch, tree.path, commit), self.main, "inert"
        )
        if not added.ok:
            raise ToolError(_why(added.text))

    async def _take_back(self, tree: Worktree, commit: str) -> None:
        """Remove everything of a worktree that could not be made."""
        with suppress(ToolError, OSError):
            await asyncio.to_thread(_remove_folder, tree.path)
            await asyncio.to_thread(_remove_folder, tree.record_folder)
            await self._run(("worktree", "prune"), self.main, "inert")
            await self._run(("update-ref", "-d", f"refs/heads/{tree.branch}", commit), self.main, "inert")

    async def _own_commits(self, tree: Worktree, head: str) -> int:
        branch = (f"refs/heads/{tree.branch}",) if await self._tip(tree) else ()
        others = (f"--exclude={tree.branch}", "--branches", "--tags", "--remotes")
        kept = read_origin(tree)
        known = (head, kept.commit) if kept is not None else (head,)
        counted = await self._query(
            ("rev-list", "--count", "HEAD", *branch, "--not", *known, *others), tree.path
        )
        return int(counted)

    async def _changed_paths(self, top: str) -> tuple[str, ...]:
        options = "--porcelain -z --no-renames --untracked-files=all --ignore-submodules=dirty"
        return tuple(filter(None, (await self._query(("status", *options.split()), top)).split("\0")))

    async def _query(self, arguments: tuple[str, ...], top: str) -> str:
        done = await self._run(arguments, top, "read")
        if not done.ok:
            raise ToolError(_why(done.text))
        return _answer(done)

    async def _execute(self, arguments: tuple[str, ...]) -> None:
        done = await self._run(arguments, self.main, "inert")
        if not done.ok:
            raise ToolError(_why(done.text))

    def _run(
        self, arguments: tuple[str, ...], top: str, kind: GitKind
    ) -> Coroutine[Any, Any, FinishedCommand]:
        run = GitRun(self._children, Repository(top, top, self.main), 0, asyncio.Event(), _BOUNDS)
        return run_git(run, arguments, kind)


def read_origin(tree: Worktree) -> Kept | None:
    """Read the record of a worktree's origin, None when it is lost."""
    with suppress(msgspec.MsgspecError, ValueError):
        return decode(read_regular(os.path.join(tree.record_folder, "made.json"), _MAX_KEPT_BYTES), Kept)
    return None


def keep(tree: Worktree, kept: Kept) -> None:
    """Write down what is known. Raises `OSError`."""
    replace_file(os.path.join(tree.record_folder, "made.json"), msgspec.json.encode(kept))


def _slug(words: str) -> str:
    """Return a name from what a task is asked."""
    found = _WORD().findall(words.lower())[:MAX_WORDS]
    return "-".join(found)[:MAX_NAME_CHARS].strip("-") or "task"


def _answer(done: FinishedCommand) -> str:
    """Return git's output. Entries of a status may begin with a blank."""
    return done.text.rstrip("\n")


def _why(said: str) -> str:
    """Describe git's failure in one sentence."""
    text = said.strip()
    if "is not a git command" in text or text.startswith("usage:") or "unknown option" in text:
        return "this git is too old for worktrees; 2.17 or newer has what is needed"
    wrong = [line for line in text.splitlines() if line.startswith(("fatal:", "error:"))]
    return f"git could not do it: {'; '.join(wrong)[:1000] or text[:1000] or 'it said nothing'}"


def _make_folders(main: str) -> None:
    """`.buddyx/worktrees`, private, ignored by git; never through a link, which a clone may bring. Raises
    `ToolError`."""
    folder = main
    for name in FOLDERS:
        folder = os.path.join(folder, name)
        try:
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                raise ToolError(f"expected a folder at {folder}, found a link or a file; move it away")
            with suppress(FileExistsError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with open(os.open(os.path.join(folder, ".gitignore"), flags, 0o600), "wb") as file:
                    file.write(b"*\n")
        except OSError as error:
            raise ToolError(f"{folder} can't be made: {error.strerror}") from error


def _remove_folder(path: str) -> None:
    remove_tree(path, ignore_errors=True)
