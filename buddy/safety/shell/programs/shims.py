"""Programs that first look into the folder they start in for the version of themselves to run.

Version managers put such programs on the PATH under the names of the tools: links to the manager, copies of
it, or scripts that start it. A file of the repository (.tool-versions, rust-toolchain.toml, …) then says what
runs.
"""

from __future__ import annotations

import os
import re
import shlex

from buddy.safety.git_repository import read_regular
from buddy.safety.shell.context import JudgedCommand, files_above
from buddy.safety.shell.programs.names import word_list, words

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
