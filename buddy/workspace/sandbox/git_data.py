"""Git's data in a workspace: its location, and the files in it that make git run programs.

A repository need not be a `.git` folder. A `.git` file or link names another folder, submodules and linked
worktrees have folders inside, and git accepts any folder with the right entries as a repository without a
working tree.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Collection, Iterator, Sequence

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.git_programs import starts_program
from buddy.safety.git_repository import git_folders, read_regular, shared_folder
from buddy.workspace.processes.launch import trusted_program
from buddy.workspace.sandbox.profile import lies_in_any

BARE_ENTRIES = frozenset({"head", "objects", "refs"})
"""Entries, in lower case, that make git accept a folder as a repository."""
MAX_FOLDERS = 1_000
"""Maximum number of git folders to examine; further ones are not guarded."""
_MAX_CONFIG_BYTES = 1_000_000
_CONFIG_LIMIT_S = 5.0
_PARTIAL_CLONE = ("extensions.partialclone", ".promisor", ".partialclonefilter")
"""Keys of a clone that fetches objects later. They decide when something is fetched, not by which program."""

PROTECTED = ("hooks", "config", "config.worktree", "info", "objects/info", "commondir", "gitdir")
"""Entries of a git folder that run programs or lead elsewhere; `git commit` writes only the others."""
_PROTECTED_OF_WORKTREE = ("commondir", "config.worktree", "hooks")
_FILES = (
    *("config", "config.worktree", "commondir", "gitdir", "info/attributes"),
    *("objects/info/alternates", "objects/info/http-alternates"),
)
"""Files of a repository that make git run programs or look elsewhere. Hooks are found by their folder."""
_FILES_OF_WORKTREE = ("commondir", "config.worktree")
REBASE = "rebase-merge/git-rebase-todo"
"""The steps of a running rebase; with `git rebase -x` they contain commands."""
_RUNS_COMMAND = pattern(rb"(?m)^[ \t]*(?:exec|x)[ \t]")


class GitData(msgspec.Struct, frozen=True):
    """The places of git's data. `folders` are real paths within the roots; `astray` are files and links that
    lead git elsewhere, where nothing is guarded; `rest` are repositories beyond the limit."""

    folders: tuple[str, ...]
    astray: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


def git_data(repositories: Sequence[str], roots: Sequence[str], most: int = MAX_FOLDERS) -> GitData:
    """Find every git folder these repositories lead to. `repositories` are folders, or `.git` files and
    links."""
    found: dict[str, None] = {}
    astray: list[str] = []
    waiting = [(path, path) for path in reversed(repositories)]
    while waiting and len(found) < most:
        source, path = waiting.pop()
        is_away = not lies_in_any(os.path.realpath(source), roots)
        if os.path.isfile(path):
            path = git_folders(os.path.dirname(path))[0]
        folder = os.path.realpath(path)
        if is_away or not lies_in_any(folder, roots):
            astray.append(source)
        elif folder not in found and os.path.isdir(folder):
            found[folder] = None
            waiting += [(os.path.join(folder, "commondir"), shared) for shared in shared_folder(folder)]
            waiting += [(inner, inner) for inner in (*_worktrees(folder), *_modules(folder))]
    return GitData(tuple(found), tuple(astray), tuple(source for source, _ in waiting))


def protected_entries(folder: str) -> Iterator[str]:
    """Yield the entries of a git folder that commands must not change."""
    names = _PROTECTED_OF_WORKTREE if _is_worktree(folder) else PROTECTED
    return (os.path.join(folder, name) for name in names)


def risky_files(folder: str) -> Iterator[str]:
    """Yield the files of a git folder that make git run programs or look elsewhere."""
    names = _FILES_OF_WORKTREE if _is_worktree(folder) else _FILES
    yield from (path for name in names if os.path.lexists(path := os.path.join(folder, name)))
    if _RUNS_COMMAND().search(read_regular(rebase := os.path.join(folder, REBASE), _MAX_CONFIG_BYTES)):
        yield rebase
    hooks = os.path.join(folder, "hooks")
    if os.path.islink(hooks):
        yield hooks
        hooks = os.path.realpath(hooks)
    try:
        names = os.listdir(hooks)
    except OSError:
        return
    yield from (os.path.join(hooks, name) for name in names if not name.endswith(".sample"))


def is_usual(path: str, folder: str, roots: Sequence[str]) -> bool:
    """Tell whether one of the `risky_files` of a new repository is as git itself makes it, so that `git
    init`, `git clone`, `git submodule add` and `git worktree add` work in the sandbox. A file with a second
    name is not: it could be changed later through that."""
    with contextlib.suppress(OSError):
        if os.lstat(path).st_nlink > 1:
            return False
    match os.path.relpath(path, folder):
        case "config" | "config.worktree":
            return not _starts_programs(path, folder, roots)
        case "commondir":
            shared = shared_folder(folder)
            return _is_worktree(folder) and shared == (os.path.dirname(os.path.dirname(folder)),)
        case "info/attributes" | "objects/info/alternates" | "objects/info/http-alternates":
            return True  # they run nothing without a matching configuration
        case _:
            return False


def _is_worktree(folder: str) -> bool:
    """Tell whether git reads the settings of another folder for this one and ignores its own."""
    return os.path.basename(os.path.dirname(folder)) == "worktrees" and bool(shared_folder(folder))


def _worktrees(folder: str) -> Iterator[str]:
    return _folders_in(os.path.join(folder, "worktrees"))


def _modules(folder: str) -> Iterator[str]:
    """Yield the folders of submodules, whose names may have several parts. Nested ones are found when their
    parent is examined."""
    waiting = [os.path.join(folder, "modules")]
    for _ in range(MAX_FOLDERS):
        if not waiting:
            return
        for path in _folders_in(waiting.pop()):
            if any(os.path.lexists(os.path.join(path, name)) for name in ("HEAD", "config", "hooks")):
                yield path
            else:
                waiting.append(path)


def _folders_in(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return


def _starts_programs(path: str, folder: str, roots: Sequence[str]) -> bool:
    """Tell whether a configuration starts programs. An unreadable one counts as such."""
    content = read_regular(path, _MAX_CONFIG_BYTES + 1)
    git = trusted_program("git")
    if os.path.islink(path) or not os.path.isfile(path) or len(content) > _MAX_CONFIG_BYTES or git is None:
        return True
    try:
        done = subprocess.run(
            (git, "config", "--null", "--no-includes", "--list", "--file", "-"),
            cwd="/",
            env={"PATH": os.path.dirname(git), "HOME": "/dev/null/nowhere", "LC_ALL": "C"},
            input=content,
            capture_output=True,
            timeout=_CONFIG_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    entries = done.stdout.decode("utf-8", "replace").split("\0")
    settings = [entry.partition("\n")[::2] for entry in entries if entry]
    return done.returncode != 0 or any(_is_risky(key, value, folder, roots) for key, value in settings)


def _is_risky(key: str, value: str, folder: str, roots: Sequence[str]) -> bool:
    if key == "core.worktree":
        return not lies_in_any(os.path.realpath(os.path.join(folder, value)), roots)
    return starts_program(key, value) and not key.endswith(_PARTIAL_CLONE)


def is_bare(names: Collection[str]) -> bool:
    """Tell whether git accepts a folder with these entries (in lower case) as a repository."""
    return BARE_ENTRIES.issubset(names)
