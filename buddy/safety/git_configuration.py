"""Detection of repository configuration that would start programs even when git only reads.

A clone brings no .git/config, but an unpacked archive or a nested repository does, and git searches all
parent folders. Files are read; git is not run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from buddy.safety.git_programs import names_file, starts_program
from buddy.safety.git_repository import (
    IN_EVERY_FOLDER,
    file_outside,
    files_that_wait,
    find_git_folders,
    git_folders,
    ignore_files_that_wait,
    read_regular,
    shared_folder,
    submodules,
)
from buddy.safety.paths import is_beneath

MAX_CONFIG_BYTES = 200_000
_SECTION = re.compile(r'\s*\[\s*([-.\w]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)', re.DOTALL)
_KEY = re.compile(r"\s*([A-Za-z][-A-Za-z0-9]*)\s*(?:=.*)?", re.DOTALL)


class _Value(NamedTuple):
    """The state of a setting's value at the end of a line: whether a quote is open."""

    quoted: bool


def executing_keys(cwd: str, root: str) -> tuple[str, ...]:
    """Return the keys of the repository around `cwd` (and of its submodules) that would start programs or
    lead git elsewhere, as `file: key`; () when there is none, or no repository. `root`: the workspace."""
    found: list[str] = []
    for work_tree, git_dir in find_git_folders(cwd):
        found.extend(_keys_of(cwd, root, work_tree, git_dir))
    return tuple(found)


def may_set(cwd: str, home: str, names: tuple[bytes, ...]) -> bool:
    """Tell whether a configuration that git reads in a folder, the person's too, holds one of these names of
    settings, given in lower case."""
    paths = [
        "/etc/gitconfig",
        os.path.join(home, ".gitconfig"),
        os.path.join(home, ".config", "git", "config"),
    ]
    for _, git_dir in repositories(cwd):
        for folder in (git_dir, *shared_folder(git_dir)):
            paths += (os.path.join(folder, "config"), os.path.join(folder, "config.worktree"))
    texts = (read_regular(path, MAX_CONFIG_BYTES + 1).lower() for path in paths)
    return any(name in text or len(text) > MAX_CONFIG_BYTES for text in texts for name in names)


def repositories(cwd: str) -> Iterator[tuple[str, str]]:
    """Yield the repositories that a git command in a folder reads, each as its working tree and its data: the
    ones git may find, and their submodules."""
    seen: set[str] = set()
    pending = list(find_git_folders(cwd))
    while pending:
        work_tree, git_dir = pending.pop()
        if git_dir in seen:
            continue
        seen.add(git_dir)
        yield work_tree, git_dir
        for path in submodules(git_dir) or ():
            nested = os.path.join(work_tree, path)
            if os.path.lexists(os.path.join(nested, ".git")):
                pending.append((nested, git_folders(nested)[0]))


def _keys_of(cwd: str, root: str, work_tree: str, git_dir: str) -> tuple[str, ...]:
    """Return the dangerous keys of one repository that git may find."""
    if not work_tree:
        return (f"{git_dir}: a repository without a work tree",)
    if not is_beneath(os.path.realpath(git_dir), root) and is_beneath(work_tree, root) and work_tree != root:
        return (f"{git_dir}: a repository whose data lies elsewhere",)
    folders = (git_dir, *shared_folder(git_dir))
    waiting = [path for folder in folders for path in files_that_wait(cwd, work_tree, folder)]
    waiting += ignore_files_that_wait(cwd, (work_tree,), IN_EVERY_FOLDER)
    if waiting:
        return tuple(f"{path}: a pipe or a device, git would wait for it" for path in dict.fromkeys(waiting))
    found: list[str] = []
    for directory in _git_dirs(work_tree, git_dir, set()):
        if not directory:
            return (f"{git_dir}/index: which submodules there are can't be told",)
        for name in ("config", "config.worktree"):
            keys = _keys(os.path.join(directory, name), work_tree)
            found.extend(f"{directory}/{name}: {key}" for key in keys)
    return tuple(found)


def _read(path: str) -> str:
    return read_regular(path, MAX_CONFIG_BYTES + 1).decode(errors="replace")


def _git_dirs(work_tree: str, git_dir: str, seen: set[str]) -> Iterator[str]:
    """Yield the git folders whose configuration counts: those of submodules, and of theirs, too; "" for an
    index that does not tell which there are."""
    if git_dir in seen:
        return
    seen.add(git_dir)
    yield from (git_dir, *shared_folder(git_dir))
    paths = submodules(git_dir)
    if paths is None:
        yield ""
    for path in paths or ():
        nested = os.path.join(work_tree, path)
        if os.path.lexists(os.path.join(nested, ".git")):
            yield from _git_dirs(nested, git_folders(nested)[0], seen)


def _keys(path: str, work_tree: str) -> list[str]:
    """Return the dangerous keys of one configuration file. What cannot be read as one counts as dangerous."""
    text = _read(path)
    if len(text) > MAX_CONFIG_BYTES:
        return ["too long to look through"]
    section = ""
    found: list[str] = []
    value: _Value | None = None
    for line in text.replace("\r\n", "\n").split("\n"):  # what else ends lines elsewhere does not to git
        if value is not None:
            value = _goes_on(value, line)
            continue
        heading = _SECTION.fullmatch(line)
        if heading:
            section = f"{heading[1]}.{heading[2]}" if heading[2] is not None else heading[1]
            line = heading[3]
        if not line.strip() or line.lstrip()[0] in "#;":
            continue
        key = _KEY.fullmatch(line)
        if key is None:
            found.append(f"a line that is no setting: {line.strip()[:40]}")
            continue
        value = _goes_on(_Value(quoted=False), line[key.end(1) :])
        name = f"{section}.{key[1]}".lower()
        known = None if value is not None else _simple_value(line[key.end(1) :])
        if starts_program(name, known) or (names_file(name) and file_outside(known, work_tree)):
            found.append(name)
    return found


def _simple_value(text: str) -> str | None:
    """Return the value after a key, None when there is none or it is written in a way that is not
    followed."""
    if not text.strip():
        return None
    value = text.strip().removeprefix("=").strip()
    return None if re.search(r'[\\"#;]', value) else value


def _goes_on(value: _Value, text: str) -> _Value | None:
    """Return the state of a value that continues on the next line, by git's rules: it does not continue after
    a comment (which begins outside quotes and ends with its line), nor after two backslashes. None: the next
    line is separate."""
    quoted = value.quoted
    at = 0
    while at < len(text):
        if text[at] == "\\":
            if at + 1 == len(text):
                return _Value(quoted)
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        elif text[at] in "#;" and not quoted:
            return None
        at += 1
    return None
