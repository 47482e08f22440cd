"""`read_file` on pictures, PDFs and Office documents: whole ones, broken ones, hostile ones."""

from __future__ import annotations

import base64
import io
import os
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pypdf
import pytest
from PIL import Image as pillow

from buddy.agent.messages import Image
from buddy.agent.tool import ToolError
from buddy.tools.files.read import read_file
from buddy.tools.files.read_documents import pdf_pages
from buddy.tools.files.read_pictures import picture, shrink
from buddy.workspace.files.picture_header import picture_size
from tests.support.tool_project import ToolProject


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


def drawn(mode: str, size: tuple[int, int], kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    pillow.new(mode, size).save(out, kind, **options)
    return out.getvalue()


def noise(size: tuple[int, int]) -> bytes:
    out = io.BytesIO()
    pillow.frombytes("RGB", size, os.urandom(size[0] * size[1] * 3)).save(out, "PNG")
    return out.getvalue()


async def sent(project: ToolProject, data: bytes) -> tuple[str, str, tuple[int, int]]:
    """Return the text, the media type and the size of the picture the model gets."""
    project.put("p", data)
    result = await project.call(read_file, path="p")
    image = result.images[0]
    with pillow.open(io.BytesIO(base64.b64decode(image.data))) as opened:
        opened.load()
        return result.text, image.media_type, opened.size


@pytest.mark.parametrize(
    ("kind", "media"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp")],
)
async def test_small_pictures_are_sent_byte_for_byte(project: ToolProject, kind: str, media: str) -> None:
    data = drawn("RGB", (40, 30), kind)
    project.put("p", data)
    result = await project.call(read_file, path="p")
    assert [(one.media_type, base64.b64decode(one.data)) for one in result.images] == [(media, data)]
    assert result.text == f"p: {media}, {len(data):,} bytes"


async def test_large_pictures_are_made_smaller_whatever_their_kind(project: ToolProject) -> None:
    assert (await sent(project, drawn("RGB", (4000, 1000), "JPEG")))[1:] == ("image/jpeg", (1568, 392))
    assert (await sent(project, drawn("RGBA", (2000, 4000), "PNG")))[1:] == ("image/png", (784, 1568))
    assert (await sent(project, drawn("CMYK", (3000, 100), "TIFF")))[1:] == ("image/jpeg", (1568, 52))
    told, media, size = await sent(project, drawn("P", (50, 60), "BMP"))
    assert (media, size) == ("image/jpeg", (50, 60))
    assert told.endswith("(made smaller: 50 × 60)")


async def test_a_photograph_that_would_be_too_many_bytes_as_png_goes_as_jpeg(project: ToolProject) -> None:
    _, media, size = await sent(project, noise((1500, 1500)))
    assert (media, size) == ("image/jpeg", (1500, 1500))


async def test_a_picture_cut_short_is_refused_here_not_by_the_provider(project: ToolProject) -> None:
    for data in (
        noise((200, 200))[:5000],
        drawn("RGB", (300, 300), "JPEG")[:400],
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
    ):
        project.put("p.png", data)
        answer = await project.ask(read_file, path="p.png")
        assert "cannot be read" in answer
        assert "<_io.BytesIO" not in answer


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that claims to be huge."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(9000, 9000), (12000, 12000), (60000, 60000), (2**31 - 1, 1)])
async def test_a_decompression_bomb_is_refused_before_it_is_unpacked(
    project: ToolProject, size: tuple[int, int]
) -> None:
    project.put("p.png", bomb(*size))
    tracemalloc.start()
    answer = await project.ask(read_file, path="p.png")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.startswith("refused: p.png is a picture of")
    assert peak < 20_000_000


@pytest.mark.parametrize("before", [0, 2])
async def test_an_icon_with_a_bomb_in_it_is_refused_before_it_is_unpacked(
    project: ToolProject, before: int
) -> None:
    whole, inside = io.BytesIO(), bomb(12_000, 12_000)
    pillow.new("RGBA", (16, 16)).save(whole, "PNG")
    pictures = [whole.getvalue()] * before + [inside]
    head, body, at = struct.pack("<HHH", 0, 1, len(pictures)), b"", 6 + 16 * len(pictures)
    for data in pictures:
        head += struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 32, len(data), at + len(body))
        body += data
    project.put("p.ico", head + body)
    answer = await project.ask(read_file, path="p.ico")
    assert answer.startswith("refused: p.ico is a picture of 144,000,000 pixels")


async def test_an_empty_file_is_empty_whatever_it_is_called(project: ToolProject) -> None:
    for name in ("a.png", "a.pdf", "a.docx"):
        project.put(name, b"")
        assert "empty" in await project.ask(read_file, path=name)


def pdf(*texts: str) -> bytes:
    """A PDF with a text on each page."""
    pieces = [b"%PDF-1.4\n"]
    objects: list[bytes] = []
    pages = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(texts)))
    objects.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    objects.append(f"<< /Type /Pages /Kids [{pages}] /Count {len(texts)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for at, text in enumerate(texts):
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode() if text else b""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * at} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream")
    offsets: list[int] = []
    for number, body in enumerate(objects, 1):
        offsets.append(sum(map(len, pieces)))
        pieces.append(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
    start = sum(map(len, pieces))
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    pieces.append(
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    )
    return b"".join(pieces)


async def test_a_pdf_is_read_by_pages(project: ToolProject) -> None:
    project.put("a.pdf", pdf("First page", "", "Third page"))
    assert await project.ask(read_file, path="a.pdf") == (
        "--- page 1 ---\nFirst page\n"
        "--- page 2 ---\n(no text was read on this page: it may be a picture, or too large to unpack)\n"
        "--- page 3 ---\nThird page\n[a.pdf: pages 1–3 of 3]"
    )
    assert (
        await project.ask(read_file, path="a.pdf", offset=-1)
        == "--- page 3 ---\nThird page\n[a.pdf: pages 3–3 of 3]"
    )
    assert "has 3 pages; offset 4 is past its end" in await project.ask(read_file, path="a.pdf", offset=4)


async def test_of_a_thousand_pages_only_those_that_fit_are_read(project: ToolProject) -> None:
    project.put("a.pdf", pdf(*(f"Page {number} " + "x" * 900 for number in range(1, 1001))))
    answer = await project.ask(read_file, path="a.pdf")
    assert answer.endswith("[a.pdf: pages 1–55 of 1000; offset=56 for more]")
    assert len(answer) < 55_000
    assert (await project.ask(read_file, path="a.pdf", offset=1000)).startswith(
        "--- page 1000 ---\nPage 1000 xxx"
    )


async def test_a_page_too_long_for_one_answer_says_that_it_was_cut(project: ToolProject) -> None:
    project.put("a.pdf", pdf("x" * 60_000, "Second"))
    answer = await project.ask(read_file, path="a.pdf")
    assert answer.endswith(
        "xxx… (cut: the page has 60,000 characters)\n[a.pdf: pages 1–1 of 2; offset=2 for more]"
    )


def test_pages_that_take_too_long_are_left_for_the_next_call() -> None:
    ticks = iter(range(0, 1000, 6))
    found = pdf_pages(pdf(*map(str, range(10))), "a.pdf", 1, clock=lambda: float(next(ticks)))
    assert (found.texts, found.stop, found.total) == (("0", "1"), 2, 10)


async def test_a_pdf_with_a_password_says_so_and_one_without_opens(project: ToolProject) -> None:
    for password, said in (("secret", "needs a password"), ("", "Inside")):
        writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("Inside")))
        writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
        out = io.BytesIO()
        writer.write(out)
        project.put("a.pdf", out.getvalue())
        assert said in await project.ask(read_file, path="a.pdf")


