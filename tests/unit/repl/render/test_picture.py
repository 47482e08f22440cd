"""Pictures as rows: half blocks, kitty's graphics, sixels; and what is not shown."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zlib
from pathlib import Path

import pytest
from PIL import Image as pillow

from buddy.agent.display import PictureFile
from buddy.repl.render.console import Canvas
from buddy.repl.render.picture import MAX_ROWS, picture_rows
from buddy.repl.render.style import UNICODE, Look, PictureMode, PictureWay
from buddy.repl.render.text import ansi_cells, without_drawing
from tests.fake_llm.pictures import png

CANVAS = Canvas(Look("dark", UNICODE, ansi=True, depth="true"))


def put(folder: Path, data: bytes, name: str = "a.png") -> PictureFile:
    (folder / name).write_bytes(data)
    return PictureFile(str(folder / name), hashlib.sha256(data).hexdigest())


def shown(
    file: PictureFile,
    mode: PictureMode = "blocks",
    columns: int = 60,
    cell: tuple[int, int] | None = None,
) -> list[str]:
    return CANVAS.ansi(picture_rows(file, columns, PictureWay(mode, cell), "true")).split("\n")[:-1]


def test_two_pixels_stand_in_a_cell(tmp_path: Path) -> None:
    out = io.BytesIO()
    pillow.frombytes("RGB", (4, 4), bytes([255, 0, 0] * 8 + [0, 0, 255] * 8)).save(out, "PNG")
    lines = shown(put(tmp_path, out.getvalue()))
    assert [line.count("▀") for line in lines] == [4, 4]
    assert "38;2;255;0;0;48;2;255;0;0" in lines[0]
    assert "38;2;0;0;255;48;2;0;0;255" in lines[1]


def test_what_can_be_seen_through_has_no_colour(tmp_path: Path) -> None:
    clear = png(6, 4, alpha=True, colour=b"\0\0\0\0")
    assert [line.strip() for line in shown(put(tmp_path, clear))] == ["", ""]


@pytest.mark.parametrize("mode", ["blocks", "kitty", "sixel"])
def test_no_picture_is_wider_or_higher_than_its_room(tmp_path: Path, mode: PictureMode) -> None:
    for width, height in ((3000, 10), (10, 3000), (500, 500), (1, 1)):
        lines = shown(put(tmp_path, png(width, height), f"{mode}{width}.png"), mode, columns=30)
        assert 0 < len(lines) <= MAX_ROWS
        assert all(ansi_cells(line) <= 30 for line in lines)


def test_kitty_gets_a_picture_of_our_own_making(tmp_path: Path) -> None:
    comment = b"\x1b]0;owned\x07\x1b_Gi=1;x\x1b\\"
    out = io.BytesIO()
    info = __import__("PIL.PngImagePlugin", fromlist=["PngInfo"]).PngInfo()
    info.add_text("Comment", comment.decode("latin-1"))
    pillow.new("RGB", (200, 100), "red").save(out, "PNG", pnginfo=info)
    lines = shown(put(tmp_path, out.getvalue()), "kitty")
    assert lines[:-1] == [""] * (len(lines) - 1)
    taken_away = re.match(r"\x1b7(\x1b_Ga=d,d=I,i=(\d+),q=2\x1b\\)", lines[-1])
    assert taken_away is not None
    placed = f"\x1b[{len(lines) - 1}A\x1b_Ga=T,f=100,i={taken_away[2]},q=2,C=1,c=60,r={len(lines)},m="
    assert lines[-1][taken_away.end() :].startswith(placed)
    assert without_drawing(lines[-1]) == f"\x1b7{taken_away[1]}\x1b8"
    assert ansi_cells(without_drawing(lines[-1])) == 0
    assert lines[-1].endswith("\x1b\\\x1b8")
    data = base64.b64decode("".join(re.findall(r";([A-Za-z0-9+/=]*)\x1b\\", lines[-1])))
    with pillow.open(io.BytesIO(data)) as sent:
        assert (sent.size, sent.info) == ((600, len(lines) * 20), {})


def test_sixels_draw_each_colour_of_a_band(tmp_path: Path) -> None:
    lines = shown(put(tmp_path, png(4, 2)), "sixel")
    assert lines[:-1] == [""]
    assert re.fullmatch(
        r'\x1b7\x1b\[1A\x1bP0;1q"1;1;32;12#(\d+);2;18;37;75#\1!32~-#\1!32~\x1b\\\x1b8', lines[1]
    )
    assert without_drawing(lines[1]) == "\x1b7\x1b8"


@pytest.mark.parametrize("cell", [(5, 9), (8, 17), (15, 29)])
def test_sixels_fill_the_cells_of_the_terminal_and_end_above_the_last_row(
    tmp_path: Path, cell: tuple[int, int]
) -> None:
    lines = shown(put(tmp_path, png(320, 200)), "sixel", cell=cell)
    size = re.search(r'q"1;1;(\d+);(\d+)', lines[-1])
    assert size is not None
    width, height = int(size[1]), int(size[2])
    bands = lines[-1].rpartition('"')[2].count("-") + 1
    assert bands * 6 == height
    room = (len(lines) - 1) * cell[1]
    assert room - 6 < height <= room
    assert len(lines) <= MAX_ROWS
    assert width % cell[0] == 0
    assert width / height == pytest.approx(1.6, rel=0.1)


def test_a_picture_that_is_drawn_again_takes_away_the_earlier_one(tmp_path: Path) -> None:
    file = put(tmp_path, png(320, 200))
    wide, narrow = shown(file, "kitty", 60)[-1], shown(file, "kitty", 30)[-1]
    other = shown(put(tmp_path, png(320, 201), "b.png"), "kitty")[-1]
    numbers = [set(re.findall(r"i=(\d+)", line)) for line in (wide, narrow, other)]
    assert numbers[0] == numbers[1] != numbers[2]
    assert [len(found) for found in numbers] == [1, 1, 1]


def test_a_file_that_is_gone_or_another_one_shows_nothing(tmp_path: Path) -> None:
    file = put(tmp_path, png(7, 7), "b.png")
    (tmp_path / "b.png").write_bytes(png(7, 8))
    assert shown(file) == []
    (tmp_path / "b.png").unlink()
    assert shown(PictureFile(file.real, file.digest + "0")) == []
    (tmp_path / "b.png").mkdir()
    assert shown(PictureFile(file.real, file.digest + "1")) == []


@pytest.mark.parametrize(
    "data",
    [
        png(50, 50)[:60],
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a" + b"\xff" * 30,
        b"<svg onload='x'/>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n(%pipe%id) (w) file",
        png(2)[:16] + b"\0\1\0\0" * 2 + png(2)[24:],
        zlib.compress(b"x"),
    ],
)
def test_broken_and_hostile_pictures_show_nothing(tmp_path: Path, data: bytes) -> None:
    assert shown(put(tmp_path, data)) == []


def test_off_shows_nothing(tmp_path: Path) -> None:
    assert shown(put(tmp_path, png()), "off") == []
