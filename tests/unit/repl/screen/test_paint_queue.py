"""Printing before the painter has been imported."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from buddy.repl.screen.paint_queue import FirstPrint
from buddy.repl.view.blocks import Block, NoteBlock


class SlowPainter:
    """A painter that takes as long as the test wants; it knows the thread it was made in."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.may_be_warm = threading.Event()
        self.is_warm = False
        self.threads: list[threading.Thread] = []
        self._failure = failure

    def warm(self) -> None:
        self.threads.append(threading.current_thread())
        assert self.may_be_warm.wait(60)
        if self._failure is not None:
            raise self._failure
        self.is_warm = True


class Shown:
    """A screen that keeps what it is given."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.times = 0
        self.changed = asyncio.Event()

    def __call__(self, blocks: Sequence[Block]) -> None:
        self.blocks.extend(blocks)
        self.times += 1
        if self.blocks:
            self.changed.set()


def notes(*texts: str) -> list[Block]:
    return [NoteBlock("info", text) for text in texts]


async def test_the_first_blocks_wait_for_a_painter_that_is_made_in_another_thread() -> None:
    painter, shown = SlowPainter(), Shown()
    first = FirstPrint(painter, shown)
    first.print(notes("one"))
    first.print(notes("two", "three"))
    assert shown.blocks == []
    assert shown.times == 2  # what is live is drawn nevertheless
    painter.may_be_warm.set()
    async with asyncio.timeout(60):
        await shown.changed.wait()
    assert shown.blocks == notes("one", "two", "three")
    assert len(painter.threads) == 1
    assert painter.threads[0] is not threading.main_thread()


async def test_afterwards_blocks_are_shown_at_once_behind_what_still_waited() -> None:
    painter, shown = SlowPainter(), Shown()
    first = FirstPrint(painter, shown)
    first.print(notes("one"))
    painter.may_be_warm.set()
    while not painter.is_warm:  # the loop must not run, or it would show them
        threading.Event().wait(0.001)
    first.print(notes("two"))
    first.print([])
    assert shown.blocks == notes("one", "two")


async def test_who_leaves_sees_what_waits() -> None:
    painter, shown = SlowPainter(), Shown()
    first = FirstPrint(painter, shown)
    first.print(notes("goodbye"))
    first.flush()
    first.flush()
    assert shown.blocks == notes("goodbye")
    painter.may_be_warm.set()


async def test_a_painter_that_cannot_be_made_keeps_nothing_back() -> None:
    painter, shown = SlowPainter(ImportError("half installed")), Shown()
    first = FirstPrint(painter, shown)
    first.print(notes("one"))
    painter.may_be_warm.set()
    async with asyncio.timeout(60):
        await shown.changed.wait()
    assert shown.blocks == notes("one")


async def test_REL_052_without_further_threads_the_first_block_makes_the_painter_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    shown = Shown()
    FirstPrint(SlowPainter(), shown).print(notes("one"))
    assert shown.blocks == notes("one")
    monkeypatch.undo()


async def test_what_comes_after_a_painter_could_not_be_made_is_not_kept_back_either() -> None:
    painter, shown = SlowPainter(ImportError("half installed")), Shown()
    first = FirstPrint(painter, shown)
    painter.may_be_warm.set()
    first.warm()  # nothing waits yet
    async with asyncio.timeout(60):
        while shown.blocks == []:
            first.print(notes("one"))
            await asyncio.sleep(0.003)
    first.print(notes("two"))
    assert shown.blocks[-1:] == notes("two")
    assert len(shown.blocks) == shown.blocks.count(NoteBlock("info", "one")) + 1


@pytest.mark.parametrize("times", [1, 3])
async def test_it_is_made_once_however_often_it_is_asked_for(times: int) -> None:
    painter, shown = SlowPainter(), Shown()
    painter.may_be_warm.set()
    first = FirstPrint(painter, shown)
    for _ in range(times):
        first.warm()
    first.print(notes("one"))
    async with asyncio.timeout(60):
        await shown.changed.wait()
    first.warm()
    assert len(painter.threads) == 1
