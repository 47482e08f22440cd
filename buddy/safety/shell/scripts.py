"""Scripts named by a command: an approval of `python3 x.py` holds while x.py is unchanged.

Only what the command line names counts, not the files a program loads by itself: `make` and `pytest` run
project files too, and who allows them always allows their later versions.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import posixpath
from collections.abc import Iterator

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary, hash_regular, is_beneath
from buddy.safety.shell.named_files import (
    CHECKERS,
    FILE_TOOLS,
    INTERPRETERS,
    is_loader,
    is_wrapper,
    named_files,
    names_files,
)
from buddy.safety.shell.result import UNRESOLVED, Analysis, Subcommand

MAX_SCRIPT_BYTES = 64_000_000
_LOADING: dict[str, tuple[str, ...]] = {
    "node": ("-r", "--require", "--import", "--loader", "--experimental-loader"),
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh"), ("--rcfile", "--init-file")),
    "go": ("run",),
    "uv": ("run", "--script", "-s"),
    "gdb": ("-x", "--command", "-ix", "--init-command"),
    **dict.fromkeys(("vi", "vim", "nvim", "view", "ex"), ("-S", "-s", "-u")),
    "npx": ("tsx", "ts-node"),
    "java": ("java", "-jar"),
    **dict.fromkeys(("make", "gmake"), ("-f", "--file", "--makefile")),
    **dict.fromkeys(("sed", "jq", "psql"), ("-f", "--file", "--from-file")),
    **dict.fromkeys(
        ("awk", "gawk", "mawk", "nawk"), ("-f", "--file", "-i", "--include", "-E", "--exec", "-l", "--load")
    ),
    "tar": ("-I", "--use-compress-program", "-F", "--info-script", "--new-volume-script"),
    **dict.fromkeys(("scp", "sftp"), ("-F", "-S")),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "zip": ("-TT", "--unzip-command"),
    "git": ("-x", "--extcmd", "-u", "--upload-pack", "--receive-pack", "--exec", "apply", "am"),
    "patch": ("-i", "--input"),
}
"""Options and words of programs before the file they run or load; interpreters not listed take node's."""

_MODULES = pattern(r"node|nodejs|deno|bun|ts-node|tsx")
_MODULE_ENDINGS = (".js", ".cjs", ".mjs", ".json", ".node", ".ts")

_LETTERS = pattern(r"-[A-Za-z]{2,5}")
_MODULE_OPTION = pattern(r"-[A-Za-z]*?m(.*)")

SHELLS = pattern(r"(?:ba|da|z|k|mk|fi|a)?sh|source|\.")

Scripts = tuple[tuple[str, str], ...]
"""Real paths with the SHA-256 of their content ("": cannot be read). A script that is not there counts as an
empty one, so that nothing written in its place later is taken for what was seen."""

ABSENT = hashlib.sha256(b"").hexdigest()


def script_digests(analysis: Analysis, boundary: Boundary) -> tuple[Scripts, ...]:
    """Return the scripts of the workspace each command of a line names, and the files it gets as its input,
    in the order of its commands. Reads them."""
    return tuple(() if command.read_only else _files(command, boundary) for command in analysis.commands)


def reads_code(argv: tuple[str, ...]) -> bool:
    """Tell whether a command is an interpreter that takes its code from a pipe, not from the command line. An
    empty one is none."""
    if not argv:
        return False
    name = posixpath.basename(argv[0])
    if INTERPRETERS().fullmatch(name) is None or _is_given_code(name, argv[1:]):
        return False
    return all(word.startswith("-") for word in argv[1:])


def is_lost(command: Subcommand) -> bool:
    """Tell whether a command runs a script in a folder that is not known: which file that is, neither."""
    if command.folder:
        return False
    started = (command.argv, *command.inner)
    values = itertools.chain.from_iterable(_values((*command.argv, *command.assignments)))
    return (
        any("/" in argv[0] or any(_candidates(argv, direct=True)) for argv in started if argv)
        or any(any(_loaded_files(argv)) for argv in started if argv)
        or any("/" in word for word in values)
        or any(_loaded_by_variables(command.assignments))
        or any(names_files(argv, command.assignments) for argv in started)
    )


def _is_given_code(name: str, words: tuple[str, ...]) -> bool:
    """Tell whether an option holds the code or names a module. For shells `-e` is something else."""
    if SHELLS().fullmatch(name):
        options = ("-c", "-m")
    else:  # to others than php, -r names what is loaded before the script
        options = ("-c", "-m", "-e", "--eval", "-p", "--print", *(("-r",) if name == "php" else ()))
    is_module = name.startswith(("python", "pypy")) and any(map(_MODULE_OPTION().fullmatch, words))
    return is_module or any(word in options for word in words)


def _files(command: Subcommand, boundary: Boundary) -> Scripts:
    """Return the files an answer to a command depends on, each once."""
    if not command.argv:  # a redirection alone starts nothing
        return ()
    found = dict(_script(command.argv, command.folder, boundary))
    for argv in command.inner:
        found.update(_script(argv, command.folder, boundary, behind_wrapper=True))
    values = tuple(_values((*command.argv, *command.assignments)))
    for named in (*_programs(command.argv), *itertools.chain.from_iterable(values)):
        real = _in_workspace(named, command.folder, boundary)
        if os.path.isfile(real) and os.access(real, os.X_OK):
            found[real] = _digest(real)
    for value in values:
        if INTERPRETERS().fullmatch(posixpath.basename(value[0])):
            found.update(_script(value, command.folder, boundary))
    for named in (
        *_loaded_files(command.argv),
        *_loaded_by_variables(command.assignments),
        *(command.sources or ()),
    ):
        real = _in_workspace(named, command.folder, boundary)
        if os.path.isfile(real):
            found[real] = _digest(real)
    if command.folder:
        for argv in _started(command):
            for real in named_files(argv, command.assignments, command.folder, boundary):
                found.setdefault(real, _digest(real))
    return tuple(found.items())


