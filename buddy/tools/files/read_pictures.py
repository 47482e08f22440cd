"""Pictures as they can be sent to a model: of a size every provider takes, and whole."""

from __future__ import annotations

import base64
import importlib
import io
import warnings
from typing import Any

import msgspec

from buddy.agent.formatting import format_count
from buddy.agent.messages import Image
from buddy.agent.tool import ToolError
from buddy.workspace.files.picture_header import icon_pixels, media_type_of, picture_size


def optional(name: str) -> Any:
    """Return the module, None when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


MAX_IMAGE_BYTES = 3_500_000
MAX_IMAGE_SIDE = 1568
"""What providers scale pictures down to; more only costs tokens."""
MAX_UNSHRUNK_SIDE = 8_000
"""A larger one is refused by providers, with the whole turn and every later one."""
MAX_PIXELS = 64_000_000
"""Taken apart these are 256 MB; a picture of a few kilobytes can claim any number."""
_QUALITY = 85
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO")
"""Others are read by programs (EPS by Ghostscript) or by code that hardly anybody uses."""
_BROKEN = (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, ArithmeticError)
"""What a picture that does not keep to the rules makes Pillow stumble over."""


class EncodedPicture(msgspec.Struct, frozen=True):
    """A picture ready to send, and one line about it."""

    image: Image
    summary: str


def picture(data: bytes, shown: str) -> EncodedPicture:
    """Return a picture, made smaller where it is large. Raises `ToolError` when it cannot be sent."""
    pillow = optional("PIL.Image")
    media_type, before = media_type_of(data), len(data)
    if pillow is not None:
        data, media_type, note = _check(pillow, data, media_type, shown)
    else:
        note = ""
        width, height = picture_size(data) or (0, 0)
        if not media_type or before > MAX_IMAGE_BYTES or max(width, height) > MAX_UNSHRUNK_SIDE:
            raise ToolError(
                f"{shown} is a picture of {before:,} bytes that cannot be sent as it is (at most "
                f"{MAX_IMAGE_BYTES:,} bytes; PNG, JPEG, GIF or WebP). Install Pillow, or convert it with a "
                "shell command."
            )
    encoded = base64.b64encode(data).decode("ascii")
    return EncodedPicture(Image(media_type, encoded), f"{shown}: {media_type}, {len(data):,} bytes{note}")


def shrink(image: Image, shown: str) -> Image:
    """Return a picture that came encoded, with the type that its bytes have, made smaller where it is large.
    Raises `ToolError` for anything that is no picture: a provider would refuse the whole turn, and every
    later one, because the conversation keeps it."""
    try:
        data = base64.b64decode(image.data, validate=True)
    except ValueError as error:
        raise ToolError(f"{shown} is not base64 ({error})") from error
    media_type, size = media_type_of(data), picture_size(data)
    if size is None:
        kind = "a PDF" if data.startswith(b"%PDF-") else "something else"
        raise ToolError(
            f"{shown} holds no PNG, JPEG, GIF or WebP but {kind} ({format_count(len(data), 'byte')}); "
            "put a document into the workspace and name its path"
        )
    if max(size) <= MAX_IMAGE_SIDE and len(data) <= MAX_IMAGE_BYTES:
        return Image(media_type, image.data)
    return picture(data, shown).image


def _check(pillow: Any, data: bytes, media_type: str, shown: str) -> tuple[bytes, str, str]:
    """Return the bytes to send, their type, and what was done to them."""
    pixels = icon_pixels(data)
    if pixels > MAX_PIXELS:  # Pillow unpacks an icon when it opens it
        raise ToolError(
            f"{shown} is a picture of {pixels:,} pixels; at most {MAX_PIXELS:,} are looked at. Make it "
            "smaller with a shell command."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are judged below
            with pillow.open(io.BytesIO(data), formats=_FORMATS) as opened:
                width, height = opened.size
                if width * height > MAX_PIXELS:
                    raise ToolError(
                        f"{shown} is a picture of {width:,} × {height:,} pixels; at most {MAX_PIXELS:,} are "
                        "looked at. Make it smaller with a shell command."
                    )
                opened.load()  # a picture cut short would be refused by the provider, with the whole turn
                if media_type and max(width, height) <= MAX_IMAGE_SIDE and len(data) <= MAX_IMAGE_BYTES:
                    return data, media_type, ""
                made, media_type = _smaller(opened)
                return made, media_type, f" (made smaller: {width:,} × {height:,})"
    except pillow.DecompressionBombError as error:
        raise ToolError(f"{shown} is a picture of more pixels than are looked at: {error}") from error
    except pillow.UnidentifiedImageError as error:  # whose words are a place in memory
        raise _unreadable(shown, data, "it is broken, or of a kind that Pillow does not know") from error
    except _BROKEN as error:
        raise _unreadable(shown, data, str(error)) from error


def _unreadable(shown: str, data: bytes, why: str) -> ToolError:
    return ToolError(
        f"{shown} looks like a picture ({format_count(len(data), 'byte')}) but cannot be read: {why}"
    )


def _smaller(opened: Any) -> tuple[bytes, str]:
    """Shrink a picture: to PNG where it has transparency, otherwise to JPEG."""
    has_alpha = "A" in opened.getbands() or "transparency" in opened.info
    upright = importlib.import_module("PIL.ImageOps").exif_transpose(opened)  # the result has no such mark
    made = upright.convert("RGBA" if has_alpha else "RGB")
    made.thumbnail((MAX_IMAGE_SIDE, MAX_IMAGE_SIDE))
    out = io.BytesIO()
    if has_alpha:
        made.save(out, "PNG")
        if out.tell() <= MAX_IMAGE_BYTES:
            return out.getvalue(), "image/png"
        out = io.BytesIO()
        made = made.convert("RGB")
    made.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue(), "image/jpeg"
