"""The model that makes pictures: its profile → route → key → lane, made when the first picture is ordered."""

from __future__ import annotations

from collections.abc import Callable

from buddy.config.settings import ConfigError, Profile
from buddy.llm.catalog import Catalogue, picture_prices
from buddy.llm.direct.lane import Endpoint, HttpClient
from buddy.llm.keyed_provider import ProfileKey
from buddy.llm.pictures import PictureLane, PictureService
from buddy.llm.routing import Route, UnknownModelError, route

NOT_SET = (
    "no model for pictures is set: the user can set one in buddy.toml, "
    '[pictures] model = "openai/gpt-image-2" for instance'
)


def picture_route(catalogue: Catalogue, profile: Profile) -> Route:
    """Return the way to a picture model. Raises `ConfigError`."""
    try:
        target = route(catalogue, profile.model, base_url=profile.base_url, lane=profile.lane)
    except UnknownModelError as error:
        raise ConfigError(str(error)) from error
    if target.wire == "anthropic":
        raise ConfigError(
            f"{profile.model} makes no pictures: {target.provider} has no image API; "
            "set [pictures] model to one of another provider"
        )
    return target


def direct_pictures(
    endpoint: Endpoint, client: Callable[[Endpoint], HttpClient], total_s: float
) -> PictureLane:
    """Return the lane to an OpenAI-compatible image API."""
    from buddy.llm.direct.pictures import OpenAIPictures  # needed for pictures only

    return OpenAIPictures(endpoint, client, total_s=total_s)


def picture_service(
    catalogue: Catalogue, target: Route, lane: PictureLane, key: ProfileKey, secrets: Callable[[], list[str]]
) -> PictureService:
    """Return the service over a lane, with the catalogue's prices. Raises `ConfigError`."""
    name = target.model.removeprefix(f"{target.provider}/")
    try:
        prices = picture_prices(catalogue, target.provider, name)
    except ValueError as error:
        raise ConfigError(f"models.toml, {target.model}: {error}") from error
    return PictureService(target.model, lane, key, secrets, prices)
