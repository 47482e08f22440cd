"""Models by the person's name for them: profile → route → key → lane, each made once and shared by all
tasks."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cached_property
from typing import NamedTuple, Protocol

import msgspec

from buddy.agent.budget import Price, Window
from buddy.agent.host import Sampling
from buddy.agent.messages import Usage
from buddy.agent.provider import Alive, ModelDelta, ModelRequest, Provider, ProviderError
from buddy.app.launch import LaunchContext
from buddy.app.model_server import ModelServer
from buddy.app.stderr import tell
from buddy.config.first_model import first_model
from buddy.config.settings import ConfigError, Profile, Settings, profile_of
from buddy.extend.system_prompt import template_path
from buddy.llm.catalog import (
    GUESSED_CONTEXT,
    CatalogMatch,
    Catalogue,
    Wire,
    context_limit,
    cost_usd,
    read_catalogue,
)
from buddy.llm.direct.lane import Endpoint, HttpClient, host_of
from buddy.llm.http.client import client_for
from buddy.llm.keyed_provider import KeyedProvider, ProfileKey
from buddy.llm.keys import FILE_NAME, KeyResolver, Keyring, KeySource
from buddy.llm.quirks import is_local
from buddy.llm.rate_limiter import Governor
from buddy.llm.routing import Route, UnknownModelError, route
from buddy.llm.stall_watchdog import WatchedProvider, WatchLimits
from buddy.tasks.dependencies import Library, ModelAccess

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
        from buddy.llm.direct.anthropic import Anthropic

        return Anthropic(endpoint, client)
    from buddy.llm.direct.openai import OpenAIChat

    return OpenAIChat(endpoint, client)


class LitellmLanes(NamedTuple):
    """Makes lanes through litellm, one library for all. `begin`: import it in the background, or go on."""

    make: Callable[[Route, KeyOf], Provider]
    begin: Callable[[], None]
    library: Library


def litellm_lanes(timeout_s: float) -> LitellmLanes:
    """Its own code takes 4 ms; litellm comes later, with the first request at the latest."""
    from buddy.llm.litellm_lane.loader import LitellmLibrary
    from buddy.llm.litellm_lane.provider import LitellmProvider

    library = LitellmLibrary()

    def make(found: Route, key: KeyOf) -> Provider:
        return LitellmProvider(library, key=key, base_url=found.base_url, api=found.api, timeout_s=timeout_s)

    return LitellmLanes(make, library.start, library)


DEFAULT_RESERVE = 16_384
"""Tokens kept free for a reply when the catalogue does not know its maximum."""


def catalogue() -> Catalogue:
    """The models that ship with buddy."""
    return read_catalogue(template_path("models.toml"))


class _Unset:
    """Stands where a model would: says what is missing."""

    lane = "none"

    def __init__(self, why: str) -> None:
        self._why = why

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Never a piece."""
        if self._why:
            raise ProviderError("auth", self._why)
        yield Alive()


class _Made(NamedTuple):
    access: ModelAccess
    key: ProfileKey
    server: ModelServer | None


