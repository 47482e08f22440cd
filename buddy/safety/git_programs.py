"""Files of a workspace that git's settings name as programs or hooks: git runs them, so they are protected as
git's own data is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache

from buddy.agent.lazy_regex import pattern
from buddy.safety.git_keys import starts_program
from buddy.safety.git_repository import git_folders, read_regular

NAMED_BY_GIT = "git runs it: a setting of git names it"
_MAX_CONFIG_BYTES = 200_000
_MAX_INCLUDES = 5
"""How far files that include files are followed."""
_FOLDERS = ("core.hookspath", "init.templatedir")
"""Keys whose value is a folder with programs."""
_INCLUDES = pattern(r"include\.path|includeif\..*\.path")
_SECTION = pattern(r'[ \t]*\[\s*([-.\w]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = pattern(r"\s*([A-Za-z][-A-Za-z0-9]*)[ \t]*=[ \t]*")
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n"}
_WORD = pattern(r"[^\s\"'`;|&()<>=$,!]+")
"""Part of a command line that may be a path. Of `$(pwd)/tool`, that is `/tool`."""


def programs_of_git(trees: Sequence[str], home: str) -> frozenset[str]:
    """Return the paths below some working trees that the settings of their repositories, or the person's own,
    name as programs, as folders of programs, or as further settings. They need not exist."""
    shared = _settings(os.path.join(home, ".gitconfig"), home)
    shared += _settings(os.path.join(home, ".config/git/config"), home)
    found: set[str] = set()
    for tree in trees:
        files = (
            os.path.join(top, name) for top in git_folders(tree) for name in ("config", "config.worktree")
        )
        own = tuple(setting for file in files for setting in _settings(file, home))
        for is_path, text in (*own, *shared):
            found.update(_named(tree, text, home, is_path=is_path))
    return frozenset(found)


def _named(tree: str, text: str, home: str, *, is_path: bool) -> Iterator[str]:
    words = (text.strip(),) if is_path else _WORD().findall(text)
    for word in words:
        expanded = home + word[1:] if word.startswith("~/") else word
        for path in dict.fromkeys((os.path.join(tree, expanded), f"{tree}/{expanded}")):
            real = os.path.realpath(path)
            is_program = os.path.isfile(real) or ("/" in word and not os.path.isdir(real))
            if real.startswith(tree + "/") and (is_path or is_program):
                yield real


def _settings(path: str, home: str, depth: int = 0) -> tuple[tuple[bool, str], ...]:
    """Yield the settings of a file that start programs, each with whether it is only a path."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return ()
    found: tuple[tuple[bool, str], ...] = ()
    for key, value in _read(path, state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino):
        if _INCLUDES().fullmatch(key):
            more = os.path.join(os.path.dirname(path), home + value[1:] if value.startswith("~/") else value)
            found += ((True, more), *(_settings(more, home, depth + 1) if depth < _MAX_INCLUDES else ()))
        else:
            found += ((key in _FOLDERS, value),)
    return found


@lru_cache(64)
def _read(path: str, *_state: int) -> tuple[tuple[str, str], ...]:
    """Read the settings of a file that start programs, for this state of the file."""
    text = read_regular(path, _MAX_CONFIG_BYTES).decode("utf-8-sig", errors="replace")
    return tuple((name, value) for name, value in parse_settings(text) if starts_program(name, value))


def parse_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names, in small letters, and values of a configuration file as git reads them
    (`git-config(1)`, "Syntax"): quotes, escapes, comments and lines that go on. What git would refuse is read
    as far as it goes; a value with a NUL names no file and is left out."""
    at, section = 0, ""
    while at < len(text):
        if heading := _SECTION().match(text, at):
            section = heading[1] if heading[2] is None else f"{heading[1]}.{heading[2]}"
            at = heading.end()
        elif setting := _SETTING().match(text, at):
            value, at = _value(text, setting.end())
            if "\0" not in value:
                yield f"{section}.{setting[1]}".lower(), value
        else:  # a comment, an empty line, a name without a value
            at = _line_end(text, at) + 1


def _value(text: str, at: int) -> tuple[str, int]:
    """Return a value and the start of the next line. Trailing blanks outside quotes are cut."""
    kept, length, is_quoted = "", 0, False
    while at < len(text) and text[at] != "\n":
        char = text[at]
        if char == "\\":
            rest = "\r\n" if text.startswith("\r\n", at + 1) else text[at + 1 : at + 2]
            at += 1 + len(rest)
            if not rest.endswith("\n"):
                kept += _ESCAPES.get(rest, rest)
                length = len(kept)
            continue
        if char in "#;" and not is_quoted:
            at = _line_end(text, at)
            break
        if char == '"':
            is_quoted = not is_quoted
            length = len(kept)
        else:
            kept += char
            length = len(kept) if is_quoted or not char.isspace() else length
        at += 1
    return kept[:length], at + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
