"""Answers of the fake server's image API, and tiny pictures to answer with."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any

from tests.fake_llm.asked import Asked
from tests.fake_llm.connection import Connection


@dataclass(frozen=True)
class PictureAnswer:
    """One answer. `body` is sent `times` over (a reply of any length without memory for it); `stalls`: half
    of it comes, then nothing until the client leaves."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    stalls: bool = False


def png(
    width: int = 4, height: int = 3, *, alpha: bool = False, colour: bytes = b"\x30\x60\xc0\x80"
) -> bytes:
    """A whole PNG of one colour."""
    pixel = colour[: 4 if alpha else 3]
    rows = (b"\0" + pixel * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 6 if alpha else 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def made(*pictures: bytes, usage: Mapping[str, Any] | None = None) -> PictureAnswer:
    """An answer with pictures, and the tokens they took."""
    rows = [{"b64_json": base64.b64encode(one).decode()} for one in pictures]
    body: dict[str, Any] = {"created": 1, "data": rows}
    if usage is not None:
        body["usage"] = dict(usage)
    return PictureAnswer(json.dumps(body).encode())


def refused(status: int, message: str) -> PictureAnswer:
    """An error as providers send it."""
    return PictureAnswer(json.dumps({"error": {"message": message, "type": "image_error"}}).encode(), status)


async def deliver_picture(connection: Connection, answer: PictureAnswer) -> None:
    """Send the answer."""
    if answer.stalls:
        await connection.start_stream({"content-type": "application/json"})
        half = answer.body[: len(answer.body) // 2]
        await connection.write(b"%x\r\n%s\r\n" % (len(half), half))
        await connection.pause(3600)
    elif answer.times > 1:
        await connection.start_stream({"content-type": "application/json"})
        for _ in range(answer.times):
            await connection.write(b"%x\r\n%s\r\n" % (len(answer.body), answer.body))
        await connection.write(b"0\r\n\r\n")
    else:
        await connection.respond(answer.status, answer.headers, answer.body)


def form_of(asked: Asked) -> dict[str, bytes]:
    """The fields of a multipart request, the file's bytes under its field's name."""
    head = f"content-type: {asked.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser().parsebytes(head + asked.raw)
    parts: Sequence[Any] = message.get_payload()  # type: ignore[assignment]
    return {
        part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts
    }
