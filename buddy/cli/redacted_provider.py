"""A provider whose errors carry no secrets, whatever the server repeats of what it was sent (SEC-089)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from buddy.agent.provider import ModelDelta, ModelRequest, Provider, ProviderError
from buddy.safety.redact import redact


class RedactedProvider:
    """The inner provider. `keys` are the person's own, as they are known when an error comes."""

    def __init__(self, inner: Provider, keys: Callable[[], Sequence[str]]) -> None:
        self._inner = inner
        self._keys = keys
        self.lane = inner.lane

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """The inner stream. Raises its `ProviderError` with a cleaned sentence."""
        stream = self._inner.stream(request)
        try:
            async for delta in stream:
                yield delta
        except ProviderError as error:
            message = redact(error.message, self._keys())
            if message == error.message:
                raise
            # Not chained: the cause holds what was taken out, and a log would print it.
            raise ProviderError(
                error.kind,
                message,
                status=error.status,
                retry_after_s=error.retry_after_s,
                retryable=error.retryable,
            ) from None
        finally:
            await stream.aclose()
