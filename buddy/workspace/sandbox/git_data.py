"""Git's own data in a workspace: where it lies, and which files in it make git run programs.

A repository need not be a `.git` folder. A `.git` file or link names another folder, submodules and linked
worktrees have folders inside, and git takes any folder with the right entries for a repository without
working tree.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Collection, Iterator, Sequence

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.git_keys import starts_program
from buddy.safety.git_repository import git_folders, read_regular, shared_folder
from buddy.workspace.processes.launch import trusted_program
from buddy.workspace.sandbox.profile import is_at_or_below

BARE_ENTRIES = frozenset({"head", "objects", "refs"})
"""Entries, in lower case, by which git takes a folder for a repository."""
MAX_FOLDERS = 1_000
"""Folders with git's data that are looked at; where there are more, the rest is not guarded."""
_MAX_CONFIG_BYTES = 1_000_000
_CONFIG_LIMIT_S = 5.0
_PARTIAL_CLONE = ("extensions.partialclone", ".promisor", ".partialclonefilter")
"""Keys of a clone that gets objects later. They decide when something is fetched, not by which program."""

PROTECTED = ("hooks", "config", "config.worktree", "info", "objects/info", "commondir", "gitdir")
"""Entries of git's folder that run programs or lead elsewhere; the rest is what `git commit` writes."""
_PROTECTED_OF_WORKTREE = ("commondir", "config.worktree", "hooks")
_FILES = (
    *("config", "config.worktree", "commondir", "gitdir", "info/attributes"),
    *("objects/info/alternates", "objects/info/http-alternates"),
)
"""Files of a repository that make git run programs or look elsewhere. Its hooks are found by their folder."""
_FILES_OF_WORKTREE = ("commondir", "config.worktree")
REBASE = "rebase-merge/git-rebase-todo"
"""The steps of a rebase. `git rebase -x` has commands in it while it runs."""
_RUNS_COMMAND = pattern(rb"(?m)^[ \t]*(?:exec|x)[ \t]")


class GitData(msgspec.Struct, frozen=True):
    """Places of git's data. `folders`: real paths within the roots. `astray`: files and links that lead git
    elsewhere, where nothing is guarded. `rest`: repositories that were too many to look at."""

    folders: tuple[str, ...]
    astray: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


def git_data(repositories: Sequence[str], roots: Sequence[str], most: int = MAX_FOLDERS) -> GitData:
    """Find every folder with git's data that these repositories lead to. `repositories` are folders, or
    `.git` files and links."""
    found: dict[str, None] = {}
    astray: list[str] = []
    waiting = [(path, path) for path in reversed(repositories)]
    while waiting and len(found) < most:
        source, path = waiting.pop()
        is_away = not _is_within(os.path.realpath(source), roots)
        if os.path.isfile(path):
            path = git_folders(os.path.dirname(path))[0]
        folder = os.path.realpath(path)
        if is_away or not _is_within(folder, roots):
            astray.append(source)
        elif folder not in found and os.path.isdir(folder):
            found[folder] = None
            waiting += [(os.path.join(folder, "commondir"), shared) for shared in shared_folder(folder)]
            waiting += [(inner, inner) for inner in (*_worktrees(folder), *_modules(folder))]
    return GitData(tuple(found), tuple(astray), tuple(source for source, _ in waiting))


def protected_entries(folder: str) -> Iterator[str]:
    """Yield the entries of one of the folders with git's data that commands must not change."""
    names = _PROTECTED_OF_WORKTREE if _is_worktree(folder) else PROTECTED
    return (os.path.join(folder, name) for name in names)


def risky_files(folder: str) -> Iterator[str]:
    """Yield the files of one of the folders with git's data that make git run programs or look elsewhere."""
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
    """Tell whether one of the `risky_files` of a new repository is as git itself makes it: `git init`, `git
    clone`, `git submodule add` and `git worktree add` work in the sandbox. None of them has a second name,
    by which it could be changed later."""
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
            return True  # they start nothing without a configuration that does
        case _:
            return False


def _is_within(path: str, roots: Sequence[str]) -> bool:
    return any(is_at_or_below(path, root) for root in roots)


def _is_worktree(folder: str) -> bool:
    """Tell whether git takes the settings of another folder for this one's, whose own do not count."""
    return os.path.basename(os.path.dirname(folder)) == "worktrees" and bool(shared_folder(folder))


def _worktrees(folder: str) -> Iterator[str]:
    return _folders_in(os.path.join(folder, "worktrees"))


def _modules(folder: str) -> Iterator[str]:
    """Yield the folders of submodules, whose names may have several parts. Those of nested ones come when
    their parent is looked at."""
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
    """Tell whether a configuration starts programs. One that cannot be read counts as such."""
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
        return not _is_within(os.path.realpath(os.path.join(folder, value)), roots)
    return starts_program(key, value) and not key.endswith(_PARTIAL_CLONE)


def is_bare(names: Collection[str]) -> bool:
    """Tell whether git takes a folder with these entries (in lower case) for a repository."""
    return BARE_ENTRIES.issubset(names)
