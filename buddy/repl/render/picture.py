"""Pictures on the screen: half blocks in true colours, kitty's graphics, or sixels.

What reaches the terminal is made here from decoded pixels, never the bytes of a file: nothing that somebody
wrote into a picture is an escape sequence. Pillow decodes; where it is missing only the words stand.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style

from buddy.agent.display import PictureFile
from buddy.agent.tool import ToolError
from buddy.repl.render.console import Row
from buddy.repl.render.style import Depth, PictureMode, PictureWay
from buddy.safety.paths import read_regular
from buddy.workspace.files.picture_header import media_type_of

MAX_FILE_BYTES = 50_000_000
MAX_PIXELS = 32_000_000
"""128 MB decoded; more than any service makes."""
MAX_COLUMNS, MAX_ROWS = 60, 20
CELLS: dict[PictureMode, tuple[int, int]] = {"kitty": (10, 20), "sixel": (8, 16)}
"""Pixels of a cell where the terminal does not state them. Kitty scales a picture to its cells; sixels stay
as they are: a cell that is larger leaves a margin, a smaller one scrolls the screen."""
BAND = 6
"""Rows of pixels in a band of sixels."""
SIXEL_COLOURS = 64
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_BROKEN = (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, ArithmeticError)
_OPAQUE = 128
_CHUNK = 4096


def picture_rows(file: PictureFile, columns: int, way: PictureWay, depth: Depth) -> list[Row]:
    """Return the rows of a picture at most `columns` wide; none where it cannot be shown: its file is gone or
    another one, it is broken, or Pillow is not installed. Reads the file; call it in a thread."""
    width = min(columns, MAX_COLUMNS)
    if way.mode == "off" or width < 4:
        return []
    return [list(row) for row in _rows(file.real, file.digest, width, way, depth)]


@lru_cache(8)
def _rows(
    real: str, digest: str, columns: int, way: PictureWay, depth: Depth
) -> tuple[tuple[Segment, ...], ...]:
    try:
        data = read_regular(real, MAX_FILE_BYTES)
    except (OSError, ToolError):
        return ()
    if hashlib.sha256(data).hexdigest() != digest or not media_type_of(data):
        return ()
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError:
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are judged here
            with pillow.open(io.BytesIO(data), formats=_FORMATS) as opened:
                if opened.size[0] * opened.size[1] > MAX_PIXELS:
                    return ()
                number = int(hashlib.sha256(f"{digest} {real}".encode()).hexdigest()[:7], 16) + 1
                return tuple(map(tuple, _painted(opened, number, columns, way, depth)))
    except (pillow.DecompressionBombError, pillow.UnidentifiedImageError, *_BROKEN):
        return ()


def _painted(opened: Any, number: int, columns: int, way: PictureWay, depth: Depth) -> list[Row]:
    width, height = opened.size
    cell = (1, 2) if way.mode == "blocks" else way.cell or CELLS[way.mode]
    ratio = cell[1] / cell[0]
    columns = min(columns, max(1, width))
    rows = max(1, round(columns * height / width / ratio))
    most = MAX_ROWS - 1 if way.mode == "sixel" else MAX_ROWS
    if rows > most:
        rows = most
        columns = min(columns, max(1, round(rows * ratio * width / height)))
    size = (columns * cell[0], rows * cell[1])
    opened.draft("RGB", size)  # a large JPEG is decoded at a fraction of its size
    pixels = opened.convert("RGBA")
    match way.mode:
        case "kitty":
            # Rows that are erased and drawn again leave kitty's pictures standing where they were.
            before = f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\"
            return _placed(_kitty(pixels.resize(size), number, columns, rows), rows, before)
        case "sixel":
            # Whole bands: the rest of one would reach into the row below. That row is the picture's, too: the
            # cursor goes there behind it, and where it is the screen's last one, the terminal scrolls.
            whole = max(BAND, size[1] // BAND * BAND)
            return _placed(_sixel(pixels.resize((size[0], whole))), rows + 1)
        case _:
            return _half_blocks(pixels.resize(size), depth)


def _half_blocks(pixels: Any, depth: Depth) -> list[Row]:
    """Two pixels in a cell: the upper one is the colour of a half block, the lower one its ground."""
    width, height = pixels.size
    data = pixels.tobytes()
    rows: list[Row] = []
    for top in range(0, height, 2):
        row: Row = []
        for left in range(width):
            at = (top * width + left) * 4
            below = at + width * 4
            row.append(_cell(data[at : at + 4], data[below : below + 4], depth))
        rows.append(row)
    return rows


def _cell(upper: bytes, lower: bytes, depth: Depth) -> Segment:
    high = _colour(upper, depth) if upper[3] >= _OPAQUE else None
    low = _colour(lower, depth) if lower[3] >= _OPAQUE else None
    if high is not None:
        return Segment("▀", Style(color=high, bgcolor=low))
    return Segment("▄", Style(color=low)) if low is not None else Segment(" ")


def _colour(pixel: bytes, depth: Depth) -> Color:
    colour = Color.from_rgb(pixel[0], pixel[1], pixel[2])
    return colour if depth == "true" else colour.downgrade(ColorSystem.EIGHT_BIT)


def _placed(sequence: str, rows: int, before: str = "") -> list[Row]:
    """Return blank rows with a drawing over them: drawn from the last one, when all of them are there."""
    up = f"\x1b[{rows - 1}A" if rows > 1 else ""
    return [*([Segment("")] for _ in range(rows - 1)), [Segment(f"\x1b7{before}{up}{sequence}\x1b8")]]


def _kitty(pixels: Any, number: int, columns: int, rows: int) -> str:
    out = io.BytesIO()
    pixels.save(out, "PNG")
    text = base64.b64encode(out.getvalue()).decode("ascii")
    chunks = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    first = f"a=T,f=100,i={number},q=2,C=1,c={columns},r={rows},"
    return "".join(
        f"\x1b_G{first if not at else 'q=2,'}m={int(at < len(chunks) - 1)};{chunk}\x1b\\"
        for at, chunk in enumerate(chunks)
    )


def _sixel(pixels: Any) -> str:
    """Return a picture in bands of six rows, each colour of a band drawn over the others."""
    width, height = pixels.size
    quantized = pixels.convert("RGB").quantize(SIXEL_COLOURS)
    palette: list[int] = quantized.getpalette() or []
    data, alpha = quantized.tobytes(), pixels.getchannel("A").tobytes()
    parts = [f'\x1bP0;1q"1;1;{width};{height}']
    for number in sorted(set(data)):
        red, green, blue = (value * 100 // 255 for value in palette[number * 3 : number * 3 + 3])
        parts.append(f"#{number};2;{red};{green};{blue}")
    bands = ("$".join(_band(data, alpha, width, top)) for top in range(0, height, BAND))
    # No line feed behind the last band: at the screen's end it would scroll.
    return "".join(parts) + "-".join(bands) + "\x1b\\"


def _band(data: bytes, alpha: bytes, width: int, top: int) -> Iterator[str]:
    masks: dict[int, bytearray] = {}
    for line in range(BAND):
        start = (top + line) * width
        for column in range(width):
            if alpha[start + column] >= _OPAQUE:
                number = data[start + column]
                mask = masks.get(number)
                if mask is None:
                    mask = masks[number] = bytearray(width)
                mask[column] |= 1 << line
    for number, mask in masks.items():
        yield f"#{number}" + "".join(_runs(mask))


def _runs(mask: bytearray) -> Iterator[str]:
    start = 0
    for column in range(1, len(mask) + 1):
        if column == len(mask) or mask[column] != mask[start]:
            count, sign = column - start, chr(63 + mask[start])
            yield f"!{count}{sign}" if count > 3 else sign * count
            start = column
