"""The direct lane to OpenAI-compatible servers: chat completions, streamed. Imports nothing heavy; the HTTP
client is made when the first request needs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from buddy.agent.provider import ModelDelta, ModelRequest
from buddy.llm.chat_decoder import ChatDecoder
from buddy.llm.direct import Endpoint, HttpClient, Post, host_of, stream_reply
from buddy.llm.quirks import ChatQuirks, chat_quirks
from buddy.llm.wire_chat import LANE, ChatWire


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
        self._make_client = client
        self._quirks = quirks
        self._client: HttpClient | None = None
        self._wires: dict[str, ChatWire] = {}
        self._host = host_of(endpoint.base_url)
        self._url = chat_url(endpoint.base_url)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """The reply in pieces."""
        return stream_reply(self._http, lambda: self._post(request), ChatDecoder(self._host))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    def _http(self) -> HttpClient:
        if self._client is None:
            self._client = self._make_client(self._endpoint)
        return self._client

    def _post(self, request: ModelRequest) -> Post:
        key = self._endpoint.key()
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        headers.update(self._endpoint.headers)
        return Post(self._url, headers, self._wire(request.model).body(request), self._host, key)

    def _wire(self, model: str) -> ChatWire:
        wire = self._wires.get(model)
        if wire is None:
            wire = self._wires[model] = ChatWire(self._quirks(self._host, model), model)
        return wire


def chat_url(base_url: str) -> str:
    """Where chat completions are asked for."""
    base = base_url.rstrip("/")
    return base if base.endswith("/chat/completions") else base + "/chat/completions"
