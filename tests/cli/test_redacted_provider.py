"""What a server repeats of what it was sent is cleaned before anybody sees it (SEC-089)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import cast

import pytest

from buddy.agent.provider import Alive, ModelDelta, ModelRequest, ProviderError
from buddy.cli.redacted_provider import RedactedProvider

OWN = "an-own-key-without-any-shape"


class Repeating:
    """A provider that says something, then fails with what it is given."""

    lane = "chat"

    def __init__(self, error: ProviderError | None) -> None:
        self._error = error
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        try:
            yield Alive()
            if self._error:
                raise self._error
        finally:
            self.closed = True


async def taken(inner: Repeating, keys: Sequence[str] = (OWN,)) -> list[ModelDelta]:
    provider = RedactedProvider(inner, lambda: keys)
    assert provider.lane == "chat"
    return [delta async for delta in provider.stream(cast(ModelRequest, None))]


async def test_a_stream_without_an_error_comes_through_and_is_closed() -> None:
    inner = Repeating(None)
    assert await taken(inner) == [Alive()]
    assert inner.closed


async def test_SEC_089_an_error_loses_the_key_and_its_cause_and_keeps_everything_else() -> None:
    error = ProviderError("auth", f"bad key {OWN}", status=401, retry_after_s=2.0, retryable=False)
    inner = Repeating(error)
    with pytest.raises(ProviderError) as caught:
        await taken(inner)
    seen = caught.value
    assert (seen.kind, seen.message, seen.status) == ("auth", "bad key ⟨redacted: configured key⟩", 401)
    assert (seen.retry_after_s, seen.retryable, seen.__cause__) == (2.0, False, None)
    assert seen.__suppress_context__
    assert inner.closed


async def test_an_error_without_a_secret_is_the_same_one() -> None:
    error = ProviderError("overloaded", "too many requests", status=429)
    with pytest.raises(ProviderError) as caught:
        await taken(Repeating(error))
    assert caught.value is error
