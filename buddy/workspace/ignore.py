"""Ignore rules for listings and searches: `.gitignore` exactly as git reads it, and `.buddyignore`.

Deeper files win over higher ones, in one folder `.buddyignore` over `.gitignore`, `.git/info/exclude` comes
last; the person's global excludes are not read, so that everybody gets the same answers. Nothing below an
ignored folder can be brought back. Works without a repository. Not for several threads at once: each call
makes its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from buddy.safety.git_files import git_folders
from buddy.workspace.file_bytes import regular_bytes
from buddy.workspace.ignore_pattern import IgnoreRule, parse_ignore_file

ALWAYS = frozenset({".git", ".buddyx"})
MAX_BYTES = 1_000_000


class RuleFile:
    """The patterns of one file, asked about entries below its folder. Answers by name are remembered.
    `exact_names`, `suffixes` and `other_names` (regular expressions) are what its patterns without a slash
    match."""

    def __init__(self, base: str, rules: tuple[IgnoreRule, ...], *, own: bool) -> None:
        self.cut = len(base.rstrip("/")) + 1
        self.own = own
        self._rules = rules
        self._paths: dict[str, list[int]] = {}
        self._wild_paths: list[int] = []
        self._wild_names: list[int] = []
        self._wild_below: dict[str, tuple[int, ...]] = {}
        self._exact: dict[str, list[int]] = {}
        self._names: dict[str, tuple[int, ...]] = {}
        for number, rule in enumerate(rules):
            if rule.literal is not None:
                index = self._exact if rule.by_name else self._paths
                index.setdefault(rule.literal, []).append(number)
            else:
                (self._wild_names if rule.by_name else self._wild_paths).append(number)
        wild = [rules[number] for number in self._wild_names]
        self.exact_names = frozenset(self._exact)
        self.suffixes = tuple(rule.suffix for rule in wild if rule.suffix is not None)
        self.other_names = tuple(rule.regex.pattern for rule in wild if rule.suffix is None)
        self._folders = {path[: path.rfind("/") + 1] for path in self._paths}

    def concerns(self, folder: str) -> bool:
        """Tell whether a pattern with a slash may match an entry of a folder (given with a final slash)."""
        below = folder[self.cut :]
        return below in self._folders or bool(self._wild_paths and self._in_folder(below))

    def verdict(self, path: str, name: str, folder: bool) -> bool | None:
        """Tell whether the last matching pattern ignores an entry; None when no pattern matches it."""
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = self._by_name(name)
        best = -1
        for number in found:
            if folder or not self._rules[number].only_folders:
                best = number
                break
        if self._paths or self._wild_paths:
            best = max(best, self._by_path(path[self.cut :], len(name), folder))
        return None if best < 0 else not self._rules[best].negated

    def _by_name(self, name: str) -> tuple[int, ...]:
        found = list(self._exact.get(name, ()))
        raw = os.fsencode(name)
        for number in self._wild_names:
            rule = self._rules[number]
            matches = name.endswith(rule.suffix) if rule.suffix is not None else rule.regex.fullmatch(raw)
            if matches:
                found.append(number)
        return tuple(sorted(found, reverse=True))

    def _by_path(self, relative: str, name_length: int, folder: bool) -> int:
        best = -1
        for number in self._paths.get(relative, ()):
            if folder or not self._rules[number].only_folders:
                best = number
        parent = relative[: len(relative) - name_length]
        numbers = self._in_folder(parent)
        raw = os.fsencode(relative) if numbers else b""
        for number in numbers:
            if number < best:
                break
            rule = self._rules[number]
            if (folder or not rule.only_folders) and rule.regex.fullmatch(raw):
                return number
        return best

    def _in_folder(self, parent: str) -> tuple[int, ...]:
        """The wildcard patterns that can match an entry of a folder, the last first."""
        numbers = self._wild_below.get(parent)
        if numbers is None:
            numbers = self._wild_below[parent] = tuple(
                number
                for number in reversed(self._wild_paths)
                if parent.startswith(self._rules[number].beginning)
                or self._rules[number].beginning.startswith(parent)
            )
        return numbers


class Names:
    """Combined name patterns of several ignore files: a fast answer for most entries."""

    def __init__(self, files: tuple[RuleFile, ...]) -> None:
        self.files = files
        self.exact = ALWAYS.union(*(file.exact_names for file in files))
        self.suffixes = tuple({suffix for file in files for suffix in file.suffixes})
        other = [pattern for file in files for pattern in file.other_names]
        self.other = re.compile(b"|".join(b"(?:%b)" % one for one in other), re.DOTALL) if other else None


class FolderRules:
    """Ignore rules for the entries of one folder that is not ignored itself. The first ignore file with a
    matching pattern decides."""

    def __init__(self, folder: str, names: Names) -> None:
        self.names = names
        self._folder = f"{folder.rstrip('/')}/"
        self._by_path = any(file.concerns(self._folder) for file in names.files)

    def ignored(self, name: str, folder: bool) -> bool:
        """Tell whether an entry is ignored."""
        names = self.names
        if (
            not self._by_path
            and name not in names.exact
            and not name.endswith(names.suffixes)
            and (names.other is None or not names.other.fullmatch(os.fsencode(name)))
        ):
            return False
        if name in ALWAYS:
            return True
        for file in names.files:
            verdict = file.verdict(self._folder + name, name, folder)
            if verdict is not None:
                return verdict
        return False


NO_RULES = FolderRules("/", Names(()))


class IgnoreTree:
    """The ignore rules of a workspace, read as folders are asked about. `root` is a real path."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._top = repository_above(root) or root
        self._known: dict[str, FolderRules] = {}

    def ignored(self, path: str, folder: bool) -> bool:
        """Tell whether a real path, or a folder it lies in, is ignored."""
        top = self._top_of(path)
        at = len(top.rstrip("/"))
        if path == top:
            return False
        while True:
            end = path.find("/", at + 1)
            part = path if end < 0 else path[:end]
            parent, name = path[:at] or "/", part[at + 1 :]
            if self.rules(parent).ignored(name, folder if end < 0 else True):
                return True
            if end < 0:
                return False
            at = end

    def rules(self, folder: str, names: Collection[str] | None = None) -> FolderRules:
        """The rules for the entries of a folder. `names`, where known, are its entries: it saves looking."""
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = FolderRules(folder, self._read(folder, names))
        return known

    def _top_of(self, path: str) -> str:
        if path == self._top or path.startswith(self._top.rstrip("/") + "/"):
            return self._top
        parent = os.path.dirname(path)
        return repository_above(parent) or parent

    def _read(self, folder: str, names: Collection[str] | None) -> Names:
        parent = NO_RULES.names
        if folder not in (self._top, self._top_of(folder)):
            parent = self.rules(os.path.dirname(folder)).names
        repository = os.path.lexists(f"{folder}/.git") if names is None else ".git" in names
        own = _rule_file(folder, ".buddyignore", names)
        shared = _rule_file(folder, ".gitignore", names)
        if not repository:
            return Names((*own, *shared, *parent.files)) if own or shared else parent
        last = _parsed(folder, f"{git_folders(folder)[-1]}/info/exclude", own=False)
        # Another repository inside: the outer one's .gitignore says nothing about it.
        return Names((*own, *shared, *last, *(file for file in parent.files if file.own)))


def _rule_file(folder: str, name: str, names: Collection[str] | None) -> tuple[RuleFile, ...]:
    if names is not None and name not in names:
        return ()
    return _parsed(folder, f"{folder}/{name}", own=name == ".buddyignore")


def _parsed(folder: str, path: str, *, own: bool) -> tuple[RuleFile, ...]:
    # A link is no ignore file to git either; what is odd has no rules.
    rules = parse_ignore_file(regular_bytes(path, MAX_BYTES) or b"")
    return (RuleFile(folder, rules, own=own),) if rules else ()


def repository_above(folder: str) -> str:
    """The folder or its nearest ancestor that holds `.git`; "" when there is none."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder
