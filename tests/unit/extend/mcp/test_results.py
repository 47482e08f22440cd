"""Results of servers: pictures fit for every provider, everything else as text or as a file."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from PIL import Image as pillow

from buddy.agent.messages import Image
from buddy.agent.tool import ToolResult
from buddy.extend.mcp.records import CallOutcome, DataBlock, TextBlock
from buddy.extend.mcp.results import MAX_PICTURES, ResultMaker
from buddy.workspace.files.picture_header import media_type_of, picture_size
from tests.fake_llm.pictures import png

PICTURE = png(8, 5)


async def result_of(folder: Path, *blocks: TextBlock | DataBlock) -> ToolResult:
    numbers = iter(range(100))
    maker = ResultMaker(str(folder), lambda text: text, lambda: str(next(numbers)))
    return await maker.to_result("server", CallOutcome(blocks, is_error=False))


def block(data: bytes, media_type: str = "image/png") -> DataBlock:
    return DataBlock(media_type, base64.b64encode(data).decode())


async def test_a_small_picture_goes_byte_for_byte(tmp_path: Path) -> None:
    result = await result_of(tmp_path, TextBlock("here:"), block(PICTURE))
    assert result.images == (Image("image/png", base64.b64encode(PICTURE).decode()),)
    assert result.text == f"here:\n[picture 1: image/png, {len(PICTURE)} bytes]"


async def test_a_type_that_is_not_true_is_put_right(tmp_path: Path) -> None:
    result = await result_of(tmp_path, block(PICTURE, "image/jpeg"))
    assert [image.media_type for image in result.images] == ["image/png"]


async def test_a_picture_that_providers_refuse_for_its_size_is_made_smaller(tmp_path: Path) -> None:
    out = io.BytesIO()
    pillow.new("RGB", (9_000, 20)).save(out, "PNG")
    (image,) = (await result_of(tmp_path, block(out.getvalue()))).images
    data = base64.b64decode(image.data)
    width, _ = picture_size(data) or (0, 0)
    assert (image.media_type, 0 < width <= 1_568) == (media_type_of(data), True)


@pytest.mark.parametrize("data", [b"no picture at all", PICTURE[:40], b""])
async def test_bytes_that_are_no_whole_picture_are_kept_as_a_file(tmp_path: Path, data: bytes) -> None:
    result = await result_of(tmp_path, block(data))
    (kept,) = tmp_path.iterdir()
    assert (result.images, kept.read_bytes(), str(kept) in result.text) == ((), data, True)


async def test_more_pictures_than_are_sent_are_kept_as_files(tmp_path: Path) -> None:
    result = await result_of(tmp_path, *[block(PICTURE)] * (MAX_PICTURES + 2))
    assert (len(result.images), len(list(tmp_path.iterdir()))) == (MAX_PICTURES, 2)


async def test_data_that_is_not_base64_is_left_out(tmp_path: Path) -> None:
    result = await result_of(tmp_path, DataBlock("image/png", "@@@", "x"))
    assert (result.images, result.text) == ((), "[image/png x: not valid base64, left out]")
