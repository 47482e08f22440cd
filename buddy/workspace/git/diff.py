"""git's unified diffs, taken apart by file. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from buddy.agent.display import FileDiff
from buddy.agent.lazy_regex import pattern

START = "diff --git "
COMBINED = ("diff --cc ", "diff --combined ")
GAP = pattern(r"\[… [\d,]+ bytes? left out; .* …\]")
ESCAPES = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPED = pattern(rb'\\([0-7]{3}|[abfnrtv"\\])')


class Section(msgspec.Struct, frozen=True):
    """The diff of one file as git printed it, and as a record."""

    raw: str
    file: FileDiff


class ParsedDiff(msgspec.Struct, frozen=True):
    """A diff split into the text before the first file (a commit's header) and the files."""

    prelude: str
    sections: tuple[Section, ...]

    def without(self, secret: Callable[[str], str]) -> ParsedDiff:
        """Return the same with the content of secret files left out; `secret` gives the reason or ""."""
        return ParsedDiff(self.prelude, tuple(_hide_secret(each, secret) for each in self.sections))

    @property
    def text(self) -> str:
        """Return the diff as a model reads it."""
        return self.prelude + "".join(section.raw for section in self.sections)

    @property
    def files(self) -> tuple[FileDiff, ...]:
        """Return the diff of each file, for display."""
        return tuple(section.file for section in self.sections)


def parse_diff(text: str) -> ParsedDiff:
    """Take a diff apart. Lines of a file's diff start with one of a few characters, so a header line cannot
    be imitated by content."""
    prelude: list[str] = []
    chunks: list[list[str]] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):  # splitlines would also split at \r, \f, U+2028 …
        if line.startswith((START, *COMBINED)):
            chunks.append([line])
        elif chunks:
            chunks[-1].append(line)
        else:
            prelude.append(line)
    return ParsedDiff("".join(prelude), tuple(_section(chunk) for chunk in chunks))


def _section(lines: list[str]) -> Section:
    gap = next((number for number, line in enumerate(lines) if GAP().fullmatch(line.strip())), None)
    if gap is not None:
        # What follows belongs to a file whose name was left out; it may be one nobody should see.
        lines = lines[: gap + 1]
    body_at = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    header, body = lines[:body_at], lines[body_at:]
    old, new = _names(header)
    change = _change(header)
    file = FileDiff(
        path=old if change in ("delete", "move") else new,
        change=change,
        diff="".join(body),
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
        new_path=new if change == "move" else "",
    )
    return Section("".join(lines), file)


def _change(header: list[str]) -> Literal["add", "update", "delete", "move"]:
    for line in header:
        if line.startswith("new file mode"):
            return "add"
        if line.startswith("deleted file mode"):
            return "delete"
        if line.startswith("rename to "):
            return "move"
    return "update"


def _names(header: list[str]) -> tuple[str, str]:
    """Return the file's old and new name."""
    old, new = _names_of_first_line(header[0].rstrip("\n"))
    for line in (each.rstrip("\n") for each in header[1:]):
        for start, prefix in (("--- ", "a/"), ("rename from ", "")):
            if line.startswith(start) and not line.endswith("/dev/null"):
                old = _plain(line[len(start) :], prefix)
        for start, prefix in (("+++ ", "b/"), ("rename to ", ""), ("copy to ", "")):
            if line.startswith(start) and not line.endswith("/dev/null"):
                new = _plain(line[len(start) :], prefix)
    return old, new


def _names_of_first_line(line: str) -> tuple[str, str]:
    for start in COMBINED:
        if line.startswith(start):
            name = _plain(line[len(start) :], "")
            return name, name
    rest = line[len(START) :]
    # Without a rename both names are the same, so the line is two halves with a blank between them.
    half = len(rest) // 2
    return _plain(rest[:half], "a/"), _plain(rest[half + 1 :], "b/")


def _plain(name: str, prefix: str) -> str:
    """Return a name without git's prefix, quotes, and the tab after names with blanks."""
    return unquote(name.removesuffix("\t")).removeprefix(prefix)


def unquote(name: str) -> str:
    """Decode a name as git writes it: in quotes, with octal numbers for bytes that are not plain ASCII."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name

    def byte(escape: re.Match[bytes]) -> bytes:
        code = escape.group(1)
        return bytes([int(code, 8) & 0xFF]) if code.isdigit() else ESCAPES.get(code, code)

    return _ESCAPED().sub(byte, name[1:-1].encode("utf-8", "replace")).decode("utf-8", "replace")


def _hide_secret(section: Section, secret: Callable[[str], str]) -> Section:
    file = section.file
    reason = secret(file.path) or (secret(file.new_path) if file.new_path else "")
    if not reason:
        return section
    note = f"(not shown: {reason}; name the file to see it)\n"
    name = file.new_path or file.path
    raw = f"diff --git a/{file.path} b/{name}\n{note}"
    return Section(raw, msgspec.structs.replace(file, diff=note))
