"""Files that the options, the code and the variables of a command load.

Programs have too many options for a table of them. What any option is given, what code in quotes mentions and
what a variable of an interpreter holds is therefore looked up as a file or a module of the workspace,
whatever the option is called. A file counted too often costs a question when it changes; one that is missed
would run unseen.
"""

from __future__ import annotations

import glob
import itertools
import os
import posixpath
from collections.abc import Iterable, Iterator

from buddy.agent.lazy_regex import pattern
from buddy.safety.paths import Boundary, is_beneath
from buddy.safety.shell.programs.names import words
from buddy.safety.shell.result import UNRESOLVED

INTERPRETERS = pattern(
    r"(?:ba|da|z|k|mk|fi|a)?sh|python[0-9.]*|pypy[0-9.]*|node|nodejs|deno|bun|ruby|perl|php|lua|luajit"
    r"|Rscript|julia|tclsh|wish|expect|osascript|pwsh|swift|groovy|scala|kotlin|elixir|escript|ocaml|ipython3?"
    r"|ts-node|tsx|source|\."
)
"""Programs whose first argument that is a file is a script."""

FILE_TOOLS = words(
    "git hg svn cp mv rm ln chmod chown chgrp touch mkdir install tar zip unzip rsync scp gzip xz zstd patch "
    "diff tee truncate dd shred sed awk"
)
"""Programs that work on the files they are given and start none of them."""

CHECKERS = words(
    "perltidy ruff black isort mypy pyright pylint flake8 bandit prettier eslint biome stylelint standard "
    "shellcheck shfmt rustfmt gofmt clang-format clang-tidy rubocop pytest py.test rspec jest vitest "
    "mocha ava phpunit tsc gcc g++ cc c++ clang clang++ rustc cargo go javac"
)
"""Programs of a working day that are run again after each change of the files they are given. Most options in
front of such a file take none: only what is joined to one, and what the options below get, is loaded."""
_CHECKERS_LOAD = words(
    "--config --config-file --config-path --configfile --rcfile --settings-file --settings-path --sp "
    "--plugin --plugins --load-plugins --require --import --import-path --parser --rulesdir "
    "--resolve-plugins-relative-to --formatter --format --bootstrap --setupFiles --globalSetup --globalsetup "
    "--environment --reporter --loader --runner --transform -p -r -O -specs -wrapper -B -vettool -toolexec "
    "-exec -overlay -modfile -processorpath -load -T "
    "--setupFilesAfterEnv --opts -f"
)
_CONFIGURED_BY_C = words("pytest py.test eslint jest vitest phpunit rubocop mocha isort")
"""Checkers whose `-c` is given a configuration; `gcc -c` is given the source."""

_WRAPPERS = words(
    "uv uvx npx pnpx pnpm yarn npm bunx poetry pipenv hatch pdm rye pixi conda mamba bundle xvfb-run env "
    "timeout nice ionice nohup setsid stdbuf time command exec sudo doas caffeinate chronic "
    "unbuffer coverage dotenv"
)
"""Programs behind whose own words another program's begin."""

_WITH_SUBCOMMANDS = words("deno bun")

_RUN_THEIR_FILES = words(
    "ansible-playbook ansible-pull crontab logrotate k6 newman gnuplot m4 octave nextflow snakemake foreman "
    "java mono dotnet wasmtime uvicorn gunicorn hypercorn streamlit papermill mongosh stack R nix-shell "
    "nix-build openvpn stunnel wg-quick tmux socat terraform gem"
)
"""Programs whose arguments are files that say what to run."""

_DATA = pattern(
    r"-{1,2}(?:o|i|out(?:[-_]?(?:put|file|dir|path))?|in(?:[-_]?(?:put|file))?|(?:out|in)put-\w+|\w+-(?:out|in)put"
    r"|data(?:[-_]?(?:file|set))?|csv|log(?:[-_]?(?:file|path))?|reports?(?:[-_]?\w+)?|junit[-_]?(?:xml|path|prefix)?)"
)
"""Options that are given what a program reads as data, or writes."""

_LOADERS = pattern(
    r"(?:BASH_)?ENV|\w*(?:PRELOAD|AUDIT|STARTUP|CONFIG\w*|CONF|OPTIONS|OPTS?|RC|PAGER|EDITOR|DIFF|COMMAND|ASKPASS"
    r"|SHELL|SSH|INIT\w*|FLAGS|MAKEFILES|PLUGINS?|HOOKS?|WRAPPER|AGENT|GEMFILE|COMPOSE_FILE|BREAKPOINT)"
)
"""Variables whose value is a program, or a file that a program loads."""
_SEARCH_PATHS = pattern(r"\w*(?:LIB|PATH|_HOME|_DIR|INPUTS)|GOFLAGS")
_ASSIGNMENT = pattern(r"([A-Za-z_]\w*)=(.*)", flags=16)

_SEPARATORS = pattern(r"[\s'\"`;|&()<>{}\[\],=@!\\]+|(?<!:):(?!:)")
_IS_CODE = pattern(r"[\s'\"`;()]")
_LETTER = pattern(r"-[A-Za-z0-9]")
_HAS_VALUE = pattern(r"-.*=.*|-[A-Za-z][0-9]+")
_MODULE = pattern(r"[\w:./-]*\w")
_MODULE_ENDINGS = (
    *(".py", ".pm", ".pl", ".rb", ".lua", ".js", ".cjs", ".mjs", ".ts", ".jl", ".so", ".class", ".jq", ".el"),
    *("/__init__.py", "/__main__.py", "/index.js", "/init.lua", "/package.json"),
)
MAX_PIECES = 300
MAX_FOLDERS = 4
MAX_LETTERS = 4
"""Letters of options written together before a value: `perl -wMx`."""
MAX_HOOKS = 50


