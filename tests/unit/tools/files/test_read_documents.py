"""`read_file` on Office documents: whole ones, broken ones, hostile ones."""

from __future__ import annotations

import codecs
import datetime
import io
import random
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import docx
import pptx
import pytest
import xlsxwriter

from buddy.agent.tool import ToolError
from buddy.tools.files.read import read_file
from buddy.tools.files.read_documents import office_text
from tests.support.tool_project import ToolProject


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


def packed(parts: Mapping[str, str | bytes]) -> bytes:
    """An archive of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def with_part(data: bytes, name: str, content: str | bytes) -> bytes:
    """The archive with another content of one file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts: dict[str, str | bytes] = {one: archive.read(one) for one in archive.namelist()}
    assert name in parts
    return packed({**parts, name: content})


def document() -> bytes:
    made = docx.Document()
    made.add_heading("Title")
    paragraph = made.add_paragraph("one ")
    paragraph.add_run("line")
    table = made.add_table(2, 3)
    table.cell(0, 0).text, table.cell(0, 2).text = "a\nb", "c"
    table.cell(1, 0).text = "wide"
    table.cell(1, 0).merge(table.cell(1, 1))
    table.cell(1, 2).text = "last"
    made.add_paragraph("end")
    return saved(made)


def saved(made: docx.document.Document | pptx.presentation.Presentation) -> bytes:
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def workbook() -> bytes:
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out)
    sheet = book.add_worksheet("Data")
    day, moment, hour = (
        book.add_format({"num_format": form}) for form in ("yyyy-mm-dd", "dd.mm.yy hh:mm", "hh:mm")
    )
    sheet.write(0, 0, "name")
    sheet.write(0, 2, "when")
    sheet.write_datetime(2, 2, datetime.datetime.fromisoformat("2026-01-04"), day)
    sheet.write_datetime(3, 2, datetime.datetime.fromisoformat("2026-01-04 13:30"), moment)
    sheet.write_datetime(3, 3, datetime.time(9, 5), hour)
    sheet.write_row(4, 0, [3.0, 3.5, True, "two\nlines\tand a tab", 46026])
    sheet.write_formula(5, 1, "=1+1", None, 2)
    book.add_worksheet("Next").write(0, 1, "x")
    book.close()
    return out.getvalue()


def slides() -> bytes:
    made = pptx.Presentation()
    for number in (1, 2, 3):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = f"Body {number}"
    slide.notes_slide.notes_text_frame.text = "Remember"
    order = made.slides._sldIdLst
    order.insert(0, order[2])
    return saved(made)


OFFICE = "urn:oasis:names:tc:opendocument:xmlns"
CELL = '<table:table-cell office:value-type="string"><text:p>a</text:p></table:table-cell>'


def calc(rows: str) -> bytes:
    spaces = " ".join(f'xmlns:{name}="{OFFICE}:{name}:1.0"' for name in ("office", "table", "text"))
    content = (
        f"<office:document-content {spaces}><office:body><office:spreadsheet>"
        f'<table:table table:name="One">{rows}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>"
    )
    manifest = f'<manifest:manifest xmlns:manifest="{OFFICE}:manifest:1.0"/>'
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return packed({"mimetype": kind, "META-INF/manifest.xml": manifest, "content.xml": content})


async def test_a_document_is_read_as_paragraphs_and_rows_of_tables(project: ToolProject) -> None:
    project.put("a.docx", document())
    assert await project.ask(read_file, path="a.docx") == (
        "     1\tTitle\n     2\tone line\n     3\ta b\t\tc\n     4\twide\t\tlast\n     5\tend\n"
        "[a.docx: lines 1–5 of 5]\nThis is its text; the file itself is an Office document."
    )


def test_RU_D3_dates_are_dates_and_gaps_keep_their_columns() -> None:
    assert office_text(workbook(), "a.xlsx").split("\n") == [
        "--- sheet 1: Data ---",
        "name\t\twhen",
        "",
        "\t\t2026-01-04",
        "\t\t2026-01-04 13:30:00\t09:05:00",
        "3\t3.5\tTRUE\ttwo lines and a tab\t46026",
        "\t2",
        "--- sheet 2: Next ---",
        "\tx",
    ]


def test_RU_D3_slides_come_in_the_order_of_the_presentation() -> None:
    assert office_text(slides(), "a.pptx").split("\n") == [
        *("--- slide 1 ---", "Slide 3", "Body 3", "notes: Remember"),
        *("--- slide 2 ---", "Slide 1", "Body 1"),
        *("--- slide 3 ---", "Slide 2", "Body 2"),
    ]


def test_RU_D3_an_open_spreadsheet_has_dates_and_columns() -> None:
    date = CELL.replace('="string"', '="date" office:date-value="2026-01-04"')
    gap = '<table:table-cell table:number-columns-repeated="2"/>'
    rest = f'<table:table-row table:number-rows-repeated="1000000">{gap}</table:table-row>'
    rows = f"<table:table-row>{CELL}{gap}{date}</table:table-row>{rest}"
    assert office_text(calc(rows), "a.ods") == "--- sheet 1: One ---\na\t\t\t2026-01-04"


