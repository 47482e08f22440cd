"""The patch text some models are trained to write, taken apart.

*** Begin Patch
*** Add File: a.txt          every line starts with +
*** Delete File: b.txt
*** Update File: c.txt       optionally followed by *** Move to: d.txt
@@ def f():                  where to look; may be empty, may be repeated to go deeper
 context / -old / +new
*** End of File              the hunk ends where the file does
*** End Patch
"""

from __future__ import annotations

import re

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_END_OF_FILE = "*** End of File"
_SIGNS = ("***", "@@", "+", "-")
_FENCE = pattern(r"```\w*[ \t]*\n(.*)\n```", re.DOTALL)
_POSITION = pattern(r" -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*")
NO_NEWLINE = "\\ No newline"
_HEREDOC = pattern(r"(?:\S+[ \t]+|\S+\n\S+[ \t]+)?<<-?\s*(['\"]?)(\w+)\1[ \t]*\n(.*)\n\2[ \t]*", re.DOTALL)


class Hunk(msgspec.Struct, frozen=True):
    """One change of a file. `anchors`: lines that stand before it, in order. `lines`: sign and text; " " is
    context. `at_end`: its last line is the file's last. `line`: the number, from 1, it gives for its first
    line (0: before the first one; None: it gives none); worth something only where the text stands there too.
    `open_end`: its last new line has no line end. `names_end`: the file ends in a line
    end then, even if it did not."""

    anchors: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    at_end: bool
    line: int | None = None
    open_end: bool = False
    names_end: bool = False

    @property
    def old(self) -> tuple[str, ...]:
        """Return the hunk's lines as they should be in the file: context and removed lines."""
        return tuple(text for sign, text in self.lines if sign != "+")


class AddFile(msgspec.Struct, frozen=True):
    """A file with this content."""

    path: str
    content: str


class DeleteFile(msgspec.Struct, frozen=True):
    """A file goes. `lines`: what it holds, where the patch says so."""

    path: str
    lines: tuple[str, ...] | None = None


class UpdateFile(msgspec.Struct, frozen=True):
    """A file changes, and moves when `move_to` is not empty."""

    path: str
    move_to: str
    hunks: tuple[Hunk, ...]


Section = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Section, ...]:
    """Return the sections of a patch. Raises `ToolError` that names the line and what was expected there."""
    return one_section_each(_Parser(_body(text)).sections())


def added_lines(hunks: tuple[Hunk, ...]) -> list[str]:
    """Return the lines that hunks bring."""
    return [text for hunk in hunks for sign, text in hunk.lines if sign == "+"]


def removed_lines(hunks: tuple[Hunk, ...]) -> list[str]:
    """Return the lines that hunks take away."""
    return [text for hunk in hunks for sign, text in hunk.lines if sign == "-"]


