"""Pictures made by a provider: the order, the answer, and a service that asks with the person's key.

Orders are never repeated by themselves: each costs money, also one whose answer was lost. Only a refused key
is renewed once, because nothing was made then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from buddy.agent.provider import ProviderError
from buddy.llm.catalog import PicturePrices
from buddy.llm.keyed_provider import ProfileKey, raise_without_secrets

MAX_PICTURE_BYTES = 32_000_000
MAX_REPLY_BYTES = 64_000_000
"""Four pictures of 2048 × 2048 pixels in base64 are about 40 MB."""

DEAREST_TOKENS = 6_500
"""Tokens of a picture of the highest quality and usual size: 6,208 for 1024 × 1536 pixels."""

Heard = Callable[[int], None]
"""Called with the bytes of the answer so far."""


class PictureOrder(msgspec.Struct, frozen=True):
    """The pictures wanted. `size` is WIDTHxHEIGHT or "" (the service decides), `media_type` what the file is
    to be. `source` is the picture to change, b"" for a new one; `transparent` asks for a background that can
    be seen through."""

    prompt: str
    count: int = 1
    size: str = ""
    media_type: str = "image/png"
    source: bytes = b""
    transparent: bool = False


class PictureUsage(msgspec.Struct, frozen=True):
    """Tokens of an order, as the service counts them, and `cost_usd`, what it bills (None: it does not
    say)."""

    text_tokens: int = 0
    image_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


NO_PICTURE_USAGE = PictureUsage()


class MadePictures(msgspec.Struct, frozen=True):
    """The answer: the bytes of each picture, not looked into yet."""

    pictures: tuple[bytes, ...]
    usage: PictureUsage = NO_PICTURE_USAGE


class PictureLane(Protocol):
    """A way to a provider's image API."""

    async def make(self, model: str, order: PictureOrder, heard: Heard) -> MadePictures:
        """Order pictures. Raises `ProviderError`. Cancelling it closes the connection."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class PictureService:
    """One picture model with its key and its prices. `secrets` are the person's own, kept out of errors."""

    def __init__(
        self,
        model: str,
        lane: PictureLane,
        key: ProfileKey,
        secrets: Callable[[], Sequence[str]],
        prices: PicturePrices | None,
    ) -> None:
        self.model = model
        self._lane = lane
        self._key = key
        self._secrets = secrets
        self._prices = prices

    def worst_cost(self, count: int) -> float | None:
        """Return the highest known price of so many pictures, None where the catalogue has none."""
        prices = self._prices
        if prices is not None and prices.picture is not None:
            return count * prices.picture
        if prices is not None and prices.output is not None:
            return count * prices.output * DEAREST_TOKENS / 1_000_000
        return None

    def cost(self, made: MadePictures) -> float | None:
        """Return the cost of an answer: the bill, else by its tokens, else by the price of a picture."""
        usage, prices = made.usage, self._prices
        if usage.cost_usd is not None:
            return usage.cost_usd
        if prices is not None and usage.output_tokens and prices.output is not None:
            return (
                usage.text_tokens * (prices.text or 0)
                + usage.image_tokens * (prices.image or prices.text or 0)
                + usage.output_tokens * prices.output
            ) / 1_000_000
        return self.worst_cost(len(made.pictures))

    async def make(self, order: PictureOrder, heard: Heard) -> MadePictures:
        """Order pictures; once more with another key, where the first is refused and there is one. Raises
        `ProviderError`, with the key's place and without secrets."""
        may_renew = True
        while True:
            sent = ""
            try:
                sent = await self._key.resolve()
                return await self._lane.make(self.model, order, heard)
            except ProviderError as error:
                if error.kind != "auth" or not may_renew or not await self._key.renew(sent):
                    raise_without_secrets(error, self._key.place, self._secrets())
                may_renew = False
