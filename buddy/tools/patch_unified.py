"""The unified diff as `diff -u` and git write it, taken apart into the sections of a patch.

Counts in `@@` lines are often wrong and are not looked at; the line number is a hint. The words behind the
second `@@` are not: what they name may stand anywhere before the hunk.
"""

from __future__ import annotations

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError
from buddy.tools.patch_format import NO_NEWLINE, AddFile, DeleteFile, Hunk, Section, UpdateFile

_GIT = pattern(r"diff --git (?:\"?a/(.+?)\"?) (?:\"?b/(.+?)\"?)")
_POSITION = pattern(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*| \.\.\. @@.*| ?)")
_NOWHERE = "/dev/null"


def is_unified(text: str) -> bool:
    """Whether a text is a unified diff, not a patch with markers."""
    lines = text.lstrip().split("\n", 200)
    if lines[0].startswith("diff --git "):
        return True
    return lines[0].startswith("--- ") and len(lines) > 1 and lines[1].startswith("+++ ")


def parse_unified(text: str) -> tuple[Section, ...]:
    """The sections of a unified diff. Raises `ToolError` that names the line."""
    return _Reader(text.replace("\r\n", "\n").strip("\n").split("\n")).sections()


class _Reader:
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
            found.append(self._section())
        return tuple(found)

    def _section(self) -> Section:
        old = new = ""
        named = _GIT().fullmatch(self._lines[self._at])
        if named:
            old, new = named.group(1), named.group(2)
            self._at += 1
            old, new = self._git_headers(old, new)
        if self._starts("--- "):
            old = _path(self._lines[self._at][4:], "a/")
            self._at += 1
            if not self._starts("+++ "):
                raise self._unexpected("a line that starts with '+++ '")
            new = _path(self._lines[self._at][4:], "b/")
            self._at += 1
        elif not named:
            raise self._unexpected("'diff --git a/… b/…' or '--- a/…'")
        return self._made(old, new, self._hunks())

    def _git_headers(self, old: str, new: str) -> tuple[str, str]:
        """What git says between its first line and the file names: renames, new and deleted files."""
        while self._at < len(self._lines) and not self._starts("--- ", "diff --git ", "@@"):
            line = self._lines[self._at]
            if line.startswith(("GIT binary patch", "Binary files ", "copy from ")):
                raise ToolError(
                    f"patch line {self._at + 1}: {line[:80]!r} cannot be applied; nothing was changed"
                )
            if line.startswith("new file mode"):
                old = _NOWHERE
            elif line.startswith("deleted file mode"):
                new = _NOWHERE
            elif line.startswith("rename from "):
                old = line.removeprefix("rename from ")
            elif line.startswith("rename to "):
                new = line.removeprefix("rename to ")
            self._at += 1
        return old, new

    def _made(self, old: str, new: str, hunks: tuple[Hunk, ...]) -> Section:
        if old == _NOWHERE:
            lines = [text for hunk in hunks for sign, text in hunk.lines if sign == "+"]
            end = "" if not lines or (hunks and hunks[-1].open_end) else "\n"
            return AddFile(new, "\n".join(lines) + end)
        if new == _NOWHERE:
            return DeleteFile(old)
        if not hunks and old == new:
            raise self._unexpected("a hunk (a line that starts with @@)")
        return UpdateFile(old, new if new != old else "", hunks)

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while self._starts("@@"):
            position = _POSITION().fullmatch(self._lines[self._at])
            if position is None:
                raise self._unexpected("a hunk header like '@@ -1,4 +1,5 @@'")
            self._at += 1
            lines, open_end = self._hunk_lines()
            if not lines:
                raise self._unexpected("lines that start with a space, - or +")
            hunks.append(
                Hunk((), tuple(lines), at_end=False, line=int(position.group(1) or 0), open_end=open_end)
            )
        return tuple(hunks)

    def _hunk_lines(self) -> tuple[list[tuple[str, str]], bool]:
        found: list[tuple[str, str]] = []
        open_end = False
        while (
            self._at < len(self._lines) and not self._starts("@@", "diff --git ") and not self._names_here()
        ):
            line = self._lines[self._at]
            if line.startswith(NO_NEWLINE):
                open_end = bool(found) and found[-1][0] != "-"
            elif line[:1] in {"+", "-", " "}:
                found.append((line[0], line[1:]))
            elif not line:
                found.append((" ", ""))
            else:
                raise self._unexpected("a line that starts with a space, - or +")
            self._at += 1
        return found, open_end

    def _names_here(self) -> bool:
        return (
            self._starts("--- ")
            and self._at + 1 < len(self._lines)
            and self._lines[self._at + 1].startswith("+++ ")
        )

    def _starts(self, *starts: str) -> bool:
        return self._at < len(self._lines) and self._lines[self._at].startswith(starts)

    def _unexpected(self, wanted: str) -> ToolError:
        found = repr(self._lines[self._at][:80]) if self._at < len(self._lines) else "the end of the patch"
        return ToolError(f"patch line {self._at + 1}: expected {wanted}, found {found}; nothing was changed")


def _path(given: str, prefix: str) -> str:
    path = given.split("\t")[0].strip().strip('"')
    return path.removeprefix(prefix) if path != _NOWHERE else path
