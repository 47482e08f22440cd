"""A model server of the person's own: asked in the background for its models and their context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from buddy.agent.provider import ProviderError
from buddy.llm.catalog import ServerModel, Wire
from buddy.llm.direct.lane import Endpoint, HttpClient, host_of
from buddy.llm.keyed_provider import ProfileKey
from buddy.tasks.dependencies import ModelAccess

NAMED = 4


class ModelServer:
    """The server at one address, with one key. `client_for` makes its HTTP client when it is asked."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: ProfileKey,
        client_for: Callable[[Endpoint, Mapping[str, str]], HttpClient],
        environment: Mapping[str, str],
        wire: Wire,
        configured: int,
    ) -> None:
        self._endpoint = endpoint
        self._key = key
        self._client_for = client_for
        self._environment = environment
        self._wire = wire
        self._configured = configured
        self._client: HttpClient | None = None
        self._asking = asyncio.Lock()
        self.host = host_of(endpoint.base_url)
        self.base_url = endpoint.base_url
        self.models: tuple[ServerModel, ...] = ()
        self.is_unasked = True
        self.is_context_needed = not configured

    async def list(self) -> tuple[ServerModel, ...]:
        """Its models, asked once. Raises `ProviderError`."""
        from buddy.llm.local_servers import list_models  # only for servers of the person's own

        async with self._asking:
            if not self.models:
                self.is_unasked = False
                client, headers = await self._ready()
                self.models = await list_models(client, self._listing_url(), headers, self.host)
            return self.models

    async def measure(self, access: ModelAccess) -> None:
        """Put the context the server has for this model into its window, where nothing is configured. Says
        nothing of failures: the first request does."""
        from buddy.llm.local_servers import context_of

        window = access.window
        window.asked = True
        try:
            models = await self.list()
            known = next((one.context for one in models if one.name == access.model), 0)
            if not known and not self._configured:
                client, headers = await self._ready()
                known = await context_of(client, self._listing_url(), headers, self.host, access.model)
        except ProviderError:
            return
        finally:
            window.asked = False
        if known and not self._configured:
            window.limit, window.guessed = known, False
            window.reserve = min(window.reserve, known // 4)

    async def missing(self, model: str) -> str:
        """Why the server can't answer with a model, "" when it lists it or lists nothing."""
        try:
            names = [one.name for one in await self.list()]
        except ProviderError as error:
            return error.message if error.kind == "auth" else ""
        if not names or model in names:
            return ""
        from difflib import get_close_matches  # 1 ms that only a missing model needs

        near = get_close_matches(model, names, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"it has {_few(names)}"
        return f"{self.host} has no model {model!r}; {hint}"

    async def aclose(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _ready(self) -> tuple[HttpClient, dict[str, str]]:
        key = await self._key.resolve()
        if self._client is None:
            self._client = self._client_for(self._endpoint, self._environment)
        if not key:
            return self._client, {}
        if self._wire == "anthropic":
            return self._client, {"x-api-key": key, "anthropic-version": "2023-06-01"}
        return self._client, {"authorization": f"Bearer {key}"}

    def _listing_url(self) -> str:
        base = self.base_url.rstrip("/")
        return base if self._wire != "anthropic" or base.endswith("/v1") else f"{base}/v1"


def _few(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
