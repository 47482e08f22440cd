"""Text a model copied from what our tools print, wrapped or shortened, taken back to what stands in the
file."""

from __future__ import annotations

import re

import msgspec

from buddy.agent.formatting import whole_number
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError

_NUMBER = pattern(r"[ ]*(\d{1,9})")
_ANY = pattern(r"[ ]*\d{1,9}(?:\t|→|\||:| [ |])")
_VISIBLE_START = pattern(r"[·→]+")
_VISIBLE_END = pattern(r"[·→]+$")
_BLANKS = str.maketrans("·→", " \t")


class Copied(msgspec.Struct, frozen=True):
    """The text without marks, and the number of its first line (0: the form has no numbers)."""

    first: int
    text: str


class Form(msgspec.Struct, frozen=True):
    """One way lines are printed: what stands between number and line, and whether blanks are visible."""

    separator: str
    numbered: bool
    visible: bool

    def read(self, block: str) -> Copied | None:
        """Return the block without this form's marks, None where a line does not carry them."""
        lines = block.split("\n")
        first = 0
        if self.numbered:
            found = self._without_numbers(lines)
            if found is None:
                return None
            first, lines = found
        if self.visible:
            real = [_with_real_blanks(line) for line in lines]
            if not self.numbered and real == lines:
                return None
            lines = real
        return Copied(first, "\n".join(lines))

    def _without_numbers(self, lines: list[str]) -> tuple[int, list[str]] | None:
        first = -1
        texts: list[str] = []
        for at, line in enumerate(lines):
            match = _NUMBER().match(line)
            if match is None:
                return None
            rest = line[match.end() :]
            if not rest.startswith(self.separator):
                if rest.rstrip() != self.separator.rstrip():
                    return None
                rest = self.separator  # a blank line whose separator lost its last space
            number = int(match.group(1))
            first = number if first < 0 else first
            if number != first + at:
                return None
            texts.append(rest[len(self.separator) :])
        return first, texts


FORMS = (
    Form("\t", numbered=True, visible=False),
    Form("→", numbered=True, visible=False),
    Form(" | ", numbered=True, visible=False),
    Form("|", numbered=True, visible=False),
    Form(": ", numbered=True, visible=False),
    Form(":", numbered=True, visible=False),
    Form("  ", numbered=True, visible=True),
    Form("", numbered=False, visible=True),
)
"""Forms in the order in which they are tried: what fits the file decides."""


def carries_marks(text: str) -> bool:
    """Tell whether any line looks as if it carried a line number."""
    return any(_ANY().match(line) for line in text.split("\n"))


def _with_real_blanks(line: str) -> str:
    line = (
        _VISIBLE_START().sub(lambda marks: marks.group().translate(_BLANKS), line, count=1)
        if line[:1] in "·→"
        else line
    )
    return _VISIBLE_END().sub(lambda marks: marks.group().translate(_BLANKS), line)


_SOURCE = pattern(
    r"\.(?:pyi?|[mc]?js|[jt]sx?|go|rs|c|h|cc|cpp|cxx|hpp|cs|java|kts?|scala|swift|rb|php|lua|sh|bash|zsh|pl|json"
    r"|toml|ya?ml|ini|cfg|html?|xml|svg|s?css|less|sql|vue|svelte|proto|gradle|tf|exs?|zig|dart)\Z",
    re.IGNORECASE,
)
_FENCE = pattern(r"(`{3,}|~{3,})[^\n`]*\n")
_LINE_NUMBER = pattern(r"( {0,5}\d+)\t")


def refuse_wrapped(content: str, known: str, name: str) -> None:
    """Raise `ToolError` where the content of a file called `name` is wrapped whole. `known`: what the file
    holds now, "" for a new one."""
    why = _fence_reason(content, known, name) or _numbers_reason(content, known, name)
    if why:
        raise ToolError(f"{why} Nothing was changed. Give the content as it is to stand in the file.")


def _fence_reason(content: str, known: str, name: str) -> str:
    fence = _FENCE().match(content)
    if fence is None or not _SOURCE().search(name) or known.startswith(fence.group(1)):
        return ""
    if content.rstrip().rpartition("\n")[2] != fence.group(1):
        return ""
    return f"the content stands between code fences ({fence.group(1)}), which would be lines of the file."


def _numbers_reason(content: str, known: str, name: str) -> str:
    lines = content.removesuffix("\n").split("\n")
    if not _has_numbers(lines) or _has_numbers(known.split("\n")[:1]):
        return ""
    if not _SOURCE().search(name) and not _repeats(lines, known):
        return ""
    return "every line of the content begins with the line number and the tab that read_file prints."


def _repeats(lines: list[str], known: str) -> bool:
    """Tell whether a line of the file follows one of the numbers: in data, numbers in the first column may be
    content."""
    there = {line for line in known.split("\n") if line.strip()}
    return any(line.partition("\t")[2] in there for line in lines)


