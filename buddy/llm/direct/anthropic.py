"""The direct lane to Anthropic and compatible servers: messages, streamed. Imports nothing heavy; the HTTP
client is made when the first request needs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import cache

from buddy.agent.provider import ModelDelta, ModelRequest
from buddy.llm.direct.anthropic_decoder import AnthropicDecoder
from buddy.llm.direct.anthropic_request import LANE, AnthropicWire
from buddy.llm.direct.lane import Endpoint, HttpClient, OneClient, Post, host_of, stream_reply
from buddy.llm.quirks import AnthropicQuirks, anthropic_quirks

VERSION = "2023-06-01"


class Anthropic:
    """A `Provider`. `client` makes the HTTP client; `quirks` says what a server wants for a model."""

    lane = LANE

    def __init__(
        self,
        endpoint: Endpoint,
        client: Callable[[Endpoint], HttpClient],
        quirks: Callable[[str, str], AnthropicQuirks] = anthropic_quirks,
    ) -> None:
        self._endpoint = endpoint
        self._client = OneClient(endpoint, client)
        self._quirks = quirks
        self._host = host_of(endpoint.base_url)
        self._url = messages_url(endpoint.base_url)
        self._wire = cache(self._new_wire)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces."""
        return stream_reply(self._client.get, lambda: self._post(request), AnthropicDecoder(self._host))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _post(self, request: ModelRequest) -> Post:
        key = self._endpoint.key()
        quirks = self._quirks(self._host, request.model)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": VERSION,
            **quirks.headers,
        }
        if key:
            is_bearer = quirks.auth == "authorization"
            headers[quirks.auth] = f"Bearer {key}" if is_bearer else key
        headers.update(self._endpoint.headers)
        return Post(self._url, headers, self._wire(request.model).body(request), self._host, key)

    def _new_wire(self, model: str) -> AnthropicWire:
        return AnthropicWire(self._quirks(self._host, model), model, self._endpoint.max_output_tokens)


def messages_url(base_url: str) -> str:
    """Return the URL of the messages endpoint; the base may end in `/v1` or not."""
    base = base_url.rstrip("/")
    if base.endswith("/messages"):
        return base
    return base + ("/messages" if base.endswith("/v1") else "/v1/messages")
