"""Places outside that a repository's own files lead git to: pointers, links, borrowed objects, named files.

An unpacked archive brings a `.git` of its own, and git follows whatever stands there: it prints what
lies behind a link of a log, and the history of a repository that a pointer names.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from buddy.agent.pattern import pattern
from buddy.safety.git_files import read_regular, shared_folder
from buddy.safety.paths import Boundary, is_beneath
from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.safety.sanitise import visible

MAX_CONTROL_ENTRIES = 20_000
_MAX_POINTER_BYTES = 8192
_MAX_ALTERNATES_BYTES = 65_536
_MAX_DEPTH = 5
"""git follows borrowed objects five repositories far."""

_NOT_READ = frozenset({"hooks", "lfs", "annex"})
"""Folders of a repository that no reading command of git opens."""

_TWO_HEX = pattern(r"[0-9a-f]{2}")
_WORK_TREE = pattern(rb"(?mi)^\s*worktree\s*=\s*(\S.*?)\s*$")


def led_outside(boundary: Boundary, work_tree: str, git_dir: str, *, trusted: bool) -> str:
    """Say where a repository's own files lead git outside, as a sentence; "" when they lead nowhere.

    A linked worktree or a submodule may have its data outside when the repository there names this folder:
    an archive can bring a pointer to somebody's repository, and can't make that repository point back.
    `trusted`: the person trusts the folder, so that borrowed objects are fine."""
    own = os.path.realpath(git_dir)
    shared = os.path.realpath((*shared_folder(git_dir), git_dir)[0])
    roots = (*boundary.trees, *((work_tree,) if is_beneath(boundary.root, work_tree) else ()))
    for folder in (own, shared):
        if any(is_beneath(folder, root) for root in roots):
            continue
        if not _points_back(work_tree, own, shared):
            return (
                f"this folder's git data lies outside it, at {visible(folder)}, in a repository that does "
                "not know this folder; start buddy there"
            )
    found = _link_outside(own, shared)
    if found or trusted:
        return found
    return _borrowed_outside(os.path.join(shared, "objects"), (*roots, own, shared))


def file_outside(value: str | None, work_tree: str) -> bool:
    """Tell whether a file that a repository's configuration names lies outside its working tree or is
    secret; a value that is not known counts as one."""
    if value is None or value.startswith("~"):
        return True
    if not value:
        return False
    top = os.path.realpath(work_tree)
    real = os.path.realpath(os.path.join(top, value))
    return not is_beneath(real, top) or bool(secret_reason(real, ProtectedPlaces("/nonexistent", (), (top,))))


def _points_back(work_tree: str, own: str, shared: str) -> bool:
    """Tell whether the repository itself knows the working tree: as one of its worktrees, or as a
    submodule."""
    pointer = os.path.realpath(os.path.join(work_tree, ".git"))
    if os.path.dirname(own) == os.path.join(shared, "worktrees"):
        text = read_regular(os.path.join(own, "gitdir"), _MAX_POINTER_BYTES)
        named = os.fsdecode(text.rstrip(b"\r\n"))
        return bool(named) and os.path.realpath(os.path.join(own, named)) == pointer
    found = _WORK_TREE().search(read_regular(os.path.join(own, "config"), _MAX_POINTER_BYTES))
    if own != shared or found is None:
        return False
    return os.path.realpath(os.path.join(own, os.fsdecode(found[1]))) == os.path.realpath(work_tree)


def _link_outside(own: str, shared: str) -> str:
    folders = tuple(dict.fromkeys((own, shared)))
    seen = 0
    for folder in folders:
        for entry in _control_entries(folder):
            seen += 1
            if seen > MAX_CONTROL_ENTRIES:
                return f"there is too much in {visible(folder)} to see where its links lead"
            if entry.is_symlink():
                real = os.path.realpath(entry.path)
                if not any(is_beneath(real, one) for one in folders):
                    link = visible(entry.path)
                    return f"{link} is a link that leads git out of its folder, to {visible(real)}"
            elif _waits(entry):
                return f"{visible(entry.path)} is a pipe or a device, git would wait for it"
    return ""


def _control_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a git folder, without loose objects and without what git does not read."""
    pending = [folder]
    while pending:
        current = pending.pop()
        keeps_objects = _keeps_objects(os.path.relpath(current, folder))
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    if current == folder and entry.name in _NOT_READ:
                        continue
                    yield entry
                    if keeps_objects and _TWO_HEX().fullmatch(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # what cannot be listed is not read by git either


def _keeps_objects(relative: str) -> bool:
    """Tell whether a folder inside a git folder holds loose objects: its own, or those of a submodule."""
    parts = relative.split("/")
    return relative == "objects" or (parts[0] == "modules" and parts[-1] == "objects" and "refs" not in parts)


def _waits(entry: os.DirEntry[str]) -> bool:
    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
        return False
    mode = entry.stat(follow_symlinks=False).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _borrowed_outside(objects: str, roots: tuple[str, ...], depth: int = 0) -> str:
    file = os.path.join(objects, "info", "alternates")
    text = read_regular(file, _MAX_ALTERNATES_BYTES + 1)
    if len(text) > _MAX_ALTERNATES_BYTES:
        return f"{visible(file)} is too long to see where it leads git"
    for line in re.split(r"[\r\n]+", os.fsdecode(text)):
        if not line or line.startswith("#"):
            continue
        real = os.path.realpath(os.path.join(objects, line))
        if line.startswith('"') or "\0" in line or not any(is_beneath(real, root) for root in roots):
            return f"{visible(file)} makes git read the objects of another repository: {visible(line[:200])}"
        more = _borrowed_outside(real, roots, depth + 1) if depth < _MAX_DEPTH else ""
        if more:
            return more
    return ""
