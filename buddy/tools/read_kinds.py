"""Files that are not plain text: told by their bytes, and made readable where that is possible."""

from __future__ import annotations

import base64
import importlib
import io
import json
from typing import Any, Literal, cast

import msgspec

from buddy.agent.messages import Image
from buddy.agent.tool import ToolError

Kind = Literal["text", "image", "pdf", "notebook", "office", "archive", "program", "binary"]
MAX_IMAGE_BYTES = 3_500_000
MAX_IMAGE_SIDE = 1568
"""What providers scale pictures down to; more only costs tokens."""
MAX_OUTPUT_CHARS = 4000
_IMAGES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_OTHER_IMAGES = (b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd")
_PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")
_OFFICE_PARTS = (b"word/", b"xl/", b"ppt/", b"mimetypeapplication/vnd.oasis")


def kind_of(head: bytes, name: str) -> Kind:
    """What a file is, from its first bytes; the name only tells notebooks apart."""
    if media_type_of(head) or (head.startswith(_OTHER_IMAGES) and b"\0" in head):
        return "image"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(_OLE) or (
        head.startswith(b"PK\x03\x04") and any(part in head for part in _OFFICE_PARTS)
    ):
        return "office"
    if head.startswith(_ARCHIVES):
        return "archive"
    if head.startswith(_PROGRAMS) and b"\0" in head:
        return "program"
    if name.endswith(".ipynb") and head.lstrip().startswith(b"{"):
        return "notebook"
    return "text"


def media_type_of(head: bytes) -> str:
    """The media type of a picture every provider takes, "" for anything else."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media for mark, media in _IMAGES if head.startswith(mark)), "")


class Picture(msgspec.Struct, frozen=True):
    """A picture ready to send, and one line about it."""

    image: Image
    summary: str


def picture(data: bytes, shown: str) -> Picture:
    """A picture, made smaller when large and Pillow is installed. Raises `ToolError` when it cannot be
    sent."""
    media_type = media_type_of(data)
    smaller = _scaled(data) if not media_type or len(data) > MAX_IMAGE_BYTES or _is_large(data) else None
    if smaller is not None:
        data, media_type = smaller, "image/png"
    if not media_type or len(data) > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{shown} is a picture of {len(data):,} bytes that cannot be sent as it is "
            f"(at most {MAX_IMAGE_BYTES:,} bytes; PNG, JPEG, GIF or WebP). Install Pillow, or "
            "convert it with a shell command."
        )
    encoded = base64.b64encode(data).decode("ascii")
    return Picture(Image(media_type, encoded), f"{shown}: {media_type}, {len(data):,} bytes")


def _is_large(data: bytes) -> bool:
    size = png_size(data)
    return size is not None and max(size) > MAX_IMAGE_SIDE


def png_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, None for anything else."""
    if not data.startswith(_IMAGES[0][0]) or len(data) < 24:
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _scaled(data: bytes) -> bytes | None:
    """The picture as a PNG of bounded size, None when Pillow is not installed or does not know the format."""
    pillow = _optional("PIL.Image")
    if pillow is None:
        return None
    try:
        with pillow.open(io.BytesIO(data)) as opened:
            opened.thumbnail((MAX_IMAGE_SIDE, MAX_IMAGE_SIDE))
            out = io.BytesIO()
            opened.convert("RGBA").save(out, "PNG", optimize=True)
            return out.getvalue()
    except (OSError, ValueError, pillow.DecompressionBombError):
        return None


def _optional(name: str) -> Any:
    """A package that need not be installed, None when it is not. Slow to import: only when a file needs
    it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def pdf_pages(data: bytes, shown: str) -> tuple[str, ...]:
    """The text of each page. Raises `ToolError` when no PDF package is installed or the file is broken."""
    reader = _optional("pypdf")
    if reader is None:
        raise ToolError(
            f"{shown} is a PDF ({len(data):,} bytes). Reading PDFs needs `pip install pypdf`; "
            "`pdftotext` in a shell works too."
        )
    try:
        return tuple(str(page.extract_text()) for page in reader.PdfReader(io.BytesIO(data)).pages)
    except (reader.errors.PyPdfError, ValueError, OSError) as error:
        raise ToolError(f"{shown} is a PDF that cannot be read: {error}") from error


def notebook_text(data: bytes, shown: str) -> str:
    """A notebook's cells and their text output, pictures and other blobs by size only. Raises `ToolError`."""
    try:
        book = json.loads(data)
        cells = cast(list[dict[str, Any]], book["cells"])
        pieces = [_cell(number, cell) for number, cell in enumerate(cells, 1)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError(f"{shown} is named like a notebook but is not one: {error!r}") from error
    return "\n".join(pieces)


def _cell(number: int, cell: dict[str, Any]) -> str:
    head = f"--- cell {number} ({cell['cell_type']}) ---"
    outputs = [_output(output) for output in cell.get("outputs", [])]
    return "\n".join([head, _joined(cell.get("source", "")), *(output for output in outputs if output)])


def _output(output: dict[str, Any]) -> str:
    if "text" in output:
        return _bounded(_joined(output["text"]))
    if output.get("output_type") == "error":
        return f"[error] {output.get('ename')}: {output.get('evalue')}"
    shown: list[str] = []
    for media, value in cast(dict[str, Any], output.get("data", {})).items():
        text = _joined(value)
        shown.append(_bounded(text) if media == "text/plain" else f"[{media}, {len(text):,} characters]")
    return "\n".join(shown)


def _bounded(text: str) -> str:
    kept = text if len(text) <= MAX_OUTPUT_CHARS else f"{text[:MAX_OUTPUT_CHARS]}… ({len(text):,} characters)"
    return "[output] " + kept.rstrip("\n")


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(piece) for piece in cast(list[object], value))
    return value if isinstance(value, str) else json.dumps(value)
