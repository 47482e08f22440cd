"""The first bytes of a picture: its type and its size, read without decoding it and never from its name."""

from __future__ import annotations

import contextlib
import struct

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIF = (b"GIF87a", b"GIF89a")
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG segments that state the size; those three are tables."""
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""
_MAX_SEGMENTS = 1_000
_ICON = b"\0\0\1\0"
_ICON_HEAD = 32
"""Bytes of a picture in an icon that state its size."""
_PNG_ALPHA = frozenset({4, 6})
"""Colour types with an alpha channel."""


def media_type_of(head: bytes) -> str:
    """Return the media type of a picture every provider takes, "" for anything else."""
    if head.startswith(_PNG):
        return "image/png"
    if head.startswith(_JPEG):
        return "image/jpeg"
    if head.startswith(_GIF):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height that a PNG, JPEG, GIF or WebP claims; None where it states none."""
    try:
        match media_type_of(data):
            case "image/png":
                width, height = struct.unpack_from(">II", data, 16)
            case "image/gif":
                width, height = struct.unpack_from("<HH", data, 6)
            case "image/jpeg":
                return _jpeg_size(data)
            case "image/webp":
                return _webp_size(data)
            case _:
                return None
    except struct.error:  # it ends before its size
        return None
    return width, height


def icon_pixels(data: bytes) -> int:
    """Return the pixels of the largest picture in an icon (ICO) as the pictures claim themselves: the icon's
    own directory has no room for a large size and may lie. 0 for anything else."""
    if not data.startswith(_ICON):
        return 0
    largest = 0
    with contextlib.suppress(struct.error):  # it ends before its last picture
        (count,) = struct.unpack_from("<H", data, 4)
        for number in range(count):
            (at,) = struct.unpack_from("<I", data, 6 + 16 * number + 12)
            head = data[at : at + _ICON_HEAD]
            if size := picture_size(head):
                width, height = size
            elif len(head) == _ICON_HEAD:  # a bitmap without its file header
                width, height = struct.unpack_from("<ii", head, 4)
            else:
                continue
            largest = max(largest, abs(width * height))
    return largest


def may_be_transparent(data: bytes) -> bool:
    """Tell whether a PNG or WebP can have transparent parts, by its header; no other picture can."""
    match media_type_of(data):
        case "image/png":
            return len(data) > 25 and (data[25] in _PNG_ALPHA or b"tRNS" in data[:4096])
        case "image/webp":
            flags = data[20:21]
            return data[12:16] == b"VP8L" or (data[12:16] == b"VP8X" and bool(flags and flags[0] & 0x10))
        case "image/gif":
            return True
        case _:
            return False


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        mark, kind = struct.unpack_from("BB", data, at)
        if mark != 0xFF:
            return None
        if kind == 0xFF:  # fill bytes may stand before a marker
            at += 1
            continue
        if kind in _ALONE:
            at += 2
            continue
        if kind in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        (length,) = struct.unpack_from(">H", data, at + 2)
        if length < 2:
            return None
        at += 2 + length
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            wide, high = data[24:27], data[27:30]
            if len(high) < 3:
                return None
            return int.from_bytes(wide, "little") + 1, int.from_bytes(high, "little") + 1
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None
