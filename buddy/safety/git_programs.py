"""The settings with which git starts programs, and the files of a workspace that they name.

The table is collected from git-config(1) and the manuals it names. A repository unpacked from an archive
brings its own configuration, so each of these may be a stranger's command line; the files that they name,
and hooks, are protected as git's own data is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from buddy.agent.lazy_regex import pattern
from buddy.safety.git_repository import git_folders, read_regular

_KEYS = pattern(
    r"""core\.(?:fsmonitor|hookspath|sshcommand|gitproxy|askpass|editor|pager|alternaterefscommand|worktree)
      | sequence\.editor | pager\..+ | interactive\.difffilter
      | alias\..+ | hook\..+
      | include\.path | includeif\..+\.path
      | filter\..+\.(?:clean|smudge|process)
      | diff\.external | diff\..+\.(?:command|textconv)
      | merge\..+\.driver
      | (?:diff|merge)\.(?:gui)?tool | (?:diff|merge)tool\..+\.(?:cmd|path)
      | log\.(?:diffmerges|showsignature)
      | gpg\.(?:.+\.)?(?:program|defaultkeycommand)
      | credential\.(?:.+\.)?helper
      | extensions\.partialclone | remote\..+\.(?:promisor|partialclonefilter)
      | remote\..+\.(?:uploadpack|receivepack|vcs|proxy)
      | uploadpack\.packobjectshook | protocol\.(?:.+\.)?allow | ssh\.variant
      | trailer\..+\.(?:command|cmd)
      | init\.templatedir | tar\..+\.command | imap\.tunnel
      | (?:browser|man|guitool)\..+\.(?:cmd|path) | web\.browser | help\.browser | instaweb\..+
      | sendemail\.(?:.+\.)?(?:smtpserver|sendmailcmd|tocmd|cccmd|headercmd)
      | svn\..+\.(?:authors-?prog) | lfs\.(?:customtransfer|extension)\..+
      | gc\.recentobjectshook""",
    re.VERBOSE,
)
"""Keys (section and variable in lower case) whose value is run, or decides which program is run."""

_FILES = pattern(
    r"""blame\.ignorerevsfile | core\.(?:excludesfile|attributesfile) | commit\.template
      | (?:.+\.)?fsck\.skiplist | mailmap\.(?:file|blob) | diff\.orderfile | format\.signaturefile
      | gpg\.ssh\.(?:allowedsignersfile|revocationfile) | http\.(?:.+\.)?(?:cookiefile|ssl.+)
      | fetch\.bundleuri | extensions\.refstorage | log\..*file""",
    re.VERBOSE,
)
"""Keys whose value is a file that git reads; git prints the lines it does not understand."""

_BOOLEANS = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})
_MAY_BE_BOOLEAN = ("core.fsmonitor", "pager.")
_HARMLESS_DIFF_MERGES = frozenset(
    {"off", "none", "on", "m", "first-parent", "1", "separate", "c", "combined", "cc", "dense-combined"}
)
_FALSE = frozenset({"false", "no", "off", "0"})


def names_file(key: str) -> bool:
    """Tell whether the value of a setting is a file that git reads."""
    return _FILES().fullmatch(key.lower()) is not None


def starts_program(key: str, value: str | None) -> bool:
    """Tell whether a setting is a command line, or decides which program, file or server git uses. `value` is
    None when it is not known."""
    section, _, rest = key.partition(".")
    subsection, _, variable = rest.rpartition(".")
    section, variable = section.lower(), variable.lower()
    key = f"{section}.{subsection}.{variable}" if subsection else f"{section}.{variable}"
    if value is not None:
        value = value.strip()
        harmless = _is_harmless(section, subsection, variable, key, value)
        if harmless is not None:
            return not harmless
    if (section, variable) in (("url", "insteadof"), ("url", "pushinsteadof"), ("submodule", "update")):
        return True
    return _KEYS().fullmatch(key) is not None


def _is_harmless(section: str, subsection: str, variable: str, key: str, value: str) -> bool | None:
    """Tell whether a value is harmless where the value decides; None where the key alone does."""
    if section == "alias" or (section == "submodule" and variable == "update"):
        return not value.startswith("!")
    if section == "url" and variable in ("insteadof", "pushinsteadof"):
        return "::" not in subsection
    if section == "remote" and variable in ("url", "pushurl"):
        return "::" not in value
    if key.startswith(_MAY_BE_BOOLEAN) and value.lower() in _BOOLEANS:
        return True
    if key == "log.diffmerges":
        return value.lower() in _HARMLESS_DIFF_MERGES
    if key == "log.showsignature" or (section == "remote" and variable == "promisor"):
        return value.lower() in _FALSE
    return None


NAMED_BY_GIT = "git runs it: a setting of git names it"
_SYSTEM = ("/etc/gitconfig",)
_PERSONAL = (".gitconfig", ".config/git/config")
_MAX_CONFIG_BYTES = 1_000_000
_MAX_INCLUDED = 100
"""Files that are read, of those that one includes."""
_INCLUDED = "include.path"
_FOLDERS = ("core.hookspath", "init.templatedir")
"""Keys whose value is a folder with programs."""
_INCLUDES = pattern(r"include\.path|includeif\..*\.path")
_SECTION = pattern(r'[ \t]*\[\s*([-.\w]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = pattern(r"\s*([A-Za-z][-A-Za-z0-9]*)[ \t]*=[ \t]*")
_BLANKS = " \t\r"
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n"}
_WORD = pattern(r"[^\s\"'`;|&()<>=$,!]+")
"""Part of a command line that may be a path. Of `$(pwd)/tool`, that is `/tool`."""


def programs_of_git(
    trees: Iterable[str], home: str, *, within: Sequence[str] = (), settings: Sequence[str] = ()
) -> frozenset[str]:
    """Return the paths that the settings of some repositories, or the person's own, name as programs, as
    folders of programs, or as further settings. They need not exist. `trees`: working trees and bare
    repositories; `within`: only paths below one of these folders count, where they are not the trees
    themselves; `settings`: files of the person's settings beside the usual ones."""
    trees = tuple(trees)
    files = (*_SYSTEM, *(os.path.join(home, name) for name in _PERSONAL), *settings)
    shared = tuple(setting for file in dict.fromkeys(files) for setting in _settings(file, home))
    places = tuple(f"{place.rstrip('/')}/" for place in within or trees)
    found: set[str] = set()
    for tree in trees:
        folders = git_folders(tree) if os.path.lexists(os.path.join(tree, ".git")) else (tree,)
        own = tuple(
            setting
            for folder in folders
            for name in ("config", "config.worktree")
            for setting in _settings(os.path.join(folder, name), home)
        )
        moved = tuple(
            os.path.realpath(os.path.join(folders[0], value)) for key, value in own if key == "core.worktree"
        )
        for key, value in (*own, *shared):
            hooks = folders[:1] if key == "core.hookspath" else ()  # those of a push run in git's own folder
            for base in (tree, *moved, *hooks):
                found.update(path for path in _named(base, key, value, home) if path.startswith(places))
    return frozenset(found)