def _has_numbers(lines: list[str]) -> bool:
    """Tell whether the lines carry consecutive numbers as `read_file` prints them."""
    found = _LINE_NUMBER().match(lines[0])
    if found is None or len(found.group(1)) < 6:
        return False
    first = whole_number(found.group(1).strip())
    if first is None:
        return False
    return all(line.startswith(f"{number:>6}\t") for number, line in enumerate(lines, first))


_MARKS = "#/*-<!>{}()[];%'\" \t"
_DOTS = ".…"
_THINGS = (
    r"(?:code|methods?|functions?|content|lines?|imports?|implementation|logic|file|class(?:es)?|body|tests?"
    r"|cases?|fields?|propert(?:y|ies)|props|config(?:uration)?|definitions?|items?|section|module|script)"
)
_SAME = (
    r"(?:unchanged|omitted|as before|here|the same"
    r"|(?:stays?|remains?|is|are|kept) (?:the )?(?:same|unchanged|as is))"
)
_KEEP = (
    "(?:keep|leave) (?:the |your |all )?(?:(?:rest|remainder)(?: of (?:the |your |this )?"
    rf"{_THINGS})?|(?:existing|other|remaining|previous|current) {_THINGS})(?: {_SAME}| as is)?"
)
_CODE = r"(?:code|methods?|functions?|implementation|logic|imports?|body|class(?:es)?)"
_SAID_SAME = (
    r"(?:unchanged|omitted(?: for brevity)?|as before|as is"
    r"|(?:stays?|remains?|is|are|kept) (?:the )?(?:same|unchanged|as is))"
)
_WITHOUT_DOTS = pattern(
    rf"(?:the )?(?:rest|remainder) of (?:the |your |this )?[\w.]+(?: [\w.]+)? {_SAID_SAME}"
    r"|(?:the |your |all )?(?:existing|remaining|unchanged|previous|other|original) "
    rf"(?:[\w.]+ )?{_CODE} {_SAID_SAME}"
    rf"|(?:keep|leave) (?:the )?(?:rest of the {_CODE}|existing {_CODE}) (?:as is|unchanged|the same)",
    re.IGNORECASE,
)
_COMMENT = ("#", "//", "/*", "--", "<!--", ";", "%", "{/*")
_KINDS = (
    _KEEP,
    rf"(?:the )?(?:rest|remainder) (?:of (?:the |your |this )?[\w.]+(?: [\w.]+)?(?: {_SAME})*|{_SAME})",
    "the (?:rest|remainder)",
    r"(?:the |your )?(?:existing|remaining|unchanged|previous|other|original|same|omitted) "
    rf"(?:[\w.]+ )?{_THINGS}(?: {_SAME})*",
    rf"{_THINGS} {_SAME}",
    "unchanged|omitted|as before|no changes?|same as (?:before|above)",
)
_STANDS_FOR = pattern("|".join(f"(?:{kind})" for kind in _KINDS), re.IGNORECASE)
_MAX_CHARS = 100


def refuse_elided(new: str, known: str, replaced: str) -> None:
    """Raise `ToolError` where the new text has a line that only stands for others, and `known` (the whole of
    what stood there) does not have that line. `replaced`: the part of it the new text takes the place of."""
    line = find_elision(new, known, replaced)
    if line:
        raise ToolError(
            f"the new text has the line {line.strip()!r}, which the file does not have: it would stand there "
            "instead of the code it stands for. Nothing was changed. Write that code out, or change only the "
            "lines around it with edit_file; a line that is really meant can be written in other words."
        )


def find_elision(new: str, known: str, replaced: str) -> str:
    """Return the first such line, "" when there is none."""
    lines = new.split("\n")
    fewer = _count_filled(replaced.split("\n")) - _count_filled(lines)
    if fewer < 0 and not _has_dots(new):
        return ""
    there = {line.strip() for line in known.split("\n")}
    for line in lines:
        if len(line) > _MAX_CHARS or not line.strip() or line.strip() in there:
            continue
        if _stands_for_others(line) or _comment_for_others(line, fewer):
            return line
    return ""


def _count_filled(lines: list[str]) -> int:
    return sum(1 for line in lines if line.strip())


def _stands_for_others(line: str) -> bool:
    if not _has_dots(line):
        return False
    words = line.strip(_MARKS + _DOTS)
    if not words:
        return False
    head, _, tail = line.partition(words)
    return _has_dots(head + tail) and _STANDS_FOR().fullmatch(words) is not None


def _comment_for_others(line: str, fewer: int) -> bool:
    """Tell whether a line is a comment of dots only, or one that says that something stays, without the lines
    themselves."""
    if fewer < 0 or not line.lstrip().startswith(_COMMENT):
        return False
    words = line.strip(_MARKS + _DOTS)
    return _WITHOUT_DOTS().fullmatch(words) is not None if words else fewer > 0 and _has_dots(line)


def _has_dots(text: str) -> bool:
    return "..." in text or "…" in text
