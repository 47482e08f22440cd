"""Catalogue of models: context, prices, capabilities, and the provider for a model name.

Lookup is pure; `read_catalogue` loads `templates/models.toml`, whose header explains its columns. Nothing
happens at import.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from buddy.agent.messages import Usage

Wire = Literal["chat", "anthropic", ""]
"""What a provider's own endpoint speaks; "" when only litellm can talk to it."""
Api = Literal["chat", "responses"]
How = Literal["exact", "alias", "prefix", "substring"]

BOUNDARIES = "-@:/"
COLUMNS = 12
PICTURE_COLUMNS = 5
GUESSED_CONTEXT = 8192
OWN_MODELS_FIRST = (
    "openai",
    "anthropic",
    "gemini",
    "deepseek",
    "mistral",
    "xai",
    "zai",
    "moonshot",
    "minimax",
    "dashscope",
    "meta_llama",
    "cohere_chat",
)
"""Whose row a bare name means when several providers serve the model: its maker's."""


class CatalogProvider(msgspec.Struct, frozen=True):
    """A server of models. `key_env` is "" for servers that need no key."""

    name: str
    wire: Wire
    base_url: str
    key_env: str
    aliases: tuple[str, ...] = ()


class ServerModel(msgspec.Struct, frozen=True):
    """A model that a server lists. `context` is 0 where the server does not say."""

    name: str
    context: int = 0


class Prices(msgspec.Struct, frozen=True):
    """Dollars per million tokens; None where the price is not known (or the kind does not exist)."""

    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None


class Tier(msgspec.Struct, frozen=True):
    """Prices of a request with more than `above_tokens` of input."""

    above_tokens: int
    prices: Prices


class ModelInfo(msgspec.Struct, frozen=True):
    """One row. `id` is litellm's name, provider first; `max_output` 0: not known; `efforts` are the words
    the model takes, weakest first."""

    id: str
    provider: str
    name: str
    api: Api
    context: int
    max_output: int
    prices: Prices
    capabilities: frozenset[str]
    efforts: tuple[str, ...]
    tiers: tuple[Tier, ...]
    aliases: tuple[str, ...]


class PicturePrices(msgspec.Struct, frozen=True):
    """Prices of a model that makes pictures: dollars for its dearest picture, and per million tokens of text
    sent, of pictures sent, and generated; None where not known."""

    picture: float | None
    text: float | None
    image: float | None
    output: float | None


class Catalogue(msgspec.Struct, frozen=True):
    """All rows by id, every spelling of a name (lower case) with the id it means, the providers by name and
    alias, the names of all that litellm can reach, and the rows of picture models by provider, as text."""

    models: Mapping[str, ModelInfo]
    names: dict[str, str]
    providers: dict[str, CatalogProvider]
    reachable: frozenset[str]
    picture_rows: Mapping[str, str] = {}


class CatalogMatch(msgspec.Struct, frozen=True):
    """The row found for a name, and by which of its spellings. Only "exact" and "alias" of an unchanged name
    are certain; the others are the best there is."""

    info: ModelInfo
    how: How
    matched: str


class ContextLimit(msgspec.Struct, frozen=True):
    """Size of the context window in tokens, and its source. A guess causes warnings and never compaction."""

    limit: int
    source: Literal["configuration", "catalogue", "litellm", "guess"]


# --- looking up ---


def lookup(catalogue: Catalogue, name: str) -> CatalogMatch | None:
    """Return the row of a model: exact id or alias, then the longest prefix, then the longest substring, each
    ending (and starting) at a boundary and each also with route segments and variants stripped."""
    head, slash, rest = name.partition("/")
    provider = catalogue.providers.get(head.lower()) if slash else None
    found = _find(catalogue.names, f"{provider.name}/{rest}" if provider else name)
    if found is None:
        return None
    matched, step = found
    info = catalogue.models[catalogue.names[matched]]
    how: How = "alias" if step == "exact" and matched != info.id.lower() else step
    return CatalogMatch(info, how, matched)


