"""Notes for the next prompt (the answer of a background task, the output of the person's own command) are in
the journal as long as they wait: whenever buddy is killed, each is given exactly once."""

from __future__ import annotations

from pathlib import Path

from buddy.agent.messages import text_of
from buddy.sessions.loading import JOURNAL
from buddy.sessions.loading import NAME as SNAPSHOT
from buddy.sessions.records import Note
from buddy.sessions.store import SessionStore
from buddy.tasks.board import TaskBoard
from tests.support.board_session import BoardSession, board_session
from tests.support.laws import says
from tests.support.session_files import said, store_in

RAN = Note("n1", 1, "! make", "3 errors", "I ran `make` (exit code 2):")
TOLD = "[I ran `make` (exit code 2):]\n3 errors\n\nfix them"


async def reopened(store: SessionStore) -> tuple[list[str], list[str]]:
    """Return the waiting notes of a board of the session, and the first conversation."""
    saved_session = await store.open("last")
    session = BoardSession(Path(saved_session.directory), saved_session, store)
    async with TaskBoard(session.parts()) as board:
        if saved_session.loaded.tasks:
            board.restore(saved_session.loaded.tasks, saved_session.loaded.state.focus)
        texts = [text_of(message) for message in board.tasks[1].history] if board.tasks else []
        waiting = [note.title for note in board.notes.waiting]
    await saved_session.close()
    return waiting, texts


async def cut_after_every_record(session: BoardSession) -> list[tuple[list[str], list[str]]]:
    """The session resumed from each beginning of its journal, the shortest with a task in it first: as a kill
    after any record leaves it."""
    await session.board.close()
    await session.journal.close()
    journal = Path(session.journal.directory) / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    found: list[tuple[list[str], list[str]]] = []
    for count in range(2, len(lines) + 1):
        journal.write_bytes(b"".join(lines[:count]))
        (journal.parent / SNAPSHOT).unlink(missing_ok=True)
        found.append(await reopened(session.store))
    return found


async def test_a_note_is_in_the_journal_until_a_prompt_has_carried_it(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("done"))
        session.board.notes.offer(RAN)
        assert [note.title for note in session.board.notes.waiting] == ["! make"]
        await session.turn(1, "fix them")
        assert session.board.notes.waiting == ()
        seen = await cut_after_every_record(session)
    waiting = [at for at, (notes, _texts) in enumerate(seen) if notes]
    told = [at for at, (_notes, texts) in enumerate(seen) if TOLD in texts]
    assert waiting, "it comes back while it waits"
    assert told == list(range(waiting[-1] + 1, len(seen))), "lost or given twice"
    assert waiting == list(range(waiting[0], waiting[-1] + 1))
    assert all(texts.count(TOLD) <= 1 for _notes, texts in seen)


async def test_the_answer_of_a_background_task_waits_from_the_moment_it_counts_as_finished(
    tmp_path: Path,
) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("42"))
        session.board.open("the question").background = True
        await session.turn(2, "what is it?")
        assert session.journal.writer.state().tasks[1].task.state == "finished"
        seen = await cut_after_every_record(session)
    assert seen[-1][0] == ["the question"]


async def test_a_dropped_note_does_not_come_back_and_the_others_do(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.board.notes.drop_last()
        session.board.notes.offer(RAN)
        session.board.notes.offer(Note("n2", 1, "! ls", "a b", "I ran `ls` (exit code 0):"))
        session.board.notes.drop_last()
        seen = await cut_after_every_record(session)
    notes = [notes for notes, _texts in seen]
    assert notes[-3:] == [["! make"], ["! make", "! ls"], ["! make"]]


async def test_a_note_survives_a_snapshot_and_goes_along_after_the_resume(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    async with board_session(tmp_path) as session:
        session.board.notes.offer(RAN)
    assert store.read("last").from_snapshot
    saved_session = await store.open("last")
    again = BoardSession(tmp_path, saved_session, store)
    async with TaskBoard(again.parts()) as board:
        board.restore(saved_session.loaded.tasks, saved_session.loaded.state.focus)
        again.board = board
        again.script(says("done"))
        assert board.notes.waiting == (RAN,)
        await again.turn(1, "fix them")
        assert again.texts(1) == [TOLD, "done"]
    await saved_session.close()
    assert store.read("last").state.notes == ()


async def test_a_prompt_that_never_began_gives_its_notes_back(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("done"))
        session.board.task(1).model = "no-such-model"
        session.board.notes.offer(RAN)
        await session.turn(1, "fix them")
        assert (session.texts(1), session.board.task(1).state) == ([], "failed")
        assert session.board.notes.waiting == (RAN,)
        session.board.task(1).model = ""
        await session.turn(1, "fix them")
        assert session.texts(1) == [TOLD, "done"]
        assert session.board.notes.waiting == ()


async def test_a_note_of_another_task_is_given_once_however_many_prompts_are_under_way(
    tmp_path: Path,
) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"), says("two"))
        session.board.open()
        session.board.notes.offer(RAN)
        session.board.submit(1, "fix them")
        session.board.set_focus(2)
        session.board.submit(2, "and I?")
        await session.board.wait(1)
        await session.board.wait(2)
        assert (session.texts(1)[0], session.texts(2)[0]) == (TOLD, "and I?")


async def test_what_waits_to_be_said_is_as_it_was_when_notes_change(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    saved_session = await store.create()
    writer = saved_session.writer
    writer.record_queue(1, (said("q1"),), (said("s1"),))
    writer.record_notes(1, (RAN,))
    writer.record_queue(1, (said("q1"), said("q2")), ())
    await saved_session.close()
    state = store.read("last").state
    assert state.notes == (RAN,)
    assert (state.tasks[0].queued, state.tasks[0].steering) == ((said("q1"), said("q2")), ())


async def test_a_note_is_written_without_the_secrets_it_shows(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    saved_session = await store.create()
    secret = "sk-proj-" + "Ab3dEf6hIj9k" * 4
    saved_session.writer.record_notes(
        1, (Note("n1", 1, f"! echo {secret}", secret, f"I ran `echo {secret}`:"),)
    )
    await saved_session.close()
    assert secret not in (Path(saved_session.directory) / JOURNAL).read_text()
    assert [note.id for note in store.read("last").state.notes] == ["n1"]


async def test_RU_B21_a_task_gets_no_note_about_itself(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"), says("two"), says("two again"), says("one again"))
        await session.turn(1, "begin")
        task = session.board.open("write tests")
        task.background = True
        await session.turn(task.task_id, "write tests")
        assert [note.title for note in session.board.notes.waiting] == ["write tests"]
        session.board.set_focus(task.task_id)
        assert session.board.notes.waiting == ()
        session.board.notes.offer(RAN)
        await session.turn(task.task_id, "go on")
        assert session.texts(task.task_id)[-2] == "[I ran `make` (exit code 2):]\n3 errors\n\ngo on"
        session.board.set_focus(1)
        await session.turn(1, "and?")
        assert "Background task 2, 'write tests', has finished. Its answer:" in session.texts(1)[-2]
        assert session.board.notes.waiting == ()
