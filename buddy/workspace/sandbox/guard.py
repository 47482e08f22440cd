"""Protected names that a sandboxed command created or changed: detected after the command and restored.

A missing name cannot be covered by a mount, and Landlock cannot exclude anything in a writable folder. The
audit refuses what it sees, but a program that changes an argument after it was read gets past it. So the
workspace is compared before and after: new entries are moved to `.buddyx/quarantine`, changed ones get their
old content back. Nothing is lost, and everything is reported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

import msgspec

from buddy.safety.paths import Boundary
from buddy.safety.sanitise import visible
from buddy.workspace.sandbox.git_data import GitData, git_data, is_usual, risky_files
from buddy.workspace.sandbox.places import WorkspaceSurvey, git_folders, git_programs, names_at_top
from buddy.workspace.sandbox.profile import is_at_or_below, lies_in_any

MAX_COPIES = 2_000
MAX_COPIED_BYTES = 32_000_000
"""Limit on the copies of changeable content; a change of the rest is reported and cannot be undone."""
_NOT_THE_FILE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that are not about the file: nothing can be opened at all."""
QUARANTINE = os.path.join(".buddyx", "quarantine")


class GuardedEntry(msgspec.Struct, frozen=True):
    """The state of a file, folder or link. `content` are its bytes or the target of the link, None if not
    copied."""

    mode: int
    content: bytes | None


class Snapshot(msgspec.Struct, frozen=True):
    """The protected names of a workspace at one moment. `entries` are the files at and below them, only where
    they could be changed; `git` is git's data; `complete` is False when the workspace is too big."""

    names: frozenset[str]
    git: GitData
    entries: dict[str, GuardedEntry]
    complete: bool = True


def snapshot(boundary: Boundary, known: WorkspaceSurvey, *, contents: bool) -> Snapshot:
    """Take a snapshot of the protected names; `contents` copies their content too. Blocks."""
    roots = (boundary.root, *boundary.extra)
    repositories = tuple(dict.fromkeys((*git_folders(boundary, roots), *known.repositories)))
    git = git_data(repositories, (*roots, *repositories))
    pointers = [path for path in repositories if os.path.islink(path) or not os.path.isdir(path)]
    files = (path for folder in git.folders for path in risky_files(folder))
    run = git_programs(boundary, repositories)
    names = (*names_at_top(roots), *known.protected, *pointers, *files, *run)
    own = {os.path.join(root, ".buddyx") for root in (*roots, boundary.main)}
    wanted = frozenset(name for name in names if name not in own)
    entries = dict(_entries(sorted(wanted))) if contents else {}
    return Snapshot(wanted, git, entries, known.complete)


def _entries(names: Iterable[str]) -> Iterator[tuple[str, GuardedEntry]]:
    """Yield the files and folders at and below some names, up to the limits on copies."""
    copied = count = 0
    waiting = list(reversed(list(names)))
    while waiting and count < MAX_COPIES:
        path = waiting.pop()
        try:
            state = os.lstat(path)
            if stat.S_ISDIR(state.st_mode):
                waiting += [os.path.join(path, name) for name in os.listdir(path)]
            keep = copied + state.st_size <= MAX_COPIED_BYTES
            content = _content(path, state.st_mode) if keep else None
        except OSError as error:
            if error.errno in _NOT_THE_FILE:
                raise
            continue
        count += 1
        copied += len(content or b"")
        yield path, GuardedEntry(state.st_mode, content)


def _content(path: str, mode: int) -> bytes | None:
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(path))
    if not stat.S_ISREG(mode):
        return None
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read()


