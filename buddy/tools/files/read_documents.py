"""The text of Office documents and of a PDF's pages. A sheet is measured before it is held."""

from __future__ import annotations

import datetime
import io
import logging
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import msgspec

from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolError
from buddy.tools.files.read_pictures import optional

_REFERENCE = re.compile(r"\$?([A-Za-z]{1,4})\$?(\d{1,9})")


class Extent:
    """The cells from the first row and column to the last value, of the largest sheet; of xlsx and of ods."""

    def __init__(self) -> None:
        self.cells = 0
        self._row = self._column = self._rows = self._columns = 0
        self._row_count = self._count = 1
        self._filled = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take the start of an element."""
        match tag.rpartition(":")[2]:
            case "worksheet" | "table":
                self._row = self._column = self._rows = self._columns = 0
            case "row":
                self._row = _number(attributes.get("r"), self._row + 1)
                self._column = 0
            case "c":
                found = _REFERENCE.fullmatch(attributes.get("r", ""))
                self._column = _column_of(found[1]) if found else self._column + 1
                self._row = int(found[2]) if found else self._row
            case "v" | "is":
                self._reach(self._row, self._column)
            case "table-row":
                self._column = 0
                self._filled = False
                self._row_count = _number(_repeat_count(attributes, "rows"), 1)
            case "table-cell" | "covered-table-cell":
                self._count = _number(_repeat_count(attributes, "columns"), 1)
                self._column += self._count
                if any(name.endswith(":value-type") for name in attributes):
                    self._fill()
            case "p":
                self._fill()
            case _:
                pass

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        if tag.rpartition(":")[2] == "table-row":
            self._row += self._row_count
            if self._filled:
                self._reach(self._row, 0)

    def _fill(self) -> None:
        self._filled = True
        self._reach(0, self._column)

    def _reach(self, row: int, column: int) -> None:
        self._rows, self._columns = max(self._rows, row), max(self._columns, column)
        self.cells = max(self.cells, self._rows * self._columns)


def _repeat_count(attributes: Mapping[str, str], what: str) -> str | None:
    return next(
        (value for name, value in attributes.items() if name.endswith(f":number-{what}-repeated")), None
    )


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else otherwise


def _column_of(letters: str) -> int:
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - 64
    return column


MAX_PDF_CHARS = 50_000
MAX_SECONDS = 10.0
_BROKEN_PDF = (
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
    """Return pages from `offset` on (negative: that many from the end), as many as fit into a reply. Raises
    `ToolError` when no PDF package is installed, the file is broken or needs a password."""
    pypdf = optional("pypdf")
    if pypdf is None:
        raise ToolError(
            f"{shown} is a PDF ({len(data):,} bytes). Reading PDFs needs `pip install pypdf`; "
            "`pdftotext` in a shell works too."
        )
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it writes what it stumbles over to the terminal
    broken = (pypdf.errors.PyPdfError, *_BROKEN_PDF)
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
            f"{shown} has {format_count(total, 'page')}; offset {offset} is past its end (it counts pages)"
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
        text = text or "(no text was read on this page: it may be a picture, or too large to unpack)"
        if texts and size + len(text) > MAX_PDF_CHARS:
            break
        whole = len(text) <= MAX_PDF_CHARS
        texts.append(
            text if whole else f"{text[:MAX_PDF_CHARS]}… (cut: the page has {len(text):,} characters)"
        )
        size += len(text)
        if clock() > until:
            break
    return Pages(start, start + len(texts), total, tuple(texts))


MAX_PART_BYTES = 20_000_000
MAX_UNPACKED_BYTES = 60_000_000
MAX_PARTS = 20_000
MAX_CHARS = 2_000_000
MAX_CELLS = 2_000_000
"""Sheets are held whole, gaps included: a value in the last row and column would be 17,000,000,000 cells."""
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    expat.ExpatError,
    SyntaxError,  # what lxml and ElementTree raise
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
)
_FAMILIES = (("word/", "Word", "docx"), ("ppt/", "PowerPoint", "pptx"), ("xl/", "Excel", "python_calamine"))
_PACKAGES = {"docx": "python-docx", "pptx": "python-pptx", "python_calamine": "python-calamine"}
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_ENDS_LINE = frozenset({"p", "h", "br", "cr", "tr", "row", "table-row", "line-break"})
_CELLS = frozenset({"tc", "table-cell"})
_ENDS_CELL = _CELLS | {"tab"}
_NO_TEXT = frozenset({"delText", "instrText", "Fallback", "pPr", "rPr", "tcPr", "tblPr", "sectPr"})
"""Deleted text, field codes, what older programs show instead of a drawing, and properties."""


def office_text(data: bytes, shown: str) -> str:
    """Return the text of a document, lines for paragraphs and rows, tabs between cells. Raises
    `ToolError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _join_bounded(_texts(archive, shown, len(data)))
    except _BROKEN as error:
        raise ToolError(
            f"{shown} is an Office document ({len(data):,} bytes) that cannot be read: {error}. "
            "Convert it with a shell command."
        ) from error
    except (NotImplementedError, RuntimeError) as error:  # an odd compression, or a password
        raise ToolError(f"{shown} is an Office document that cannot be unpacked: {error}") from error


def _join_bounded(texts: Iterator[str]) -> str:
    """Join the texts up to the bound; what comes after is not read."""
    taken: list[str] = []
    room = MAX_CHARS
    for text in texts:
        taken.append(text[:room])
        room -= len(taken[-1]) + 1
        if room <= 0:
            break
    return "\n".join(taken)


def _texts(archive: zipfile.ZipFile, shown: str, size: int) -> Iterator[str]:
    names = archive.namelist()
    for folder, program, module in _FAMILIES:
        if any(name.startswith(folder) for name in names):
            library = _library(module, f"{shown} is a document of {program} ({size:,} bytes)")
            yield from _READERS[module](library, _repack(archive))
            return
    if "content.xml" not in names:
        raise ToolError(
            f"{shown} is an Office document of a kind that is not read (no text part in it). Convert it with "
            "a shell command."
        )
    if "mimetype" in names and b"spreadsheet" in archive.read("mimetype")[:100]:
        library = _library("python_calamine", f"{shown} is a spreadsheet ({size:,} bytes)")
        yield from _sheets(library, _repack(archive))
        return
    yield _plain(_parse(_part(archive, "content.xml")))


def _library(module: str, what: str) -> Any:
    """Import the package for a kind of document. Raises `ToolError` where it is not installed."""
    found = optional(module)
    if found is None:
        raise ToolError(
            f"{what}. Reading it needs the package {_PACKAGES[module]}: pip install 'buddy-repl[documents]'"
        )
    return found


def _repack(archive: zipfile.ZipFile) -> io.BytesIO:
    """Return the archive with its XML unpacked and checked. Other parts are empty, for a relation may name
    them."""
    names = list(dict.fromkeys(archive.namelist()))
    if len(names) > MAX_PARTS:
        raise ValueError(f"it has {len(names):,} parts, more than {MAX_PARTS:,}")
    out = io.BytesIO()
    room = MAX_UNPACKED_BYTES
    with zipfile.ZipFile(out, "w") as packed:
        for name in names:
            data = b""
            if name.endswith((".xml", ".rels")) or name == "mimetype":
                data = _part(archive, name, check=name != "mimetype")
                room -= len(data)
            if room < 0:
                raise ValueError(f"its parts are larger than {MAX_UNPACKED_BYTES:,} bytes together")
            packed.writestr(name, data)
    out.seek(0)
    return out


def _part(archive: zipfile.ZipFile, name: str, *, check: bool = True) -> bytes:
    with archive.open(name) as file:
        data = file.read(MAX_PART_BYTES + 1)
    if len(data) > MAX_PART_BYTES:
        raise ValueError(f"{name} in it is larger than {MAX_PART_BYTES:,} bytes")
    if check:
        _check(data, name)
    return data


def _check(data: bytes, name: str) -> None:
    """Raise `ValueError` where entities could be declared, and for a sheet of too many cells. Asks the
    parser: in UTF-16 or EBCDIC no search for bytes would find them."""

    def refuse(*_doctype: object) -> None:
        raise ValueError(f"{name} in it declares entities")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    extent = Extent()
    if _SHEET.fullmatch(name) or name == "content.xml":
        parser.StartElementHandler = extent.start
        parser.EndElementHandler = extent.end
    parser.Parse(data, True)
    if extent.cells > MAX_CELLS:
        raise ValueError(f"a sheet in it reaches over {extent.cells:,} cells, more than {MAX_CELLS:,}")


def _document(docx: Any, data: io.BytesIO) -> Iterator[str]:
    try:
        body = docx.Document(data).part.blob
    except (docx.exceptions.PythonDocxError, docx.opc.exceptions.OpcError) as error:
        raise ValueError(str(error)) from error
    yield _plain(_parse(body))


def _slides(pptx: Any, data: io.BytesIO) -> Iterator[str]:
    try:
        for number, slide in enumerate(pptx.Presentation(data).slides, 1):
            text = f"--- slide {number} ---\n{_plain(_parse(slide.part.blob))}"
            frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
            notes = frame.text.strip() if frame is not None else ""
            yield f"{text}\nnotes: {notes}" if notes else text
    except pptx.exc.PythonPptxError as error:
        raise ValueError(str(error)) from error


def _sheets(calamine: Any, data: io.BytesIO) -> Iterator[str]:
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(data)
        for number, name in enumerate(workbook.sheet_names, 1):
            rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
            lines = ["\t".join(map(_cell, row)).rstrip("\t") for row in rows]
            yield "\n".join([f"--- sheet {number}: {_on_one_line(name)} ---", *lines])
    except calamine.CalamineError as error:
        raise ValueError(str(error)) from error


_READERS: Mapping[str, Any] = {"docx": _document, "pptx": _slides, "python_calamine": _sheets}


def _cell(value: object) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return _on_one_line(str(value))


def _on_one_line(text: str) -> str:
    return re.sub(r"[\r\n\t]+", " ", text)


def _parse(data: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(data)  # noqa: S314 - entities were refused, and the size is bounded


def _plain(root: ElementTree.Element) -> str:
    """Return text in the order of the document; a cell is one line."""
    pieces: list[str] = []
    cells = 0
    waiting: list[tuple[ElementTree.Element, bool]] = [(root, True)]
    while waiting:
        element, opening = waiting.pop()
        name = _local(element)
        if not opening:
            cells -= name in _CELLS
            if name in _ENDS_LINE:
                pieces.append(" " if cells else "\n")
            elif name in _ENDS_CELL:
                pieces.append("\t" * _columns(element))
            pieces.append(_own_text(element.tail))
            continue
        if name in _NO_TEXT:
            pieces.append(_own_text(element.tail))
            continue
        cells += name in _CELLS
        pieces.append(_own_text(element.text))
        waiting.append((element, False))
        waiting.extend((child, True) for child in reversed(element))
    text = re.sub(r" +\t", "\t", "".join(pieces))
    text = re.sub(r"[ \t]*\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n ")


def _columns(cell: ElementTree.Element) -> int:
    """Return how many columns a cell of a Word table takes."""
    spans = (one for properties in cell if _local(properties) == "tcPr" for one in properties)
    wide = (span for span in spans if _local(span) == "gridSpan")
    values = [value for one in wide for name, value in one.items() if name.endswith("}val")]
    return int(values[0]) if values and values[0].isdecimal() and len(values[0]) < 4 else 1


def _own_text(text: str | None) -> str:
    return text if text and text.strip("\n") else ""


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
