"""Files that are not plain text: told by their bytes, and made readable where that is possible."""

from __future__ import annotations

import json
from typing import Any, Literal, cast

from buddy.agent.counting import counted
from buddy.tools.read_pictures import media_type_of
from buddy.tools.read_text import MAX_LINE_CHARS, MAX_WHOLE_BYTES
from buddy.workspace.content import BINARY_PROBE_BYTES, decode

Kind = Literal["text", "image", "pdf", "notebook", "office", "archive", "program", "binary"]
MAX_OUTPUT_CHARS = 4000
_OTHER_IMAGES = (b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd")
_MAX_MARK_BYTES = 12
"""What a picture begins with; one that ends there was cut short."""
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
_UTF8_BOM = b"\xef\xbb\xbf"
_PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")
_OFFICE_PARTS = (b"word/", b"xl/", b"ppt/", b"mimetypeapplication/vnd.oasis")


class NotANotebook(Exception):
    """A file named like a notebook is none. The message says why."""


def kind_of(head: bytes, name: str) -> Kind:
    """Classify a file by its first bytes; only notebooks are recognised by name. Where the signature of a
    picture or an archive may also begin a text (`GIF89a`, `BZh`), the bytes after it decide."""
    with_nul = b"\0" in head
    if media_type_of(head) and not (head.isascii() and not with_nul and len(head) > _MAX_MARK_BYTES):
        return "image"
    if head.startswith(_OTHER_IMAGES) and with_nul:
        return "image"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(OLE) or (
        head.startswith(b"PK\x03\x04") and any(part in head for part in _OFFICE_PARTS)
    ):
        return "office"
    if head.startswith(_ARCHIVES) or (head.startswith(b"BZh") and head[4:10] in _BZIP2_BLOCKS):
        return "archive"
    if head.startswith(_PROGRAMS) and with_nul:
        return "program"
    if name.endswith(".ipynb") and head.removeprefix(_UTF8_BOM).lstrip().startswith(b"{"):
        return "notebook"
    return "text"


def never_whole(data: bytes, name: str) -> str:
    """Why no reading of a file shows the whole of it, "" where one does."""
    kind = kind_of(data[:BINARY_PROBE_BYTES], name)
    content = decode(data)
    if kind == "notebook":
        try:
            notebook_text(data)
        except NotANotebook:
            kind = "text"  # and is read as that
    if kind == "notebook":
        return "it is a notebook"
    if kind != "text" or content is None:
        return "it is not text"
    if len(data) > MAX_WHOLE_BYTES:
        return "it is too large"
    if any(len(line) > MAX_LINE_CHARS for line in content.text.split("\n")):
        return f"it has lines of more than {MAX_LINE_CHARS:,} characters"
    return ""


def notebook_text(data: bytes) -> str:
    """A notebook's cells and their text output, pictures and other blobs by size only. Raises
    `NotANotebook`."""
    try:
        book = json.loads(data)
        cells = cast(list[dict[str, Any]], book["cells"])
        pieces = [_cell(number, cell) for number, cell in enumerate(cells, 1)]
    except ValueError as error:
        raise NotANotebook(f"it is not JSON, {error}") from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotANotebook("it has no cells as notebooks of format 4 have them") from error
    return "\n".join(pieces)


def _cell(number: int, cell: dict[str, Any]) -> str:
    head = f"--- cell {number} ({cell['cell_type']}) ---"
    outputs = [_output(output) for output in cell.get("outputs") or ()]
    return "\n".join([head, _joined(cell.get("source", "")), *(output for output in outputs if output)])


def _output(output: dict[str, Any]) -> str:
    if "text" in output:
        return _bounded(_joined(output["text"]))
    if output.get("output_type") == "error":
        return f"[error] {output.get('ename')}: {output.get('evalue')}"
    shown: list[str] = []
    for media, value in cast(dict[str, Any], output.get("data", {})).items():
        text = _joined(value)
        shown.append(
            _bounded(text) if media == "text/plain" else f"[{media}, {counted(len(text), 'character')}]"
        )
    return "\n".join(shown)


def _bounded(text: str) -> str:
    kept = (
        text
        if len(text) <= MAX_OUTPUT_CHARS
        else f"{text[:MAX_OUTPUT_CHARS]}… ({counted(len(text), 'character')})"
    )
    return "[output] " + kept.rstrip("\n")


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(str(piece) for piece in cast(list[object], value))
    return value if isinstance(value, str) else json.dumps(value)
