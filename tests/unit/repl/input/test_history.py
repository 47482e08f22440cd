"""A long history is read between keys, and nothing of it is lost however reading is broken off."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest
from prompt_toolkit.history import History

from buddy.repl.input.history import AT_ONCE, open_history

MANY = [f"line {number}" for number in range(AT_ONCE * 20)]


def written(path: Path) -> History:
    path.write_text("".join(json.dumps(line) + "\n" for line in MANY))
    return open_history(str(path), lambda said: pytest.fail(said), str)


async def first(history: History, count: int) -> list[str]:
    """The newest entries; reading is broken off after them."""
    found: list[str] = []
    async with aclosing(history.load()) as entries:
        async for entry in entries:
            found.append(entry)
            if len(found) == count:
                break
    return found


async def test_other_work_gets_its_turn_while_it_is_read(tmp_path: Path) -> None:
    history = written(tmp_path / "history")
    turns: list[int] = []
    read: list[str] = []

    async def typing() -> None:
        while len(read) < len(MANY):
            turns.append(len(read))
            await asyncio.sleep(0)

    keys = asyncio.create_task(typing())
    async for entry in history.load():
        read.append(entry)
    await keys
    assert read == MANY[::-1]
    assert turns[0] == AT_ONCE, "an arrow typed ahead finds the newest ones"
    assert max(later - before for before, later in pairwise(turns)) <= AT_ONCE


async def test_what_was_not_read_when_a_prompt_was_sent_is_read_afterwards(tmp_path: Path) -> None:
    history = written(tmp_path / "history")
    assert await first(history, 150) == MANY[:-151:-1]
    history.append_string("sent meanwhile")
    assert await first(history, 5) == ["sent meanwhile", *MANY[:-5:-1]]
    everything = ["sent meanwhile", *MANY[::-1]]
    assert await first(history, len(everything) + 1) == everything
    assert history.get_strings() == everything[::-1]
    assert await first(history, len(everything) + 1) == everything, "and it is not read twice"
