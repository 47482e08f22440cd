"""Wrappers that models put around a file's whole content: a code fence, line numbers.

Only where the content cannot be meant that way: in the source of a language in which it would be an error;
numbers also before lines that the file has without them. Pure.
"""

from __future__ import annotations

import re

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError

_SOURCE = pattern(
    r"\.(?:pyi?|[mc]?js|[jt]sx?|go|rs|c|h|cc|cpp|cxx|hpp|cs|java|kts?|scala|swift|rb|php|lua|sh|bash|zsh|pl|json"
    r"|toml|ya?ml|ini|cfg|html?|xml|svg|s?css|less|sql|vue|svelte|proto|gradle|tf|exs?|zig|dart)\Z",
    re.IGNORECASE,
)
_FENCE = pattern(r"(`{3,}|~{3,})[^\n`]*\n")
_NUMBER = pattern(r"( {0,5}\d+)\t")


def refuse_wrapped(content: str, known: str, name: str) -> None:
    """Raise `ToolError` where the content of a file called `name` is wrapped whole. `known`: what the file
    holds now, "" for a new one."""
    why = _fenced(content, known, name) or _numbered(content, known, name)
    if why:
        raise ToolError(f"{why} Nothing was changed. Give the content as it is to stand in the file.")


def _fenced(content: str, known: str, name: str) -> str:
    fence = _FENCE().match(content)
    if fence is None or not _SOURCE().search(name) or known.startswith(fence.group(1)):
        return ""
    if content.rstrip().rpartition("\n")[2] != fence.group(1):
        return ""
    return f"the content stands between code fences ({fence.group(1)}), which would be lines of the file."


def _numbered(content: str, known: str, name: str) -> str:
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
    found = _NUMBER().match(lines[0])
    if found is None or len(found.group(1)) < 6:
        return False
    first = int(found.group(1))
    return all(line.startswith(f"{number:>6}\t") for number, line in enumerate(lines, first))
