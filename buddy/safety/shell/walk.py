"""A bounded look at what lies beneath some folders, for commands that follow links or split names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from buddy.safety.git_files import (
    files_that_wait,
    odd_ignore_files,
    repository_around,
)
from buddy.safety.paths import is_beneath
from buddy.safety.protected import is_plain_name
from buddy.safety.sanitise import visible
from buddy.safety.shell.git_index import tracked_paths
from buddy.safety.shell.names import words
from buddy.safety.shell.picks import Candidate, Filter, content_filter, hunts_secrets
from buddy.safety.shell.place import JudgedCommand, RefusedError, is_public
from buddy.safety.shell.verdict import UNRESOLVED

MAX_ENTRIES = 10_000
INSTALLED = words(".git node_modules .venv venv site-packages __pycache__ .tox .mypy_cache .ruff_cache")


class TooManyError(RefusedError):
    """There is more beneath a folder than is looked at."""


def check_links(judged: JudgedCommand, roots: tuple[str, ...], filters: tuple[Filter, ...] = ()) -> None:
    """Refuse when a link beneath the folders that comes through all filters leads somewhere that may not be
    read. Folders that links lead to are looked through as well: what follows one link follows the next."""
    for entry in _entries(judged, roots, follow=True):
        if entry.is_symlink() and all(test(_candidate(judged, entry)) for test in filters):
            judged.read(entry.path)


def check_ignore_files(judged: JudgedCommand, roots: tuple[str, ...], names: frozenset[str]) -> None:
    """Refuse where a file that says what a search leaves out is a pipe or a device, which the search would
    wait for, or a link of the workspace to what may not be read: the search prints lines of it."""
    cwd = judged.place.boundary.cwd
    work_tree, git_dir = repository_around(cwd)
    known = [root for root in roots or (".",) if UNRESOLVED not in root]
    waits, links = odd_ignore_files(cwd, known, names)
    waiting = [
        *waits,
        *(files_that_wait(cwd, work_tree, git_dir) if work_tree else ()),
    ]
    if waiting:
        raise RefusedError(f"{judged.argv[0]} would wait for {visible(waiting[0])}, a pipe or a device")
    for path in links:
        if any(is_beneath(path, tree) for tree in judged.place.boundary.trees):
            judged.read(path)


def check_special_files(judged: JudgedCommand, roots: tuple[str, ...]) -> None:
    """Refuse where a pipe or a device lies beneath the folders of a search that opens whatever it meets."""
    for entry in _entries(judged, roots, follow=True):
        if not (entry.is_file() or entry.is_dir()) and os.path.exists(entry.path):
            raise RefusedError(f"{judged.argv[0]} would wait for {visible(entry.path)}, a pipe or a device")


def check_secrets(
    judged: JudgedCommand, roots: tuple[str, ...], filters: tuple[Filter, ...] = (), *, follow: bool = False
) -> None:
    """Refuse when a secret file that comes through all filters lies beneath the folders; with `follow` also
    in folders that links lead to. What package managers put there is not looked through."""
    outside = [
        root
        for root in roots
        if UNRESOLVED not in root
        and is_public(os.path.realpath(os.path.join(judged.place.boundary.cwd, root)))
    ]
    if roots and len(outside) == len(roots):
        return  # what the system brings
    telling: dict[str, bool] = {}
    for entry in _entries(judged, roots, skip=INSTALLED, follow=follow):
        folder = entry.path[: -len(entry.name)]
        if folder not in telling:
            telling[folder] = _may_be_secret(os.path.relpath(folder, judged.place.boundary.cwd))
        if not (telling[folder] or not is_plain_name(entry.name)) or _is_folder(entry):
            continue
        candidate = _candidate(judged, entry)
        if all(test(candidate) for test in filters):
            judged.read(entry.path)


def _may_be_secret(path: str) -> bool:
    return not all(map(is_plain_name, path.replace("..", "").split("/")))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that goes round in circles
        return False


def _candidate(judged: JudgedCommand, entry: os.DirEntry[str]) -> Candidate:
    return Candidate(os.path.normpath(entry.path), os.path.relpath(entry.path, judged.place.boundary.cwd))


def check_search(
    judged: JudgedCommand,
    roots: tuple[str, ...],
    expression: re.Pattern[str] | None,
    filters: tuple[Filter, ...],
    *,
    follow: bool = False,
) -> None:
    """Refuse a search that may show lines of a secret file beneath the folders; with `follow` also in those
    that links lead to."""
    content = content_filter(expression)
    hunts = hunts_secrets(expression)
    try:
        passing = filters if hunts or content is None else (*filters, content)
        check_secrets(judged, roots, passing, follow=follow)
    except TooManyError:
        if hunts:
            raise


def check_names(judged: JudgedCommand, roots: tuple[str, ...], separators: str) -> None:
    """Refuse when a name would be split into pieces that may not be read: they are names of their own."""
    cwd = judged.place.boundary.cwd
    for entry in _entries(judged, roots):
        if not re.search(separators, entry.name):
            continue
        if re.search(r"['\"\\]", entry.name):
            raise RefusedError(f"quotes in the name {entry.name!r} would be taken away")
        for piece in re.split(separators, os.path.relpath(entry.path, cwd))[1:]:
            judged.read(piece)


def check_dashes(judged: JudgedCommand, program: str) -> None:
    """Refuse where a name in the working directory begins with a dash: listed without a folder in front, it
    would be an option."""
    cwd = judged.place.boundary.cwd
    names = os.listdir(cwd)
    work_tree, _ = repository_around(cwd)
    for path in (tracked_paths(work_tree) if work_tree else None) or ():
        if path.startswith(cwd + "/"):  # git lists what is deleted in the working tree, too
            names.append(path[len(cwd) + 1 :])
    odd = next((name for name in names if name.startswith("-")), "")
    if odd:
        raise RefusedError(f"the name {odd[:60]!r} would be an option of {program}")


def _entries(
    judged: JudgedCommand, roots: tuple[str, ...], skip: frozenset[str] = frozenset(), *, follow: bool = False
) -> Iterator[os.DirEntry[str]]:
    """Everything beneath the folders, depth first; with `follow` also what lies in folders of the workspace
    that links lead to, each once."""
    seen = 0
    linked: set[str] = set()
    cwd = judged.place.boundary.cwd  # found names are looked at where they were found
    pending = [os.path.join(cwd, root) for root in roots or (".",) if UNRESOLVED not in root]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_ENTRIES:
                        raise TooManyError("there are too many files to see where all of them lead")
                    yield entry
                    if entry.name in skip:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif follow and entry.is_symlink() and _is_folder(entry):
                        real = os.path.realpath(entry.path)
                        if real not in linked and _is_ours(judged, real):
                            linked.add(real)
                            pending.append(entry.path)
        except OSError:
            continue  # what cannot be listed cannot be followed either


def _is_ours(judged: JudgedCommand, real: str) -> bool:
    """Tell whether a folder lies in the workspace: links out of it are refused where they are read."""
    boundary = judged.place.boundary
    return any(is_beneath(real, root) for root in (boundary.root, *boundary.extra))
