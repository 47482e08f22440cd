"""The kept output of a command, for every way it can arrive."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from buddy.workspace.processes.output import (
    MAX_PIECE_BYTES,
    OutputBounds,
    OutputLog,
    ProgressFeed,
    from_character,
    whole_characters,
)

SMALL = OutputBounds(head_bytes=10, tail_bytes=10, cap_bytes=60)


def log(folder: Path, *pieces: bytes) -> OutputLog:
    made = OutputLog(str(folder / "spill" / "1.out"), SMALL)
    for piece in pieces:
        made.add(piece)
    made.close()
    return made


def test_short_output_is_whole_and_leaves_no_file(tmp_path: Path) -> None:
    made = log(tmp_path, b"0123456789", b"abcdefghij")
    assert (made.text(), made.spilled) == ("0123456789abcdefghij", False)
    assert not (tmp_path / "spill").exists()


def test_long_output_shows_both_ends_and_says_where_the_whole_is(tmp_path: Path) -> None:
    made = log(tmp_path, b"0123456789", b"middle that is long", b"abcdefghij")
    path = tmp_path / "spill" / "1.out"
    assert made.text() == f"0123456789\n[… 19 bytes left out; the whole is in {path} …]\nabcdefghij"
    assert path.read_bytes() == b"0123456789middle that is longabcdefghij"
    made.close()


def test_the_file_stops_at_the_cap_and_the_tail_goes_on(tmp_path: Path) -> None:
    made = log(tmp_path, b"x" * 55, b"y" * 20, b"the end...")
    assert made.over_cap
    assert (tmp_path / "spill" / "1.out").read_bytes() == b"x" * 55 + b"y" * 5
    assert made.text().endswith("the end...")
    assert "the whole (the first 60 bytes) is in" in made.text()
    made.close()


def test_a_folder_nobody_can_write_costs_the_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("in the way")
    made = log(tmp_path, b"0123456789", b"m" * 30, b"abcdefghij")
    assert made.text() == (
        "0123456789\n[… 30 bytes left out; the whole output could not be kept: File exists …]\nabcdefghij"
    )


def test_a_full_disk_costs_the_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    made = OutputLog("/dev/full", SMALL)
    made.add(b"0" * 40)
    made.close()
    assert "could not be kept" in made.text()


def test_a_link_where_the_file_should_be_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "spill" / "1.out").symlink_to(tmp_path / "precious")
    made = log(tmp_path, b"x" * 50)
    assert "could not be kept" in made.text()
    assert (tmp_path / "precious").read_text() == "keep"


async def test_reading_from_an_offset_reaches_memory_file_and_end(tmp_path: Path) -> None:
    whole = bytes(range(65, 65 + 50))
    made = log(tmp_path, whole[:25], whole[25:])
    assert await made.read(0, 5) == (0, whole[:5])
    assert await made.read(15, 10) == (15, whole[15:25])
    assert await made.read(45, 100) == (45, whole[45:])
    assert await made.read(-3, 100) == (47, whole[47:])
    assert await made.read(999, 5) == (50, b"")
    made.close()
    (tmp_path / "spill" / "1.out").unlink()
    assert (await made.read(15, 10))[1].startswith(b"[the kept output cannot be read")


async def test_reading_what_was_not_kept_starts_later_and_says_so(tmp_path: Path) -> None:
    made = log(tmp_path, b"x" * 60, b"y" * 60)
    start, data = await made.read(70, 100)
    assert (start, data) == (120 - len(data), data)
    assert start > 70
    made.close()


@given(st.text(min_size=0, max_size=80), st.lists(st.integers(1, 7), min_size=1, max_size=40))
def test_text_that_fits_is_the_same_for_every_fragmentation(text: str, sizes: list[int]) -> None:
    data = text.encode("utf-8", "replace")
    made = OutputLog("/dev/null/nowhere/x", OutputBounds(head_bytes=30, tail_bytes=400))
    position = 0
    for number in range(len(data)):
        size = sizes[number % len(sizes)]
        made.add(data[position : position + size])
        position += size
    assert made.text() == data.decode()


@given(st.text(max_size=20), st.integers(0, 60))
def test_no_cut_leaves_half_a_character(text: str, cut: int) -> None:
    data = text.encode("utf-8", "replace")
    whole_characters(data[:cut]).decode()
    from_character(data[cut:]).decode()
    assert text.startswith(whole_characters(data[:cut]).decode())
    assert data.decode().endswith(from_character(data[cut:]).decode())


async def test_progress_is_coalesced_bounded_and_complete_when_small() -> None:
    shown: list[str] = []
    feed = ProgressFeed(shown.append)
    for byte in "grüße €".encode():
        feed.feed(bytes([byte]))
    assert shown == []
    feed.close()
    assert shown == ["grüße €"]


async def test_progress_of_a_flood_says_what_it_leaves_out() -> None:
    shown: list[str] = []
    feed = ProgressFeed(shown.append)
    for _ in range(100):
        feed.feed(b"x" * 1000)
    await asyncio.sleep(0)
    feed.close()
    assert len(shown) == 1
    assert shown[0] == f"\n[… {100_000 - MAX_PIECE_BYTES:,} bytes not shown …]\n" + "x" * MAX_PIECE_BYTES


async def test_progress_ends_with_a_broken_character_shown_as_one() -> None:
    shown: list[str] = []
    feed = ProgressFeed(shown.append)
    feed.feed(b"a\xe2\x82")
    feed.close()
    assert "".join(shown) == "a\ufffd"