def _find(
    names: Mapping[str, object], name: str
) -> tuple[str, Literal["exact", "prefix", "substring"]] | None:
    spellings = list(dict.fromkeys(_spellings(name.strip().lower())))
    for spelling in spellings:
        if spelling in names:
            return spelling, "exact"
    for spelling in spellings:
        for end in reversed(_ends(spelling)):
            if spelling[:end] in names:
                return spelling[:end], "prefix"
    for spelling in spellings:
        inside = [part for part in _between_boundaries(spelling) if part in names]
        if inside:
            return max(inside, key=len), "substring"
    return None


def _spellings(name: str) -> Iterator[str]:
    """Yield the name, then without its variant (`:free`), then the same without one leading segment after the
    other (`openrouter/anthropic/…`, Bedrock's `us.anthropic.…`)."""
    while name:
        yield name
        base, colon, variant = name.rpartition(":")
        if colon and base and "/" not in variant:
            yield base
        head, slash, rest = name.partition("/")
        if slash:
            name = rest
            continue
        head, dot, rest = name.partition(".")
        name = rest if dot and head.replace("-", "").isalpha() and rest[:1].isalpha() else ""


def _ends(name: str) -> list[int]:
    """Return the positions where a prefix may end, shortest first."""
    return [at for at, character in enumerate(name) if at and character in BOUNDARIES] + [len(name)]


def _between_boundaries(name: str) -> Iterator[str]:
    starts = [0, *(at + 1 for at, character in enumerate(name) if character in BOUNDARIES)]
    for start in starts:
        yield from (name[start:end] for end in _ends(name) if end > start)


def context_limit(
    configured: int, catalogue: Catalogue, name: str, litellm_file: str | os.PathLike[str] | None
) -> ContextLimit:
    """Return the context window: configured, from the catalogue, from litellm's own file (read only then), or
    a guess."""
    if configured > 0:
        return ContextLimit(configured, "configuration")
    match = lookup(catalogue, name)
    if match is not None:
        return ContextLimit(match.info.context, "catalogue")
    known = read_price_file(litellm_file) if litellm_file is not None else {}
    found = _find(known, name)
    if found is not None:
        return ContextLimit(known[found[0]], "litellm")
    return ContextLimit(GUESSED_CONTEXT, "guess")


def cost_usd(info: ModelInfo, usage: Usage) -> float | None:
    """Return the cost of a reply; None when the catalogue does not know the prices."""
    prices = info.prices
    for tier in info.tiers:
        if usage.input_tokens > tier.above_tokens:
            prices = tier.prices
    if prices.input is None or prices.output is None:
        return None
    fresh = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = prices.input if prices.cache_write is None else prices.cache_write
    dollars = (
        fresh * prices.input
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
        + usage.output_tokens * prices.output
    )
    return dollars / 1_000_000


def picture_prices(catalogue: Catalogue, provider: str, model: str) -> PicturePrices | None:
    """Return the prices of a picture model by the provider's name for it, None for one without a row. A dated
    name has the prices of the undated one. Raises `ValueError` for an invalid number in the row."""
    rows = [line.split() for line in catalogue.picture_rows.get(provider, "").splitlines()]
    fitting = [row for row in rows if len(row) == PICTURE_COLUMNS and _is_version(model.lower(), row[0])]
    if not fitting:
        return None
    chosen = max(fitting, key=lambda row: len(row[0]))
    return PicturePrices(*(None if cell == "-" else float(cell) for cell in chosen[1:]))


def _is_version(name: str, known: str) -> bool:
    rest = name.removeprefix(known)
    return name.startswith(known) and (not rest or (rest[0] == "-" and rest[1:2].isdigit()))


# --- reading ---


class _PriceRow(msgspec.Struct):
    max_input_tokens: Any = None
    max_tokens: Any = None


