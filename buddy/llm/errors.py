"""Provider errors: status, headers and body → one `ProviderError`. Every lane uses this.

Status codes and type fields lie (quota under 400, rate limits under "invalid request", auth under 400), so
words decide first where they are unmistakable, then the status, then the type. What is shown is one sentence:
never a web page, never a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from buddy.agent.provider import ErrorKind, ProviderError
from buddy.llm.error_body import Told, read_body, told_by
from buddy.llm.error_words import BY_STATUS, BY_TYPE, WORDS, ErrorRule
from buddy.llm.loose_json import mapping
from buddy.llm.retry_after import retry_after_s
from buddy.safety.sanitise import clean

KEY_REFUSED = "the key was not accepted"
NO_KEY_SENT = "no key was sent; run `buddy login`, or name api_key_env in the profile"

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
    """The error an HTTP answer (or a library's exception) means.

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
    """The error an event of a 200 stream holds; None when it holds none."""
    verdict = mapping(event.get("base_resp"))  # MiniMax states one in every answer, 0 for success
    if verdict:
        return classify(0, {}, dict(event), provider, key=key) if verdict.get("status_code") else None
    if not (event.get("error") or event.get("object") == "error" or event.get("type") == "error"):
        told = told_by(event) if "choices" not in event and "finish_reason" not in event else None
        if told is None or not told.text:
            return None
    return classify(0, {}, dict(event), provider, key=key)


def with_key_place(error: ProviderError, place: str) -> ProviderError:
    """The error, where it advises to check the key, with the place the key came from; "": there was none."""
    message = error.message
    for refused, checked in ((ADVICE["auth"], KEY_REFUSED), (FORBIDDEN, FORBIDDEN)):
        message = message.replace(refused, f"{checked}; check {place}" if place else NO_KEY_SENT, 1)
    return error if error.kind != "auth" or message == error.message else saying(error, message)


def saying(error: ProviderError, message: str) -> ProviderError:
    """The same error in other words."""
    return ProviderError(
        error.kind,
        message,
        status=error.status,
        retry_after_s=error.retry_after_s,
        retryable=error.retryable,
    )


def redact(text: str, key: str = "") -> str:
    """The text as a terminal shows it, without the key in use and without anything shaped like one.

    Cleaned first: an escape sequence or an invisible character inside a key would hide it from the search,
    and be dropped before the text is shown.
    """
    text = clean(text)
    if len(key) >= MIN_BROKEN_KEY:
        text = re.sub(r"\s*".join(map(re.escape, key)), "[key]", text)
    elif len(key) >= 4:
        text = text.replace(key, "[key]")
    return re.sub(SECRETS, lambda found: (found[1] or "") + "[key]", text, flags=re.IGNORECASE)


def _kind(status: int, told: Told) -> ErrorKind:
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


def _applies(rule: ErrorRule, status: int, told: Told) -> bool:
    if rule.statuses and status not in rule.statuses:
        return False
    return re.search(rule.pattern, told.searched, re.IGNORECASE) is not None


def _sentence(kind: ErrorKind, status: int, told: Told, provider: str, key: str) -> str:
    head = f"{provider} answered {status}" if status else f"{provider} reported an error"
    detail = " ".join(redact(told.text, key).split())
    if len(detail) > MAX_SENTENCE:
        detail = detail[:MAX_SENTENCE].rstrip() + "…"
    advice = FORBIDDEN if status == 403 and kind in ("auth", "not_found") else ADVICE[kind]
    return f"{head} ({advice}): {detail}" if detail else f"{head}: {advice}"
