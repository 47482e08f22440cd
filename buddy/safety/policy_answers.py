"""Binding of answers to questions: the request id and a digest of exactly what was shown."""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from buddy.agent.display import Display
from buddy.agent.messages import Call


def digest(call: Call, shown: Display, *also_shown: str) -> str:
    """A fingerprint of a call and everything the person saw of it (preview, reason, rule). Any change of it
    makes an answer void."""
    seen = msgspec.json.encode([call.id, call.name, call.arguments, shown, also_shown])
    return hashlib.sha256(seen).hexdigest()


def is_answer_to(request_id: str, shown_digest: str, *, answer_id: str, answer_digest: str) -> bool:
    """Tell whether an answer was given to this question exactly as it was shown; no other answer counts."""
    return request_id == answer_id and hmac.compare_digest(shown_digest.encode(), answer_digest.encode())
