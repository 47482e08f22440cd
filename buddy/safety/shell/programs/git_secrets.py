"""Secret files in what git shows: attributes switch their diffs off; blobs and folders without their path are
refused."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from buddy.safety.git_repository import read_regular, repository_around, shared_folder, tracked_by_name
from buddy.safety.shell.context import JudgedCommand, RefusedError
from buddy.safety.shell.git_objects import Objects, revisions
from buddy.safety.shell.programs.names import word_list, words
from buddy.safety.shell.programs.options import Given
from buddy.safety.shell.secret_search import INSTALLED, MAX_ENTRIES

MAX_ATTRIBUTES_BYTES = 200_000
_SHOWS_OBJECTS = frozenset({"show", "diff", "diff-tree", "diff-index", "grep", "cat-file"})
"""Subcommands that show blobs and folders named by a hash or a reference."""

_SHOWS_DIFFS = words("show diff diff-tree diff-index diff-files range-diff")
"""Subcommands that show the content of files unless an option says otherwise."""

_LISTS_ONLY = words(
    "--stat --numstat --shortstat --name-only --name-status --raw --summary -s --dirstat --compact-summary "
    "--no-patch --quiet --cumulative"
)
"""Options with which a diff shows names and numbers instead of content."""

_SHOWS_CONTENT = words(
    "-p -u --patch -U --unified -c --cc -W --function-context --binary --word-diff --color-words "
    "--patch-with-raw --word-diff-regex --check --full-diff --diff-merges -m --remerge-diff"
)
"""Options with which content is shown after all."""

_MANY_REFERENCES = ("--all", "--tags", "--remotes", "--glob", "--reflog", "-g", "--walk-reflogs")
"""Options that add references, whatever kind of object they name."""

_HASH = re.compile(r"[0-9a-fA-F]{4,64}")
_ORDINARY_ENDINGS = word_list("ordinary endings")
"""Endings that no secret file has but one that is called `.env` itself, like `.env.txt`."""

_SHOWS_AGAIN = re.compile(rb"(?m)^[^#\n]*\s!?diff(?:=|\s|$)|^\s*\[attr\]|^[^#\n]*\s-binary(?:\s|$)")


def check_shown_secrets(judged: JudgedCommand, name: str, given: Given) -> None:
    """Refuse a subcommand that would show secret files in spite of the attributes it runs with. Raises
    `RefusedError`."""
    work_tree, git_dir = repository_around(judged.place.boundary.cwd)
    if not git_dir:
        return
    named = _revisions(name, given)
    if name in _SHOWS_OBJECTS and (name != "cat-file" or given.has("-p")):
        if given.has(*_MANY_REFERENCES):
            raise RefusedError(f"git {name} shows the content of every reference, of secret files too")
        _check_objects(name, named, Objects(git_dir))
    if name == "cat-file":
        _check_blob(given)
        return
    searches = name == "grep" and bool(named)
    if (
        not searches
        and not given.has(*_SHOWS_CONTENT)
        and (name not in _SHOWS_DIFFS or given.has(*_LISTS_ONLY))
    ):
        return
    if given.has("-a", "--text", "--binary"):
        raise RefusedError(f"git {name} would show secret files, too, whose diffs are switched off otherwise")
    for path in dict.fromkeys(_attribute_files(work_tree, git_dir)):
        text = read_regular(path, MAX_ATTRIBUTES_BYTES)
        if len(text) == MAX_ATTRIBUTES_BYTES or any(map(_concerns_secrets, _SHOWS_AGAIN.finditer(text))):
            raise RefusedError(f"{path} switches diffs on, which may show secret files")


def _revisions(name: str, given: Given) -> tuple[str, ...]:
    """Return the operands that may be revisions: those before the dashes, without the pattern of a search."""
    operands = given.operands[: len(given.operands) - given.after_dashes]
    return operands[1:] if name == "grep" and not given.has("-e", "-f") else operands


def _check_objects(name: str, named: tuple[str, ...], objects: Objects) -> None:
    """Refuse blobs, which have no name to judge them by, and folders without the folder above them."""
    for word in named:
        for revision in revisions(word):
            base, colon, _ = revision.partition(":")
            kinds = objects.kinds(base) if base else frozenset[str]()
            if kinds & {"blob", "unknown"} and not colon:
                raise RefusedError(f"{word} may be the content of any file")
            if "tree" in kinds and (colon or name not in ("show", "cat-file")):
                raise RefusedError(f"{word} may be any folder")


def _attribute_files(work_tree: str, git_dir: str) -> Iterator[str]:
    """Yield the files that may switch diffs on again. git reads them in every folder, and those that are not
    in the working tree from its index. Raises `RefusedError` for one that is only there."""
    for folder in (git_dir, *shared_folder(git_dir)):
        yield f"{folder}/info/attributes"
    tracked = tracked_by_name(git_dir, ".gitattributes")
    if tracked is None:
        raise RefusedError("git's index can't be read for attributes, which may show secret files")
    for name in tracked:
        path = os.path.join(work_tree, name)
        if not os.path.lexists(path):
            raise RefusedError(f"{name} stands in git's index alone; it may switch diffs of secret files on")
        yield path
    yield from _attributes_beneath(work_tree)


def _attributes_beneath(work_tree: str) -> Iterator[str]:
    """Find attribute files in the folders of a working tree, up to `MAX_ENTRIES`: those of a clone are
    tracked."""
    pending, seen = [work_tree], 0
    while pending and seen < MAX_ENTRIES:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.name == ".gitattributes":
                        yield entry.path
                    elif entry.name not in INSTALLED and entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # git reads no attributes of a folder that can't be listed


def _concerns_secrets(line: re.Match[bytes]) -> bool:
    """Tell whether a line of attributes may concern more than source files: a pattern for one ordinary ending
    does not."""
    pattern = line.group().split()[0] if line.group().split() else b""
    found = re.fullmatch(rb"(?:\S*/)?\*\.([a-z0-9]+)", pattern)
    return found is None or found[1].decode("ascii") not in _ORDINARY_ENDINGS


def _check_blob(given: Given) -> None:
    """Judge a revision: a hash may be any version of any file; another revision alone is a commit, a tree or
    a tag."""
    for operand in given.operands[-1:]:
        if len(given.operands) > 1 or (given.has("-p") and _HASH.fullmatch(operand)):
            raise RefusedError(f"{operand} may be the content of any file")
