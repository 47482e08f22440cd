"""Redaction of secrets in text that goes to disk: journals, logs, exports.

Redacted are known shapes (`key_shapes`), the person's configured keys, private key blocks, credentials in
headers and addresses, and assignments like `API_KEY=…` whose value looks random. Commit ids, UUIDs,
checksums, images and placeholders stay, and so does the opaque data of providers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from urllib.parse import quote

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import (
    AssistantMessage,
    AssistantPart,
    Attachment,
    Call,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    UserPart,
)
from buddy.safety.secrets.context import find_by_context
from buddy.safety.secrets.key_shapes import GAP, Span, find_shapes

MIN_OWN_KEY_CHARS = 8
_BEGIN_KEY = pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END_KEY = pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_KEY_BODY = pattern(rf"(?:{GAP}|[A-Za-z0-9+/=]{{16,}})*")
_PUTTY_KEY = pattern(r"Private-Lines: {0,4}\d{1,4}(?:(?:\s|\\[nr]){1,4}[A-Za-z0-9+/=]{16,100})*")
_KEY_LINE = pattern(r"[A-Za-z0-9+/=]{1,100}")
_BETWEEN_LINES = pattern(r"\s|\\[nr]")
_FULL_LINE_CHARS = 60
_UNSEEN_SIGN = (
    r"(?:(?:\x1b\[|\x9b)[ -?]*[@-~]"
    r"|(?:\x1b[]PX^_k]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x9c\n]*(?:[\x07\x9c]|\x1b\\)"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff])"
)
"""An escape sequence or a character that the sanitiser drops: a key with some inside is whole on the
screen."""
_UNSEEN = pattern(_UNSEEN_SIGN)
_MAX_KEY_CHARS = 20_000


Finder = Callable[[str], Sequence[Span]]
"""Finds the secrets of a text: in order, none inside another."""


def secret_spans(text: str, keys: Sequence[str] = ()) -> list[Span]:
    """Find the secrets of a text, in order and without overlap; one that begins inside another is merged into
    it. `keys` are the user's own, matched literally."""
    spans = [*_own_keys(text, keys), *_private_keys(text), *find_shapes(text), *find_by_context(text)]
    apart: list[Span] = []
    for start, end, kind in sorted(spans, key=itemgetter(0)):
        # Stable: of two that start together the first names it.
        if not apart or start >= apart[-1][1]:
            apart.append((start, end, kind))
        elif end > apart[-1][1]:
            apart[-1] = (apart[-1][0], end, apart[-1][2])
    return apart


def redact(text: str, keys: Sequence[str] = ()) -> str:
    """Return the text with every secret replaced by ⟨redacted: kind⟩. `keys` are the person's own, taken out
    literally."""
    spans = secret_spans(text, keys)
    if not spans:
        return text
    pieces: list[str] = []
    at = 0
    for start, end, kind in spans:
        pieces.append(f"{text[at:start]}⟨redacted: {kind}⟩")
        at = end
    return "".join([*pieces, text[at:]])


def mask_spans(text: str, spans: Sequence[Span]) -> str:
    """Replace every byte of these secrets by a star; line ends and offsets stay."""
    pieces: list[str] = []
    at = 0
    for start, end, _kind in spans:
        lines = text[start:end].split("\n")
        pieces += [
            text[at:start],
            "\n".join("*" * len(line.encode("utf-8", "surrogateescape")) for line in lines),
        ]
        at = end
    return "".join([*pieces, text[at:]])


def redact_message(message: Message, keys: Sequence[str] = ()) -> Message:
    """Return the message as it may be written to disk; the same object when there was nothing to take out."""
    match message:
        case ToolMessage():
            text = redact(message.text, keys)
            return message if text == message.text else msgspec.structs.replace(message, text=text)
        case UserMessage():
            said = tuple(_redact_user_part(part, keys) for part in message.parts)
            return message if said == message.parts else msgspec.structs.replace(message, parts=said)
        case AssistantMessage():  # pragma: no branch - the last of them
            parts = tuple(_redact_part(part, keys) for part in message.parts)
            return message if parts == message.parts else msgspec.structs.replace(message, parts=parts)


def _redact_user_part(part: UserPart, keys: Sequence[str]) -> UserPart:
    match part:
        case Text():
            return _redact_text(part, keys)
        case Attachment():
            return Attachment(redact(part.title, keys), redact(part.text, keys))
        case Image():  # pragma: no branch - the last of them
            return part


def _redact_part(part: AssistantPart, keys: Sequence[str]) -> AssistantPart:
    match part:
        case Text():
            return _redact_text(part, keys)
        case Thinking():
            text = redact(part.text, keys)
            # A signature covers the text it was given for: a provider refuses the changed one.
            return part if text == part.text else Thinking(text, "")
        case Call():
            arguments = redact(part.arguments, keys)
            return part if arguments == part.arguments else msgspec.structs.replace(part, arguments=arguments)
        case ServerItem():  # pragma: no branch - the last of them
            return part


def _redact_text(part: Text, keys: Sequence[str]) -> Text:
    text = redact(part.text, keys)
    return part if text == part.text else msgspec.structs.replace(part, text=text)


def _own_keys(text: str, keys: Sequence[str]) -> Iterator[Span]:
    hides = bool(keys) and not text.isprintable() and _UNSEEN().search(text) is not None
    for key in keys:
        if len(key) < MIN_OWN_KEY_CHARS:
            continue
        for form in {key, quote(key, safe="")}:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form), "configured key"
                at = text.find(form, at + len(form))
        if hides:
            for found in _key_pattern(key).finditer(text):
                yield *found.span(), "configured key"


@lru_cache(maxsize=32)
def _key_pattern(key: str) -> re.Pattern[str]:
    """Return the key with signs between its characters that a terminal does not show."""
    return re.compile(f"{_UNSEEN_SIGN}*".join(map(re.escape, key)))


def _private_keys(text: str) -> Iterator[Span]:
    """Whole blocks, blocks whose end was cut off, the tail of a block whose beginning was, PuTTY's form."""
    if "Private-Lines:" in text:
        for found in _PUTTY_KEY().finditer(text):
            yield found.start(), found.end(), "private key"
    if "PRIVATE KEY" not in text:
        return
    closed = 0
    begins = [*_BEGIN_KEY().finditer(text)]
    limits = [*(begin.start() for begin in begins[1:]), len(text)]
    for begin, limit in zip(begins, limits, strict=False):  # no begin, yet one limit: the end of the text
        until = min(limit, begin.end() + _MAX_KEY_CHARS)
        end = _END_KEY().search(text, begin.end(), until) or _KEY_BODY().match(text, begin.end(), until)
        yield begin.start(), end.end() if end else begin.end(), "private key"
    for end in _END_KEY().finditer(text):
        yield (
            _start_of_body(text, max(closed, end.start() - _MAX_KEY_CHARS), end.start()),
            end.end(),
            "private key",
        )
        closed = end.end()


def _start_of_body(text: str, earliest: int, end: int) -> int:
    """Return the start of the base64 lines before the end of a key; `end` when there are none."""
    start = at = end
    for gap in [*reversed([*_BETWEEN_LINES().finditer(text, earliest, end)]), None]:
        line = text[gap.end() if gap else earliest : at]
        if line and not _KEY_LINE().fullmatch(line):
            break
        at = gap.start() if gap else earliest
        if len(line) >= _FULL_LINE_CHARS:
            start = gap.end() if gap else earliest
    return start
