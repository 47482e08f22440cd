"""A lane with the person's key: resolved before each request, asked for again where it is refused, named by
its place and kept out of every error (SEC-089)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Never

from buddy.agent.provider import Alive, ModelDelta, ModelRequest, Provider, ProviderError
from buddy.llm.errors import with_key_place, with_message
from buddy.llm.keys import KeyResolver, key_for_request
from buddy.safety.secrets.redact import redact


class ProfileKey:
    """The key of one source, shared by everything that asks with it. `value` is the one in use, `used` are
    all there were, for the redactor, which may look from another thread: replaced, never changed."""

    def __init__(self, resolver: KeyResolver) -> None:
        self._resolver = resolver
        self.value = ""
        self.used: tuple[str, ...] = ()

    @property
    def is_optional(self) -> bool:
        """Tell whether requests are sent without a key when none is found."""
        return self._resolver.is_optional

    @property
    def place(self) -> str:
        """Source of the key, in words; "" when there is none."""
        return self._resolver.place

    async def resolve(self) -> str:
        """Return the key for the request at hand. Raises `ProviderError` of kind "auth" that says what to
        set."""
        self.value = await key_for_request(self._resolver)
        if self.value and self.value not in self.used:
            self.used = (*self.used, self.value)
        return self.value

    async def in_use(self) -> str:
        """Return the key that was resolved for the request at hand."""
        return self.value

    async def renew(self, refused: str) -> bool:
        """Tell whether there is now another key than the refused one: a cached answer may have expired, a
        file may have changed."""
        self._resolver.forget(refused)
        try:
            return await self.resolve() != refused
        except ProviderError:  # the refusal itself says more
            return False


class KeyedProvider:
    """The inner provider. `secrets` are the person's own, as they are known when an error comes."""

    def __init__(self, inner: Provider, key: ProfileKey, secrets: Callable[[], Sequence[str]]) -> None:
        self._inner = inner
        self._key = key
        self._secrets = secrets
        self.lane = inner.lane

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the inner stream; once more with another key, where the first is refused and there is one.
        Raises `ProviderError`, with the key's place and without secrets."""
        may_renew = True
        while True:
            stream = None
            sent = ""
            try:
                sent = await self._key.resolve()
                stream = self._inner.stream(request)
                async for delta in stream:
                    may_renew = may_renew and isinstance(delta, Alive)
                    yield delta
                return
            except ProviderError as error:
                if error.kind != "auth" or not may_renew or not await self._key.renew(sent):
                    raise_without_secrets(error, self._key.place, self._secrets())
                may_renew = False
            finally:
                if stream is not None:
                    await stream.aclose()


def raise_without_secrets(error: ProviderError, place: str, secrets: Sequence[str]) -> Never:
    """Raise the error with the place of the key and without secrets."""
    told = with_key_place(error, place)
    message = redact(told.message, secrets)
    if message != told.message:
        # Not chained: the cause holds what was taken out, and a log would print it.
        raise with_message(told, message) from None
    if told is error:
        raise error
    raise told from error
