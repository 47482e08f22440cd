"""Keys in the settings of other programs. In doubt a text counts as one: a key that is copied cannot be taken
back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import cast
from urllib.parse import parse_qsl, urlsplit

from buddy.agent.lazy_regex import pattern
from buddy.safety.secrets.redact import redact

NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = pattern(
    r"KEY|TOKEN|SECRET|PASS|PWD|PAT(?![A-Z])|AUTH(?!OR(?!I[SZ]))|CREDENTIAL|COOKIE|DSN", re.IGNORECASE
)
_REFERENCE = pattern(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_DEFAULT = pattern(r"(\$\{[A-Za-z_][A-Za-z0-9_]*):-[^}]*\}")
_BARE_VARIABLE = pattern(r"\$(?=[A-Za-z_])([A-Za-z_][A-Za-z0-9_]*)|\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SCHEME = pattern(r"(?:Bearer|Basic|Token|Bot|ApiKey)(?:\s+|$)", re.IGNORECASE)
_SEPARATORS = pattern(r"[\s;&|'\"()]+")
_NAME_AT_END = pattern(r"[\w.-]*$")
_HEADER = pattern(r".*[A-Z].*|x-.*|authorization|cookie")
_KEY_LETTER = pattern(r"-[kKtTaAsSwWP]")
"""Options of one letter that programs use for a key, a token, a secret or a password."""
_PLAIN_VALUE = pattern(
    r"[a-z][a-z_-]{0,11}|streamable[-_]?http|[0-9.]{1,15}(?:ms|[smhkMG])?|[a-z0-9.]{1,15}:[0-9]{1,5}"
    r"|[\w-]{1,40}\.[a-z]{2,5}",
    re.IGNORECASE,
)
_UNBROKEN = pattern(r"[A-Za-z0-9_=+-]{16,}")
_TURN = pattern(r"(?<=[0-9])[A-Za-z]|(?<=[A-Za-z])[0-9]|(?<=[a-z])[A-Z]")
TURNS = 4
"""Changes between letters and digits, or from small letters to capitals, from which on a word is no name:
keys have many, `mcp-server-2024`, `python3` and `claude-3-5-sonnet` few."""
_LONG = pattern(r"(?=(?:[^0-9]*[0-9]){4})(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_=+-]{24,}")


def as_reference(text: str) -> str:
    """Return a text with `${NAME}` in place of `$NAME` and `{env:NAME}`."""
    return _BARE_VARIABLE().sub(lambda found: f"${{{found[1] or found[2]}}}", text)


def scheme_of(text: str) -> str:
    """Return the scheme a header begins with, such as "Bearer ", or ""."""
    found = _SCHEME().match(text)
    return f"{found[0].strip()} " if found else ""


def is_variable(text: str) -> bool:
    """Tell whether a text is the name of a variable, and not a key that stands in its place."""
    return NAME().fullmatch(text) is not None and not holds_key([text])


def is_literal(text: str) -> bool:
    """Tell whether a text holds more than references and the scheme of a header."""
    rest = _REFERENCE().sub("", as_reference(text)).strip()
    return bool(_SCHEME().sub("", rest, count=1).strip() if _SCHEME().match(rest) else rest)


def names_secret(name: str) -> bool:
    """Tell whether a variable, header or option of this name holds a secret."""
    return _SECRET_NAME().search(name) is not None


def drop_defaults(text: str) -> str:
    """Return a text with `${NAME}` in place of `${NAME:-default}`."""
    return _DEFAULT().sub(r"\1}", text)


def holds_key(words: Sequence[str]) -> bool:
    """Tell whether the words of a command hold a key: in a known form, in an address, or as the value of an
    option, variable or header that is called like one."""
    if any(redact(word) != word or is_address_with_key(word) for word in words):
        return True
    if any(map(_is_opaque, words)) or any(_is_short_option(*pair) for pair in pairwise([*words, ""])):
        return True
    pieces = [piece for word in words for piece in _SEPARATORS().split(word) if piece]
    return any(_is_key(piece, after) for piece, after in pairwise([*pieces, ""]))


def _is_opaque(word: str) -> bool:
    """Tell whether a word is no name, path or number that a person would write."""
    bare = word.rpartition("=")[2] if word.startswith("-") else word
    if not _UNBROKEN().fullmatch(bare):
        return False
    return len(_TURN().findall(bare)) >= TURNS or (len(bare) >= 32 and bare.isalpha())


def _is_short_option(option: str, value: str) -> bool:
    """Tell whether a value of no plain form follows a letter that often stands for a key; `-kVALUE` too."""
    letter, joined = option[:2], option[2:]
    if not _KEY_LETTER().fullmatch(letter) or joined.startswith("-"):
        return False
    text = joined.removeprefix("=") or value
    is_other = text.startswith(("-", ".", "~")) or "/" in text
    return is_literal(text) and not is_other and not _PLAIN_VALUE().fullmatch(text)


def _is_key(piece: str, after: str) -> bool:
    """Tell whether a word, or the one after it, is the value of a name that holds a secret."""
    if piece.lower() in ("bearer", "basic"):
        return is_literal(after)
    if piece.startswith("-") and names_secret(piece) and "=" not in piece:
        return not after.startswith("--") and is_literal(after)
    if piece.endswith((":", "=")) and names_secret(piece):
        return is_literal(after) and (piece.endswith("=") or not _SCHEME().fullmatch(after))
    for sign in "=:":
        parts = piece.split(sign)
        for at, part in enumerate(parts[:-1], 1):
            found = _NAME_AT_END().search(part)
            name = found[0] if found else ""
            if names_secret(name) and (sign == "=" or _HEADER().fullmatch(name)):
                return is_literal(sign.join(parts[at:]))
    return False


def is_address_with_key(text: str) -> bool:
    """Tell whether a text is an address with a user, a password, or a key in its query or path."""
    if "://" not in text:
        return False
    if redact(text) != text:
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    if "@" in parts.netloc and is_literal(parts.netloc.rpartition("@")[0].replace(":", "")):
        return True
    for name, value in [*parse_qsl(parts.query), *parse_qsl(parts.fragment)]:
        if is_literal(value) and (names_secret(name) or _LONG().fullmatch(value)):
            return True
    return any(_LONG().fullmatch(segment) for segment in parts.path.split("/"))


def texts_in(value: object) -> Iterator[str]:
    """Yield every text within a value of a settings file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in cast("dict[object, object]", value).items():
            yield str(name)
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from texts_in(inner)