def read_price_file(path: str | os.PathLike[str]) -> dict[str, int]:
    """Return names (lower case) and context windows of litellm's price map; empty when the file is not
    there."""
    try:
        with open(path, "rb") as file:
            rows = msgspec.json.decode(file.read(), type=dict[str, _PriceRow])
    except (OSError, msgspec.DecodeError):
        return {}
    return {
        name.lower(): limit
        for name, row in rows.items()
        if isinstance(limit := row.max_input_tokens or row.max_tokens, int) and limit > 0
    }


def read_catalogue(path: str | os.PathLike[str]) -> Catalogue:
    """Return the catalogue in a file. Raises `OSError`, and `ValueError` where a row is malformed."""
    with open(path, encoding="utf-8") as file:
        return parse_catalogue(file.read())


def parse_catalogue(text: str) -> Catalogue:
    """Return the catalogue in a text. Raises `ValueError` naming the row that is malformed."""
    data = tomllib.loads(text)
    rows = [
        _split(provider, line)
        for provider, block in data.get("models", {}).items()
        for line in block.splitlines()
        if line and not line.startswith("#")
    ]
    providers: dict[str, CatalogProvider] = {}
    for name, fields in data.get("providers", {}).items():
        provider = msgspec.convert({**fields, "name": name}, CatalogProvider)
        providers.update(dict.fromkeys((name, *provider.aliases), provider))
    reachable = frozenset(data.get("litellm", "").split())
    return Catalogue(_Rows(rows), _names(rows), providers, reachable, data.get("pictures", {}))


class _Row(msgspec.Struct, frozen=True):
    """A row as it is written."""

    id: str
    provider: str
    name: str
    aliases: tuple[str, ...]
    cells: list[str]


class _Rows(Mapping[str, ModelInfo]):
    """The rows by id, understood when they are asked for: a start asks for one of 289."""

    def __init__(self, rows: list[_Row]) -> None:
        self._written = {row.id: row for row in rows}
        self._read: dict[str, ModelInfo] = {}

    def __getitem__(self, key: str) -> ModelInfo:
        """Return a row. Raises `KeyError`, and `ValueError` for an invalid number in it."""
        if key not in self._read:
            self._read[key] = _model(self._written[key])
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


def _split(provider: str, line: str) -> _Row:
    cells = line.split()
    if len(cells) != COLUMNS:
        raise ValueError(f"models.toml, {provider}: expected {COLUMNS} columns, found {line!r}")
    return _Row(f"{provider}/{cells[0]}", provider, cells[0], _words(cells[-1]), cells)


def _names(rows: list[_Row]) -> dict[str, str]:
    """Return ids, bare names and aliases with their rows; of several rows with one name, the maker's wins."""
    rank = {provider: place for place, provider in enumerate(OWN_MODELS_FIRST)}
    names = {row.id.lower(): row.id for row in rows}
    for row in sorted(rows, key=lambda row: (rank.get(row.provider, len(rank)), row.id)):
        for alias in (row.name, *row.aliases):
            names.setdefault(alias.lower(), row.id)
            names.setdefault(f"{row.provider}/{alias}".lower(), row.id)
    return names


def _model(row: _Row) -> ModelInfo:
    name, api, context, output, *dollars, able, efforts, tiers, _aliases = row.cells
    try:
        return ModelInfo(
            id=row.id,
            provider=row.provider,
            name=name,
            api="responses" if api == "responses" else "chat",
            context=int(context),
            max_output=0 if output == "-" else int(output),
            prices=_prices(dollars),
            capabilities=frozenset(_words(able)),
            efforts=_words(efforts),
            tiers=tuple(_tier(cell) for cell in _words(tiers)),
            aliases=row.aliases,
        )
    except ValueError as error:
        raise ValueError(f"models.toml, {row.id}: expected numbers, found {' '.join(row.cells)!r}") from error


def _words(cell: str) -> tuple[str, ...]:
    return () if cell == "-" else tuple(cell.split(","))


def _prices(cells: list[str]) -> Prices:
    read, write, cached, stored = (None if cell == "-" else float(cell) for cell in cells)
    return Prices(read, write, cached, stored)


def _tier(cell: str) -> Tier:
    above, _, prices = cell.partition(":")
    return Tier(int(above), _prices(prices.split("/")))
