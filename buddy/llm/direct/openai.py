"""The direct lane to OpenAI-compatible servers: chat completions, streamed. Imports nothing heavy; the HTTP
client is made when the first request needs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import cache

from buddy.agent.provider import ModelDelta, ModelRequest
from buddy.llm.direct.lane import Endpoint, HttpClient, OneClient, Post, host_of, stream_reply
from buddy.llm.direct.openai_decoder import ChatDecoder
from buddy.llm.direct.openai_request import LANE, ChatWire
from buddy.llm.quirks import ChatQuirks, chat_quirks


class OpenAIChat:
    """A `Provider`. `client` makes the HTTP client; `quirks` says what a server wants for a model."""

    lane = LANE

    def __init__(
        self,
        endpoint: Endpoint,
        client: Callable[[Endpoint], HttpClient],
        quirks: Callable[[str, str], ChatQuirks] = chat_quirks,
    ) -> None:
        self._endpoint = endpoint
        self._client = OneClient(endpoint, client)
        self._host = host_of(endpoint.base_url)
        self._url = chat_url(endpoint.base_url)
        self._quirks = quirks
        self._wire = cache(self._new_wire)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces."""
        return stream_reply(self._client.get, lambda: self._post(request), ChatDecoder(self._host))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _post(self, request: ModelRequest) -> Post:
        key = self._endpoint.key()
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        headers.update(self._endpoint.headers)
        return Post(self._url, headers, self._wire(request.model).body(request), self._host, key)

    def _new_wire(self, model: str) -> ChatWire:
        return ChatWire(self._quirks(self._host, model), model)


def chat_url(base_url: str) -> str:
    """Return the URL of the chat completions endpoint."""
    base = base_url.rstrip("/")
    return base if base.endswith("/chat/completions") else base + "/chat/completions"
