"""The user's own model server: its models and their context, queried in the background."""

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
    """The server at one address, with one key. `client_for` makes its HTTP client on the first request."""

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
        """Return its models, queried once. Raises `ProviderError`."""
        from buddy.llm.local_servers import list_models  # only needed for the user's own servers

        async with self._asking:
            if not self.models:
                self.is_unasked = False
                client, headers = await self._connect()
                self.models = await list_models(client, self._listing_url(), headers, self.host)
            return self.models

    async def measure(self, access: ModelAccess) -> None:
        """Set the window to the server's context for this model unless one is configured. A failure is
        ignored: the first request reports it."""
        from buddy.llm.local_servers import context_of

        window = access.window
        window.asked = True
        try:
            models = await self.list()
            known = next((entry.context for entry in models if entry.name == access.model), 0)
            if not known and not self._configured:
                client, headers = await self._connect()
                known = await context_of(client, self._listing_url(), headers, self.host, access.model)
        except ProviderError:
            return
        finally:
            window.asked = False
        if known and not self._configured:
            window.limit, window.guessed = known, False
            window.reserve = min(window.reserve, known // 4)

    async def explain_missing(self, model: str) -> str:
        """Explain that the server does not have a model; "" when it lists the model or lists nothing."""
        try:
            names = [entry.name for entry in await self.list()]
        except ProviderError as error:
            return error.message if error.kind == "auth" else ""
        if not names or model in names:
            return ""
        from difflib import get_close_matches  # 1 ms, only needed for a missing model

        near = get_close_matches(model, names, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else f"it has {_shorten(names)}"
        return f"{self.host} has no model {model!r}; {hint}"

    async def aclose(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _connect(self) -> tuple[HttpClient, dict[str, str]]:
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


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
