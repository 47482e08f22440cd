"""Models by the user's name for them: profile → route → key → lane, each made once and shared by all
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
from buddy.agent.tool import ToolError
from buddy.app.launch import LaunchContext
from buddy.app.model_server import ModelServer
from buddy.app.stderr import tell
from buddy.config.loading import first_model
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
from buddy.llm.pictures import PictureLane, PictureService
from buddy.llm.quirks import is_local
from buddy.llm.rate_limiter import Governor
from buddy.llm.routing import Route, UnknownModelError, route
from buddy.llm.stall_watchdog import WatchedProvider, WatchLimits
from buddy.tasks.dependencies import Library, ModelAccess

KeyOf = Callable[[], Awaitable[str]]


class DirectLane(Protocol):
    """A provider with its own connections."""

    @property
    def lane(self) -> str:
        """Return the name of the wire format."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Stream the reply."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


def direct_lane(wire: Wire, endpoint: Endpoint, client: Callable[[Endpoint], HttpClient]) -> DirectLane:
    """Return the lane to a provider's own endpoint."""
    # Each import takes 3 ms; only one is needed.
    if wire == "anthropic":
        from buddy.llm.direct.anthropic import Anthropic

        return Anthropic(endpoint, client)
    from buddy.llm.direct.openai import OpenAIChat

    return OpenAIChat(endpoint, client)


class LitellmLanes(NamedTuple):
    """Makes lanes through litellm, one library for all. `begin` starts its import in the background."""

    make: Callable[[Route, KeyOf], Provider]
    pictures: Callable[[Route, KeyOf], PictureLane]
    begin: Callable[[], None]
    library: Library


def litellm_lanes(timeout_s: float, *, picture_s: float) -> LitellmLanes:
    """Return the maker of litellm lanes. Its own code loads in 4 ms; litellm itself loads with the first
    request at the latest."""
    from buddy.llm.litellm_lane.loader import LitellmLibrary
    from buddy.llm.litellm_lane.provider import LitellmProvider

    library = LitellmLibrary()

    def make(target: Route, key: KeyOf) -> Provider:
        return LitellmProvider(
            library, key=key, base_url=target.base_url, api=target.api, timeout_s=timeout_s
        )

    def pictures(target: Route, key: KeyOf) -> PictureLane:
        from buddy.llm.litellm_lane.pictures import LitellmPictures  # needed for pictures only

        return LitellmPictures(library, key=key, base_url=target.base_url, total_s=picture_s)

    return LitellmLanes(make, pictures, library.start, library)


DEFAULT_RESERVE = 16_384
"""Tokens kept free for a reply when the catalogue does not know its maximum."""


def load_catalogue() -> Catalogue:
    """Read the catalogue of models that ships with buddy."""
    return read_catalogue(template_path("models.toml"))