def _named(base: str, key: str, value: str, home: str) -> Iterator[str]:
    """Yield the real paths that a value may name, for a program that starts in the folder `base`."""
    is_path = key in _FOLDERS or key == _INCLUDED
    for text in dict.fromkeys((value, value.replace("\t", " "))):  # git before 2.45 reads a blank for a tab
        spelled = text.replace("${HOME}", home).replace("$HOME", home)
        words = (
            (text.strip(" "),)
            if is_path
            else dict.fromkeys((*_WORD().findall(text), *_WORD().findall(spelled)))
        )
        for word in words:
            expanded = _expand(word, home)
            for path in dict.fromkeys((os.path.join(base, expanded), f"{base}/{expanded}")):
                real = os.path.realpath(path)
                if is_path or os.path.isfile(real) or ("/" in word and not os.path.isdir(real)):
                    yield real


def _expand(word: str, home: str) -> str:
    """Return a path of git's settings with the home folder in place of `~`, or that of a user."""
    if word.startswith("~/"):
        return home + word[1:]
    return os.path.expanduser(word) if word.startswith("~") and "\0" not in word else word


def _settings(top: str, home: str) -> tuple[tuple[str, str], ...]:
    """Return the settings of a file, and of the files it includes, that start programs."""
    found: list[tuple[str, str]] = []
    waiting, seen = [top], set[str]()
    while waiting and len(seen) < _MAX_INCLUDED:
        path = waiting.pop()
        try:
            state = os.stat(path)
        except (OSError, ValueError):
            continue
        if path in seen:
            continue
        seen.add(path)
        for key, value in _read(path, state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino):
            if _INCLUDES().fullmatch(key):
                more = os.path.normpath(os.path.join(os.path.dirname(path), _expand(value, home)))
                found.append((_INCLUDED, more))
                waiting.append(more)
            else:
                found.append((key, value))
    return tuple(found)


@lru_cache(1024)
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
            length = len(kept) if is_quoted or char not in _BLANKS else length
        at += 1
    return kept[:length], at + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
