"""The lanes to providers, imported when one is asked for: most runs need one of three."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple, Protocol

from buddy.agent.provider import ModelDelta, ModelRequest, Provider
from buddy.llm.catalog import Wire
from buddy.llm.direct import Endpoint, HttpClient
from buddy.llm.routes import Route
from buddy.tasks.parts import Library

KeyOf = Callable[[], Awaitable[str]]


class DirectLane(Protocol):
    """A provider with connections of its own."""

    @property
    def lane(self) -> str:
        """The wire format's name."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """The reply in pieces."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


def direct_lane(wire: Wire, endpoint: Endpoint, client: Callable[[Endpoint], HttpClient]) -> DirectLane:
    """The lane to a provider's own endpoint. Importing each takes 3 ms."""
    if wire == "anthropic":
        from buddy.llm.anthropic import Anthropic

        return Anthropic(endpoint, client)
    from buddy.llm.openai_chat import OpenAIChat

    return OpenAIChat(endpoint, client)


class LitellmLanes(NamedTuple):
    """Makes lanes through litellm, one library for all. `begin`: import it in the background, or go on."""

    make: Callable[[Route, KeyOf], Provider]
    begin: Callable[[], None]
    library: Library


def litellm_lanes(timeout_s: float) -> LitellmLanes:
    """Its own code takes 4 ms; litellm comes later, with the first request at the latest."""
    from buddy.llm.litellm_import import LitellmLibrary
    from buddy.llm.litellm_provider import LitellmProvider

    library = LitellmLibrary()

    def make(found: Route, key: KeyOf) -> Provider:
        return LitellmProvider(library, key=key, base_url=found.base_url, api=found.api, timeout_s=timeout_s)

    return LitellmLanes(make, library.start, library)
