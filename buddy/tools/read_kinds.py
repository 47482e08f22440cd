"""Files that are not plain text: told by their bytes, and made readable where that is possible."""

from __future__ import annotations

import json
from typing import Any, Literal, cast

from buddy.agent.counting import counted
from buddy.agent.tool import ToolError
from buddy.tools.read_pictures import media_type_of

Kind = Literal["text", "image", "pdf", "notebook", "office", "archive", "program", "binary"]
MAX_OUTPUT_CHARS = 4000
_OTHER_IMAGES = (b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd")
_PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")
_OFFICE_PARTS = (b"word/", b"xl/", b"ppt/", b"mimetypeapplication/vnd.oasis")


def kind_of(head: bytes, name: str) -> Kind:
    """What a file is, from its first bytes; the name only tells notebooks apart."""
    if media_type_of(head) or (head.startswith(_OTHER_IMAGES) and b"\0" in head):
        return "image"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(OLE) or (
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
