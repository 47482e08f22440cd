"""The text of a PDF by pages, only of those that are asked for. With pypdf (the extra `documents`)."""

from __future__ import annotations

import io
import logging
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from buddy.agent.counting import counted
from buddy.agent.tool import ToolError
from buddy.tools.optional import optional

MAX_CHARS = 50_000
MAX_SECONDS = 10.0
_BROKEN = (
    ValueError,
    OSError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    NotImplementedError,
    AssertionError,
    zlib.error,
    struct.error,
)
"""What a PDF that does not keep to the rules makes a reader stumble over."""


class Pages(msgspec.Struct, frozen=True):
    """Pages `start` to `stop` (from 0, `stop` is not among them) of `total`."""

    start: int
    stop: int
    total: int
    texts: tuple[str, ...]


def pdf_pages(data: bytes, shown: str, offset: int = 1, clock: Callable[[], float] = time.monotonic) -> Pages:
    """Pages from `offset` on (negative: that many from the end), as many as fit into a reply. Raises
    `ToolError` when no PDF package is installed, the file is broken or needs a password."""
    pypdf = optional("pypdf")
    if pypdf is None:
        raise ToolError(
            f"{shown} is a PDF ({len(data):,} bytes). Reading PDFs needs `pip install pypdf`; "
            "`pdftotext` in a shell works too."
        )
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it writes what it stumbles over to the terminal
    broken = (pypdf.errors.PyPdfError, *_BROKEN)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ToolError(f"{shown} is a PDF that needs a password; remove it with a shell command (qpdf)")
        total = len(reader.pages)
    except pypdf.errors.DependencyError as error:
        raise ToolError(
            f"{shown} is an encrypted PDF; reading it needs `pip install cryptography`"
        ) from error
    except broken as error:
        raise ToolError(f"{shown} is a PDF that cannot be read: {error}") from error
    start = max(0, total + offset) if offset < 0 else offset - 1
    if start >= total:
        raise ToolError(
            f"{shown} has {counted(total, 'page')}; offset {offset} is past its end (it counts pages)"
        )
    return _read(reader, start, total, broken, clock)


def _read(
    reader: Any, start: int, total: int, broken: tuple[type[Exception], ...], clock: Callable[[], float]
) -> Pages:
    texts: list[str] = []
    size, until = 0, clock() + MAX_SECONDS
    for at in range(start, total):
        try:
            text = str(reader.pages[at].extract_text()).strip()
        except broken as error:
            text = f"(this page cannot be read: {error})"
        text = text or "(no text on this page; it may be a picture)"
        if texts and size + len(text) > MAX_CHARS:
            break
        whole = len(text) <= MAX_CHARS
        texts.append(text if whole else f"{text[:MAX_CHARS]}… (cut: the page has {len(text):,} characters)")
        size += len(text)
        if clock() > until:
            break
    return Pages(start, start + len(texts), total, tuple(texts))
