"""The litellm lane to image APIs that no direct lane speaks (Gemini, Vertex, Bedrock, Azure …)."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from buddy.agent.provider import ProviderError
from buddy.llm.keys import Key, key_for_request
from buddy.llm.litellm_lane.loader import LitellmLibrary, LitellmUnavailableError
from buddy.llm.litellm_lane.provider import error_of, provider_of
from buddy.llm.pictures import MAX_PICTURE_BYTES, Heard, MadePictures, PictureOrder, PictureUsage


class LitellmPictures:
    """A `PictureLane`. `base_url` replaces the provider's address; `total_s` limits an order as a whole."""

    def __init__(self, library: LitellmLibrary, *, key: Key, base_url: str, total_s: float) -> None:
        self._library = library
        self._key = key
        self._base_url = base_url
        self._total_s = total_s

    async def aclose(self) -> None:
        """Do nothing: the library owns its connections."""

    async def make(self, model: str, order: PictureOrder, heard: Heard) -> MadePictures:
        """Order pictures. Raises `ProviderError`."""
        try:
            litellm = await self._library.module()
        except LitellmUnavailableError as error:
            raise ProviderError("bad_request", str(error)) from error
        # The library reads an answer whole before anything of it is seen here, so a picture is bounded only
        # then. A client that stops while reading can't be given to it: `client` is another class for each
        # provider (OpenAI's, Azure's, its own handler; Gemini and Vertex pick by route), and the session that
        # all of them share is a global of the process, which the conversations of this lane use, too. Orders
        # go to the provider that the person chose, within `total_s`.
        key, owner = await key_for_request(self._key), provider_of(model)
        arguments = self._arguments(model, order, key)
        try:
            async with asyncio.timeout(self._total_s):
                answer = await (
                    litellm.aimage_edit(**arguments, image=order.source)
                    if order.source
                    else litellm.aimage_generation(**arguments)
                )
        except TimeoutError as error:
            raise ProviderError(
                "server", f"{owner} made no picture within {self._total_s:g} seconds; try again later"
            ) from error
        except ProviderError:
            raise
        except Exception as error:  # the lane's border: providers raise what they like
            raise error_of(error, owner, key=key, has_begun=False, base_url=self._base_url) from error
        rows = list(getattr(answer, "data", None) or ())[: order.count]
        if not rows:
            raise _unusable(owner, "an answer without pictures came")
        pictures = tuple([await asyncio.to_thread(_picture, owner, row) for row in rows])
        heard(sum(map(len, pictures)))
        return MadePictures(pictures, _usage(getattr(answer, "usage", None)))

    def _arguments(self, model: str, order: PictureOrder, key: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": model,
            "prompt": order.prompt,
            "n": order.count,
            "timeout": self._total_s,
            "max_retries": 0,
        }
        optional = {
            "size": order.size,
            "background": "transparent" if order.transparent else "",
            "api_key": key,
            "api_base": self._base_url,
        }
        return arguments | {name: value for name, value in optional.items() if value}


def _picture(owner: str, row: Any) -> bytes:
    text, url = getattr(row, "b64_json", None), str(getattr(row, "url", None) or "")
    if not text and url.startswith("data:"):
        text = url.partition(",")[2]
    if not text:
        raise _unusable(
            owner, "it answered with the address of a picture, which is not followed; choose another model"
        )
    if len(text) > MAX_PICTURE_BYTES * 4 // 3 + 4:
        raise _unusable(owner, f"a picture has more than {MAX_PICTURE_BYTES:,} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _unusable(owner, f"a picture is not base64 ({error})") from error


def _usage(usage: Any) -> PictureUsage:
    details = getattr(usage, "input_tokens_details", None)
    return PictureUsage(
        text_tokens=_count(details, "text_tokens") if details else _count(usage, "input_tokens"),
        image_tokens=_count(details, "image_tokens"),
        output_tokens=_count(usage, "output_tokens"),
    )


def _count(holder: Any, name: str) -> int:
    value = getattr(holder, name, 0)
    return value if isinstance(value, int) and value > 0 else 0


def _unusable(owner: str, why: str) -> ProviderError:
    return ProviderError("server", f"{owner}: {why}", retryable=False)
