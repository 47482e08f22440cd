"""Content blocks of an ACP prompt as the parts of a message."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec
from acp import schema

from buddy.agent.messages import Attachment, Image, UserPart
from buddy.agent.tool import ToolError
from buddy.extend.mentions import write_mention
from buddy.tools.files.read_pictures import shrink

MAX_IMAGE_CHARS = 20_000_000
"""Base64 of one picture: 15 MB."""
MAX_RESOURCE_CHARS = 1_000_000


class PromptError(Exception):
    """A prompt buddy can't take; one sentence for the client."""


class PromptContent(msgspec.Struct, frozen=True):
    """A prompt: `text` still has its mentions to be expanded, `attached` goes behind it as it is.
    `is_command`: the person typed a slash command."""

    text: str
    attached: tuple[UserPart, ...]
    is_command: bool = False


def read_prompt(blocks: Sequence[Any]) -> PromptContent:
    """Read the content blocks of session/prompt. Raises `PromptError`."""
    texts: list[str] = []
    attached: list[UserPart] = []
    is_command = False
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                # Only typed words are a command: addresses and names are chosen by others.
                is_command |= block.text.lstrip().startswith("/") and not "".join(texts).strip()
                texts.append(block.text)
            case schema.ResourceContentBlock():
                texts.append(_link(block.uri))
            case schema.EmbeddedResourceContentBlock():
                texts.append(f" {_name(block.resource.uri)} ")
                attached.append(_resource(block.resource))
            case schema.ImageContentBlock():
                attached.append(_image(block))
            case _:
                raise PromptError("this kind of content is not taken: expected text, resources or images")
    text = "".join(texts).strip()
    if not text and not attached:
        raise PromptError("the prompt is empty")
    return PromptContent(text, tuple(attached), is_command and not attached)


def _link(uri: str) -> str:
    """Return a link as a mention when it names a file, so that the file is read as a typed `@path` is."""
    path = _file_path(uri)
    return f" @{write_mention(path)} " if path else f" {_inert(uri)} "


def _name(uri: str) -> str:
    return _inert(_file_path(uri) or uri)


def _inert(name: str) -> str:
    """Percent-encode what could make a part of a name read as a mention, or as a line of its own."""
    encoded = "".join(
        sign if sign.isprintable() and not sign.isspace() else quote(sign, errors="surrogatepass")
        for sign in name
    )
    return f"%40{encoded[1:]}" if encoded.startswith("@") else encoded


def _file_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    return ""


def _resource(resource: schema.TextResourceContents | schema.BlobResourceContents) -> UserPart:
    if isinstance(resource, schema.BlobResourceContents):
        media_type = resource.mime_type or ""
        if media_type.startswith("image/"):
            return _checked_image(media_type, resource.blob)
        raise PromptError(f"{resource.uri}: expected text or a picture, found {media_type or 'binary data'}")
    if len(resource.text) > MAX_RESOURCE_CHARS:
        raise PromptError(f"{resource.uri}: expected at most {MAX_RESOURCE_CHARS:,} characters, found more")
    name = _name(resource.uri)
    return Attachment(name, f"\n\n[attached: {name}]\n{resource.text}\n")


def _image(block: schema.ImageContentBlock) -> Image:
    return _checked_image(block.mime_type, block.data)


def _checked_image(media_type: str, data: str) -> Image:
    if len(data) > MAX_IMAGE_CHARS:
        raise PromptError("a picture is larger than 15 MB")
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise PromptError(f"a picture is not base64: {error}") from error
    try:
        return shrink(Image(media_type, data), "an attached picture")
    except ToolError as error:
        raise PromptError(str(error)) from error
