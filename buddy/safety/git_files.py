"""Files git opens without a look at what they are: a pipe in the place of one makes every git command wait
for ever. A clone cannot bring pipes, an unpacked archive can.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

IN_FOLDERS = (".gitignore", ".gitattributes", ".mailmap", ".gitmodules")
IN_GIT_FOLDER = (
    *("config", "config.worktree", "index", "HEAD", "commondir", "packed-refs", "shallow", "logs/HEAD"),
    *("info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout", "objects/info/alternates"),
)

_POINTER = b"gitdir: "
_MAX_POINTER_BYTES = 8192
"""Twice as much as the longest path has."""


def git_folders(top: str) -> tuple[str, ...]:
    """Where git keeps a repository: the folder of this working tree, and where it is another one (in a
    worktree), the folder all working trees of the repository share. Nothing is run and nothing waits."""
    own = os.path.join(top, ".git")
    if not os.path.isdir(own):
        text = read_regular(own, _MAX_POINTER_BYTES)
        if not text.startswith(_POINTER):
            return (own,)
        own = _pointed(top, text.removeprefix(_POINTER))
    return (own, *shared_folder(own))


def is_repository(git_dir: str) -> bool:
    """Tell whether git takes a `.git` for a repository: it passes over an empty folder and looks further
    up."""
    if not os.path.isdir(git_dir):
        return os.path.lexists(git_dir)
    return os.path.lexists(os.path.join(git_dir, "HEAD"))


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
