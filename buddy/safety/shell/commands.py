"""All programs that are known to only read, each with its judge, and how a program's name is looked up."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable

from buddy.safety.paths import is_beneath
from buddy.safety.shell.archives import ARCHIVES
from buddy.safety.shell.awk import AWK
from buddy.safety.shell.files import FILES
from buddy.safety.shell.find import find_with
from buddy.safety.shell.git import git
from buddy.safety.shell.hunts import check_everything
from buddy.safety.shell.jq import jq
from buddy.safety.shell.machine import MACHINE
from buddy.safety.shell.names import SHOWS_NO_CONTENT, words
from buddy.safety.shell.packages import PACKAGES
from buddy.safety.shell.place import JudgedCommand, RefusedError
from buddy.safety.shell.search import SEARCH
from buddy.safety.shell.sed import sed
from buddy.safety.shell.shims import manager_of, program_path, version_file
from buddy.safety.shell.system import PRINTS, SYSTEM
from buddy.safety.shell.text import TEXT
from buddy.safety.shell.verdict import UNRESOLVED
from buddy.safety.shell.versions import is_version_question
from buddy.safety.shell.walk import check_secrets
from buddy.safety.shell.wrappers import (
    command_with,
    env_with,
    prefix_with,
    shell_with,
    time_with,
    timeout_with,
    xargs_with,
)

Judge = Callable[[JudgedCommand], None]
_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin"})
_BUILTINS = words(
    "echo printf test [ true false : exit set pwd type command umask ulimit time builtin cd "
    "help hash dirs times"
)


class Programs:
    """The table of programs. `judge_text` judges the command line a shell is given after -c."""

    def __init__(self, judge_text: Callable[[JudgedCommand, str], None]) -> None:
        self._known: dict[str, Judge] = {
            **FILES,
            **TEXT,
            **SEARCH,
            **SYSTEM,
            **MACHINE,
            **ARCHIVES,
            **PACKAGES,
            **AWK,
            "sed": sed,
            "jq": jq,
            "git": git,
            "find": find_with(self.judge),
            "env": env_with(self.judge),
            "timeout": timeout_with(self.judge),
            "nice": prefix_with(self.judge, "-n:num --adjustment:num"),
            "stdbuf": prefix_with(
                self.judge, "-i:text -o:text -e:text --input:text --output:text --error:text"
            ),
            "builtin": prefix_with(self.judge, ""),
            "command": command_with(self.judge),
            "time": time_with(self.judge),
            "xargs": xargs_with(self.judge),
            "bash": shell_with(judge_text),
            "sh": shell_with(judge_text),
        }

    def judge(self, judged: JudgedCommand) -> None:
        """Judge one command by its program. Raises `RefusedError`."""
        name = judged.argv[0]
        folder, base = posixpath.split(name)
        if folder in _SYSTEM_FOLDERS and base not in ("time", "printf", "test"):
            judged.argv = (base, *judged.argv[1:])
        elif folder:
            raise RefusedError(f"it runs the file {name[:80]}")
        if is_version_question(judged):
            _look_up(judged, judged.argv[0])
            return
        judge = self._known.get(judged.argv[0])
        if judge is None:
            raise RefusedError(f"{name[:80]} is not known to only read")
        if judged.opaque and judged.argv[0] not in PRINTS:
            raise RefusedError("a word of it is only known when it runs")
        if judged.splits and judged.argv[0] != "echo":
            raise RefusedError("a variable without quotes may become several words, or none")
        if any(judged.argv[position].startswith("-") for position in judged.globbed):
            raise RefusedError("a pattern matches a name that looks like an option")
        if judged.argv[0] not in _BUILTINS:
            _look_up(judged, judged.argv[0])
        found = judged.stands_for
        if found and judged.argv[0] not in SHOWS_NO_CONTENT and _takes_unknown(judged):
            check_everything(judged, found.roots, found.filters)
            check_secrets(judged, found.roots, found.filters)
        judge(judged)


def _takes_unknown(judged: JudgedCommand) -> bool:
    return any(UNRESOLVED in word for word in judged.argv)


def _look_up(judged: JudgedCommand, name: str) -> None:
    """Refuse a program that the PATH would find in the workspace, or that a file of the workspace chooses."""
    boundary, search_path = judged.place.boundary, judged.place.search_path
    path = program_path(name, search_path, boundary.cwd)
    if not path:
        return
    if any(
        is_beneath(spelling, root) for spelling in (path, os.path.realpath(path)) for root in boundary.trees
    ):
        raise RefusedError(f"{name} would be the workspace's own {path}")
    manager = manager_of(name, path, search_path, boundary.cwd)
    if manager:
        file = version_file(judged)
        if file:
            raise RefusedError(f"{name} is chosen by {manager}, which may obey {file}")
        judged.widen(f"{name}, which {manager} chooses by files of the folder")
