"""Over-approximation of the commands in text that could not be parsed.

It is used for deny rules and the hard floor only: it errs on the side of too many commands, in linear time.
"""

from __future__ import annotations

import re

from buddy.safety.shell.programs.names import SHELLS, word_list
from buddy.safety.shell.result import UNRESOLVED

_PIECE = re.compile(
    r"""(?P<single>'[^']*'?)|(?P<break>\$\(|`|&&|\|\||[;&|()\n]|<\(|>\()|(?P<blank>[ \t]+)|(?P<escape>\\.)
    |(?P<variable>\$\{[^}]*\}|\$\w+|\$[?$\#!@*-])|(?P<double>"+)|(?P<redirect>\d*(?:<<<|<<-?|>>|<>|[<>]&?)\s*)
    |(?P<plain>[^'$`;&|()\n \t\\"<>]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = word_list("keywords")
_WRAPPERS = word_list("wrappers")
"""Programs that start the command among their arguments. Deny and ask rules look at every word after them."""
_KNOWN = {
    **dict.fromkeys(("$HOME", "${HOME}"), "~"),
    **dict.fromkeys(("$PWD", "${PWD}"), "."),
    **dict.fromkeys(("$$", "$?", "$#", "$!", "$RANDOM", "$SECONDS", "$UID", "$PPID"), "0"),
}
"""Variables a target may hold: a folder that is known, or a number."""

_MAX_DEPTH = 4
_MAX_COMMANDS = 200
_MAX_WORDS = 60
_MAX_CHARS = 4000


def scavenge(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the argv of everything that looks like a command, quotes removed, unknown values shown as
    such."""
    text = text[:_MAX_CHARS]
    found = _scavenge_any(text) if re.search(r"['\\\\$`<>]", text) else _scavenge_plain(text)
    return tuple(command for command in found if command)[:_MAX_COMMANDS]


def _scavenge_plain(text: str) -> list[tuple[str, ...]]:
    """Do the same, faster, for a text without quotes, variables and redirections."""
    found: list[tuple[str, ...]] = []
    for part in re.split(r"[;&|()\n]+", text.replace('"', "")):
        argv = re.findall(r"[^ \t]+", part)
        if argv:
            found.append(_command(argv))
    return found


def _scavenge_any(text: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    argv: list[str] = []
    word: list[str] | None = None
    for piece in _PIECE.finditer(text):
        kind, part = piece.lastgroup, piece.group()
        if kind in ("break", "blank", "redirect"):
            if part in ("$(", "`") and (argv or word):  # its output is a word of the command around it
                found.append(_command([*argv, "".join([*(word or []), UNRESOLVED])]))
            if word is not None:
                argv.append("".join(word))
                word = None
            if kind == "break" and argv:
                found.append(_command(argv))
                argv = []
            continue
        if kind == "double":
            continue
        word = word if word is not None else []
        if kind == "single":
            word.append(part.strip("'"))
        elif kind == "variable":
            word.append(UNRESOLVED)
        elif kind == "escape":
            word.append(part[1])
        else:
            word.append(part)
    if word is not None:
        argv.append("".join(word))
    if argv:
        found.append(_command(argv))
    return found


def targets_in_text(text: str, depth: int = 0) -> tuple[str, ...]:
    """Return every target of a redirection that writes, also inside single-quoted texts."""
    if ">" not in text:
        return ()
    found: list[str] = []
    target: list[str] | None = None
    for piece in _PIECE.finditer(text[:_MAX_CHARS]):
        kind, part = piece.lastgroup, piece.group()
        if kind == "single" and ">" in part and depth < _MAX_DEPTH:
            found.extend(targets_in_text(part.strip("'"), depth + 1))
        if kind == "redirect":
            if target:
                found.append("".join(target))
            target = [] if ">" in part else None
        elif target is None or kind == "double":
            continue
        elif part in ("$(", "`"):
            target.append(UNRESOLVED)
        elif kind in ("break", "blank"):
            if target:
                found.append("".join(target))
            target = [] if not target and (kind == "blank" or part in ("|", "&")) else None
        else:
            known = {"variable": _KNOWN.get(part, UNRESOLVED), "single": part.strip("'"), "escape": part[1:]}
            target.append(known.get(str(kind), part))
    if target:
        found.append("".join(target))
    return tuple(found)[:_MAX_COMMANDS]


def targets_inside(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Do the same for texts that a program might run as commands."""
    name = argv[0].rpartition("/")[2] if argv else ""
    if name not in _WRAPPERS and name not in SHELLS:
        return ()
    return tuple(target for word in argv[1:_MAX_WORDS] if ">" in word for target in targets_in_text(word))


def _command(argv: list[str]) -> tuple[str, ...]:
    """Drop leading keywords and assignments."""
    position = 0
    while position < len(argv) and (
        argv[position] in _KEYWORDS or re.match(r"[A-Za-z_]\w*\+?=", argv[position])
    ):
        position += 1
    return tuple(argv[position:])


def inner_commands(argv: tuple[str, ...], depth: int = 0) -> tuple[tuple[str, ...], ...]:
    """Return every argv a wrapper could start: each rest of its words, and each command in a text it is
    given."""
    if not argv or depth > _MAX_DEPTH:
        return ()
    name = argv[0].rpartition("/")[2]
    found: list[tuple[str, ...]] = []
    if name not in _WRAPPERS and name not in SHELLS:
        return ()
    if name in _WRAPPERS:
        found.extend(argv[position:] for position in range(1, min(len(argv), _MAX_WORDS)))
    texts = [word for word in argv[1:_MAX_WORDS] if re.search(r"\s", word)]
    if name == "eval":
        texts.append(" ".join(argv[1:]))
    if "-c" in argv[:-1]:
        texts.append(argv[argv.index("-c") + 1])
    for text in texts:
        for command in scavenge(text):
            found.append(command)
            found.extend(inner_commands(command, depth + 1))
    return tuple(dict.fromkeys(found))[:_MAX_COMMANDS]
