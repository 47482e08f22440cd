"""Types and sizes of pictures by their first bytes: every kind, cut anywhere, and hostile ones."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as pillow

from buddy.workspace.files.picture_header import may_be_transparent, media_type_of, picture_size

KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def drawn(kind: str, size: tuple[int, int] = (37, 21), mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    pillow.new(mode, size).save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(1, 1), (37, 21), (300, 4), (2, 1025)])
def test_type_and_size_are_read_without_decoding(kind: str, size: tuple[int, int]) -> None:
    data = drawn(kind, size)
    assert (media_type_of(data), picture_size(data)) == (KINDS[kind], size)


@pytest.mark.parametrize(
    ("options", "mode"),
    [({"lossless": True}, "RGB"), ({"lossless": True}, "RGBA"), ({"exif": b"Exif\0\0II*\0"}, "RGB")],
)
def test_every_form_of_webp_states_its_size(options: dict[str, object], mode: str) -> None:
    assert picture_size(drawn("WEBP", (130, 70), mode, **options)) == (130, 70)


def test_a_jpeg_states_its_size_behind_other_segments() -> None:
    data = drawn("JPEG", (640, 480), progressive=True)
    comment = b"\xff\xfe" + struct.pack(">H", 40_000) + b"\xff\xc0" * 19_999
    assert picture_size(data[:2] + comment + b"\xff\xff" + data[2:]) == (640, 480)


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_that_ends_anywhere_states_its_size_or_none(kind: str) -> None:
    data = drawn(kind)
    assert {picture_size(data[:end]) for end in range(len(data))} <= {None, (37, 21)}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
        b"\xff\xd8\xff\xe0\0\0" * 100,
        b"\xff\xd8\xff\xe0\0\1" + b"\xff" * 100,
        b"\xff\xd8" + b"\xff" * 5_000,
        b"RIFF\0\0\0\0WEBPABCD" + b"\0" * 40,
        b"\xff\xd8" + b"\xff\xe0\0\2" * 5_000,
    ],
)
def test_what_states_no_size_has_none(data: bytes) -> None:
    assert picture_size(data) is None


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBP"]), st.binary())
def test_no_bytes_break_it(head: bytes, rest: bytes) -> None:
    picture_size(head + rest)
    may_be_transparent(head + rest)


def test_transparency_is_read_from_the_header() -> None:
    clear = [
        drawn("PNG", mode="RGBA"),
        drawn("PNG", mode="LA"),
        drawn("PNG", mode="P", transparency=0),
        drawn("WEBP", mode="RGBA"),
        drawn("GIF"),
    ]
    assert all(map(may_be_transparent, clear))
    solid = [drawn("PNG"), drawn("JPEG"), drawn("WEBP", quality=80), b"", b"text"]
    assert not any(map(may_be_transparent, solid))
