"""`@path` in a prompt: attach the file's content, read by the same tool the model would use.

So the content is bounded, counted as seen (it can be edited without another read) and never blocks on a pipe.

A blank in a path is written `\\ `, as in a shell. What can't be seen or can't stand in a line is written as
in Python: `\\n`, `\\x1b`, `\\u202e`; a backslash as `\\\\`, though one that needs no other may stand alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Attachment, Text, UserPart
from buddy.agent.tool import ToolError, ToolResult
from buddy.safety.sanitise import clean

_MENTION = pattern(r"(?:(?<=\s)|^)@((?:\\.|[^\s@])(?:\\.|\S)*)")
_FILE_LIKE = pattern(
    r"(?:~|\.{1,2})?/\S+|\w[\w.-]*/\S*\.[A-Za-z]\w{0,9}|[\w.-]*\.(?:"
    r"py|pyi|ipynb|js|jsx|mjs|cjs|ts|tsx|vue|svelte|go|rs|c|cc|cpp|h|hpp|cs|java|kt|scala|swift|rb|php|lua|ex|exs"
    r"|sh|sql|proto|tf|toml|ya?ml|json|jsonl|xml|ini|cfg|conf|lock|md|rst|txt|log|csv|html|css|png|jpe?g|gif|svg|pdf"
    r")"
)
"""A path with a slash, or a name with the ending of a file: not `@someone`, `@scope/package`."""
_ESCAPE = pattern(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00[01][0-9a-f]{5})|(.))")
_NAMED = {"n": "\n", "t": "\t", "r": "\r"}
_WRITTEN = {sign: f"\\{name}" for name, sign in _NAMED.items()}
_TRAILING = ".,;:!?)]}'\""
MAX_MENTIONS = 20
MAX_PUNCTUATION = 20
"""A name may end in as much of it; with more behind it only what stands before all of it is meant."""

MAX_TYPED_LINES = 5
MAX_TYPED_CHARS = 800
"""Prompts up to this are taken for typed and read through. Longer ones tend to hold a paste or the output of
a command, and the line shows a long paste folded."""

Read = Callable[[str], Awaitable[ToolResult]]


class ExpandedPrompt(msgspec.Struct, frozen=True):
    """A prompt with what it mentions. `notes` name what could not be attached, a sentence each."""

    parts: tuple[UserPart, ...]
    notes: tuple[str, ...]


def may_be_pasted(text: str) -> bool:
    """Tell whether others may have written parts of a prompt, because it is too long to have been typed."""
    return len(text) > MAX_TYPED_CHARS or text.strip().count("\n") >= MAX_TYPED_LINES


def paths_mentioned(text: str, cwd: str) -> tuple[str, ...]:
    """Return the paths a prompt mentions that exist, in order, each once. `@someone` who is no file stays
    text."""
    found: list[str] = []
    for match in _MENTION().finditer(text):
        for candidate in _readings(match[1]):
            if candidate and _is_there(cwd, candidate):
                if candidate not in found:
                    found.append(candidate)
                break
    return tuple(found)


def _is_there(cwd: str, path: str) -> bool:
    try:
        return os.path.lexists(os.path.join(cwd, os.path.expanduser(path)))
    except ValueError:  # a NUL, or half a character: no name holds that, and nobody is called so
        return False


def write_mention(path: str) -> str:
    """Return a path as it stands in a prompt: what `paths_mentioned` reads it from, whole and inert."""
    seen = clean(path) == path
    text = "".join(_sign(sign, seen=seen) for sign in path)
    if clean(text) != text:  # too many marks on one letter
        text = "".join(sign if sign.isascii() else _escape(sign) for sign in text)
    if path.startswith("@"):
        return f"\\{text}"
    return f"./{text}" if path.isdigit() else text  # `@3` is a task


def read_mention(text: str) -> str:
    """Return the path that a piece of a prompt names."""
    return _ESCAPE().sub(_unescape, text)


def _sign(sign: str, *, seen: bool) -> str:
    if sign in " \\":
        return f"\\{sign}"
    return sign if not sign.isspace() and (seen or sign.isprintable()) else _escape(sign)


def _escape(sign: str) -> str:
    number = ord(sign)
    if sign in _WRITTEN:
        return _WRITTEN[sign]
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
    )


def _unescape(found: re.Match[str]) -> str:
    number = found[1] or found[2] or found[3]
    if not number:
        return _NAMED.get(found[4], found[4])
    return chr(int(number, 16)) if int(number, 16) < 0x110000 else found[0]


def _readings(text: str) -> Iterator[str]:
    """Return the paths a mention may mean, likeliest first: with a sentence's punctuation behind it, up to
    another @."""
    for whole in (text, text.split("@", 1)[0] if "@" in text[1:] else text):
        bare = len(whole.rstrip(_TRAILING))
        for end in (*range(len(whole), max(bare, len(whole) - MAX_PUNCTUATION), -1), bare):
            yield whole[:end].replace("\\ ", " ")
            yield read_mention(whole[:end])


def missing(text: str, cwd: str) -> tuple[str, ...]:
    """Return the mentions that look like a path, a slash or an ending in them, and lead to no file."""
    found: list[str] = []
    for match in _MENTION().finditer(text):
        whole = match[1].rstrip(_TRAILING)
        looks = _FILE_LIKE().fullmatch(whole) is not None
        if (
            looks
            and whole not in found
            and not any(_is_there(cwd, reading) for reading in _readings(match[1]) if reading)
        ):
            found.append(whole)
    return tuple(found)


async def expand(text: str, cwd: str, read: Read) -> ExpandedPrompt:
    """Return the prompt, followed by the content of what it mentions."""
    parts: list[UserPart] = [Text(text)]
    notes: list[str] = []
    paths = paths_mentioned(text, cwd)
    notes += [f"@{clean(path)} was not attached: there is no such file" for path in missing(text, cwd)]
    for path in paths[:MAX_MENTIONS]:
        try:
            result = await read(os.path.expanduser(path))
        except ToolError as error:
            notes.append(f"@{write_mention(path)} was not attached: {error}")
            continue
        title = f"attached: {write_mention(path)}"
        parts.append(Attachment(title, f"\n\n[{title}]\n{result.text}\n"))
        parts.extend(result.images)
    if len(paths) > MAX_MENTIONS:
        notes.append(
            f"{len(paths) - MAX_MENTIONS} more files were mentioned than the {MAX_MENTIONS} that are attached"
        )
    return ExpandedPrompt(tuple(parts), tuple(notes))
