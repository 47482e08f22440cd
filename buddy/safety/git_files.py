"""Files git opens without a look at what they are: a pipe in the place of one makes every git command wait
for ever. A clone cannot bring pipes, an unpacked archive can.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from buddy.agent.pattern import pattern

_HEAD = pattern(r"ref: refs/[^\0\n]+\n*|[0-9a-f]{40}\s*|[0-9a-f]{64}\s*")
IN_FOLDERS = (".gitignore", ".gitattributes", ".mailmap", ".gitmodules")
IN_EVERY_FOLDER = frozenset({".gitignore", ".gitattributes"})
IN_GIT_FOLDER = (
    *("config", "config.worktree", "index", "HEAD", "commondir", "packed-refs", "shallow", "logs/HEAD"),
    *("info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
)

_EXCLUDED = ".git/info/exclude"
"""What a repository leaves out on one machine; search programs read it in every repository they meet."""

MAX_ENTRIES = 10_000
_POINTER = b"gitdir: "
_MAX_POINTER_BYTES = 8192
"""Twice as much as the longest path has."""


def git_folders(top: str) -> tuple[str, ...]:
    """Return the folders where git keeps a repository: the one of this working tree and, in a worktree, the
    one all working trees of the repository share. Runs nothing and never waits."""
    own = os.path.join(top, ".git")
    if not os.path.isdir(own):
        text = read_regular(own, _MAX_POINTER_BYTES)
        if not text.startswith(_POINTER):
            return (own,)
        own = _pointed(top, text.removeprefix(_POINTER))
    return (own, *shared_folder(own))


def is_git_folder(path: str) -> bool:
    """Tell whether git would accept a folder as a repository. Git ignores any other folder, whatever its
    name, and looks further up."""
    head = os.path.join(path, "HEAD")
    try:
        is_head = os.readlink(head).startswith("refs/")
    except OSError:
        is_head = _HEAD().fullmatch(os.fsdecode(read_regular(head, _MAX_POINTER_BYTES))) is not None
    shared = (*shared_folder(path), path)[0]
    return is_head and all(os.path.isdir(os.path.join(shared, name)) for name in ("objects", "refs"))


def find_git_folders(cwd: str) -> tuple[tuple[str, str], ...]:
    """The repositories git may find for a folder, each as its working tree ("" for a bare one) and its data.
    The last one is what git takes; those before it look like repositories and are none to git."""
    found: list[tuple[str, str]] = []
    folder = cwd
    while True:
        candidate = os.path.join(folder, ".git")
        if os.path.isdir(candidate):
            found.append((folder, candidate))
            if is_git_folder(candidate):
                return tuple(found)
        elif os.path.isfile(candidate):  # one that leads nowhere ends git's search
            return (*found, (folder, git_folders(folder)[0]))
        if os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects")):
            return (*found, ("", folder))
        parent = os.path.dirname(folder)
        if parent == folder:
            return tuple(found)
        folder = parent


def repository_around(cwd: str) -> tuple[str, str]:
    """The working tree and the git folder that git takes for a folder, ("", "") outside of repositories."""
    found = find_git_folders(cwd)
    if not found or (found[-1][0] and os.path.isdir(found[-1][1]) and not is_git_folder(found[-1][1])):
        return "", ""
    return found[-1]


def shared_folder(git_dir: str) -> tuple[str, ...]:
    """The folder whose configuration and hooks hold for this one of git's too, () when it is its own."""
    text = read_regular(os.path.join(git_dir, "commondir"), _MAX_POINTER_BYTES)
    return (_pointed(git_dir, text),) if text else ()


def _pointed(folder: str, text: bytes) -> str:
    """The folder a file names, to the letter as git reads it: line ends behind the name are none of it,
    blanks and bytes that are no text are, and the name ends with the first NUL."""
    name = os.fsdecode(text.rstrip(b"\r\n").partition(b"\0")[0])
    return os.path.normpath(os.path.join(folder, name))


def files_that_wait(cwd: str, work_tree: str, git_dir: str) -> tuple[str, ...]:
    """Those of the files git reads for a command in `cwd` that are no files: pipes, sockets, devices."""
    return tuple(path for path in _read_by_git(cwd, work_tree, git_dir) if _waits(path))


def _read_by_git(cwd: str, work_tree: str, git_dir: str) -> Iterator[str]:
    for name in IN_GIT_FOLDER:
        yield os.path.join(git_dir, name)
    folder: str = cwd
    while True:
        for name in IN_FOLDERS:
            yield os.path.join(folder, name)
        above = os.path.dirname(folder)
        if folder in (work_tree, above):
            return
        folder = above


def ignore_files_that_wait(
    cwd: str, roots: Sequence[str], names: frozenset[str], max_entries: int = MAX_ENTRIES
) -> Iterator[str]:
    """Pipes, sockets and devices with one of these names in the folders from `cwd` upwards and beneath the
    roots, where search programs and git read such files. The look ends after `max_entries`."""
    return filter(_waits, _ignore_files(cwd, roots, names, max_entries))


def odd_ignore_files(
    cwd: str, roots: Sequence[str], names: frozenset[str], max_entries: int = MAX_ENTRIES
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that wait, and those that are links: search programs follow links, and print the lines they can't
    read as patterns."""
    found = tuple(_ignore_files(cwd, roots, names, max_entries))
    return tuple(filter(_waits, found)), tuple(filter(os.path.islink, found))


def _ignore_files(cwd: str, roots: Sequence[str], names: frozenset[str], max_entries: int) -> Iterator[str]:
    folder = cwd
    while True:
        yield from (os.path.join(folder, name) for name in (*sorted(names), _EXCLUDED))
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    pending, seen = [os.path.join(cwd, root) for root in roots], 0
    while pending and seen < max_entries:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.name in names:
                        yield entry.path
                    elif entry.name == ".git":
                        yield os.path.join(os.path.dirname(entry.path), _EXCLUDED)
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # what cannot be listed is not searched either


def _waits(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_regular(path: str, max_bytes: int) -> bytes:
    """The beginning of a regular file, b"" when it is none or cannot be read; never waits."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