def test_an_open_document_is_read() -> None:
    kind = "application/vnd.oasis.opendocument.text"
    data = packed({"mimetype": kind, "content.xml": "<d><h>Head</h><p>Text</p></d>"})
    assert office_text(data, "a.odt") == "Head\nText"


def test_deleted_text_and_field_codes_are_left_out() -> None:
    made = docx.Document()
    made.add_paragraph("kept")
    data = saved(made)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        body = archive.read("word/document.xml").decode()
    gone = "<w:p><w:r><w:delText>gone</w:delText></w:r><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
    control = "<w:sdt><w:sdtContent><w:p><w:r><w:t>in a control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    data = with_part(data, "word/document.xml", body.replace("<w:sectPr", f"{gone}{control}<w:sectPr"))
    assert office_text(data, "a.docx").split() == ["kept", "in", "a", "control"]


FAR = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
    "</sheetData></worksheet>"
)
HOSTILE = {
    "bomb.docx": (
        lambda: with_part(document(), "word/document.xml", "<d>" + " " * 30_000_000),
        "larger than",
    ),
    "bombs.docx": (
        lambda: packed({f"word/{n}.xml": "<d>" + " " * 19_000_000 + "</d>" for n in range(5)}),
        "larger than 60,000,000 bytes together",
    ),
    "laughs.docx": (
        lambda: with_part(
            document(), "word/styles.xml", '<!DOCTYPE d [<!ENTITY a "aaa"><!ENTITY b "&a;&a;">]><d>&b;</d>'
        ),
        "declares entities",
    ),
    "cut.docx": (lambda: document()[:60], "cannot be read"),
    "odd.docx": (lambda: with_part(document(), "word/document.xml", "<d><p></d>"), "cannot be read"),
    "none.docx": (lambda: packed({"other.xml": "<d/>"}), "not read"),
    "deep.docx": (
        lambda: with_part(document(), "word/document.xml", "<p>" * 5000 + "</p>" * 5000),
        "cannot be read",
    ),
    "far.xlsx": (lambda: with_part(workbook(), "xl/worksheets/sheet1.xml", FAR), "17,179,869,184 cells"),
    "rows.ods": (
        lambda: calc(f'<table:table-row table:number-rows-repeated="1000000">{CELL * 3}</table:table-row>'),
        "3,000,000 cells",
    ),
    "columns.ods": (
        lambda: calc(
            '<table:table-row table:number-rows-repeated="9000000"><table:table-cell/></table:table-row>'
            f'<table:table-row><table:table-cell table:number-columns-repeated="9000"/>{CELL}'
            "</table:table-row>"
        ),
        "81,009,009,001 cells",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused_within_bounds(name: str) -> None:
    make, said = HOSTILE[name]
    with pytest.raises(ToolError, match=said):
        office_text(make(), name)


@pytest.mark.parametrize("encoding", ["utf-16", "cp037"])
def test_entities_are_found_in_every_encoding_the_parser_knows(encoding: str) -> None:
    start = f'<?xml version="1.0" encoding="{encoding}"?>'
    told = start.encode("ascii" if encoding == "cp037" else encoding)
    rest = '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa">]><d>&a;</d>'.encode(encoding)
    with pytest.raises(ToolError, match="declares entities" if encoding == "utf-16" else "cannot be read"):
        office_text(
            with_part(document(), "word/document.xml", told + rest.removeprefix(codecs.BOM_UTF16)), "a.docx"
        )


@pytest.mark.parametrize(
    ("make", "module", "package"),
    [
        (document, "docx", "python-docx"),
        (slides, "pptx", "python-pptx"),
        (workbook, "python_calamine", "python-calamine"),
        (lambda: calc(f"<table:table-row>{CELL}</table:table-row>"), "python_calamine", "python-calamine"),
    ],
)
def test_RU_D3_a_missing_package_is_named_with_the_way_to_get_it(
    make: object, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ToolError) as refused:
        office_text(make(), "a")  # type: ignore[operator]
    assert str(refused.value).endswith(
        f"Reading it needs the package {package}: pip install 'buddy-repl[documents]'"
    )


@pytest.mark.parametrize("make", [document, slides, workbook])
def test_broken_documents_are_refused_and_never_crash(make: object) -> None:
    chance = random.Random(5)
    whole = make()  # type: ignore[operator]
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        names = [name for name in archive.namelist() if name.endswith((".xml", ".rels"))]
        parts = {name: archive.read(name) for name in names}
    for _ in range(120):
        name = chance.choice(names)
        data = bytearray(parts[name])
        at = chance.randrange(len(data))
        data[at : at + chance.choice([1, 8, 200])] = chance.choice([b"", b"0", b"xx", b"-1", b'"', b"<a/>"])
        try:
            office_text(with_part(whole, name, bytes(data)), "a")
        except ToolError:
            continue