async def test_broken_pdfs_never_crash_and_say_nothing_on_the_terminal(
    project: ToolProject, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = pdf("One", "Two")
    broken = [whole[:length] for length in range(8, len(whole), 61)]
    broken += [whole[:at] + b"\xff" * 7 + whole[at + 7 :] for at in range(9, len(whole), 53)]
    broken.append(whole.replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [2 0 R 2 0 R]"))
    for data in broken:
        project.put("a.pdf", data)
        answer = await project.ask(read_file, path="a.pdf")
        assert answer.startswith(("refused: a.pdf", "--- page 1 ---"))
    assert capfd.readouterr() == ("", "")


async def test_a_photo_that_was_taken_upright_stays_so_when_it_is_made_smaller(project: ToolProject) -> None:
    taken = pillow.new("RGB", (3000, 1000))
    marked = taken.getexif()
    marked[0x0112] = 6  # the camera was turned
    out = io.BytesIO()
    taken.save(out, "JPEG", exif=marked)
    _, media, size = await sent(project, out.getvalue())
    assert (media, size) == ("image/jpeg", (523, 1568))


def test_no_other_program_reads_a_picture() -> None:
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(%pipe%touch ran) (w) file\n"
    with pytest.raises(ToolError, match="of a kind that Pillow does not know"):
        picture(script, "a.png")


def test_a_picture_that_came_encoded_is_made_smaller_only_where_it_is_large() -> None:
    small = Image("image/png", base64.b64encode(drawn("RGB", (40, 30), "PNG")).decode())
    assert shrink(small, "x") == small
    assert shrink(Image("image/jpeg", small.data), "x") == small, "the type is that of the bytes"
    large = Image("image/png", base64.b64encode(drawn("RGB", (4000, 2000), "PNG")).decode())
    found = shrink(large, "x")
    assert picture_size(base64.b64decode(found.data)) == (1568, 784)
    bomb = drawn("RGB", (4, 4), "PNG")
    bomb = bomb[:16] + struct.pack(">II", 65_536, 65_536) + bomb[24:]
    with pytest.raises(ToolError):
        shrink(Image("image/png", base64.b64encode(bomb).decode()), "x")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (base64.b64encode(b"%PDF-1.7 ...").decode(), "holds no PNG, JPEG, GIF or WebP but a PDF (12 bytes)"),
        ("aGVsbG8=", "but something else (5 bytes); put a document into the workspace"),
        (base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "but something else (8 bytes)"),
        ("", "but something else (0 bytes)"),
        ("@@", "x is not base64"),
    ],
)
def test_what_came_encoded_and_is_no_picture_is_refused(data: str, expected: str) -> None:
    with pytest.raises(ToolError) as refused:
        shrink(Image("image/png", data), "x")
    assert expected in str(refused.value)