def one_section_each(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """Return updates of one file put together: models start a section for every hunk."""
    found: dict[int | str, Section] = {}
    for at, section in enumerate(sections):
        plain = isinstance(section, UpdateFile) and not section.move_to
        before = found.get(section.path) if plain else None
        if plain and isinstance(before, UpdateFile) and isinstance(section, UpdateFile):
            found[section.path] = UpdateFile(section.path, "", (*before.hunks, *section.hunks))
        else:
            found[section.path if plain else at] = section
    return tuple(found.values())


def patch_paths(sections: tuple[Section, ...]) -> tuple[str, ...]:
    """Return every path a patch names, in order."""
    paths: list[str] = []
    for section in sections:
        paths.append(section.path)
        if isinstance(section, UpdateFile) and section.move_to:
            paths.append(section.move_to)
    return tuple(dict.fromkeys(paths))


def unwrap(text: str) -> str:
    """Return the patch without a code fence, a here-document or words around it. Its last line may be a blank
    that is context."""
    trimmed = text.replace("\r\n", "\n").lstrip().rstrip("\n")
    for form, group in ((_FENCE, 1), (_HEREDOC, 3)):
        found = form().fullmatch(trimmed.rstrip())
        if found:
            trimmed = found.group(group).lstrip().rstrip("\n")
    lines = trimmed.split("\n")
    begins = [at for at, line in enumerate(lines) if line == _BEGIN]
    if begins and begins[0] and not any(line.startswith(_SIGNS) for line in lines[: begins[0]]):
        return "\n".join(lines[begins[0] :]).removesuffix("\n```")
    return trimmed


def between_markers(text: str) -> str:
    """Return the text between the two markers of a patch; all of it where they are missing."""
    first, _, rest = text.strip().partition("\n")
    inside, _, last = rest.rpartition("\n")
    return inside if (first.strip(), last.strip()) == (_BEGIN, _END) else text


def _body(text: str) -> list[str]:
    """Return the lines between the markers."""
    lines = unwrap(text).strip().split("\n")
    begins, ends = lines[0].strip() == _BEGIN, lines[-1].strip() == _END
    if begins and ends and len(lines) > 1:
        return lines[1:-1]
    if not begins and not ends and lines[0].startswith((_ADD, _DELETE, _UPDATE)):
        return lines  # both markers forgotten: what is meant is as clear
    if not begins:
        raise ToolError(f"expected a patch that starts with the line {_BEGIN!r}, found {lines[0][:80]!r}")
    raise ToolError(f"expected a patch that ends with the line {_END!r}, found {lines[-1][:80]!r}")


def _path(given: str) -> str:
    """Return a file name, without quotes around it."""
    path = given.strip()
    if len(path) > 2 and path[0] == path[-1] and path[0] in "\"`'":
        return path[1:-1]
    return path


class _Parser:
    """Reads the lines once, from top to bottom."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def sections(self) -> tuple[Section, ...]:
        found: list[Section] = []
        while self._at < len(self._lines):
            if not self._lines[self._at].strip():
                self._at += 1
                continue
            if self._lines[self._at : self._at + 2] == [_END, _BEGIN]:  # two patches, one after the other
                self._at += 2
                continue
            found.append(self._section())
        if not found:
            raise ToolError(
                "the patch is empty: expected at least one Add File, Update File or Delete File section"
            )
        return tuple(found)

    def _section(self) -> Section:
        header = self._lines[self._at].strip()
        for marker, read in ((_ADD, self._add), (_DELETE, DeleteFile), (_UPDATE, self._update)):
            if header.startswith(marker) and header[len(marker) :].strip():
                self._at += 1
                return read(_path(header[len(marker) :]))
        raise self._error(f"{_ADD!r}, {_UPDATE!r} or {_DELETE!r} with a path")

    def _error(self, wanted: str) -> ToolError:
        found = repr(self._lines[self._at][:80]) if self._at < len(self._lines) else "the end of the patch"
        return ToolError(f"patch line {self._at + 2}: expected {wanted}, found {found}; nothing was changed")

    def _add(self, path: str) -> AddFile:
        content: list[str] = []
        while self._at < len(self._lines) and self._lines[self._at].startswith("+"):
            content.append(self._lines[self._at][1:] + "\n")
            self._at += 1
        if self._at < len(self._lines) and self._lines[self._at].strip() and not self._header_here():
            raise self._error("a line that starts with + or the next section")
        return AddFile(path, "".join(content))

    def _header_here(self) -> bool:
        return self._lines[self._at].startswith("***")

    def _update(self, path: str) -> UpdateFile:
        move_to = ""
        if self._at < len(self._lines) and self._lines[self._at].strip().startswith(_MOVE):
            given = _path(self._lines[self._at].strip()[len(_MOVE) :])
            move_to = "" if given == path else given
            self._at += 1
        self._skip_names(path)
        hunks: list[Hunk] = []
        while self._at < len(self._lines) and not self._header_here():
            hunk = self._hunk(first=not hunks)
            if hunk is not None:
                hunks.append(hunk)
        if not hunks and not move_to:
            raise self._error(f"a hunk (a line that starts with @@) for {path}")
        return UpdateFile(path, move_to, tuple(hunks))

    def _skip_names(self, path: str) -> None:
        """Skip the two lines by which a unified diff names the file once more."""
        names = self._lines[self._at : self._at + 2]
        signs = [name[:4] for name in names]
        if signs == ["--- ", "+++ "] and all(name.split("\t")[0].rstrip().endswith(path) for name in names):
            self._at += 2

    def _hunk(self, *, first: bool) -> Hunk | None:
        anchors: list[str] = []
        headed = False
        line: int | None = None
        while self._at < len(self._lines) and self._is_anchor(self._lines[self._at]):
            headed = True
            anchor = self._lines[self._at][2:]
            position = _POSITION().fullmatch(anchor)
            if position:
                line = int(position.group(1))
            elif anchor.strip():
                anchors.append(anchor[1:].removesuffix(" @@"))
            self._at += 1
        if not headed and not first:
            raise self._error("@@")
        lines, open_end = self._hunk_lines()
        at_end = self._at < len(self._lines) and self._lines[self._at].strip() == _END_OF_FILE
        if at_end:
            self._at += 1
        while self._at < len(self._lines) and not self._lines[self._at].strip() and at_end:
            self._at += 1
        if not lines and headed:
            raise self._error("lines that start with a space, - or +")
        return (
            Hunk(tuple(anchors), tuple(lines), at_end, line, open_end, names_end=not open_end)
            if lines
            else None
        )

    def _is_anchor(self, line: str) -> bool:
        return line == "@@" or line.startswith("@@ ")

    def _hunk_lines(self) -> tuple[list[tuple[str, str]], bool]:
        """Return lines up to the next hunk or section, and whether the last new one has no line end; without
        a word about it this format gives it one. An empty line is empty context; one that has no sign at all
        is taken as context whose sign was forgotten."""
        found: list[tuple[str, str]] = []
        open_end = False
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("***") or self._is_anchor(line):
                break
            if line.startswith(NO_NEWLINE):
                open_end = bool(found) and found[-1][0] != "-"
            elif line[:1] in {"+", "-", " "}:
                found.append((line[0], line[1:]))
            else:
                found.append((" ", line))
            self._at += 1
        return found, open_end
