"""The text of Office documents (docx, xlsx, pptx, odt, ods, odp): what is written, not how it looks.

They are archives of XML; only the parts that hold text are unpacked, and only as far as bounds allow, so that
a file of a few kilobytes cannot fill the memory.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.parsers import expat

from buddy.agent.tool import ToolError

MAX_PART_BYTES = 20_000_000
MAX_PARTS = 500
MAX_CHARS = 2_000_000
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    expat.ExpatError,
    ElementTree.ParseError,
    OSError,
    LookupError,
    ValueError,
)
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")
_SHEET = re.compile(r"xl/worksheets/sheet(\d+)\.xml")
_ENDS_LINE = frozenset({"p", "h", "br", "cr", "tr", "row", "table-row", "line-break"})
_ENDS_CELL = frozenset({"tc", "table-cell", "tab"})


def office_text(data: bytes, shown: str) -> str:
    """The text of a document, lines for paragraphs and rows, tabs between cells. Raises `ToolError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _bounded(_texts(archive, shown))
    except _BROKEN as error:
        raise ToolError(
            f"{shown} is an Office document ({len(data):,} bytes) that cannot be read: {error}. "
            "Convert it with a shell command."
        ) from error
    except (NotImplementedError, RuntimeError) as error:  # an odd compression, or a password
        raise ToolError(f"{shown} is an Office document that cannot be unpacked: {error}") from error


def _bounded(texts: Iterator[str]) -> str:
    """The texts up to the bound; what comes after is not even unpacked."""
    taken: list[str] = []
    room = MAX_CHARS
    for text in texts:
        taken.append(text[:room])
        room -= len(taken[-1]) + 1
        if room <= 0:
            break
    return "\n".join(taken)


def _texts(archive: zipfile.ZipFile, shown: str) -> Iterator[str]:
    names = set(archive.namelist()[:100_000])
    if "word/document.xml" in names:
        yield _plain(_part(archive, "word/document.xml"))
        return
    slides = _numbered(names, _SLIDE)
    if slides:
        for number, name in slides:
            yield f"--- slide {number} ---\n{_plain(_part(archive, name))}"
        return
    sheets = _numbered(names, _SHEET)
    if sheets:
        shared = _shared(archive) if "xl/sharedStrings.xml" in names else []
        for number, name in sheets:
            yield f"--- sheet {number} ---\n{_rows(_part(archive, name), shared)}"
        return
    if "content.xml" in names:
        yield _plain(_part(archive, "content.xml"))
        return
    raise ToolError(
        f"{shown} is an Office document of a kind that is not read (no text part in it). Convert it with a "
        "shell command."
    )


def _numbered(names: set[str], pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    found = [(int(match.group(1)), name) for name in names if (match := pattern.fullmatch(name))]
    return sorted(found)[:MAX_PARTS]


def _part(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    with archive.open(name) as file:
        data = file.read(MAX_PART_BYTES + 1)
    if len(data) > MAX_PART_BYTES:
        raise ValueError(f"{name} in it is larger than {MAX_PART_BYTES:,} bytes")
    _refuse_declarations(data, name)
    return ElementTree.fromstring(data)  # noqa: S314 - entities are refused above, and the size is bounded


def _refuse_declarations(data: bytes, name: str) -> None:
    """Raise `ValueError` where entities could be declared. Asks the parser: in UTF-16 or EBCDIC no search for
    bytes would find them."""

    def refuse(*_doctype: object) -> None:
        raise ValueError(f"{name} in it declares entities")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(data, True)


def _plain(root: ElementTree.Element) -> str:
    """Text in the order of the document."""
    pieces: list[str] = []
    waiting: list[tuple[ElementTree.Element, bool]] = [(root, True)]
    while waiting:
        element, opening = waiting.pop()
        name = _local(element)
        if not opening:
            pieces.append("\n" if name in _ENDS_LINE else "\t" if name in _ENDS_CELL else "")
            pieces.append(_own_text(element.tail))
            continue
        pieces.append(_own_text(element.text))
        waiting.append((element, False))
        waiting.extend((child, True) for child in reversed(element))
    text = re.sub(r"[ \t]*\n", "\n", "".join(pieces))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _own_text(text: str | None) -> str:
    return text if text and text.strip("\n") else ""


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _shared(archive: zipfile.ZipFile) -> list[str]:
    root = _part(archive, "xl/sharedStrings.xml")
    return ["".join(one.text or "" for one in item.iter() if _local(one) == "t") for item in root]


def _rows(root: ElementTree.Element, shared: list[str]) -> str:
    rows: list[str] = []
    for row in (one for one in root.iter() if _local(one) == "row"):
        cells = [_cell(cell, shared) for cell in row if _local(cell) == "c"]
        rows.append("\t".join(cells).rstrip())
    return "\n".join(rows)


def _cell(cell: ElementTree.Element, shared: list[str]) -> str:
    value = next((one.text or "" for one in cell if _local(one) == "v"), "")
    if cell.get("t") == "s" and value.isdecimal() and int(value) < len(shared):
        return shared[int(value)]
    if cell.get("t") == "inlineStr":
        return "".join(one.text or "" for one in cell.iter() if _local(one) == "t")
    return value
