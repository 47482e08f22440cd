"""Commands of the person that run code of the project, recognised by their words.

A hook that runs `make` or `npm test` runs what the model wrote a moment ago. Such a command belongs into the
sandbox even if the person wrote it; a command that notifies or writes a log does not. Over-approximated from
the text: a word that only looks like such a program confines a hook that would not have needed it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from buddy.agent.lazy_regex import pattern

_RUNNERS = frozenset(
    {
        *("make", "gmake", "cmake", "ctest", "ninja", "meson", "bazel", "buck", "buck2", "just", "task"),
        *("rake", "mage", "scons", "waf", "npm", "npx", "pnpm", "pnpx", "yarn", "yarnpkg", "bun", "bunx"),
        *("deno", "corepack", "lerna", "nx", "turbo", "grunt", "gulp", "gradle", "gradlew", "mvn", "mvnw"),
        *("ant", "sbt", "lein", "mill", "cargo", "go", "zig", "dotnet", "msbuild", "swift", "xcodebuild"),
        *("mix", "rebar3", "stack", "cabal", "dune", "opam", "nimble", "pytest", "py.test", "tox", "nox"),
        *("hatch", "pdm", "poetry", "pipenv", "uv", "uvx", "pip", "pip3", "pipx", "coverage", "unittest"),
        *("mypy", "pylint", "flake8", "pre-commit", "prek", "lefthook", "husky", "eslint", "prettier"),
        *("stylelint", "jest", "vitest", "mocha", "ava", "tap", "c8", "nyc", "karma", "cypress"),
        *("playwright", "tsc", "tsx", "ts-node", "vite", "webpack", "rollup", "parcel", "next", "nuxt"),
        *("astro", "svelte-check", "bundle", "rspec", "rubocop", "rails", "composer", "phpunit"),
        *("phpstan", "psalm", "pest", "artisan", "docker", "docker-compose", "podman", "vagrant", "nix"),
        *("nix-shell", "direnv", "git", "gh", "source"),
    }
)
"""Programs that run code, plug-ins or settings with code of the folder they are started in."""
_INTERPRETERS = pattern(
    r"(?:python|pypy|ruby|node|nodejs|perl|php|lua|bash|sh|zsh|dash|ksh|fish|java|Rscript|tclsh|julia|elixir"
    r"|groovy|pwsh)[\d.]*"
)
_TAKES_CODE = frozenset({"-m", "-c", "-e", "-s", "-", "-r", "--eval", "--require", "--import"})
"""Options with which an interpreter reads code of the folder it is started in, or code from elsewhere."""
_ASKS_ABOUT_ITSELF = frozenset({"-V", "-v", "--version", "--help"})
_CODE_OPTIONS = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), ("-f", "--file", "-E", "--exec", "--include")),
    **dict.fromkeys(("vi", "vim", "nvim", "ex"), ("-s", "-S", "-u")),
    "gdb": ("-x", "--command"),
    "sqlite3": ("-init", "-cmd"),
    "expect": ("-f",),
}
"""Options of programs before a file with code; without one of them they run none of the project."""
_CHOSEN_PROGRAM = pattern(r"(?:^|[\n;|&({]|\b(?:then|do|else)\b)\s*['\"]?\$(?:\w+|\{[^}]*\})/|\bPATH\+?=")
"""A program behind a variable, or one that another PATH finds."""
_HERE = pattern(r"\$PWD\b|\$\{PWD\}|\$\(pwd\)|`pwd`")
_HOME = pattern(r"\$HOME\b|\$\{HOME\}")
_SOURCED = pattern(r"(?:^|[\n;|&({]|\b(?:then|do|else)\b)\s*\.\s+['\"]?([^\s'\";|&()]+)")
_WORD = pattern(r"[^\s'\"`;|&()<>{}=,]+")
_QUOTED = pattern(r"'[^']*'|\"[^\"]*\"")
_RUNS_TEXT = pattern(r"(?:^|[\s;|&(/])(?:(?:ba|z|da|k|fi)?sh|eval|watch|parallel|su|script|tmux)\s")


def runs_project_code(command: str, folders: tuple[str, ...]) -> bool:
    """Tell whether a shell command may run code that lies in one of these folders."""
    if "CLAUDE_PROJECT_DIR" in command:
        return True
    command = _HERE().sub(lambda _name: folders[0], command)
    command = _HOME().sub(lambda _name: os.path.expanduser("~"), command)
    if _CHOSEN_PROGRAM().search(command):
        return True
    if any(_is_program_in(word, folders) for word in _WORD().findall(command)):
        return True
    words = _WORD().findall(command if _RUNS_TEXT().search(command) else _without_sentences(command))
    names = [os.path.basename(word) for word in words]
    if not _RUNNERS.isdisjoint(names):
        return True
    if any(_loads_code(words[place:]) for place, name in enumerate(names) if name in _CODE_OPTIONS):
        return True
    sourced = _SOURCED().search(command)
    if sourced and not _lies_elsewhere(sourced[1], folders):
        return True
    rests = [words[place + 1 :] for place, name in enumerate(names) if _INTERPRETERS().fullmatch(name)]
    if not rests:
        return False
    return not _TAKES_CODE.isdisjoint(_options(words)) or any(_starts_script(rest, folders) for rest in rests)


def _loads_code(words: list[str]) -> bool:
    """Tell whether a program that has an option for it may load a file with code."""
    options = _CODE_OPTIONS[os.path.basename(words[0])]
    return any(word in options or (word[:2] in options and word[1] != "-") for word in words[1:])


def _starts_script(rest: list[str], folders: tuple[str, ...]) -> bool:
    """Tell whether an interpreter may take a script of the project: from a path that is not for certain
    somewhere else, or, without a path, from a pipe. `rest` are the words behind it."""
    script = next((word for word in rest if not word.startswith("-")), "")
    if not script:
        return _ASKS_ABOUT_ITSELF.isdisjoint(rest)
    return not _lies_elsewhere(script, folders)


def _lies_elsewhere(word: str, folders: tuple[str, ...]) -> bool:
    """Tell whether a word is a whole path outside of the project: a relative one may follow a `cd`."""
    path = os.path.expanduser(word)
    return os.path.isabs(path) and not _is_program_in(word, folders)


def _without_sentences(command: str) -> str:
    """Leave out quoted texts with blanks: words for people, as nothing runs them."""
    return _QUOTED().sub(lambda quoted: " " if re.search(r"\s", quoted[0]) else quoted[0], command)


def _options(words: list[str]) -> Iterator[str]:
    for word in words:
        yield word
        if re.fullmatch(r"-[A-Za-z]{2,}", word):  # -lc is -l -c
            yield from (f"-{letter}" for letter in word[1:])


def _is_program_in(word: str, folders: tuple[str, ...]) -> bool:
    """Tell whether a word names something in the project that can be run."""
    if word.startswith(("./", "../")):
        return True
    if "/" not in word:
        return False
    real = [
        os.path.realpath(path)
        for folder in folders
        if os.path.exists(path := os.path.join(folder, os.path.expanduser(word)))
    ]
    return any(path.startswith(folder.rstrip("/") + "/") for path in real for folder in folders)