def _started(command: Subcommand) -> tuple[tuple[str, ...], ...]:
    """Return the commands whose options count. Behind `timeout` and the like, where any rest of the words
    may be one, the whole is looked at."""
    wrapped = is_wrapper(posixpath.basename(command.argv[0]))
    return (command.argv,) if wrapped else (command.argv, *command.inner)


def _script(
    argv: tuple[str, ...], folder: str, boundary: Boundary, *, behind_wrapper: bool = False
) -> Scripts:
    """Return the script one argv starts. Behind a wrapper every rest of its words is taken for an argv, so
    that only what may be run counts there."""
    missing: tuple[str, ...] = ()
    for named in _candidates(argv, direct=not behind_wrapper):
        real = _in_workspace(named, folder, boundary)
        if not real:
            continue
        forms = _forms(argv, real)
        files = tuple(form for form in forms if os.path.isfile(form))
        if files:
            return tuple((file, _digest(file)) for file in files)
        if not missing and not any(map(os.path.lexists, forms)):
            missing = forms
    if not behind_wrapper and missing:
        return tuple((form, ABSENT) for form in missing)
    started = _in_workspace(argv[0], folder, boundary) if behind_wrapper and "/" in argv[0] else ""
    is_program = os.path.isfile(started) and (argv[0].startswith(".") or os.access(started, os.X_OK))
    return ((started, _digest(started)),) if is_program else ()


def _forms(argv: tuple[str, ...], real: str) -> tuple[str, ...]:
    """Return the files an interpreter may take when it is given a path."""
    if os.path.isfile(real):
        return (real,)
    names = tuple(posixpath.basename(word) for word in argv)
    if any(map(_MODULES().fullmatch, names)):
        inside = tuple(
            f"{real}/{name}" for name in ("package.json", *(f"index{end}" for end in _MODULE_ENDINGS))
        )
        return (
            *(() if os.path.isdir(real) else (real,)),
            *(f"{real}{end}" for end in _MODULE_ENDINGS),
            *inside,
        )
    if os.path.isdir(real) and any(name.startswith(("python", "pypy", "ipython")) for name in names):
        return (f"{real}/__main__.py",)
    return (real,)


def _in_workspace(named: str, folder: str, boundary: Boundary) -> str:
    """Return the real path of a word in the workspace, "" for any other."""
    if not folder or UNRESOLVED in named:  # only the running shell knows the file
        return ""
    real = os.path.realpath(os.path.join(folder, named))
    return real if any(is_beneath(real, tree) for tree in boundary.trees) else ""


def _candidates(argv: tuple[str, ...], *, direct: bool) -> Iterator[str]:
    """Return words that may name the script, the likeliest first."""
    if direct and "/" in argv[0]:
        yield argv[0]
    for position, word in enumerate(argv if direct else argv[:1]):
        if INTERPRETERS().fullmatch(posixpath.basename(word)):
            rest = argv[position + 1 :]
            if not _is_given_code(posixpath.basename(word), rest):
                yield from (one for one in rest if not one.startswith("-"))
            return


def _programs(argv: tuple[str, ...]) -> Iterator[str]:
    """Return words that may name a program another one starts: `poetry run ./x`, `git bisect run ./x`."""
    if posixpath.basename(argv[0]) not in (*FILE_TOOLS, *CHECKERS) or argv[1:2] == ("bisect",):
        yield from (word for word in argv[1:] if "/" in word)


def _values(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of what options and settings are given, which may be a command: `--to-command=./x`,
    `-c core.pager='sh x.sh'`, `-o ProxyCommand=./x`."""
    for word in argv[1:]:
        *_, value = word.partition("=")
        if value and _words(value):
            yield _words(value)


def _loaded_by_variables(assignments: tuple[str, ...]) -> Iterator[str]:
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        if is_loader(name):
            yield from _words(value)


def _words(value: str) -> tuple[str, ...]:
    """Return the words of a value, at least one, without the signs that a shell, git and ssh take away."""
    return tuple(word.strip("'\"") for word in value.removeprefix("!").split()) or (value,)


def _loaded_files(argv: tuple[str, ...]) -> Iterator[str]:
    """Return files that options and subcommands of a known runner load, in addition to or instead of a
    script."""
    name = posixpath.basename(argv[0])
    options = _LOADING.get(name, _LOADING["node"] if INTERPRETERS().fullmatch(name) else ())
    for word in argv[1:]:  # joined: `--require=./x.js`, `-r./x.js`
        option, _, value = word.partition("=")
        if option in options:
            yield from _words(value)
        if word[:2] in options and not word.startswith("--"):
            yield from _words(word[2:])
    for option, word in itertools.pairwise((*argv, "")):
        if option in options or (_LETTERS().fullmatch(option) and f"-{option[-1]}" in options):
            yield from _words(word)
        module = _MODULE_OPTION().fullmatch(option) if name.startswith(("python", "pypy")) else None
        if module:
            path = (module.group(1) or word).replace(".", "/")
            yield from (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py")


def _digest(path: str) -> str:
    try:
        return hash_regular(path, MAX_SCRIPT_BYTES)
    except (OSError, ToolError):
        return ""
