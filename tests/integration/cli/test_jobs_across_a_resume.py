"""Jobs are in the journal while they run: after a kill the person and the model are told once what became of
them, after an ordinary end nobody is told anything."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import msgspec

from buddy.agent.messages import typed_text
from buddy.app.session_start import JobReporter, report_leftovers
from buddy.repl.view.replay import attachment_titles
from buddy.sessions.loading import JOURNAL
from buddy.sessions.loading import NAME as SNAPSHOT
from buddy.sessions.records import JobChanged, Note
from buddy.sessions.session import OpenSession
from buddy.sessions.store import SessionStore
from buddy.tasks.board import TaskBoard
from buddy.workspace.processes.environment import TAG_VARIABLE
from buddy.workspace.processes.jobs import JobState, JobStatus
from buddy.workspace.processes.process_tree import end_left, left_commands, read_process
from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.support.board_session import BoardSession
from tests.support.program import YOLO
from tests.support.repl import open_repl
from tests.support.session_files import said, store_in
from tests.support.waiting import until

linux = requires("proc")


def status(number: int, state: JobState, command: str) -> JobStatus:
    return JobStatus(number, 1, command, state, None, 1.0, 0, has_terminal=False, tag=f"tag{number}")


async def told(store: SessionStore) -> tuple[tuple[str, ...], tuple[Note, ...], tuple[JobChanged, ...]]:
    """The session resumed: what the person is told, what waits for the model, and the jobs from then on."""
    saved_session = await store.open("last")
    async with TaskBoard(BoardSession(Path(saved_session.directory), saved_session, store).parts()) as board:
        board.restore(saved_session.loaded.tasks, saved_session.loaded.state.focus)
        lines = await report_leftovers(saved_session, board)
        found = (lines, board.notes.waiting, saved_session.writer.state().jobs)
    await saved_session.close()
    return found


async def lost_with_jobs(root: Path) -> tuple[SessionStore, OpenSession]:
    """A session that ended while two of three jobs ran."""
    store = store_in(root)
    saved_session = await store.create()
    await saved_session.writer.record_message(1, said("u1"))
    news = JobReporter(saved_session.writer)
    news.record(status(1, "running", "make watch"))
    news.record(status(2, "running", "make serve"))
    news.record(status(3, "running", "make"))
    news.record(status(3, "ended", "make"))
    await saved_session.close()
    return store, saved_session


@linux
async def test_what_ran_when_buddy_was_lost_is_told_once(tmp_path: Path) -> None:
    store, _session = await lost_with_jobs(tmp_path)
    lines, notes, jobs = await told(store)
    assert lines == (
        "job 1 was running when buddy was killed; it has ended too: make watch",
        "job 2 was running when buddy was killed; it has ended too: make serve",
    )
    heading = "buddy was killed while job 1 ran, and has been restarted"
    lead = ". State of the job:"
    assert notes[0] == Note(
        "lost tag1", 1, "job 1 ran when buddy was killed", "it has ended too: make watch", heading, lead=lead
    )
    assert [note.text for note in notes[1:]] == ["it has ended too: make serve"]
    assert [(job.job_id, job.state) for job in jobs] == [("1", "lost"), ("2", "lost"), ("3", "ended")]
    assert await told(store) == ((), notes, jobs)


async def test_what_the_model_is_told_is_named_beside_the_prompt_and_is_not_the_persons_words(
    tmp_path: Path,
) -> None:
    store, _session = await lost_with_jobs(tmp_path)
    saved_session = await store.open("last")
    async with TaskBoard(BoardSession(tmp_path, saved_session, store).parts()) as board:
        board.restore(saved_session.loaded.tasks, saved_session.loaded.state.focus)
        await report_leftovers(saved_session, board)
        prompt = board.notes.attach(said("u2", "go on"))
    await saved_session.close()
    assert typed_text(prompt) == "go on"
    assert attachment_titles(prompt) == (
        "buddy was killed while job 1 ran, and has been restarted",
        "buddy was killed while job 2 ran, and has been restarted",
    )


async def test_killed_while_it_tells_so_it_tells_so_once(tmp_path: Path) -> None:
    store, saved_session = await lost_with_jobs(tmp_path)
    journal = Path(saved_session.directory) / JOURNAL
    before = len(journal.read_bytes().splitlines())
    first = await told(store)
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) > before + 2
    for count in range(before, len(lines) + 1):
        journal.write_bytes(b"".join(lines[:count]))
        (journal.parent / SNAPSHOT).unlink(missing_ok=True)
        assert (await told(store))[1:] == first[1:]


async def test_what_ends_with_buddy_as_it_should_is_no_news(tmp_path: Path) -> None:
    script = [reply(call("run_shell", command="sleep 4713", background=True)), reply("it runs")]
    async with open_repl(tmp_path, script, *YOLO) as repl:
        await repl.said("start it", "it runs")
        state = repl.context.session.writer.state()
        assert [(job.state, job.data["command"]) for job in state.jobs] == [("running", "sleep 4713")]
        store = repl.program.store()
    assert store.read("last").state.jobs == (JobChanged("1", "ended"),)
    assert (await told(store))[:2] == ((), ())


async def test_a_job_that_ends_after_the_journal_breaks_nothing(tmp_path: Path) -> None:
    store, saved_session = await lost_with_jobs(tmp_path)
    JobReporter(saved_session.writer).record(status(1, "ended", "make watch"))
    assert store.read("last").state.jobs[0].state == "running"


@linux
async def test_RU_B19_what_a_killed_buddy_left_is_one_command_and_can_be_ended(tmp_path: Path) -> None:
    owner = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220 - returns at once
    info = read_process(owner.pid)
    assert info is not None
    tag = f"{owner.pid}.{info.started}.1"
    variables = {**os.environ, TAG_VARIABLE: tag, "BUDDY_SESSION_ID": f"{tmp_path}"}
    # The shell ignores TERM, so that it has to be killed; its child does not.
    script = "trap '' TERM; (trap - TERM; exec sleep 4714) & wait; sleep 4715; :"
    shell = subprocess.Popen(["bash", "-c", script], env=variables)  # noqa: ASYNC220 - returns at once
    others = {**variables, TAG_VARIABLE: f"{tag}2"}
    other = subprocess.Popen(["sleep", "4716"], env=others)  # noqa: ASYNC220 - returns at once
    try:
        assert left_commands(str(tmp_path)) == (), "its buddy runs"
        owner.kill()
        owner.wait()
        await until(lambda: len(left_commands(str(tmp_path))) == 2)
        await until(lambda: any(len(one.processes) == 2 for one in left_commands(str(tmp_path))))
        command = next(one for one in left_commands(str(tmp_path)) if one.tag == tag)
        assert command.processes[0].process.pid == shell.pid, "parents come first"
        assert command.pids.startswith(f"processes {shell.pid}, ")
        stranger = msgspec.structs.replace(command.processes[0], tag="another")
        stranger.end(signal.SIGKILL)
        assert shell.poll() is None, "a process with another tag is another process"
        assert await end_left(command, grace_s=0.2) is None
        assert shell.wait() == -signal.SIGKILL
        assert [one.command for one in left_commands(str(tmp_path))] == ["sleep 4716"]
    finally:
        for process in (owner, shell, other):
            process.kill()
            process.wait()