class Guard:
    """Compares a workspace before and after one command. `permitted` are the paths the user allowed to
    change."""

    def __init__(self, boundary: Boundary, before: Snapshot) -> None:
        self._before = before
        self._boundary = boundary
        self._told: set[str] = set()
        self._kept: dict[str, str] = {}

    def find_changes(self, after: Snapshot, permitted: Sequence[str]) -> tuple[str, ...]:
        """Return the outermost protected paths that are new or different, except permitted ones."""
        return tuple(path for path in self._changed(after) if not lies_in_any(path, permitted))

    def restore(self, paths: Iterable[str], after: Snapshot, *, touch: bool) -> tuple[str, ...]:
        """Undo the changes of some paths; return a sentence for each, never twice. Blocks.

        `touch` is False if something outside the sandbox ran at the same time and may have made the change:
        it is then only reported.
        """
        told = [self._undo(path) if touch else self._only_tell(path) for path in paths]
        if self._before.complete and not after.complete:
            told.append(
                "the workspace has become too big to be looked through for protected names; commands cannot "
                "change the folders that were not seen"
            )
        new = tuple(one for one in told if one not in self._told)
        self._told.update(new)
        return new

    def _changed(self, after: Snapshot) -> Iterator[str]:
        before = self._before
        seen: list[str] = []
        new_git = set(after.git.folders) - set(before.git.folders)
        paths = {*(after.names - before.names), *(path for path in before.entries if self._differs(path))}
        paths |= {path for path in after.entries if path not in before.entries}
        known = {*before.names, *before.git.folders, *before.git.rest}
        unknown = {*after.git.astray}.difference(before.git.astray) | {*after.git.rest} - known
        for path in sorted(paths | unknown):
            is_usual = path not in unknown and self._is_usual(path, new_git)
            if is_usual or lies_in_any(path, seen):
                continue
            seen.append(path)
            yield path

    def _is_usual(self, path: str, new_git: Collection[str]) -> bool:
        """Tell whether a path belongs to a new repository and is as git makes it."""
        if os.path.basename(path) == ".git":
            return path not in self._before.names  # its target is part of git's data
        folder = max((one for one in new_git if is_at_or_below(path, one)), key=len, default="")
        return bool(folder) and is_usual(path, folder, (self._boundary.root, *self._boundary.extra))

    def _differs(self, path: str) -> bool:
        entry = self._before.entries[path]
        try:
            mode = os.lstat(path).st_mode
            if stat.S_IFMT(mode) != stat.S_IFMT(entry.mode) or stat.S_IMODE(mode) != stat.S_IMODE(entry.mode):
                return True
            return entry.content is not None and _content(path, mode) != entry.content
        except OSError as error:
            if error.errno in _NOT_THE_FILE:
                raise
            return True

    def _only_tell(self, path: str) -> str:
        return (
            f"{self._display_path(path)} changed while something ran outside of the sandbox, so it was left"
        )

    def _undo(self, path: str) -> str:
        """Move a path away and restore its old state."""
        shown = self._display_path(path)
        existed = path in self._before.names or path in self._before.entries
        is_led_elsewhere = path in self._before.entries and not self._differs(path)
        try:
            kept = self._move_away(path)
            if is_led_elsewhere:  # through a link on the way: restored, it would lead there again
                del self._before.entries[path]
            self._bring_back(path)
        except OSError as error:
            old = self._keep_old(path)
            where = f"; as it was, it is now {self._display_path(old)}" if old else ""
            did = "changed" if existed else "created"
            return f"{shown} was {did}, and could not be put back: {error}{where}"
        where = f"; the changed one is now {self._display_path(kept)}" if kept else ""
        if existed:
            return f"{shown} was changed{' and put back' if os.path.lexists(path) else ''}{where}"
        return f"{shown} was created; it is now {self._display_path(kept)}"

    def _move_away(self, path: str) -> str:
        """Rename without following links on the way: a process the command left running may create some."""
        if not os.path.lexists(path):
            return ""
        kept = self._place_in_quarantine(path)
        with self._parent(path) as source, self._parent(kept) as target:
            os.rename(os.path.basename(path), os.path.basename(kept), src_dir_fd=source, dst_dir_fd=target)
        return kept

    def _place_in_quarantine(self, path: str) -> str:
        boundary = self._boundary
        root = next(iter(self._roots_of(path)), "")
        if not root:
            raise OSError("it lies outside the workspace")
        top = boundary.main if boundary.main and root == boundary.root else root
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}-{os.path.basename(path)}"
        return os.path.join(top, QUARANTINE, name)

    def _bring_back(self, top: str, target: str = "") -> None:
        """Recreate what was at and below a path, there or at `target`."""
        entries = {path: entry for path, entry in self._before.entries.items() if is_at_or_below(path, top)}
        for path, entry in entries.items():
            if entry.content is None and not stat.S_ISDIR(entry.mode):
                raise OSError(f"{self._display_path(path)} was too big to be kept")
            place = (target or top) + path[len(top) :]
            with self._parent(place) as folder:
                _make(os.path.basename(place), entry, folder)
        # Modes last: nothing can be created in a read-only folder.
        for path, entry in reversed(entries.items()):
            if stat.S_ISDIR(entry.mode):
                place = (target or top) + path[len(top) :]
                with self._parent(place) as parent, _folder(parent, os.path.basename(place)) as folder:
                    os.fchmod(folder, stat.S_IMODE(entry.mode))

    def _keep_old(self, path: str) -> str:
        """Recreate the old state of a path in the quarantine, once. Return its place there, or "" when there
        was nothing or that fails too."""
        if path in self._before.entries and path not in self._kept:
            try:
                kept = self._place_in_quarantine(path)
                self._bring_back(path, kept)
            except OSError:
                return ""
            self._kept[path] = kept
        return self._kept.get(path, "")

    @contextlib.contextmanager
    def _parent(self, path: str) -> Generator[int]:
        """Open the parent folder of a path and yield its descriptor. Missing folders are created. No step
        from the workspace's outermost folder, which commands cannot replace, follows a link."""
        root = min(self._roots_of(path), key=len, default="")
        if not root:
            raise OSError("it lies outside the workspace")
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in os.path.relpath(os.path.dirname(path), root).split("/"):
                if name != ".":
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=descriptor)
                    # Two descriptors at most, however deep: few may be left.
                    above, descriptor = descriptor, _open_folder(descriptor, name)
                    os.close(above)
            yield descriptor
        finally:
            os.close(descriptor)

    def _roots_of(self, path: str) -> Iterator[str]:
        """Yield the folders of the workspace that a path lies in."""
        boundary = self._boundary
        roots = (boundary.root, *boundary.extra, boundary.main)
        return (root for root in roots if root and is_at_or_below(path, root))

    def _display_path(self, path: str) -> str:
        inside = is_at_or_below(path, self._boundary.root)
        return visible(os.path.relpath(path, self._boundary.root) if inside else path)


def _make(name: str, entry: GuardedEntry, folder: int) -> None:
    """Create a file, link or empty folder in a folder; fail when the name is taken."""
    if stat.S_ISDIR(entry.mode):
        os.mkdir(name, 0o700, dir_fd=folder)
    elif stat.S_ISLNK(entry.mode):
        os.symlink(os.fsdecode(entry.content or b""), name, dir_fd=folder)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(entry.content or b"")
            os.fchmod(file.fileno(), stat.S_IMODE(entry.mode))


@contextlib.contextmanager
def _folder(parent: int, name: str) -> Generator[int]:
    """Open a folder that is no link and yield its descriptor."""
    descriptor = _open_folder(parent, name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_folder(parent: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
