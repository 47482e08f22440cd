"""Effects of a delete, counted on the real files: "214 files under build/, 3 not in git"."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.git_repository import tracked_paths
from buddy.safety.paths import Boundary, Located, is_beneath, locate, walk_tree
from buddy.safety.shell.result import UNRESOLVED, Analysis, Subcommand

MAX_COUNTED = 20_000
_STAYING = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "nice",
        "ionice",
        "nohup",
        "timeout",
        "time",
        "command",
        "exec",
        "stdbuf",
        "setsid",
    }
)
"""Wrappers that start another program in their own folder, unless an option says otherwise."""
_OPTION = pattern(r"-.|\Z")
_MOVES = pattern(r"-[CDi]|--(?:ch|l)")


class Deletion(msgspec.Struct, frozen=True):
    """One target of a delete. `files` beneath it (itself, when it is one), `untracked` of them not in git
    (None where there is no repository or its index could not be read); `more`: counting stopped at the
    limit."""

    target: Located
    is_folder: bool
    files: int
    untracked: int | None
    more: bool

    @property
    def shown(self) -> str:
        """One line for an approval."""
        if not self.is_folder:
            return f"{self.target.shown}{', not in git' if self.untracked else ''}"
        count = f"{'more than ' if self.more else ''}{self.files} file{'s' * (self.files != 1)}"
        return f"{count} under {self.target.shown}/" + (
            f", {self.untracked} not in git" if self.untracked else ""
        )


def deletions(analysis: Analysis, boundary: Boundary, at_most: int = MAX_COUNTED) -> tuple[Deletion, ...]:
    """Count the files the deletes of a command would remove, as far as its folders and words are known. Reads
    folders and the git index; for display, not for judging."""
    targets: dict[str, Located] = {}
    for command in analysis.commands:
        for operand in _known_operands(command):
            try:
                located = locate(boundary, posixpath.join(_path_from(boundary.cwd, command.folder), operand))
            except ToolError:
                continue
            targets.setdefault(located.path, located)
    if not targets:
        return ()
    tracked = tracked_paths(boundary.root)
    return tuple(
        _count(located, tracked, at_most) for located in targets.values() if os.path.lexists(located.path)
    )


def _path_from(cwd: str, folder: str) -> str:
    """Return a folder as a person at `cwd` would write it: "" there, relative below it."""
    if folder == cwd:
        return ""
    return os.path.relpath(folder, cwd) if is_beneath(folder, cwd) else folder


def _known_operands(command: Subcommand) -> Iterator[str]:
    """Yield the paths a command would delete that can be told: without the folder only absolute ones can."""
    name = posixpath.basename(command.argv[0]) if command.argv else ""
    stays = name in _STAYING and not any(map(_MOVES().match, command.argv))
    for argv in (command.argv, *command.inner):
        placed = argv is command.argv or (stays and command.argv[-len(argv) :] == argv)
        for operand in _operands(argv):
            known = operand and UNRESOLVED not in operand
            if known and (operand.startswith("/") or (placed and command.folder)):
                yield operand


def _operands(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths a deleting command names."""
    name = posixpath.basename(argv[0]) if argv else ""
    if name in ("rm", "rmdir", "unlink", "shred"):
        dashes = argv.index("--") if "--" in argv else len(argv)
        for position, word in enumerate(argv[1:], start=1):
            if position > dashes or not _OPTION().match(word):
                yield word
    elif name == "find" and "-delete" in argv:
        starts = [word for word in argv[1:2] if not word.startswith("-")]
        yield from starts or ["."]


def _count(located: Located, tracked: frozenset[str] | None, at_most: int) -> Deletion:
    if os.path.islink(located.path) or not os.path.isdir(located.path):
        return Deletion(located, False, 1, _missing([located.path], tracked), False)
    files: list[str] = []
    for path in _files(located.path):
        if len(files) >= at_most:
            return Deletion(located, True, len(files), _missing(files, tracked), True)
        files.append(path)
    return Deletion(located, True, len(files), _missing(files, tracked), False)


def _missing(files: list[str], tracked: frozenset[str] | None) -> int | None:
    return None if tracked is None else sum(path not in tracked for path in files)


def _files(folder: str) -> Iterator[str]:
    for parent, _folders, names in walk_tree(folder):
        for name in names:
            yield os.path.join(parent, name)