def named_files(
    argv: tuple[str, ...], assignments: tuple[str, ...], folder: str, boundary: Boundary
) -> tuple[str, ...]:
    """Return the real paths of the workspace's files that a command's options, code and variables name, each
    once; only "" for a command that has too many words to look all of them up."""
    pieces = tuple(itertools.islice(_pieces(_texts(argv, assignments)), MAX_PIECES + 1))
    if len(pieces) > MAX_PIECES:
        return ("",)
    folders = [folder]
    for place in (*pieces, *itertools.chain.from_iterable(map(_split, _search_paths(argv, assignments)))):
        path = os.path.join(folder, place)
        if len(folders) <= MAX_FOLDERS and path not in folders and os.path.isdir(path):
            folders.append(path)
    found: dict[str, None] = {}
    if argv and posixpath.basename(argv[0]) == "git":  # -c core.hooksPath=folder
        hooks = (path for place in folders[1:] for path in sorted(glob.iglob(f"{glob.escape(place)}/*")))
        pieces = (*pieces, *itertools.islice(hooks, MAX_HOOKS))
    for start, piece in itertools.product(folders, pieces):
        for form in _forms(piece):
            path = os.path.join(start, form)
            if os.path.isfile(path):
                real = os.path.realpath(path)
                if any(is_beneath(real, tree) for tree in boundary.trees):
                    found[real] = None
    return tuple(found)


def is_wrapper(name: str) -> bool:
    """Tell whether another program's words begin behind a program's own."""
    return name in _WRAPPERS


def names_files(argv: tuple[str, ...], assignments: tuple[str, ...]) -> bool:
    """Tell whether a command has options, code or variables that may name a file, without looking for it."""
    return any(_pieces(_texts(argv, assignments)))


def is_loader(name: str) -> bool:
    """Tell whether a variable holds a program, or a file that a program loads."""
    return _LOADERS().fullmatch(name) is not None


def _texts(argv: tuple[str, ...], assignments: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts that may name something that is loaded."""
    for assignment in (*assignments, *argv):
        variable = _ASSIGNMENT().fullmatch(assignment)
        if variable and is_loader(variable[1]):
            yield variable[2]
    if argv:
        yield from _words_of(argv)


def _search_paths(argv: tuple[str, ...], assignments: tuple[str, ...]) -> Iterator[str]:
    for assignment in (*assignments, *argv):
        variable = _ASSIGNMENT().fullmatch(assignment)
        if variable and _SEARCH_PATHS().fullmatch(variable[1]):
            yield variable[2]


def _words_of(argv: tuple[str, ...]) -> Iterator[str]:
    name = posixpath.basename(argv[0])
    before = ""
    for position, word in enumerate(argv[1:], 1):
        if name in _WRAPPERS and _is_known(posixpath.basename(word)):
            yield from _words_of(argv[position:])
            return
        if before == "-m" and name.startswith(("python", "pypy")):
            yield word
            yield from _words_of(argv[position:])
            return
        is_option = word.startswith("-") and word != "-"
        if (
            INTERPRETERS().fullmatch(name)
            and name not in _WITH_SUBCOMMANDS
            and not is_option
            and not before.startswith("-")
        ):
            return  # the script's own words
        if UNRESOLVED not in word and _may_load(name, before, word):
            yield word
        before = word


def _is_known(name: str) -> bool:
    if name == "install":  # of a package manager
        return False
    return name in FILE_TOOLS or name in CHECKERS or INTERPRETERS().fullmatch(name) is not None


def _may_load(name: str, before: str, word: str) -> bool:
    """Tell whether a word of a program, behind another one, may name what the program loads."""
    option, joined, _ = word.partition("=")
    if name in FILE_TOOLS:
        return before == "-c" and bool(joined)  # git -c include.path=x
    if word.startswith("-"):
        return not (joined and _DATA().fullmatch(option))
    if word.startswith("@"):
        return True
    if name in CHECKERS:
        return (
            before in _CHECKERS_LOAD
            or (before == "-c" and name in _CONFIGURED_BY_C)
            or (before == "-o" and bool(joined))  # pytest -o addopts=…
        )
    if name in _RUN_THEIR_FILES:
        return True
    if before.startswith("-") and not _HAS_VALUE().fullmatch(before):
        return _DATA().fullmatch(before) is None or bool(joined) or _IS_CODE().search(word) is not None
    return _IS_CODE().search(word) is not None


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """Yield whatever may be a name in texts, each once: words between signs, and what follows an option's
    letter."""
    seen: set[str] = set()
    for text in texts:
        for piece in (text, *_split(text)):
            letters = MAX_LETTERS if _LETTER().match(piece) else 0
            tails = (piece[at:].lstrip("-") for at in range(2, 2 + letters))
            for name in (piece.lstrip("-"), *tails):
                if name and name not in seen and len(name) < 4_096:
                    seen.add(name)
                    yield name


def _split(text: str) -> tuple[str, ...]:
    return tuple(piece for piece in _SEPARATORS().split(text) if piece)


def _forms(piece: str) -> Iterator[str]:
    """Yield the paths a name may stand for, as a file or as a module of an interpreter."""
    yield piece
    if _MODULE().fullmatch(piece):
        path = piece.replace("::", "/")
        dotted = "" if "/" in path else path.replace(".", "/")
        for stem in dict.fromkeys((path, dotted or path, os.path.dirname(dotted) or path)):
            yield from (f"{stem}{ending}" for ending in _MODULE_ENDINGS)
