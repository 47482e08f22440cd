"""The unified diff as `diff -u` and git write it, taken apart into the sections of a patch.

Counts in `@@` lines are often wrong and are not looked at; the line number is a hint. The words behind the
second `@@` are not: what they name may stand anywhere before the hunk.
"""

from __future__ import annotations

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.tools.files.patch_format import NO_NEWLINE, AddFile, DeleteFile, Hunk, Section, UpdateFile
from buddy.workspace.git.diff import unquote

_GIT = pattern(r'diff --git ("a/.+?"|a/.+?) ("b/.+"|b/.+)')
_POSITION = pattern(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*| \.\.\. @@.*| @@.*| ?)")
_NOWHERE = "/dev/null"
_BETWEEN = ("Index: ", "=====", "diff -", "Only in ")
_BACKUPS = (".orig", ".old", ".bak", "~")
_VERSION = pattern(r"\d+(?:\.\w+)+")
_MAX_WORDS = 200
"""Lines before the first file name that are looked over."""


def is_unified(text: str) -> bool:
    """Tell whether a text is a unified diff, perhaps after some prose, and not a patch with markers."""
    return _first_header(text.split("\n", _MAX_WORDS)) is not None


def _first_header(lines: list[str]) -> int | None:
    for at, line in enumerate(lines):
        if line.startswith("*** "):
            return None
        if line.startswith("diff --git ") or _names_file(lines, at):
            return at
    return None


def _names_file(lines: list[str], at: int) -> bool:
    """Tell whether the two lines that name a file begin here."""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def parse_unified(text: str) -> tuple[Section, ...]:
    """Return the sections of a unified diff. Raises `ToolError` that names the line."""
    return _PatchReader(text.replace("\r\n", "\n").strip("\n").split("\n")).sections()


class _PatchReader:
    """Reads the lines once, from top to bottom."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = _first_header(lines) or 0

    def sections(self) -> tuple[Section, ...]:
        found: list[Section] = []
        while self._at < len(self._lines) and not self._is_signature():
            between = self._starts(*_BETWEEN) and not self._starts("diff --git ")
            if between or not self._lines[self._at].strip():
                self._at += 1
                continue
            found.append(self._section())
        return tuple(found)

    def _section(self) -> Section:
        old = new = ""
        renamed = False
        named = _GIT().fullmatch(self._lines[self._at])
        if named:
            self._at += 1
            (old, new), renamed = self._git_headers(*_paths(named.group(1), named.group(2)))
        if self._starts("--- "):
            at = self._at
            self._at += 1
            if not self._starts("+++ "):
                raise self._error("a line that starts with '+++ '")
            old, new = _paths(self._lines[at][4:], self._lines[at + 1][4:])
            self._at += 1
        elif not named:
            raise self._error("'diff --git a/… b/…' or '--- a/…'")
        if not renamed:
            old, new = _one_file(old, new)
        return self._make_section(old, new, self._hunks())

    def _is_signature(self) -> bool:
        """Tell whether only a mail signature is left: two dashes and git's version."""
        rest = self._lines[self._at :]
        return len(rest) == 2 and rest[0].rstrip() == "--" and _VERSION().match(rest[1]) is not None

    def _git_headers(self, old: str, new: str) -> tuple[tuple[str, str], bool]:
        """Parse git's header lines before the file names; return the two names, corrected for new and deleted
        files, and whether it is a rename."""
        renamed = False
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
                old, renamed = unquote(line.removeprefix("rename from ")), True
            elif line.startswith("rename to "):
                new, renamed = unquote(line.removeprefix("rename to ")), True
            self._at += 1
        return (old, new), renamed

    def _make_section(self, old: str, new: str, hunks: tuple[Hunk, ...]) -> Section:
        if old == _NOWHERE:
            lines = [text for hunk in hunks for sign, text in hunk.lines if sign == "+"]
            end = "" if not lines or (hunks and hunks[-1].open_end) else "\n"
            return AddFile(new, "\n".join(lines) + end)
        if new == _NOWHERE:
            lines = tuple(text for hunk in hunks for text in hunk.old)
            return DeleteFile(old, lines if hunks else None)
        if not hunks and old == new:
            raise self._error("a hunk (a line that starts with @@)")
        return UpdateFile(old, new if new != old else "", hunks)

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while self._starts("@@"):
            position = _POSITION().fullmatch(self._lines[self._at])
            if position is None:
                raise self._error("a hunk header like '@@ -1,4 +1,5 @@'")
            self._at += 1
            lines, open_end, names_end = self._hunk_lines()
            if not lines:
                raise self._error("lines that start with a space, - or +")
            number = int(position.group(1) or 0)
            hunks.append(Hunk((), tuple(lines), False, number, open_end, names_end))
        return tuple(hunks)

    def _hunk_lines(self) -> tuple[list[tuple[str, str]], bool, bool]:
        found: list[tuple[str, str]] = []
        open_end = names_end = False
        while (
            self._at < len(self._lines)
            and not self._starts("@@", *_BETWEEN)
            and not self._names_here()
            and not self._is_signature()
        ):
            line = self._lines[self._at]
            if line.startswith(NO_NEWLINE):
                open_end = bool(found) and found[-1][0] != "-"
                names_end = not open_end
            elif line[:1] in {"+", "-", " "}:
                found.append((line[0], line[1:]))
            elif not line:
                found.append((" ", ""))
            else:
                raise self._error("a line that starts with a space, - or +")
            self._at += 1
        return found, open_end, names_end

    def _names_here(self) -> bool:
        """Tell whether two lines are file names: in a hunk, a removed and an added line may look like
        names."""
        after = "".join(self._lines[self._at + 2 : self._at + 3])
        return _names_file(self._lines, self._at) and after.startswith("@@")

    def _starts(self, *starts: str) -> bool:
        return self._at < len(self._lines) and self._lines[self._at].startswith(starts)

    def _error(self, wanted: str) -> ToolError:
        found = repr(self._lines[self._at][:80]) if self._at < len(self._lines) else "the end of the patch"
        return ToolError(f"patch line {self._at + 1}: expected {wanted}, found {found}; nothing was changed")


def _paths(old: str, new: str) -> tuple[str, str]:
    """Return the two file names, without git's prefixes where they are git's."""
    old, new = (unquote(given.split("\t")[0].strip()) for given in (old, new))
    prefixed = old.startswith("a/") or old == _NOWHERE, new.startswith("b/") or new == _NOWHERE
    if all(prefixed):
        return old.removeprefix("a/"), new.removeprefix("b/")
    return old.removeprefix("./"), new.removeprefix("./")


def _one_file(old: str, new: str) -> tuple[str, str]:
    """Return the names of a change that renames nothing. Raises `ToolError` when they name two files."""
    if old == new or _NOWHERE in (old, new):
        return old, new
    if any(old == new + ending for ending in _BACKUPS):
        return new, new
    raise ToolError(
        f"the diff names two files, {old} and {new}, and does not say that one becomes the other: give the "
        "lines 'rename from' and 'rename to' after 'diff --git', or the same name twice. Nothing was changed."
    )
