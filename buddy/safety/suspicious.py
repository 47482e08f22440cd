"""Addresses that may carry something away: a secret in the query, the path or the host name."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus, urlsplit

from buddy.agent.pattern import pattern
from buddy.safety.secret_places import bits
from buddy.safety.secret_shapes import find_shapes

MAX_QUERY_CHARS = 500
_VALUE = pattern(r"[A-Za-z0-9+/_=~.-]{20,}")
_LABEL = pattern(r"[a-z0-9-]{25,}")
_KNOWN = pattern(r"[0-9a-f]{7,64}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""Commit ids, checksums and UUIDs are ordinary in paths."""
_WORD = pattern(r"[A-Za-z0-9+/=]+")
_HUMP = pattern(r"[a-z][A-Z]")
_RANDOM_CHARS = 20
_RANDOM_BITS = 3.2
_RANDOM_HUMPS = 5


def suspicious_url(url: str) -> str:
    """Why an address looks as if it carried data away; "" when it doesn't."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "it cannot be read"
    if any(find_shapes(unquote(url))):
        return "it holds something that looks like a key or token"
    if len(parts.query) > MAX_QUERY_CHARS:
        return f"its query is {len(parts.query)} characters long"
    query = unquote_plus(f"{parts.query}#{parts.fragment}")
    if any(_is_random(value) for value in _VALUE().findall(query)):
        return "its query holds a long random text, as a secret would be"
    path = unquote(parts.path)
    if any(_is_random(value) for value in re.split(r"[/;,@]", path) if not _KNOWN().fullmatch(value)):
        return "its path holds a long random text, as a secret would be"
    if any(_is_random(label) for label in _LABEL().findall(host)):
        return "its host name holds a long random text, as a secret would be"
    return ""


def _is_random(text: str) -> bool:
    longest = max(_WORD().findall(text), key=len, default="")
    if len(longest) < _RANDOM_CHARS or bits(longest) < _RANDOM_BITS:
        return False
    mixed = any(sign.isdigit() for sign in longest) and any(sign.isalpha() for sign in longest)
    return mixed or len(_HUMP().findall(longest)) >= _RANDOM_HUMPS
