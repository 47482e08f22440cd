"""The text of a skill or command file with the words typed behind its name: arguments, commands to run, files
to attach. Pure: whoever uses it runs the commands and reads the files."""

from __future__ import annotations

import re
import shlex

import msgspec

from buddy.agent.lazy_regex import pattern

MAX_COMMANDS = 20
_PLACE = pattern(
    r"\$\{(?P<braced>[1-9]\d?|ARGUMENTS)(?::-(?P<default>[^}]*))?\}"
    r"|\$ARGUMENTS\[(?P<index>\d{1,2})\]|\$(?P<all>ARGUMENTS\b|@)|\$(?P<number>[1-9]\d?)(?!\d)"
)
_COMMAND = pattern(
    r"```!\s*\n(?P<block>.*?)\n```|(?:(?<=\s)|^)!`(?P<line>[^`\n]+)`", re.DOTALL | re.MULTILINE
)
_GEMINI_FILE = pattern(r"@\{([^{}\n]+)\}")


class ShellPiece(msgspec.Struct, frozen=True):
    """A command whose output takes its place in the text."""

    command: str


class PlainPiece(msgspec.Struct, frozen=True):
    """Text as it stands."""

    text: str


Piece = PlainPiece | ShellPiece


def fill_in(body: str, arguments: str) -> str:
    """Return the text with the arguments in their places; below it where it has no place for them."""
    words = split_words(arguments)
    used = False

    def replace(found: re.Match[str]) -> str:
        nonlocal used
        used = True
        if found["all"] or found["braced"] == "ARGUMENTS":
            return arguments or found["default"] or ""
        at = int(found["index"]) if found["index"] else int(found["braced"] or found["number"]) - 1
        return words[at] if at < len(words) and words[at] else found["default"] or ""

    text = _PLACE().sub(replace, body)
    return text if used or not arguments else f"{text}\n\nARGUMENTS: {arguments}"


def split_words(arguments: str) -> list[str]:
    """Return the words of an argument text as a shell splits them; at blanks where quotes don't close."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def pieces_of(text: str) -> tuple[Piece, ...]:
    """Return a text in pieces: as it stands, and the commands in it."""
    pieces: list[Piece] = []
    at = 0
    for found in _COMMAND().finditer(text):
        pieces.append(PlainPiece(text[at : found.start()]))
        pieces.append(ShellPiece((found["block"] or found["line"]).strip()))
        at = found.end()
    pieces.append(PlainPiece(text[at:]))
    return tuple(piece for piece in pieces if piece != PlainPiece(""))


def gemini_pieces(prompt: str, arguments: str) -> tuple[Piece, ...]:
    """Return the pieces of a Gemini prompt: `{{args}}`, `!{command}` with quoted arguments, `@{path}`."""
    has_place = "{{args}}" in prompt
    pieces: list[Piece] = []
    rest = prompt
    while (start := rest.find("!{")) >= 0 and (end := _closing_brace(rest, start + 2)) >= 0:
        pieces.append(PlainPiece(_gemini_text(rest[:start], arguments)))
        command = rest[start + 2 : end].strip().replace("{{args}}", shlex.quote(arguments))
        pieces.append(ShellPiece(command))
        rest = rest[end + 1 :]
    pieces.append(PlainPiece(_gemini_text(rest, arguments)))
    if arguments and not has_place:
        pieces.append(PlainPiece(f"\n\n{arguments}"))
    return tuple(piece for piece in pieces if piece != PlainPiece(""))


def _gemini_text(text: str, arguments: str) -> str:
    mentioned = _GEMINI_FILE().sub(lambda found: "@" + found[1].strip().replace(" ", "\\ "), text)
    return mentioned.replace("{{args}}", arguments)


def _closing_brace(text: str, at: int) -> int:
    depth = 1
    for index in range(at, len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if depth == 0:
            return index
    return -1
