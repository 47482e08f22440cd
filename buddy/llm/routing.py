"""Routing of a model name: provider, lane, address, and the name that is sent there. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from buddy.llm.catalog import Api, CatalogMatch, CatalogProvider, Catalogue, Wire, lookup

LaneChoice = Literal["auto", "direct", "litellm"]
Lane = Literal["direct", "litellm"]
RESPONSES = "responses/"
"""Stands before a model's own name where OpenAI's responses protocol is wanted."""


class UnknownModelError(ValueError):
    """Nobody is known to serve a name: one sentence with the nearest names."""


class Route(msgspec.Struct, frozen=True):
    """Everything needed to reach a model. `model` is the name for the lane: the provider's own on the direct
    lane, litellm's on the other. `base_url` is "" where litellm knows the address. `match` is its catalogue
    row."""

    provider: str
    lane: Lane
    wire: Wire
    api: Api
    model: str
    base_url: str
    key_env: str
    match: CatalogMatch | None


def route(catalogue: Catalogue, name: str, *, base_url: str = "", lane: LaneChoice = "auto") -> Route:
    """Return the way to a model. `base_url`: the profile's own address, where the part after the first slash
    is sent. What needs OpenAI's responses protocol goes through litellm, there too: the direct lane speaks
    chat completions. Raises `UnknownModelError`."""
    if base_url and name.startswith(RESPONSES):
        name = f"openai/{name}"
    match = lookup(catalogue, name)
    provider, rest = _provider(catalogue, name, match)
    if provider is None and not base_url:
        head, slash, _ = name.partition("/")
        if not slash:
            raise UnknownModelError(_unknown(catalogue, name))
        if head not in catalogue.reachable:
            raise UnknownModelError(_unknown_provider(catalogue, name, head))
    is_named = rest.startswith(RESPONSES)
    api: Api = "responses" if is_named or _needs_responses(match) else "chat"
    rest = rest.removeprefix(RESPONSES)
    wire: Wire = provider.wire if provider else ("chat" if base_url else "")
    if base_url and not wire:
        wire = "chat"
    direct = lane == "direct" or (lane == "auto" and wire != "" and api == "chat")
    if direct and is_named:
        raise UnknownModelError(
            f"{name} asks for the responses protocol, and the direct lane speaks chat completions only: set "
            f'lane = "auto", or write {name.replace(RESPONSES, "", 1)}'
        )
    if direct and not wire:
        raise UnknownModelError(
            f'{name} has no direct lane: set base_url in the profile, or lane = "auto" to go through litellm'
        )
    owner = provider.name if provider else name.partition("/")[0]
    return Route(
        provider=owner,
        lane="direct" if direct else "litellm",
        wire=wire if direct else "",
        api="chat" if direct else api,
        model=rest if direct else (f"{owner}/{rest}" if provider else name),
        base_url=base_url or (provider.base_url if provider and direct else ""),
        key_env=provider.key_env if provider else "",
        match=match,
    )


def _provider(
    catalogue: Catalogue, name: str, match: CatalogMatch | None
) -> tuple[CatalogProvider | None, str]:
    """Return the provider a name refers to, and the rest of the name: the provider is its first segment, or
    the maker of a model without one."""
    head, slash, rest = name.partition("/")
    if slash:
        provider = catalogue.providers.get(head.lower())
        if match and provider and match.matched == f"{provider.name}/{rest}".lower():
            rest = match.info.name  # an alias is our word, not the provider's
        return provider, rest
    if match is not None and match.how != "substring":
        exact = match.info.name if match.how in ("exact", "alias") else name
        return catalogue.providers.get(match.info.provider), exact
    return None, name


def _needs_responses(match: CatalogMatch | None) -> bool:
    return match is not None and match.how != "substring" and match.info.api == "responses"


def _unknown(catalogue: Catalogue, name: str) -> str:
    import difflib  # here: 1 ms that a start need not pay

    near = difflib.get_close_matches(name.lower(), catalogue.names, n=3, cutoff=0.5)
    ids = list(dict.fromkeys(catalogue.names[one] for one in near))
    hint = f"near names: {', '.join(ids)}" if ids else "`buddy models` lists the known ones"
    return f"unknown model {name!r}: expected provider/model, like openai/gpt-5.2, or a base_url; {hint}"


def _unknown_provider(catalogue: Catalogue, name: str, head: str) -> str:
    import difflib  # here: 1 ms that a start need not pay

    known = sorted({*catalogue.providers, *catalogue.reachable})
    near = difflib.get_close_matches(head.lower(), known, n=3, cutoff=0.7)
    hint = f"near names: {', '.join(near)}" if near else "`buddy models` lists the usual ones"
    return (
        f"unknown provider {head!r} in {name!r}: expected provider/model, like openai/gpt-5.2, or for a "
        f"server of your own a profile with a base_url; {hint}"
    )
