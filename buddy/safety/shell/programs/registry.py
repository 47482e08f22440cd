"""The registry of programs that are known to only read, each with its judge; lookup of program names, and of
the versions that shims of version managers start."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Callable

from buddy.safety.git_repository import read_if_regular, read_regular
from buddy.safety.paths import is_beneath
from buddy.safety.shell.context import JudgedCommand, RefusedError, files_above
from buddy.safety.shell.programs.files import ARCHIVES, FILES
from buddy.safety.shell.programs.find import find_with
from buddy.safety.shell.programs.git import git
from buddy.safety.shell.programs.names import ONLY_PRINT, read_entries, word_list, words
from buddy.safety.shell.programs.options import table
from buddy.safety.shell.programs.packages import PACKAGES
from buddy.safety.shell.programs.search import SEARCH
from buddy.safety.shell.programs.system import PRINTS, SYSTEM
from buddy.safety.shell.programs.text import AWK, TEXT, jq, sed
from buddy.safety.shell.programs.wrappers import (
    command_with,
    env_with,
    prefix_with,
    shell_with,
    time_with,
    timeout_with,
    xargs_with,
)
from buddy.safety.shell.result import UNRESOLVED
from buddy.safety.shell.secret_search import check_everything, check_secrets

_MANAGERS = word_list("version managers")
_FOLDERS = words("shims .asdf .volta .proto corepack .aquaproj-aqua .juliaup .elan")
_IN_SCRIPT = re.compile(
    rb"(?<![\w-])(?:asdf|mise|rtx|volta|rustup|pyenv|rbenv|nodenv|goenv|jenv|phpenv|plenv|swiftly|corepack|proto"
    rb"|aqua|vfox|hermit|devbox|direnv|nvm|fnm|pkgx|tfenv|tool-versions|[a-z]+env-exec)(?![\w-])"
)
_RUSTUP_TOOLS = word_list("rustup")
_VERSION_FILES = word_list("version files")
MAX_SCRIPT_BYTES = 65_536
_MAX_STEPS = 3


def program_path(name: str, search_path: str, cwd: str) -> str:
    """Return the file a PATH finds for a name, "" for none."""
    for folder in search_path.split(":"):
        path = os.path.join(cwd, folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def manager_of(name: str, path: str, search_path: str, cwd: str, steps: int = 0) -> str:
    """Return the version manager that a program on the PATH may be a shim of, "" when it looks like the
    program itself."""
    real = os.path.realpath(path)
    base = os.path.basename(real)
    if base in _MANAGERS and base != name:
        return base
    parts = {*path.split("/")[:-1], *real.split("/")[:-1]}
    if parts & _FOLDERS:
        return min(parts & _FOLDERS)
    if name in _RUSTUP_TOOLS and os.path.lexists(os.path.join(os.path.dirname(path), "rustup")):
        return "rustup"  # by default they are hard links to it, or copies
    text = read_regular(real, MAX_SCRIPT_BYTES)
    if not text.startswith(b"#!"):
        return ""
    found = _IN_SCRIPT.search(text)
    if found is not None:
        return found.group().decode()
    return _of_interpreter(text, search_path, cwd, steps)


def _of_interpreter(text: bytes, search_path: str, cwd: str, steps: int) -> str:
    """Return the manager that may choose the interpreter of a script."""
    line = os.fsdecode(text[2:].split(b"\n", 1)[0])
    try:
        argv = shlex.split(line)
    except ValueError:
        argv = []
    if not argv or steps >= _MAX_STEPS:
        return "an interpreter that is not known"
    if os.path.basename(argv[0]) != "env":
        return manager_of(os.path.basename(argv[0]), argv[0], search_path, cwd, steps + 1)
    if len(argv) != 2 or argv[1].startswith("-"):
        return line.strip()
    path = program_path(argv[1], search_path, cwd)
    return manager_of(argv[1], path, search_path, cwd, steps + 1) if path else ""


def version_file(judged: JudgedCommand) -> str:
    """Return a file above the working directory that may name a version for a manager, "" for none."""
    return next((path for name in sorted(_VERSION_FILES) for path in files_above(judged, name)), "")


_TOOLS = word_list("version")
_TELL_HELP = _TOOLS - word_list("help")
"""Those that print their help themselves, without a pager, plug-ins or the project."""

_BY_FILES: dict[str, tuple[str, ...]] = {
    "cargo": ("rust-toolchain", "rust-toolchain.toml"),
    "rustc": ("rust-toolchain", "rust-toolchain.toml"),
    "rustfmt": ("rust-toolchain", "rust-toolchain.toml"),
    "rustup": ("rust-toolchain", "rust-toolchain.toml"),
    "go": ("go.mod", "go.work"),
    "npm": (".npmrc",),
    "npx": (".npmrc",),
    "yarn": ("package.json", ".yarnrc", ".yarnrc.yml"),
    "pnpm": ("package.json",),
    "mvn": (".mvn",),
    "dotnet": ("global.json",),
}
"""Tools that first start a version of themselves that one of these files names."""

_TELLING = {"package.json": re.compile(rb"packageManager|devEngines|volta|\\u")}
"""Files that name a version only with these keys; an escape may hide one."""

MAX_BYTES = 200_000

_SUBCOMMAND = words("go openssl uv git")
_SHORT: dict[str, str] = {
    "-V": "python python3 python2 ssh tmux perl tree bash cargo rustc",
    "-v": "node npm ruby perl php lua nginx bun yarn pnpm gem java mvn cmake clang gcc psql",
    "-version": "java javac ffmpeg kotlin scala",
    "-VV": "python python3",
}


def is_version_question(judged: JudgedCommand) -> bool:
    """Tell whether the command only asks a known tool for its version."""
    if len(judged.argv) != 2:
        return False
    name, word = judged.argv
    if name not in _TOOLS and name not in _BY_FILES:
        return False
    if word == "--help":
        return name in _TELL_HELP
    asks = (
        word == "--version"
        or (word == "version" and name in _SUBCOMMAND)
        or name in _SHORT.get(word, "").split()
    )
    return asks and not any(_takes_another(judged, file) for file in _BY_FILES.get(name, ()))


def _takes_another(judged: JudgedCommand, name: str) -> bool:
    """Tell whether a file in a folder above decides which version of the tool is started."""
    telling = _TELLING.get(name)
    return any(telling is None or telling.search(_beginning(path)) for path in files_above(judged, name))


def _beginning(path: str) -> bytes:
    text = read_if_regular(path, MAX_BYTES + 1)
    return text if text is not None and len(text) <= MAX_BYTES else b"packageManager"


Judge = Callable[[JudgedCommand], None]
_SHOWS_NO_CONTENT = ONLY_PRINT | word_list("show no content")
"""Programs that show of a file at most its size, kind or digest, that look themselves at what they would
find, or that hand it to another program, which is judged by itself."""

_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin"})
_BUILTINS = words(
    "echo printf test [ true false : exit set pwd type command umask ulimit time builtin cd help"
)


class Programs:
    """The table of programs. `judge_text` judges the command line a shell is given after -c."""

    def __init__(self, judge_text: Callable[[JudgedCommand, str], None]) -> None:
        self._known: dict[str, Judge] = {
            **FILES,
            **TEXT,
            **SEARCH,
            **SYSTEM,
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
        judge = self._known.get(judged.argv[0]) or _by_options(judged.argv[0])
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
        if found and judged.argv[0] not in _SHOWS_NO_CONTENT and _takes_unknown(judged):
            check_everything(judged, found.roots, found.filters)
            check_secrets(judged, found.roots, found.filters)
        judge(judged)


def _by_options(name: str) -> Judge | None:
    """Make the judge of a program that only reads as long as its options are known."""
    return table(name, "programs.options") if name in read_entries("programs.options") else None


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
