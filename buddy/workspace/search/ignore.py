"""Ignore rules for listings and searches: `.gitignore` exactly as git reads it, and `.buddyignore`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.git_repository import git_folders
from buddy.safety.wildcards import FOLDERS, STAR, wildcard
from buddy.workspace.files.bulk_read import regular_bytes

_CLASSES = {
    b"alnum": b"0-9A-Za-z",
    b"alpha": b"A-Za-z",
    b"blank": b" \\t",
    b"cntrl": b"\\x00-\\x1f\\x7f",
    b"digit": b"0-9",
    b"graph": b"!-~",
    b"lower": b"a-z",
    b"print": b" -~",
    b"punct": b"!-/:-@\\[-`{-~",
    b"space": b" \\t-\\r",
    b"upper": b"A-Z",
    b"xdigit": b"0-9A-Fa-f",
}
_STAR, _FOLDERS = STAR.encode(), FOLDERS.encode()
_SPECIAL = pattern(rb"[*?\[\\]")
NEVER = pattern(rb"(?!)")
MAX_PATH = 4096
"""Bytes of a path. A pattern that asks for more matches nothing, and would take seconds to compile."""


class IgnoreRule(msgspec.Struct, frozen=True):
    """A pattern. `by_name`: it is about the last component alone, else about the path from the ignore file's
    folder. `literal` is the whole name or path where nothing in it is special, else None and `regex` decides;
    `beginning` is what every path it matches begins with."""

    negated: bool
    only_folders: bool
    by_name: bool
    literal: str | None
    suffix: str | None
    beginning: str
    regex: re.Pattern[bytes]


def parse_ignore_file(data: bytes) -> tuple[IgnoreRule, ...]:
    """Return the patterns of an ignore file, in order."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = (line.removesuffix(b"\r") for line in data.split(b"\n"))
    return tuple(rule for line in lines if (rule := parse_rule(line)) is not None)


def parse_rule(line: bytes) -> IgnoreRule | None:
    """Return the pattern of one line, None for blank lines and comments."""
    if not line or line.startswith(b"#"):
        return None
    pattern = _without_trailing_blanks(line)
    negated = pattern.startswith(b"!")
    pattern = pattern[negated:]
    only_folders = pattern.endswith(b"/")
    pattern = pattern[: len(pattern) - only_folders]
    if not pattern:
        return None
    by_name = b"/" not in pattern
    pattern = pattern if by_name else pattern.removeprefix(b"/")
    special = _SPECIAL().search(pattern)
    literal = os.fsdecode(pattern) if special is None else None
    tail = pattern[1:]
    suffix = os.fsdecode(tail) if by_name and pattern[:1] == b"*" and not _SPECIAL().search(tail) else None
    beginning = os.fsdecode(pattern[: special.start()] if special else pattern)
    return IgnoreRule(
        negated, only_folders, by_name, literal, suffix, beginning, _regex(pattern, special, by_name)
    )


def _regex(pattern: bytes, special: re.Match[bytes] | None, by_name: bool) -> re.Pattern[bytes]:
    if special is None:
        return re.compile(re.escape(pattern), re.DOTALL)
    if by_name:
        return wild(pattern, slashes=False)
    return wild(pattern[special.start() :], slashes=True, before=pattern[: special.start()])


def _without_trailing_blanks(line: bytes) -> bytes:
    """Strip trailing blanks that are not escaped."""
    end = len(line)
    while end and line[end - 1 : end] == b" ":
        escapes = len(line[: end - 1]) - len(line[: end - 1].rstrip(b"\\"))
        if escapes % 2:
            break
        end -= 1
    return line[:end]


def wild(pattern: bytes, *, slashes: bool, before: bytes = b"") -> re.Pattern[bytes]:
    """Return a wildcard pattern as a regular expression for the whole text; one that can match nothing if the
    pattern is broken. `slashes`: `*`, `?` and classes do not match a slash, `**` between slashes does."""
    out = [re.escape(before)]
    one = "[^/]" if slashes else "."
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            end = at
            while pattern[end : end + 1] == b"*":
                end += 1
            stars, at = _stars(pattern, at, end) if slashes else ((_STAR,), end)
            out += stars if stars != (_FOLDERS,) or out[-1] != _FOLDERS else ()
        elif char == b"?":
            out.append(one.encode())
            at += 1
        elif char == b"[":
            found = _bracket(pattern, at, slashes=slashes)
            if found is None:
                return NEVER()
            piece, at = found
            out.append(piece)
        elif char == b"\\":
            if at + 1 == len(pattern):
                return NEVER()
            out.append(re.escape(pattern[at + 1 : at + 2]))
            at += 2
        else:
            out.append(re.escape(char))
            at += 1
    if sum(piece not in (_STAR, _FOLDERS) for piece in out) > MAX_PATH:
        return NEVER()
    text = wildcard((piece.decode("latin-1") for piece in out), one)
    return re.compile(text.encode("latin-1"), re.DOTALL)


