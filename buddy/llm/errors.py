"""Provider errors: status, headers and body → one `ProviderError`, with its message and the delay it asks
for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from buddy.agent.formatting import whole_number
from buddy.agent.json_codec import items, loads, mapping
from buddy.agent.provider import ErrorKind, ProviderError
from buddy.llm.error_patterns import BY_STATUS, BY_TYPE, WORDS, ErrorRule
from buddy.safety.sanitise import clean

TEXT_KEYS = ("message", "msg", "status_msg", "detail", "error_description", "error", "title", "reason")
NESTED_KEYS = (
    "error",
    "base_resp",
    "errors",
    "detail",
    "details",
    "metadata",
    "innererror",
    "inner_error",
    "raw",
    "response",
)
TYPE_KEYS = ("type", "code", "status_code", "status", "error_code", "errorCode", "reason", "@type", "__type")
MAX_DEPTH = 6
PAGE = r"\s*(?:<!doctype html|<html|<head|<\?xml|<body)"
GATEWAY = r"litellm\.\w+: "
BYTES = r"""\bb(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
TITLE = r"<(title|h1)[^>]*>(.*?)</\1>"


class ErrorBody(msgspec.Struct, frozen=True):
    """`text` for the person; `types` the machine words; `searched` everything in which words are looked for;
    `status` the HTTP status a body states, 0 when it states none; `delay` a wait it states as a duration."""

    text: str
    types: tuple[str, ...]
    searched: str
    status: int
    delay: str


NOTHING = ErrorBody("", (), "", 0, "")


def read_body(body: object) -> ErrorBody:
    """Extract the message of an error body. Never raises."""
    if isinstance(body, bytes | bytearray):
        return _read_text(bytes(body[:200_000]).decode("utf-8", "replace"))
    if isinstance(body, str):
        return _read_text(body[:200_000])
    if isinstance(body, dict | list):
        return read_json_body(body)
    return NOTHING


def read_json_body(value: Any) -> ErrorBody:
    """Extract the message of a decoded JSON body."""
    texts: list[str] = []
    types: list[str] = []
    numbers: list[int] = []
    delays: list[str] = []
    for key, found in _walk(value, "", 0):
        if isinstance(found, bool):
            continue
        if isinstance(found, int | float):
            if key in ("code", "status", "statusCode", "status_code", "http_code") and 400 <= found < 600:
                numbers.append(int(found))
            elif key in TYPE_KEYS:
                types.append(str(found))
        elif key == "retryDelay":
            delays.append(found)
        elif key in TYPE_KEYS:
            types.append(found)
            status = whole_number(found) if key == "code" else None
            if status is not None and 400 <= status < 600:
                numbers.append(status)
        elif key in TEXT_KEYS or not key:
            texts.append(found)
    text = next((text for text in texts if text.strip()), "")
    return ErrorBody(
        text=text,
        types=tuple(types),
        searched="\n".join([*types, *texts])[:20_000],
        status=numbers[0] if numbers else 0,
        delay=delays[0] if delays else "",
    )


def _read_text(text: str) -> ErrorBody:
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        try:
            return read_json_body(loads(stripped.encode("utf-8", "surrogatepass")))
        except ValueError:
            pass
    if re.match(PAGE, text, re.IGNORECASE):
        return _read_page(text)
    return ErrorBody(stripped, (), stripped[:20_000], 0, "")


def _read_page(text: str) -> ErrorBody:
    """Read a web page: only its title is reported, and its words are no evidence for anything."""
    found = re.search(TITLE, text, re.IGNORECASE | re.DOTALL)
    title = " ".join(re.sub(r"<[^>]*>", " ", found[2]).split())[:120] if found else ""
    said = (
        f'a web page came instead of an answer ("{title}")'
        if title
        else "a web page came instead of an answer"
    )
    return ErrorBody(said, (), title, 0, "")


def _walk(value: Any, key: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield every interesting leaf, outermost first; strings that hold JSON are opened."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in items(value)[:20]:
            yield from _walk(item, key, depth + 1)
        return
    if isinstance(value, dict):
        fields: Mapping[str, Any] = mapping(value)
        for name, item in fields.items():
            if isinstance(item, str | int | float):
                yield from _leaf(name, item, depth)
        for name in NESTED_KEYS:
            if isinstance(fields.get(name), dict | list):
                yield from _walk(fields[name], name, depth + 1)
        return
    if isinstance(value, str | int | float):
        yield from _leaf(key if key in TEXT_KEYS else "", value, depth)


def _leaf(key: str, value: str | float, depth: int) -> Iterator[tuple[str, Any]]:
    opened = _embedded_json(value) if isinstance(value, str) and (key in TEXT_KEYS or key == "raw") else None
    if opened is None:
        inner = _inner_body(value) if isinstance(value, str) and key in TEXT_KEYS else None
        if inner is not None:
            yield from _walk(inner, "", depth + 1)
        yield key, value
    else:
        yield from _walk(opened, "", depth + 1)


def _inner_body(text: str) -> Any:
    """Return the body of an upstream error that a gateway wrote into its own sentence, as JSON or as the
    `repr` of bytes; None where there is none."""
    if not re.match(GATEWAY, text):
        return None
    written = re.search(BYTES, text)
    if written:
        import ast  # only for errors of gateways

        text = ast.literal_eval(written[0]).decode("utf-8", "replace")
    start = text.find("{")
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)[0] if start >= 0 else None
    except ValueError:
        return None


def _embedded_json(text: str) -> Any:
    """Return the JSON a string holds (upstream errors passed on as text), None when it holds none."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return None
    try:
        return loads(stripped.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
UNIT = r"(?:milliseconds?|ms|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|[smhd])"
# Patterns are text, compiled when an error first needs them: compiling at import would cost every start.
DURATION = rf"(\d+(?:\.\d+)?)\s*({UNIT})?(?![a-z])"
WORDING = (
    r"(?:try again|retry|wait|resets?|available)(?:\s+(?:your request|again|after|in|for|at least|about))*\s+"
    rf"((?:\d+(?:\.\d+)?\s*{UNIT}[\s,]*(?:and\s+)?)+)"
)


def retry_after_s(headers: Mapping[str, str], told: ErrorBody, now: float | None) -> float | None:
    """Return seconds to wait, never negative; None when nothing usable is said. `headers` in lower case."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if header is not None:
        stated = _number(header)
        if stated is None:
            stated = _until(header, headers.get("date"), now)
        if stated is not None:
            return stated
    stated = duration_s(told.delay)
    if stated is not None:
        return stated
    wording = re.search(WORDING, told.searched, re.IGNORECASE)
    return duration_s(wording[1]) if wording else None


def duration_s(text: str) -> float | None:
    """Return seconds of "1.5s", "174ms", "9m38.016s", "2 minutes"; None for anything else."""
    total, found = 0.0, False
    for amount, unit in re.findall(DURATION, text, re.IGNORECASE):
        found = True
        total += float(amount) * UNITS[_unit(unit)]
    return total if found else None


def _unit(word: str) -> str:
    word = word.lower()
    if word.startswith(("ms", "milli")):
        return "ms"
    return word[:1] or "s"


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return max(0.0, value)


def _until(text: str, answered: str | None, now: float | None) -> float | None:
    """Return seconds from now (or from the answer's own date) to an HTTP date."""
    at = _date(text)
    if at is None:
        return None
    since = datetime.fromtimestamp(now, UTC) if now is not None else _date(answered or "")
    return max(0.0, (at - (since or datetime.now(UTC))).total_seconds())


def _date(text: str) -> datetime | None:
    """Return an HTTP date, in any of its three formats; always GMT."""
    from email.utils import parsedate_tz  # here: 13 ms that only an error with a date needs

    parsed = parsedate_tz(text)
    if parsed is None:
        return None
    year, month, day, hour, minute, second = parsed[:6]
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None


KEY_REFUSED = "the key was not accepted"
NO_KEY_SENT = "no key was sent; run `buddy login`, or set api_key_env beside the model in buddy.toml"

ADVICE: Mapping[ErrorKind, str] = {
    "rate_limit": "too many requests",
    "overloaded": "overloaded",
    "server": "server error",
    "cut": "connection broken",
    "context_overflow": "the conversation is longer than the model takes",
    "auth": f"{KEY_REFUSED}; check the profile's key",
    "quota": "no credit or quota left; check the account's plan and billing",
    "not_found": "no such model or address; check the profile's model and base_url",
    "bad_request": "the request was refused",
    "content_filter": "blocked by the provider's content filter",
}

FORBIDDEN = "this key may not use this model"
"""A 403: the key itself was accepted."""

MAX_SENTENCE = 400
MIN_BROKEN_KEY = 12
"""Keys of this length are also recognised with spaces or line ends between their characters."""
SECRETS = (
    r"(bearer\s+)[\w\-.~+/=]{8,}|\b(?:sk|pk|rk|gsk|xai|hf|nvapi|pplx|csk|fw)[-_][\w\-]{8,}|\bAIza[\w\-]{20,}"
)


def classify(
    status: int | None,
    headers: Mapping[str, str],
    body: object,
    provider: str,
    *,
    key: str = "",
    now: float | None = None,
) -> ProviderError:
    """Return the error an HTTP answer (or a library's exception) means.

    `status` 0 or None: there was no HTTP status. `body`: bytes, text, or JSON already decoded. `key` is
    removed from the sentence wherever the provider repeats it. `now`: seconds since the epoch for dates in
    `retry-after`; the answer's own `date` header serves when it is None.
    """
    told = read_body(body)
    headers = {name.lower(): value for name, value in headers.items()}
    code = status if status and status >= 400 else told.status or status or 0
    kind = _kind(code, told)
    wait_s = retry_after_s(headers, told, now)
    refused = headers.get("x-should-retry") == "false" and kind != "rate_limit"
    return ProviderError(
        kind,
        _sentence(kind, code, told, provider, key),
        status=code,
        retry_after_s=wait_s,
        retryable=False if refused else None,
    )


def classify_event(event: Mapping[str, Any], provider: str, *, key: str = "") -> ProviderError | None:
    """Return the error an event of a 200 stream holds; None when it holds none."""
    verdict = mapping(event.get("base_resp"))  # MiniMax states one in every answer, 0 for success
    if verdict:
        return classify(0, {}, dict(event), provider, key=key) if verdict.get("status_code") else None
    if not (event.get("error") or event.get("object") == "error" or event.get("type") == "error"):
        told = read_json_body(event) if "choices" not in event and "finish_reason" not in event else None
        if told is None or not told.text:
            return None
    return classify(0, {}, dict(event), provider, key=key)


def with_key_place(error: ProviderError, place: str) -> ProviderError:
    """Return the error, where it advises to check the key, with the place the key came from; "": there was
    none."""
    message = error.message
    for refused, checked in ((ADVICE["auth"], KEY_REFUSED), (FORBIDDEN, FORBIDDEN)):
        message = message.replace(refused, f"{checked}; check {place}" if place else NO_KEY_SENT, 1)
    return error if error.kind != "auth" or message == error.message else with_message(error, message)


def with_message(error: ProviderError, message: str) -> ProviderError:
    """Return the same error in other words."""
    return ProviderError(
        error.kind,
        message,
        status=error.status,
        retry_after_s=error.retry_after_s,
        retryable=error.retryable,
    )


def redact(text: str, key: str = "") -> str:
    """Return the text as a terminal shows it, without the key in use and without anything shaped like one.

    Cleaned first: an escape sequence or an invisible character inside a key would hide it from the search,
    and be dropped before the text is shown.
    """
    text = clean(text)
    if len(key) >= MIN_BROKEN_KEY:
        text = re.sub(r"\s*".join(map(re.escape, key)), "[key]", text)
    elif len(key) >= 4:
        text = text.replace(key, "[key]")
    return re.sub(SECRETS, lambda found: (found[1] or "") + "[key]", text, flags=re.IGNORECASE)


def _kind(status: int, told: ErrorBody) -> ErrorKind:
    for rule in WORDS:
        if _applies(rule, status, told):
            return rule.kind
    by_type: ErrorKind | None = next((BY_TYPE[word] for word in told.types if word in BY_TYPE), None)
    if status in BY_STATUS:
        by_status: ErrorKind = BY_STATUS[status]
        # A type is more precise than these three statuses, which gateways use for everything; but "api_error"
        # (server) and "invalid_request_error" stand under every status too.
        if by_type and status in (400, 429, 500) and by_type not in ("bad_request", "server"):
            return by_type
        return by_status
    if by_type:
        return by_type
    if 400 <= status < 500:
        return "bad_request"
    return "server"


def _applies(rule: ErrorRule, status: int, told: ErrorBody) -> bool:
    if rule.statuses and status not in rule.statuses:
        return False
    return re.search(rule.pattern, told.searched, re.IGNORECASE) is not None


def _sentence(kind: ErrorKind, status: int, told: ErrorBody, provider: str, key: str) -> str:
    head = f"{provider} answered {status}" if status else f"{provider} reported an error"
    detail = " ".join(redact(told.text, key).split())
    if len(detail) > MAX_SENTENCE:
        detail = detail[:MAX_SENTENCE].rstrip() + "…"
    advice = FORBIDDEN if status == 403 and kind in ("auth", "not_found") else ADVICE[kind]
    return f"{head} ({advice}): {detail}" if detail else f"{head}: {advice}"
