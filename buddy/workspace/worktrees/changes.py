"""Changes in a worktree since it was made, and uncommitted changes carried into a new one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.paths import open_parent, read_beneath, replace_beneath
from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.safety.seal import Seal
from buddy.workspace.checkpoints.private_git import CheckpointError, private_git
from buddy.workspace.checkpoints.snapshots import LINK_MODE, CheckpointStore, Outside, State, Version
from buddy.workspace.worktrees.worktrees import Kept, Worktree, keep, read_origin


class FileChanged(msgspec.Struct, frozen=True):
    """A file that is different, path relative to the top; contents are None where there is no file. `modes`
    are its permissions before and after, 0 where there is none."""

    path: str
    before: bytes | None
    after: bytes | None
    modes: tuple[int, int]

    @property
    def is_link(self) -> bool:
        """Tell whether a symbolic link is or was there."""
        return LINK_MODE in self.modes


class WorktreeChanges(msgspec.Struct, frozen=True):
    """All that is different. `state` names what the worktree is now; `left_out` are files that no state
    takes: too large, unreadable or secret by their name."""

    files: tuple[FileChanged, ...]
    state: str
    left_out: tuple[str, ...]


class WorktreeStates:
    """The states of worktrees. `variables` is the person's environment (for what they ignore everywhere). A
    private repository that does not carry `seal` is thrown away: somebody else put it there."""

    def __init__(self, variables: Mapping[str, str], seal: Seal) -> None:
        self._variables = dict(variables)
        self._seal = seal

    def begin(self, tree: Worktree) -> None:
        """Record the state of a new worktree. One that is too large for that is merged with git alone. Raises
        `OSError`."""
        kept = read_origin(tree)
        if kept is None:
            return
        try:
            state = self._store(tree).take().tree
        except CheckpointError:
            return
        keep(tree, msgspec.structs.replace(kept, state=state))

    def changes(self, tree: Worktree) -> WorktreeChanges:
        """Return the changes since the worktree was made. Raises `ToolError`."""
        kept = read_origin(tree)
        if kept is None or not kept.state:
            raise ToolError(
                f"what {tree.display_path} was when it was made is not known; commit there, and git merge "
                f"{tree.branch} takes its commits"
            )
        try:
            return self._changes(tree, kept)
        except CheckpointError as error:
            raise ToolError(str(error)) from error

    def _changes(self, tree: Worktree, kept: Kept) -> WorktreeChanges:
        store = self._store(tree)
        now = store.take()
        found = store.differences(State(kept.state, (), Outside({}, {})), now)
        versions = [one for change in found for one in (change.before, change.after) if one is not None]
        contents = store.contents([version.content for version in versions])
        files = tuple(
            FileChanged(
                change.path,
                _content(contents, change.before, change.path),
                _content(contents, change.after, change.path),
                (_mode(change.before), _mode(change.after)),
            )
            for change in found
        )
        return WorktreeChanges(files, now.tree, now.left_out)

    def _store(self, tree: Worktree) -> CheckpointStore:
        git = private_git(os.path.join(tree.record_folder, "states"), tree.path, self._variables, self._seal)
        return CheckpointStore(git, ProtectedPlaces(self._variables.get("HOME", "")))


def between(one: WorktreeChanges, other: WorktreeChanges) -> tuple[FileChanged, ...]:
    """Return the files that differ from one worktree to another that began in the same state."""
    first = {file.path: file for file in one.files}
    second = {file.path: file for file in other.files}
    found: list[FileChanged] = []
    for path in sorted(first.keys() | second.keys()):
        # A worktree that did not change the file has what it was when the other one changed it.
        before, old = _result(first.get(path), second.get(path))
        after, new = _result(second.get(path), first.get(path))
        if (before, old) != (after, new):
            found.append(FileChanged(path, before, after, (old, new)))
    return tuple(found)


def _result(own: FileChanged | None, other: FileChanged | None) -> tuple[bytes | None, int]:
    if own is not None:
        return own.after, own.modes[1]
    assert other is not None
    return other.before, other.modes[0]


def _content(contents: Mapping[str, bytes], version: Version | None, path: str) -> bytes | None:
    if version is None:
        return None
    if version.content not in contents:
        raise ToolError(f"what {path} was can't be read any more")
    return contents[version.content]


def _mode(version: Version | None) -> int:
    return 0 if version is None else version.mode


MAX_FILES = 5_000
MAX_FILE_BYTES = 20_000_000
_ENTRY = pattern(r"[ MADRCUT?!]{2} .+", re.DOTALL)


def carry(tree: Worktree, changed: Sequence[str], home: str, *, source: str = "") -> tuple[str, ...]:
    """Make the worktree's files what those of another working tree (the main one unless given) are, for paths
    as git's status lists them; those that were left out. Blocks. Raises `ToolError` and `OSError`."""
    source = source or tree.main
    if not all(_ENTRY().fullmatch(entry) for entry in changed):
        raise ToolError("git's list of the changes is too long to be read whole; commit them first")
    if len(changed) > MAX_FILES:
        raise ToolError(
            f"there are {len(changed):,} changes, and at most {MAX_FILES:,} can be carried over; commit them "
            "first, or let git ignore what need not come along"
        )
    left_out: list[str] = []
    for code, path in ((entry[:2], entry[3:]) for entry in changed):
        real = os.path.join(source, path)
        secret = secret_reason(real, ProtectedPlaces(home))
        if path.endswith("/") or secret or not _carry(tree, source, code, path):
            left_out.append(path)
    return tuple(left_out)


def _carry(tree: Worktree, source: str, code: str, path: str) -> bool:
    """Copy, link or remove one; False for what is none of that."""
    real = os.path.join(source, path)
    status = _status(real)
    if status is None or (stat.S_ISDIR(status.st_mode) and "D" in code):  # what is in it now is listed too
        with suppress(FileNotFoundError):
            _without(tree, path)
            _remove_empty(tree, os.path.dirname(path))
        return True
    if stat.S_ISLNK(status.st_mode):
        _make_folders(tree, path)
        with suppress(FileNotFoundError):
            _without(tree, path)
        parent, name = open_parent(tree.path, path)
        try:
            os.symlink(os.readlink(real), name, dir_fd=parent)
        finally:
            os.close(parent)
        return True
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        return False
    _make_folders(tree, path)
    data = read_beneath(source, path, MAX_FILE_BYTES)
    replace_beneath(tree.path, path, data, stat.S_IMODE(status.st_mode) & 0o777)
    return True


def _status(real: str) -> os.stat_result | None:
    try:
        return os.lstat(real)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _without(tree: Worktree, path: str) -> None:
    parent, name = open_parent(tree.path, path)
    try:
        os.unlink(name, dir_fd=parent)
    finally:
        os.close(parent)


def _remove_empty(tree: Worktree, folder: str) -> None:
    """Remove folders without a file, which git does not keep: a file may come in the place of one."""
    with suppress(OSError):
        while folder:
            os.rmdir(os.path.join(tree.path, folder))
            folder = os.path.dirname(folder)


def _make_folders(tree: Worktree, path: str) -> None:
    """Make the folders above a path, none of them through a link."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        parent, name = open_parent(tree.path, "/".join(parts[:depth]))
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
        finally:
            os.close(parent)