class Models:
    """The models of one run. Lanes are made when a model is first asked for."""

    def __init__(self, settings: Settings, launch: LaunchContext) -> None:
        self._settings = settings
        self._launch = launch
        self._catalogue: Catalogue | None = None
        self._litellm: LitellmLanes | None = None
        self._made: dict[str, _Made] = {}
        self._keys: dict[KeySource, ProfileKey] = {}
        self._lanes: list[DirectLane] = []
        self._governors: dict[tuple[str, str, KeySource], Governor] = {}
        self._servers: dict[tuple[str, KeySource], ModelServer] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def access(self, name: str) -> ModelAccess:
        """The model of this name, "" for the default. Raises `ConfigError` that says what to do."""
        return self._of(name).access

    def _of(self, name: str) -> _Made:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def access_or_explain(self, name: str) -> ModelAccess:
        """The model of this name; where there is none, one whose every reply is the reason, so that a
        terminal can be opened and read before anything is set."""
        try:
            return self.access(name)
        except ConfigError as error:
            return ModelAccess(
                name="no model",
                model=name,
                provider=_Unset(str(error)),
                window=Window(GUESSED_CONTEXT, guessed=True, reserve=0),
                price=lambda _usage: None,
                sampling=Sampling(),
                governor=Governor(),
            )

    async def problem(self, name: str) -> str:
        """Why this model can't be asked: no such model, no key; "" when it can. Where it may need no key,
        none is looked for before a request is made."""
        try:
            made = self._of(name)
            if not made.key.is_optional:
                await made.key.resolve()
        except ConfigError as error:
            return str(error)
        except ProviderError as error:
            return error.message
        is_typed = name not in ("", self._settings.api.model, *self._settings.models)
        if is_typed and made.server is not None:
            return await made.server.missing(made.access.model)
        return ""

    async def require_key(self, name: str) -> None:
        """Raise `ConfigError` where this model needs a key and there is none."""
        key = self._of(name).key
        if key.is_optional:
            return
        try:
            await key.resolve()
        except ProviderError as error:
            raise ConfigError(error.message) from error

    def key_launch(self, name: str) -> str:
        """Return the source of this model's key, in words; "" where there is none. Raises `ConfigError`."""
        return self._of(name).key.place

    async def server_problem(self, name: str) -> tuple[str, str]:
        """The address of this model's own server ("" for a provider's), and why it can't answer with it.
        Raises `ConfigError`."""
        made = self._of(name)
        if made.server is None:
            return "", ""
        try:
            await made.server.list()
        except ProviderError as error:
            return made.server.base_url, error.message
        await made.server.measure(made.access)
        return made.server.base_url, await made.server.missing(made.access.model)

    def served(self, name: str) -> tuple[str, ...]:
        """The models of this model's own server, as far as it was asked."""
        try:
            server = self._of(name).server
        except ConfigError:
            return ()
        return tuple(one.name for one in server.models) if server is not None else ()

    def own_servers(self) -> tuple[ModelServer, ...]:
        """The servers of the person's own that the default model and the profiles name, each once."""
        servers: list[ModelServer] = []
        for name in ("", *self._settings.models):
            try:
                server = self._of(name).server
            except ConfigError:
                continue  # `buddy doctor` says it
            if server is not None and server not in servers:
                servers.append(server)
        return tuple(servers)

    async def prepare(self, name: str, *, offers_models: bool) -> None:
        """Begin in the background what the first request would wait seconds for, when this model can be
        asked: litellm, where one in use needs it; and ask a server of the person's own for its models, where
        somebody may choose among them or the context is not configured."""
        if self._litellm is not None and not await self.problem(name):
            self._litellm.begin()
        try:
            made = self._of(name)
            if made.server is not None and (offers_models or made.server.is_context_needed):
                self._measure(made)
        except ConfigError:
            return  # the first request says it

    def _measure(self, made: _Made) -> None:
        """Ask the model's own server in the background how much context it has, once."""
        if made.server is None or not made.server.is_unasked:
            return
        task = asyncio.get_running_loop().create_task(made.server.measure(made.access))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def aclose(self) -> None:
        """Close the connections of every lane."""
        for task in list(self._asking):
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for server in self._servers.values():
            await server.aclose()
        for lane in self._lanes:
            await lane.aclose()

    def keys(self) -> list[str]:
        """Keys in use and those of the environment, to be kept out of everything that is written: a prompt is
        written before the request that needs the key."""
        used = [value for key in list(self._keys.values()) for value in key.used]
        return list(dict.fromkeys([*used, *self._given_keys]))

    @cached_property
    def _given_keys(self) -> tuple[str, ...]:
        given = (self._launch.environment.get(name, "") for name in self.key_names)
        return tuple(filter(None, given))

    @cached_property
    def _keyring(self) -> Keyring | None:
        """None where the extra is not installed: no request has to wait for a thread that says so."""
        return Keyring() if importlib.util.find_spec("keyring") else None

    @cached_property
    def key_names(self) -> frozenset[str]:
        """Environment variables that hold keys: children never see them."""
        profiles = (self._settings.api, *self._settings.models.values())
        known = {profile.api_key_env for profile in profiles} | {
            provider.key_env for provider in self.known().providers.values()
        }
        return frozenset(known - {""})

    def known(self) -> Catalogue:
        """The catalogue, read once."""
        if self._catalogue is None:
            self._catalogue = catalogue()
        return self._catalogue

    def _make(self, name: str) -> _Made:
        profile = profile_of(self._settings, name)
        if not profile.model:
            raise ConfigError(
                "no model is chosen: start with buddy -m anthropic/claude-sonnet-5-5, "
                "or run buddy init to keep a choice; buddy demo needs none"
            )
        try:
            found = route(self.known(), profile.model, base_url=profile.base_url, lane=profile.lane)
        except UnknownModelError as error:
            raise ConfigError(str(error)) from error
        key = self._key(found, profile)
        lane = self._lane(found, key)
        access = ModelAccess(
            name=name or profile.model,
            model=found.model,
            provider=KeyedProvider(WatchedProvider(lane, self._limits()), key, self.keys),
            window=self._window(found, profile),
            price=_price(found.match),
            sampling=self._sampling(profile),
            governor=self._governor(found, profile, key),
            library=self._litellm.library if self._litellm and found.lane == "litellm" else None,
        )
        return _Made(access, key, self._server(found, profile, key))

    def _governor(self, found: Route, profile: Profile, key: ProfileKey) -> Governor:
        """One for all names of a model that are asked for with the same key: limits are of both."""
        address = (found.base_url or found.provider, found.model, self._source(found, profile))
        if address not in self._governors:
            self._governors[address] = Governor(account=key)
        return self._governors[address]

    def _server(self, found: Route, profile: Profile, key: ProfileKey) -> ModelServer | None:
        """The server of the person's own that serves a model; None for a provider's address."""
        if not found.base_url or not (profile.base_url or is_local(host_of(found.base_url))):
            return None
        source = msgspec.structs.replace(self._source(found, profile), provider="", default_env="")
        if (found.base_url, source) not in self._servers:
            endpoint = Endpoint(
                found.base_url, lambda: key.value, connect_s=min(5, self._settings.network.connect_s)
            )
            self._servers[found.base_url, source] = ModelServer(
                endpoint, key, client_for, self._launch.environment, found.wire, profile.context_limit
            )
        return self._servers[found.base_url, source]

    def _lane(self, found: Route, key: ProfileKey) -> Provider:
        if found.lane == "litellm":
            if self._litellm is None:
                self._litellm = litellm_lanes(self._settings.network.total_s)
            return self._litellm.make(found, key.in_use)
        endpoint = Endpoint(
            base_url=found.base_url,
            key=lambda: key.value,
            connect_s=self._settings.network.connect_s,
            max_output_tokens=found.match.info.max_output if found.match else 0,
        )
        lane = direct_lane(found.wire, endpoint, lambda where: client_for(where, self._launch.environment))
        self._lanes.append(lane)
        return lane

    def _limits(self) -> WatchLimits:
        network = self._settings.network
        return WatchLimits(network.first_token_s, network.idle_s, network.content_s, network.total_s)

    def _key(self, found: Route, profile: Profile) -> ProfileKey:
        """The key of a profile, one for all with the same source. An address of the person's own needs none
        unless the profile names one: local servers have none."""
        source = self._source(found, profile)
        if source not in self._keys:
            resolver = KeyResolver(
                source,
                environment=self._launch.environment,
                credentials=os.path.join(self._launch.where.data, FILE_NAME),
                warn=_warn,
                keyring=self._keyring.read if self._keyring else None,
                instead=self._other_model(found),
            )
            self._keys[source] = ProfileKey(resolver)
        return self._keys[source]

    def _other_model(self, found: Route) -> str:
        """A model of another provider, whose key is in the environment, in words; "" for none."""
        other = first_model(self._launch.environment)
        if other is None or other.model.partition("/")[0] == found.provider:
            return ""
        return f"{other.key_env} is set: -m {other.model}"

    def _source(self, found: Route, profile: Profile) -> KeySource:
        own_address = bool(profile.base_url) and not profile.api_key_env
        return KeySource(
            provider=found.provider,
            default_env="" if own_address else found.key_env,
            env=profile.api_key_env,
            file=profile.api_key_file,
            command=profile.api_key_command,
            literal=profile.api_key,
        )

    def _window(self, found: Route, profile: Profile) -> Window:
        unknown = profile.context_limit == 0 and found.match is None
        limit = context_limit(
            profile.context_limit, self.known(), profile.model, _litellm_prices() if unknown else None
        )
        reserve = found.match.info.max_output if found.match else 0
        return Window(
            limit.limit,
            guessed=limit.source == "guess",
            reserve=min(reserve or DEFAULT_RESERVE, limit.limit // 4),
        )

    def _sampling(self, profile: Profile) -> Sampling:
        agent = self._settings.agent
        return Sampling(
            max_tokens=profile.max_tokens if profile.max_tokens is not None else agent.max_tokens,
            temperature=profile.temperature if profile.temperature is not None else agent.temperature,
            top_p=profile.top_p if profile.top_p is not None else agent.top_p,
            effort=profile.effort or agent.effort,
        )


def _price(match: CatalogMatch | None) -> Price:
    if match is None:
        return lambda _usage: None
    info = match.info

    def price(usage: Usage) -> float | None:
        return cost_usd(info, usage)

    return price


def _litellm_prices() -> str | None:
    """litellm's own table inside its wheel, found without importing it."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    return os.path.join(os.path.dirname(spec.origin), "model_prices_and_context_window_backup.json")


def _warn(text: str) -> None:
    tell(f"buddy: {text}\n")
