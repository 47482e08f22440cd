"""The folder of sessions: the workspace root, `.buddyx/` in it, ids, and private directories."""

from __future__ import annotations

import contextlib
import os
import stat

from buddy.agent.lazy_regex import pattern
from buddy.safety.paths import make_private_folders
from buddy.sessions.errors import FolderError
from buddy.sessions.file_ops import JournalFiles

FOLDER = ".buddyx"
SESSION_ID = pattern(r"[0-9a-f]{4}(?:-[0-9a-f]{4}){3}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id of buddy's, or a UUID that a program chose."""


def workspace_root(start: str) -> str:
    """Return the nearest ancestor with `.git` (a file counts: worktrees and submodules), else `start`
    itself."""
    start = os.path.abspath(start)
    at = start
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return start
        at = above
    return at


def new_session_id() -> str:
    """`xxxx-xxxx-xxxx-xxxx` from the system's random source."""
    text = os.urandom(8).hex()
    return "-".join(text[at : at + 4] for at in range(0, 16, 4))


def make_private(path: str) -> None:
    """Create a folder, and its parents, that only its owner can enter. An existing one is not changed. Raises
    `FolderError`."""
    if not os.path.isdir(path):
        make_private_folders(os.path.dirname(path))
        _make(path)


def make_sessions_folder(root: str, files: JournalFiles | None = None) -> str:
    """`.buddyx/sessions` of a workspace, 0700 whatever the umask, ignored by git. Raises `FolderError`."""
    files = files or JournalFiles()
    folder = os.path.join(root, FOLDER)
    sessions = os.path.join(folder, "sessions")
    made = _make(folder)
    if made:
        _ignore(folder, files)
    if _make(sessions):
        _ignore(sessions, files)
        files.sync_directory(folder)
    os.chmod(sessions, 0o700)
    if made:
        files.sync_directory(root)
    return sessions


def make_exports_folder(root: str, files: JournalFiles) -> str:
    """`.buddyx/exports` of a workspace, 0700, never through a link. Raises `FolderError`."""
    make_sessions_folder(root, files)
    folder = os.path.join(root, FOLDER, "exports")
    _make(folder)
    return folder


def check_real(path: str) -> None:
    """Raise `FolderError` unless the path is a directory and no link."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        raise FolderError(f"expected a directory at {path}, found nothing") from None
    if stat.S_ISLNK(mode):
        raise FolderError(f"{path} is a symbolic link; expected a directory. Remove the link to go on")
    if not stat.S_ISDIR(mode):
        raise FolderError(f"expected a directory at {path}, found a file; move it away")


_NOT_FOLLOWED = frozenset({"journal.jsonl", "journal.torn", "snapshot.json", "lock"})


def check_session_folder(directory: str) -> None:
    """Raise `FolderError` for a symbolic link in a session's folder or its subfolders, which could redirect
    writes. Files are opened without following links anyway."""
    check_real(directory)
    for folder in (directory, *_folders_in(directory)):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() and entry.name not in _NOT_FOLLOWED:
                    raise FolderError(f"{entry.path} is a symbolic link, which buddy never makes; remove it")


def _folders_in(directory: str) -> list[str]:
    """Return the folders whose names buddy knows; of a checkpoint only those git writes into by name."""
    found: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                continue
            inner = ("", "info", "objects", "objects/info", "refs") if "checkpoints" in entry.name else ("",)
            found += [os.path.normpath(os.path.join(entry.path, name)) for name in inner]
    return [folder for folder in found if os.path.isdir(folder) and not os.path.islink(folder)]


def make_session_folder(sessions: str, session_id: str) -> str:
    """Return the folder of a new session. Raises `FileExistsError` when the id is taken."""
    path = os.path.join(sessions, session_id)
    os.mkdir(path, 0o700)
    os.chmod(path, 0o700)  # the umask may have taken bits away
    return path


def _make(path: str) -> bool:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        check_real(path)
        return False
    except OSError as error:
        raise FolderError(
            f"can't create {path}: {error.strerror}; set BUDDY_SESSION_DIRECTORY (or [session] directory) "
            "to a folder you can write to"
        ) from error
    os.chmod(path, 0o700)
    return True


def _ignore(folder: str, files: JournalFiles) -> None:
    with contextlib.suppress(FileExistsError):
        path = os.path.join(folder, ".gitignore")
        with files.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
            files.write_all(descriptor, b"*\n", 0)
