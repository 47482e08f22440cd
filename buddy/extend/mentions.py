"""`@path` in a prompt: the file's content goes along, read by the same tool the model would use.

So the content is bounded, counted as seen (it can be edited without another read) and never blocks on a pipe.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import msgspec

from buddy.agent.messages import Text, UserPart
from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError, ToolResult

_MENTION = pattern(r"(?:(?<=\s)|^)@((?:\\ |[^\s@])+)")
_TRAILING = ".,;:!?)]}'\""
MAX_MENTIONS = 20

Read = Callable[[str], Awaitable[ToolResult]]


class Expanded(msgspec.Struct, frozen=True):
    """A prompt with what it mentions. `notes` name what could not be attached, a sentence each."""

    parts: tuple[UserPart, ...]
    notes: tuple[str, ...]


def mentioned(text: str, cwd: str) -> tuple[str, ...]:
    """The paths a prompt mentions that exist, in order, each once. `@someone` who is no file stays text."""
    found: list[str] = []
    for match in _MENTION().finditer(text):
        path = match[1].replace("\\ ", " ")
        for candidate in (path, path.rstrip(_TRAILING)):
            if candidate and os.path.lexists(os.path.join(cwd, os.path.expanduser(candidate))):
                if candidate not in found:
                    found.append(candidate)
                break
    return tuple(found)


async def expand(text: str, cwd: str, read: Read) -> Expanded:
    """The prompt, followed by the content of what it mentions."""
    parts: list[UserPart] = [Text(text)]
    notes: list[str] = []
    paths = mentioned(text, cwd)
    for path in paths[:MAX_MENTIONS]:
        try:
            result = await read(os.path.expanduser(path))
        except ToolError as error:
            notes.append(f"@{path} was not attached: {error}")
            continue
        parts.append(Text(f"\n\n[attached: {path}]\n{result.text}\n"))
        parts.extend(result.images)
    if len(paths) > MAX_MENTIONS:
        notes.append(
            f"{len(paths) - MAX_MENTIONS} more files were mentioned than the {MAX_MENTIONS} that are attached"
        )
    return Expanded(tuple(parts), tuple(notes))
