"""A lane with the person's key: what a server repeats of what it was sent is cleaned before anybody sees it
(SEC-089); a refused key is looked for once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import cast

import pytest

from buddy.agent.provider import Alive, ModelDelta, ModelRequest, ProviderError, TextPiece
from buddy.llm.keyed_provider import KeyedProvider, ProfileKey
from buddy.llm.keys import KeyResolver, KeySource

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


def key_of(**source: str) -> ProfileKey:
    resolver = KeyResolver(
        KeySource("openai", **source), environment={}, credentials="/nowhere", warn=lambda _text: None
    )
    return ProfileKey(resolver)


async def taken(inner: Repeating, keys: Sequence[str] = (OWN,)) -> list[ModelDelta]:
    provider = KeyedProvider(inner, key_of(literal="sk-1"), lambda: keys)
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


class Refusing:
    """A provider that accepts one key; `inside`: it refuses in the middle of a reply."""

    lane = "chat"

    def __init__(self, key: ProfileKey, accepted: str, *, inside: bool = False) -> None:
        self._key = key
        self._accepted = accepted
        self._inside = inside
        self.asked: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        key = await self._key.in_use()
        self.asked.append(key)
        yield Alive()
        if self._inside:
            yield TextPiece("begun")
        if key != self._accepted:
            raise ProviderError("auth", "the key was not accepted", status=401)


async def stream_of(inner: Refusing, key: ProfileKey) -> list[ModelDelta]:
    return [one async for one in KeyedProvider(inner, key, list).stream(cast(ModelRequest, None))]


async def test_a_kept_key_that_has_expired_is_asked_for_again_within_the_request(tmp_path: Path) -> None:
    says = tmp_path / "says"
    says.write_text("sk-old")
    key = key_of(command=f"cat {says}")
    assert await key.resolve() == "sk-old"
    says.write_text("sk-new")
    inner = Refusing(key, "sk-new")
    assert await stream_of(inner, key) == [Alive(), Alive()]
    assert inner.asked == ["sk-old", "sk-new"]
    assert key.used == ("sk-old", "sk-new"), "both are kept out of what is written"


async def test_a_key_is_renewed_once_and_never_where_there_is_no_other_or_the_reply_has_begun(
    tmp_path: Path,
) -> None:
    says = tmp_path / "says"
    says.write_text("sk-old")
    key = key_of(file=str(says))
    inner = Refusing(key, "sk-right")
    with pytest.raises(ProviderError):
        await stream_of(inner, key)
    assert inner.asked == ["sk-old"], "the same key is not sent twice"
    count = tmp_path / "count"
    key = key_of(command=f"sh -c 'echo x >> {count}; wc -l < {count}'")
    inner = Refusing(key, "sk-right")
    with pytest.raises(ProviderError):
        await stream_of(inner, key)
    assert inner.asked == ["1", "2"]
    inner = Refusing(key, "sk-right", inside=True)
    with pytest.raises(ProviderError):
        await stream_of(inner, key)
    assert inner.asked == ["2"]


async def test_a_key_that_cannot_be_had_any_more_leaves_the_refusal_as_the_reason(tmp_path: Path) -> None:
    says = tmp_path / "says"
    says.write_text("sk-old")
    key = key_of(command=f"cat {says}")
    await key.resolve()
    says.unlink()
    with pytest.raises(ProviderError, match="not accepted"):
        await stream_of(Refusing(key, "sk-new"), key)


class RefusingTogether(Refusing):
    """The same, and the first two requests are refused at the same time."""

    def __init__(self, key: ProfileKey, accepted: str) -> None:
        super().__init__(key, accepted)
        self._both = asyncio.Barrier(2)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        if len(self.asked) < 2:
            self.asked.append(await self._key.in_use())
            await self._both.wait()
            raise ProviderError("auth", "the key was not accepted", status=401)
        async for delta in super().stream(request):
            yield delta


async def test_two_requests_whose_key_has_expired_have_it_asked_for_once(tmp_path: Path) -> None:
    count = tmp_path / "count"
    key = key_of(command=f"sh -c 'echo x >> {count}; wc -l < {count}'")
    inner = RefusingTogether(key, "2")
    assert await asyncio.gather(stream_of(inner, key), stream_of(inner, key)) == [[Alive()], [Alive()]]
    assert inner.asked == ["1", "1", "2", "2"]
    assert count.read_text() == "x\n" * 2
