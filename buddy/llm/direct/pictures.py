"""The direct lane to OpenAI-compatible image APIs: `images/generations` and `images/edits`.

Answers come from a server: their bytes are bounded while they arrive, and an address in place of a picture is
only followed to the server that was asked.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Callable
from urllib.parse import urljoin, urlsplit

import msgspec

from buddy.agent.formatting import whole_number
from buddy.agent.json_codec import dollars, dumps
from buddy.agent.provider import ProviderError
from buddy.llm.direct.lane import Answer, Endpoint, HttpClient, OneClient, Post, host_of, refuse_failure
from buddy.llm.pictures import (
    MAX_PICTURE_BYTES,
    MAX_REPLY_BYTES,
    Heard,
    MadePictures,
    PictureOrder,
    PictureUsage,
)
from buddy.llm.quirks import PictureQuirks, picture_quirks

_NAMES = {"image/png": "png", "image/jpeg": "jpeg", "image/webp": "webp"}


class _PictureItem(msgspec.Struct):
    b64_json: str | None = None
    url: str | None = None


class _TokenDetails(msgspec.Struct):
    text_tokens: int = 0
    image_tokens: int = 0


class _PictureTokens(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _TokenDetails | None = None
    cost: float | None = None


class _PictureReply(msgspec.Struct):
    data: list[_PictureItem] = []
    usage: _PictureTokens | None = None


class OpenAIPictures:
    """A `PictureLane`. `client` makes the HTTP client when the first order needs it; `total_s` limits an
    order as a whole."""

    def __init__(
        self,
        endpoint: Endpoint,
        client: Callable[[Endpoint], HttpClient],
        *,
        total_s: float,
        quirks: Callable[[str, str], PictureQuirks] = picture_quirks,
    ) -> None:
        self._endpoint = endpoint
        self._client = OneClient(endpoint, client)
        self._host = host_of(endpoint.base_url)
        self._total_s = total_s
        self._quirks = quirks

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def make(self, model: str, order: PictureOrder, heard: Heard) -> MadePictures:
        """Order pictures. Raises `ProviderError`."""
        post = self._post(model, order)
        try:
            async with asyncio.timeout(self._total_s):
                return await self._ask(post, order.count, heard)
        except TimeoutError as error:
            raise ProviderError(
                "server", f"{self._host} made no picture within {self._total_s:g} seconds; try again later"
            ) from error

    async def _ask(self, post: Post, count: int, heard: Heard) -> MadePictures:
        answer = await self._client.get().post(post.url, post.headers, post.content)
        try:
            await refuse_failure(answer, post)
            body = await self._read(answer, MAX_REPLY_BYTES, heard)
        finally:
            await answer.aclose()
        # In a thread: 60 MB of base64 take longer than a key may wait.
        reply = await asyncio.to_thread(self._decode, body)
        if not reply.data:
            raise self._unusable("an answer without pictures came")
        # Millions of addresses fit into an answer, and each picture is kept until the last one is there.
        pictures = [await self._picture(row, heard) for row in reply.data[:count]]
        return MadePictures(tuple(pictures), _usage(reply.usage))

    def _decode(self, body: bytes) -> _PictureReply:
        try:
            return msgspec.json.decode(body, type=_PictureReply)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._unusable(f"the answer is not what an image API sends ({str(error)[:200]})") from error

    async def _picture(self, row: _PictureItem, heard: Heard) -> bytes:
        if row.b64_json:
            data = await asyncio.to_thread(self._from_base64, row.b64_json)
        elif row.url and row.url.startswith("data:"):
            data = await asyncio.to_thread(self._from_base64, row.url.partition(",")[2])
        elif row.url:
            data = await self._download(row.url, heard)
        else:
            raise self._unusable("the answer names no picture")
        if len(data) > MAX_PICTURE_BYTES:
            raise self._unusable(f"a picture has more than {MAX_PICTURE_BYTES:,} bytes")
        return data

    def _from_base64(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._unusable(f"a picture is not base64 ({error})") from error

    async def _download(self, address: str, heard: Heard) -> bytes:
        """Fetch a picture from the server itself, without the key."""
        try:
            url = urljoin(self._endpoint.base_url, address)
            is_own = _origin(url) == _origin(self._endpoint.base_url)
        except ValueError:
            url, is_own = "", False
        if not is_own:
            raise self._unusable(
                "it answered with the address of a picture on another host, which is not followed; choose a "
                "model that sends pictures (b64_json)"
            )
        answer = await self._client.get().get(url, {"accept": "image/*"})
        try:
            await refuse_failure(answer, Post(url, {}, b"", self._host, ""))
            return await self._read(answer, MAX_PICTURE_BYTES, heard)
        finally:
            await answer.aclose()

    async def _read(self, answer: Answer, most: int, heard: Heard) -> bytes:
        body = bytearray()
        stated = whole_number(answer.headers.get("content-length", ""))
        if stated is not None and stated > most:
            raise self._unusable(f"an answer of {stated:,} bytes comes; at most {most:,} are read")
        async for chunk in answer.body():
            body += chunk
            if len(body) > most:
                raise self._unusable(f"the answer has more than {most:,} bytes")
            heard(len(body))
        return bytes(body)

    def _unusable(self, why: str) -> ProviderError:
        return ProviderError("server", f"{self._host}: {why}", retryable=False)

    def _post(self, model: str, order: PictureOrder) -> Post:
        quirks = self._quirks(self._host, model)
        fields: dict[str, str | int] = {"model": model, "prompt": order.prompt, "n": order.count}
        if order.size:
            fields["size"] = order.size
        if quirks.response_format:
            fields["response_format"] = "b64_json"
        if quirks.output_format:
            fields["output_format"] = _NAMES[order.media_type]
        if order.transparent:
            fields["background"] = "transparent"
        headers = {"accept": "application/json", **self._endpoint.headers}
        key = self._endpoint.key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        base = self._endpoint.base_url.rstrip("/")
        if not order.source:
            headers["content-type"] = "application/json"
            return Post(f"{base}/images/generations", headers, dumps(fields), self._host, key)
        boundary = f"buddy-{os.urandom(16).hex()}"
        headers["content-type"] = f"multipart/form-data; boundary={boundary}"
        content = form_data(fields, order.source, order.media_type, boundary)
        return Post(f"{base}/images/edits", headers, content, self._host, key)


def form_data(fields: dict[str, str | int], picture: bytes, media_type: str, boundary: str) -> bytes:
    """Return a form with one file. Nothing of the file's own name travels along."""
    start = f"--{boundary}\r\ncontent-disposition: form-data; name="
    pieces = [f'{start}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    name = f"picture.{_NAMES.get(media_type, 'png')}"
    head = f'{start}"image"; filename="{name}"\r\ncontent-type: {media_type}\r\n\r\n'
    return b"".join([*pieces, head.encode(), picture, f"\r\n--{boundary}--\r\n".encode()])


def _usage(counts: _PictureTokens | None) -> PictureUsage:
    if counts is None:
        return PictureUsage()
    details = counts.input_tokens_details or _TokenDetails(text_tokens=counts.input_tokens)
    return PictureUsage(
        max(0, details.text_tokens),
        max(0, details.image_tokens),
        max(0, counts.output_tokens),
        dollars(counts.cost),
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port