def _stars(pattern: bytes, at: int, end: int) -> tuple[tuple[bytes, ...], int]:
    """Translate a run of stars to wildcards; return them and the position where the pattern continues."""
    after = pattern[end : end + 1]
    bounded = at == 0 or pattern[at - 1 : at] == b"/"
    if end - at < 2 or not bounded or not (after in (b"", b"/") or pattern[end : end + 2] == b"\\/"):
        return (_STAR,), end
    if after == b"/":
        return (_FOLDERS,), end + 1
    return (_FOLDERS, _STAR), end


def _bracket(pattern: bytes, at: int, *, slashes: bool) -> tuple[bytes, int] | None:
    """Return a class like [a-z] and where the pattern goes on; None when it does not end."""
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    items: list[bytes] = []
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        if at >= len(pattern):
            return None
        end = pattern.find(b"]", at + 2) if pattern[at : at + 2] == b"[:" else -1
        if end > 0 and pattern[end - 1 : end] == b":":
            name = pattern[at + 2 : end - 1]
            if name not in _CLASSES:
                return None
            items.append(_CLASSES[name])
            at = end + 1
            continue
        item, at = _member(pattern, at)
        if item is None:
            return None
        if pattern[at : at + 1] == b"-" and pattern[at + 1 : at + 2] not in (b"]", b""):
            last, at = _member(pattern, at + 1)
            if last is None:
                return None
            if item <= last:
                items.append(_byte(item) + b"-" + _byte(last))
            continue
        items.append(_byte(item))
    return _class(b"".join(items), negated=negated, slashes=slashes), at + 1


def _member(pattern: bytes, at: int) -> tuple[bytes | None, int]:
    if pattern[at : at + 1] == b"\\":
        at += 1
    return pattern[at : at + 1] or None, at + 1


def _byte(byte: bytes) -> bytes:
    return b"\\x%02x" % byte[0]


def _class(items: bytes, *, negated: bool, slashes: bool) -> bytes:
    if not items:
        return b"[^/]" if negated and slashes else b"." if negated else b"(?!)"
    not_slash = b"(?!/)" if slashes else b""
    return not_slash + (b"[^" if negated else b"[") + items + b"]"


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
        """Return the wildcard patterns that can match an entry of a folder, the last first."""
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

    def is_ignored(self, name: str, folder: bool) -> bool:
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

    def is_ignored(self, path: str, folder: bool) -> bool:
        """Tell whether a real path, or a folder it lies in, is ignored."""
        top = self._top_of(path)
        at = len(top.rstrip("/"))
        if path == top:
            return False
        while True:
            end = path.find("/", at + 1)
            part = path if end < 0 else path[:end]
            parent, name = path[:at] or "/", part[at + 1 :]
            if self.rules(parent).is_ignored(name, folder if end < 0 else True):
                return True
            if end < 0:
                return False
            at = end

    def rules(self, folder: str, names: Collection[str] | None = None) -> FolderRules:
        """Return the rules for the entries of a folder. `names`, where known, are its entries: it saves
        looking."""
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
        last = _read_rules(folder, f"{git_folders(folder)[-1]}/info/exclude", own=False)
        # Another repository inside: the outer one's .gitignore says nothing about it.
        return Names((*own, *shared, *last, *(file for file in parent.files if file.own)))


def _rule_file(folder: str, name: str, names: Collection[str] | None) -> tuple[RuleFile, ...]:
    if names is not None and name not in names:
        return ()
    return _read_rules(folder, f"{folder}/{name}", own=name == ".buddyignore")


def _read_rules(folder: str, path: str, *, own: bool) -> tuple[RuleFile, ...]:
    # A link is no ignore file to git either; what is odd has no rules.
    rules = parse_ignore_file(regular_bytes(path, MAX_BYTES) or b"")
    return (RuleFile(folder, rules, own=own),) if rules else ()


def repository_above(folder: str) -> str:
    """Return the folder or its nearest ancestor that holds `.git`; "" when there is none."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return folder
