"""Hanging up on a provider in the middle of its reply.

Closing litellm's stream closes the connection for some providers only: for Anthropic, the responses API and
others it lets go of a generator and leaves the connection open until the garbage collector comes by, while
the provider keeps writing and billing. So the HTTP response is looked for where litellm keeps it, in
attributes or in the frame of a suspended generator, and closed itself.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

HOLDERS = frozenset({"litellm", "openai", "httpx", "aiohttp", "async_generator"})
MAX_LOOKED_AT = 200


async def hang_up(stream: Any) -> None:
    """Close a stream of litellm and every HTTP response beneath it. Never raises for what closing does."""
    responses = responses_in(getattr(stream, "completion_stream", None))
    for holder in (stream, *responses):
        with contextlib.suppress(Exception):  # it is left anyway
            await holder.aclose()


def responses_in(holder: Any) -> list[Any]:
    """The HTTP responses an iterator reads from."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting: deque[Any] = deque([holder])
    while waiting and len(seen) < MAX_LOOKED_AT:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if hasattr(one, "status_code") and hasattr(one, "is_closed") and hasattr(one, "aclose"):
            found.append(one)
            continue
        frame = getattr(one, "ag_frame", None)
        parts = getattr(one, "__dict__", {}) if frame is None else frame.f_locals
        waiting.extend(part for part in list(parts.values()) if _may_hold(part))
    return found


def _may_hold(part: Any) -> bool:
    name, module = str(part.__class__.__name__), str(part.__class__.__module__)
    return name in HOLDERS or module.partition(".")[0] in HOLDERS