class _NoModel:
    """A provider that stands in for a missing model and explains what is missing."""

    lane = "none"

    def __init__(self, why: str) -> None:
        self._why = why

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Raise the reason."""
        if self._why:
            raise ProviderError("auth", self._why)
        yield Alive()


class _BuiltModel(NamedTuple):
    access: ModelAccess
    key: ProfileKey
    server: ModelServer | None


class Models:
    """The models of one run. A lane is made when its model is first requested."""

    def __init__(self, settings: Settings, launch: LaunchContext) -> None:
        self._settings = settings
        self._launch = launch
        self._catalogue: Catalogue | None = None
        self._litellm: LitellmLanes | None = None
        self._built: dict[str, _BuiltModel] = {}
        self._keys: dict[KeySource, ProfileKey] = {}
        self._lanes: list[DirectLane | PictureLane] = []
        self._governors: dict[tuple[str, str, KeySource], Governor] = {}
        self._servers: dict[tuple[str, KeySource], ModelServer] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._pictures: PictureService | None = None

    def access(self, name: str) -> ModelAccess:
        """Return the model of this name, "" for the default. Raises `ConfigError` that says what to do."""
        return self._build_once(name).access

    def _build_once(self, name: str) -> _BuiltModel:
        if name not in self._built:
            self._built[name] = self._make(name)
        return self._built[name]

    def access_or_explain(self, name: str) -> ModelAccess:
        """Return the model of this name; if there is none, one that answers every request with the reason, so
        that the screen opens before anything is configured."""
        try:
            return self.access(name)
        except ConfigError as error:
            return ModelAccess(
                name="no model",
                model=name,
                provider=_NoModel(str(error)),
                window=Window(GUESSED_CONTEXT, guessed=True, reserve=0),
                price=lambda _usage: None,
                sampling=Sampling(),
                governor=Governor(),
            )

    async def problem(self, name: str) -> str:
        """Explain why this model can't be used (unknown model, missing key); "" when it can. An optional key
        is not looked up before a request."""
        try:
            made = self._build_once(name)
            if not made.key.is_optional:
                await made.key.resolve()
        except ConfigError as error:
            return str(error)
        except ProviderError as error:
            return error.message
        is_typed = name not in ("", self._settings.api.model, *self._settings.models)
        if is_typed and made.server is not None:
            return await made.server.explain_missing(made.access.model)
        return ""

    async def require_key(self, name: str) -> None:
        """Raise `ConfigError` when this model needs a key and there is none."""
        key = self._build_once(name).key
        if key.is_optional:
            return
        try:
            await key.resolve()
        except ProviderError as error:
            raise ConfigError(error.message) from error

    def key_source(self, name: str) -> str:
        """Return the source of this model's key for display, "" when there is none. Raises `ConfigError`."""
        return self._build_once(name).key.place

    async def server_problem(self, name: str) -> tuple[str, str]:
        """Return the address of this model's own server ("" for a provider's), and why it can't answer with
        the model. Raises `ConfigError`."""
        made = self._build_once(name)
        if made.server is None:
            return "", ""
        try:
            await made.server.list()
        except ProviderError as error:
            return made.server.base_url, error.message
        await made.server.measure(made.access)
        return made.server.base_url, await made.server.explain_missing(made.access.model)

    def list_served(self, name: str) -> tuple[str, ...]:
        """Return the models of this model's own server, as far as they are known."""
        try:
            server = self._build_once(name).server
        except ConfigError:
            return ()
        return tuple(entry.name for entry in server.models) if server is not None else ()

    def own_servers(self) -> tuple[ModelServer, ...]:
        """Return the user's own servers that the default model and the profiles name, each once."""
        servers: list[ModelServer] = []
        for name in ("", *self._settings.models):
            try:
                server = self._build_once(name).server
            except ConfigError:
                continue  # `buddy doctor` reports it
            if server is not None and server not in servers:
                servers.append(server)
        return tuple(servers)

    async def prepare(self, name: str, *, offers_models: bool) -> None:
        """Start in the background what would delay the first request.

        That is the import of litellm, and for the user's own server the list of its models, when somebody may
        choose among them or the context is not configured.
        """
        if self._litellm is not None and not await self.problem(name):
            self._litellm.begin()
        try:
            made = self._build_once(name)
            if made.server is not None and (offers_models or made.server.is_context_needed):
                self._measure(made)
        except ConfigError:
            return  # the first request reports it

    def pictures(self) -> PictureService:
        """Return the service that makes pictures. Raises `ConfigError` that says what to set."""
        if self._pictures is None:
            # Needed for the first picture only.
            from buddy.app.picture_model import NOT_SET, direct_pictures, picture_route, picture_service

            name = self._settings.pictures.model
            if not name:
                raise ConfigError(NOT_SET)
            profile = profile_of(self._settings, name)
            target = picture_route(self.catalogue(), profile)
            key, total_s = self._key(target, profile), self._settings.network.content_s
            if target.lane == "litellm":
                lane = self._litellm_lanes().pictures(target, key.in_use)
            else:
                lane = direct_pictures(
                    self._endpoint(target, key),
                    lambda where: client_for(where, self._launch.environment),
                    total_s,
                )
            self._lanes.append(lane)
            self._pictures = picture_service(self.catalogue(), target, lane, key, self.keys)
        return self._pictures

    def pictures_for_tools(self) -> PictureService:
        """Return the service that makes pictures. Raises `ToolError`, which the model reads."""
        try:
            return self.pictures()
        except ConfigError as error:
            raise ToolError(str(error)) from error

    def _measure(self, made: _BuiltModel) -> None:
        """Query the model's own server once, in the background, for its context."""
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
        """Return keys in use and in the environment, which must not appear in anything that is written.

        The environment's are included because a prompt is written before the request that needs the key.
        """
        used = [value for key in list(self._keys.values()) for value in key.used]
        return list(dict.fromkeys([*used, *self._environment_keys]))

    @cached_property
    def _environment_keys(self) -> tuple[str, ...]:
        values = (self._launch.environment.get(name, "") for name in self.key_names)
        return tuple(filter(None, values))

    @cached_property
    def _keyring(self) -> Keyring | None:
        """Return None when the extra is not installed, so that no request waits for a thread only to learn
        that."""
        return Keyring() if importlib.util.find_spec("keyring") else None

    @cached_property
    def key_names(self) -> frozenset[str]:
        """Return the environment variables that hold keys; child processes never see them."""
        profiles = (self._settings.api, *self._settings.models.values())
        names = {profile.api_key_env for profile in profiles} | {
            provider.key_env for provider in self.catalogue().providers.values()
        }
        return frozenset(names - {""})

    def catalogue(self) -> Catalogue:
        """Return the catalogue, read once."""
        if self._catalogue is None:
            self._catalogue = load_catalogue()
        return self._catalogue

    def _make(self, name: str) -> _BuiltModel:
        profile = profile_of(self._settings, name)
        if not profile.model:
            raise ConfigError(
                "no model is chosen: start with buddy -m anthropic/claude-sonnet-5-5, "
                "or run buddy init to save a choice; buddy demo needs none"
            )
        try:
            target = route(self.catalogue(), profile.model, base_url=profile.base_url, lane=profile.lane)
        except UnknownModelError as error:
            raise ConfigError(str(error)) from error
        key = self._key(target, profile)
        lane, sees = self._lane(target, key), _takes_pictures(target, profile)
        if not sees:
            from buddy.llm.without_pictures import WithoutPictures  # needed for such models only

            lane = WithoutPictures(lane)
        access = ModelAccess(
            name=name or profile.model,
            model=target.model,
            provider=KeyedProvider(WatchedProvider(lane, self._limits()), key, self.keys),
            window=self._window(target, profile),
            price=_price(target.match),
            sampling=self._sampling(profile),
            governor=self._governor(target, profile, key),
            library=self._litellm.library if self._litellm and target.lane == "litellm" else None,
            sees=sees,
        )
        return _BuiltModel(access, key, self._server(target, profile, key))

    def _governor(self, target: Route, profile: Profile, key: ProfileKey) -> Governor:
        """Return the governor shared by all names of a model that use the same key: rate limits apply to the
        pair."""
        address = (target.base_url or target.provider, target.model, self._source(target, profile))
        if address not in self._governors:
            self._governors[address] = Governor(account=key)
        return self._governors[address]

    def _server(self, target: Route, profile: Profile, key: ProfileKey) -> ModelServer | None:
        """Return the user's own server of a model, None for a provider's address."""
        if not target.base_url or not (profile.base_url or is_local(host_of(target.base_url))):
            return None
        source = msgspec.structs.replace(self._source(target, profile), provider="", default_env="")
        if (target.base_url, source) not in self._servers:
            endpoint = Endpoint(
                target.base_url, lambda: key.value, connect_s=min(5, self._settings.network.connect_s)
            )
            self._servers[target.base_url, source] = ModelServer(
                endpoint, key, client_for, self._launch.environment, target.wire, profile.context_limit
            )
        return self._servers[target.base_url, source]

    def _lane(self, target: Route, key: ProfileKey) -> Provider:
        if target.lane == "litellm":
            return self._litellm_lanes().make(target, key.in_use)
        endpoint = self._endpoint(target, key)
        lane = direct_lane(target.wire, endpoint, lambda where: client_for(where, self._launch.environment))
        self._lanes.append(lane)
        return lane

    def _litellm_lanes(self) -> LitellmLanes:
        if self._litellm is None:
            network = self._settings.network
            self._litellm = litellm_lanes(network.total_s, picture_s=network.content_s)
        return self._litellm

    def _endpoint(self, target: Route, key: ProfileKey) -> Endpoint:
        return Endpoint(
            base_url=target.base_url,
            key=lambda: key.value,
            connect_s=self._settings.network.connect_s,
            max_output_tokens=target.match.info.max_output if target.match else 0,
        )

    def _limits(self) -> WatchLimits:
        network = self._settings.network
        return WatchLimits(network.first_token_s, network.idle_s, network.content_s, network.total_s)

    def _key(self, target: Route, profile: Profile) -> ProfileKey:
        """Return the key of a profile, shared by all with the same source. The user's own address needs none
        unless the profile names one: local servers have none."""
        source = self._source(target, profile)
        if source not in self._keys:
            resolver = KeyResolver(
                source,
                environment=self._launch.environment,
                credentials=os.path.join(self._launch.where.data, FILE_NAME),
                warn=_warn,
                keyring=self._keyring.read if self._keyring else None,
                instead=self._other_model(target),
            )
            self._keys[source] = ProfileKey(resolver)
        return self._keys[source]

    def _other_model(self, target: Route) -> str:
        """Return a hint at a model of another provider whose key is in the environment, "" for none."""
        other = first_model(self._launch.environment)
        if other is None or other.model.partition("/")[0] == target.provider:
            return ""
        return f"{other.key_env} is set: -m {other.model}"

    def _source(self, target: Route, profile: Profile) -> KeySource:
        own_address = bool(profile.base_url) and not profile.api_key_env
        return KeySource(
            provider=target.provider,
            default_env="" if own_address else target.key_env,
            env=profile.api_key_env,
            file=profile.api_key_file,
            command=profile.api_key_command,
            literal=profile.api_key,
        )

    def _window(self, target: Route, profile: Profile) -> Window:
        unknown = profile.context_limit == 0 and target.match is None
        limit = context_limit(
            profile.context_limit, self.catalogue(), profile.model, _litellm_prices() if unknown else None
        )
        reserve = target.match.info.max_output if target.match else 0
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


def _takes_pictures(target: Route, profile: Profile) -> bool:
    """Tell whether a model may be sent pictures: as the profile says, else as the catalogue does. A model
    that neither knows gets them; its server refuses what it cannot use."""
    if profile.vision is not None:
        return profile.vision
    match = target.match
    return match is None or match.how == "substring" or "vision" in match.info.capabilities


def _price(match: CatalogMatch | None) -> Price:
    if match is None:
        return lambda _usage: None
    info = match.info

    def price(usage: Usage) -> float | None:
        return cost_usd(info, usage)

    return price


def _litellm_prices() -> str | None:
    """Return the path of litellm's own table in its package, without importing it."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    return os.path.join(os.path.dirname(spec.origin), "model_prices_and_context_window_backup.json")


def _warn(text: str) -> None:
    tell(f"buddy: {text}\n")
