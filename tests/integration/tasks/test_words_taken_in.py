"""Words said to a running task are in the journal at every moment, whatever is said while earlier ones are
taken in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from buddy.agent.messages import Message, text_of
from buddy.agent.provider import Finished, TextPiece
from buddy.sessions.loading import JOURNAL
from buddy.sessions.loading import NAME as SNAPSHOT
from buddy.sessions.store import SessionStore
from buddy.tasks.board import TaskBoard
from tests.support.board_session import BoardSession, gate
from tests.support.laws import says
from tests.support.session_files import store_in


class SaidMeanwhile:
    """A memory: while it records one text, the person says something more."""

    def __init__(self, writer: Any, text: str, say: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._writer = writer
        self._text = text
        self._say = say

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def record_message(self, task_id: int, message: Message, **more: Any) -> Awaitable[int]:
        """Record it; it counts as recorded once the person has said theirs."""
        saved = self._writer.record_message(task_id, message, **more)
        return self._after(saved) if text_of(message) == self._text else saved

    async def _after(self, saved: Awaitable[int]) -> int:
        await self._say()
        return await saved


async def resumed(store: SessionStore, journal: Path, beginning: bytes) -> list[str]:
    """Return the prompts among "b", "c", "d", in the conversation or still waiting, after a kill at some
    record."""
    journal.write_bytes(beginning)
    (journal.parent / SNAPSHOT).unlink(missing_ok=True)
    again = await store.open("last")
    found = [
        text_of(message)
        for task in again.loaded.tasks
        for message in (*task.record.history, *task.record.steering, *task.record.queued)
    ]
    await again.close()
    return sorted(text for text in found if text in ("b", "c", "d"))


async def told(
    tmp_path: Path, meanwhile: Callable[[TaskBoard], Coroutine[Any, Any, None]], expected: list[str]
) -> list[list[str]]:
    """A turn takes in "b" and "c", and something happens while it records "b". What a kill at each record
    leaves of all words."""
    store = store_in(tmp_path)
    saved_session = await store.create()
    session = BoardSession(tmp_path / "work", saved_session, store)

    async def say() -> None:
        await meanwhile(session.board)

    async with TaskBoard(session.parts(journal=SaidMeanwhile(saved_session.writer, "b", say))) as board:
        session.board = board
        board.open()
        reached, go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")], says("two"), says("three"))
        board.submit(1, "a")
        await reached.wait()
        await board.prompt(1, "b")
        await board.prompt(1, "c")
        go_on.set()
        await board.wait(1)
        assert session.texts(1) == expected
    await saved_session.close()

    journal = Path(saved_session.directory) / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    return [await resumed(store, journal, b"".join(lines[:count])) for count in range(2, len(lines) + 1)]


async def test_no_kill_loses_words_or_says_them_twice(tmp_path: Path) -> None:
    async def say(board: TaskBoard) -> None:
        await board.prompt(1, "d")

    seen = await told(tmp_path, say, ["a", "one", "b", "c", "two", "d", "three"])

    first = seen.index(["b", "c"])
    then = seen.index(["b", "c", "d"])
    assert all(texts == ["b", "c"] for texts in seen[first:then])
    assert all(texts == ["b", "c", "d"] for texts in seen[then:])


async def test_words_a_turn_has_taken_are_in_the_journal_when_it_is_cancelled(tmp_path: Path) -> None:
    async def say_and_cancel(board: TaskBoard) -> None:
        await board.prompt(1, "d")
        assert [text_of(message) for message in board.cancel(1)] == ["d"]  # which the person has again

    seen = await told(tmp_path, say_and_cancel, ["a", "one", "b", "c"])

    first = seen.index(["b", "c"])
    assert all(texts in (["b", "c"], ["b", "c", "d"]) for texts in seen[first:])
    assert seen[-1] == ["b", "c"]
