"""A session read back: the whole program, ready to go on, with or without its snapshot."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from buddy.agent.compaction import Compaction
from buddy.agent.display import NOTHING
from buddy.agent.events import ApprovalRequested, ApprovalResolved, TokenUsage
from buddy.agent.messages import INTERRUPTED_TEXT, NO_USAGE, NOT_RUN_TEXT, Call, ToolMessage
from buddy.sessions.line_codec import encode
from buddy.sessions.loading import NAME as SNAPSHOT
from buddy.sessions.loading import UNFINISHED_REASON, LoadedSession
from buddy.sessions.records import BudgetSet, CheckpointTaken, JobChanged, Note, TaskChanged
from buddy.sessions.session import OpenSession
from buddy.sessions.store import SessionStore
from tests.support.legal_history import is_legal
from tests.support.session_files import call, replied, result, said, store_in


def usage(total: int) -> TokenUsage:
    return TokenUsage(NO_USAGE, NO_USAGE, total, 1000, 0.5, cost_known=True)


def asked(name: str, for_call: Call) -> ApprovalRequested:
    return ApprovalRequested(name, for_call, "high", "it may change anything", NOTHING, "", "d1")


async def crashed(session: OpenSession) -> None:
    """Leave as a kill does: what is acknowledged is on the disk, nothing else happens."""
    await session.writer.journal.flush()
    await session.writer.journal.close()
    session._lock.release()


async def resumed(store: SessionStore) -> LoadedSession:
    """Load, resume for writing and leave; the second load must find nothing to repair."""
    loaded = store.read("last")
    session = await store.open("last")
    assert session.loaded == loaded
    await session.close()
    again = store.read("last")
    assert [task.repairs for task in again.tasks] == [()] * len(again.tasks)
    assert [task.record for task in again.tasks] == [task.record for task in loaded.tasks]
    assert again.from_snapshot
    (Path(again.directory) / SNAPSHOT).unlink()
    assert store.read("last").state == again.state
    return loaded


async def test_the_whole_session_comes_back(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create(name="program", title="a program")
    writer = session.writer
    writer.record_task(1, TaskChanged("fix", "running", model="fast"))
    writer.record_message(1, said("u1"))
    writer.record_usage(1, usage(10))
    writer.record_usage(1, usage(20))
    writer.record_task(2, TaskChanged("tests", "waiting", parent=1, copy_of=1, copied=1))
    writer.record_message(2, replied("a2", "yes"))
    writer.record_task(3, TaskChanged("done", "finished", closed=True))
    writer.record_queue(1, (said("q1"), said("q2")), (said("s1"),))
    writer.record_grant("g1", {"tool": "read_file", "until": 5})
    writer.record_budget(BudgetSet(1.5, 0))
    writer.record_budget(BudgetSet(0.5, 0), 2)
    writer.record_job(1, JobChanged("j1", "running", {"pid": 7}))
    writer.record_job(1, JobChanged("j1", "ended"))
    writer.record_checkpoint(1, CheckpointTaken("k1", "c1", {"ref": "abc"}))
    writer.record_compaction(1, Compaction(1, "so far"))
    writer.record_focus(2)
    await crashed(session)

    loaded = await resumed(store)
    assert (loaded.state.focus, loaded.state.name, loaded.state.title) == (2, "program", "a program")
    assert loaded.state.budget == BudgetSet(1.5, 0)
    assert [grant.grant for grant in loaded.state.grants] == [{"tool": "read_file", "until": 5}]
    assert loaded.state.jobs == (JobChanged("j1", "ended"),)
    assert loaded.state.checkpoints[0].at == 1
    one, two, three = (task.record for task in loaded.tasks)
    assert one.task == TaskChanged("fix", "paused", UNFINISHED_REASON, model="fast")
    assert (one.usage, one.compaction) == (usage(20), Compaction(1, "so far"))
    assert (one.queued, one.steering) == ((said("q1"), said("q2")), (said("s1"),))
    assert two.task == TaskChanged("tests", "paused", UNFINISHED_REASON, parent=1, copy_of=1, copied=1)
    assert (two.history, two.budget) == ((said("u1"), replied("a2", "yes")), BudgetSet(0.5, 0))
    assert three.task == TaskChanged("done", "finished", closed=True)
    assert [task.was_running for task in loaded.tasks] == [True, True, False]


async def test_REL_024_a_prompt_queued_while_busy_survives_and_is_said_once(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.writer.record_message(1, said("u1"))
    await session.writer.record_queue(1, (said("q1"), said("q2")), (said("s1"),))
    await crashed(session)
    loaded = await resumed(store)
    assert loaded.tasks[0].record.queued == (said("q1"), said("q2"))

    session = await store.open("last")
    await session.writer.record_message(1, said("q1"))
    await crashed(session)
    record = store.read("last").tasks[0].record
    assert (record.history, record.queued) == ((said("u1"), said("q1")), (said("q2"),))


async def test_REL_018_a_call_that_had_begun_may_have_run_and_one_that_had_not_can_be_asked_again(
    tmp_path: Path,
):
    store = store_in(tmp_path)
    session = await store.create()
    writer = session.writer
    writer.record_message(1, said("u1"))
    writer.record_message(1, replied("a1", call("c1"), call("c2"), finish="calls"))
    writer.tool_begin(1, "c1", "run_shell")
    writer.record_approval(1, asked("r1", call("c1")))
    writer.record_approval(1, ApprovalResolved("r1", "once", "you"))
    writer.record_approval(1, asked("r2", call("c2")))
    await crashed(session)

    loaded = await resumed(store)
    (task,) = loaded.tasks
    assert task.record.history[2:] == (
        ToolMessage("a1-c1-result", "c1", "run_shell", INTERRUPTED_TEXT, "cancelled"),
        ToolMessage("a1-c2-result", "c2", "run_shell", NOT_RUN_TEXT, "skipped"),
    )
    assert task.not_run_calls == (call("c2"),)
    assert task.record.approvals == (asked("r2", call("c2")),)
    assert store.read("last").tasks[0].not_run_calls == (call("c2"),)


async def test_REL_018_a_call_that_ended_without_its_result_is_never_run_again(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    session.writer.record_message(1, said("u1"))
    session.writer.record_message(1, replied("a1", call("c1"), finish="calls"))
    session.writer.tool_begin(1, "c1", "run_shell")
    session.writer.tool_end(1, "c1", "ok", 0.2)
    await crashed(session)
    (task,) = (await resumed(store)).tasks
    assert task.record.history[2].text == INTERRUPTED_TEXT
    assert task.not_run_calls == ()
    assert [ended.status for ended in task.record.ended] == ["ok"]


async def test_REL_019_of_three_parallel_calls_one_result_is_real_and_all_are_in_order(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    session.writer.record_message(1, said("u1"))
    session.writer.record_message(1, replied("a1", call("c1"), call("c2"), call("c3"), finish="calls"))
    for name in ("c1", "c2", "c3"):
        session.writer.tool_begin(1, name, "run_shell")
    session.writer.tool_end(1, "c2", "ok", 0.1)
    session.writer.record_message(1, result("t2", "c2"))
    await crashed(session)
    (task,) = (await resumed(store)).tasks
    assert [message.text for message in task.record.history[2:]] == [
        INTERRUPTED_TEXT,
        "done",
        INTERRUPTED_TEXT,
    ]


async def test_a_reply_that_was_streaming_comes_back_as_a_cut_reply(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.writer.record_message(1, said("u1"))
    session.writer.record_partial(1, replied("a1", "It is", finish="cut"))
    await asyncio.sleep(0.01)
    session.writer.record_partial(1, replied("a1", "It is the parser", finish="cut"))
    session.writer._partials[1].flush()
    await crashed(session)
    loaded = await resumed(store)
    assert loaded.tasks[0].record.history == (said("u1"), replied("a1", "It is the parser", finish="cut"))

    session = await store.open("last")
    await session.writer.record_message(1, said("u2", "go on"))
    await session.close()
    assert [message.id for message in store.read("last").tasks[0].record.history] == ["u1", "a1", "u2"]


async def test_a_partial_reply_is_superseded_by_the_whole_one(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    session.writer.record_message(1, said("u1"))
    session.writer.record_partial(1, replied("a1", "It", finish="cut"))
    await asyncio.sleep(0.01)
    session.writer.record_partial(1, replied("a1", "It is", finish="cut"))
    session.writer.record_message(1, replied("a1", "It is the parser"))
    await session.close()
    assert store.read("last").tasks[0].record.history == (said("u1"), replied("a1", "It is the parser"))


async def test_leaving_while_a_reply_streams_keeps_all_of_it(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    session.writer.record_message(1, said("u1"))
    session.writer.record_partial(1, replied("a1", "It", finish="cut"))
    await asyncio.sleep(0.01)
    session.writer.record_partial(1, replied("a1", "It is", finish="cut"))
    await session.close()
    assert store.read("last").tasks[0].record.history[-1] == replied("a1", "It is", finish="cut")


async def test_a_history_can_be_cut_back_and_the_compaction_goes_with_it(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    for n in range(4):
        session.writer.record_message(1, said(f"u{n}"))
    session.writer.record_compaction(1, Compaction(3, "so far"))
    session.writer.replace_history(1, "rewind", 2)
    assert session.writer.state().tasks[0].compaction is None
    session.writer.replace_history(1, "reset", 0)
    await session.close()
    assert store.read("last").tasks[0].record.history == ()


async def test_a_damaged_middle_is_skipped_reported_and_the_history_is_legal(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    session.writer.record_message(1, said("u1"))
    session.writer.record_message(1, replied("a1", call("c1"), finish="calls"))
    session.writer.record_message(1, result("t1", "c1"))
    await session.writer.record_message(1, replied("a2", "done"))
    await crashed(session)
    journal = Path(session.directory) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"run_shell", b"rum_shell")
    journal.write_bytes(b"".join(lines))
    loaded = await resumed(store)
    assert len(loaded.problems) == 2
    assert "the checksum does not fit" in loaded.problems[0]
    assert loaded.problems[1] == "record 3 is missing"
    assert loaded.tasks[0].record.history == (said("u1"), replied("a2", "done"))


async def test_a_snapshot_of_another_journal_version_or_garbage_is_ignored(tmp_path: Path):
    store = store_in(tmp_path)
    one = await store.create()
    await one.writer.record_message(1, said("u1"))
    await one.close()
    other = await store.create()
    await other.writer.record_message(1, said("other"))
    await other.close()
    snapshot = Path(one.directory) / SNAPSHOT
    whole = snapshot.read_bytes()
    stolen = (Path(other.directory) / SNAPSHOT).read_bytes()
    for content in (b"", b"{}", whole[:-5], whole.replace(b'"format":2', b'"format":1'), stolen):
        snapshot.write_bytes(content)
        loaded = store.read(one.session_id)
        assert not loaded.from_snapshot
        assert loaded.tasks[0].record.history == (said("u1"),)
    snapshot.write_bytes(whole)
    assert store.read(one.session_id).from_snapshot
    journal = Path(one.directory) / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    loaded = store.read(one.session_id)
    assert loaded.from_snapshot
    assert loaded.tasks[0].record.history == (said("u1"),)
    assert any("the session goes on from the snapshot" in problem for problem in loaded.problems)
    seal = one.seal
    replaced = [
        encode(2, "message", 1, 2.0, said("u2"), seal),
        encode(3, "message", 1, 3.0, said("u3"), seal),
    ]
    journal.write_bytes(b"".join([journal.read_bytes(), *replaced]))
    loaded = store.read(one.session_id)
    assert not loaded.from_snapshot
    assert "the snapshot does not belong to this journal; the whole journal was read" in loaded.problems


async def test_snapshots_follow_the_growth_of_the_journal(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    snapshot = Path(session.directory) / SNAPSHOT
    for number in range(6):
        await session.writer.record_message(1, replied(f"a{number}", "x" * 300_000))
    deadline = asyncio.get_running_loop().time() + 50
    while not snapshot.exists() and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.01)
    assert snapshot.exists()
    await session.close()


async def test_any_session_replays_to_the_same_state_with_and_without_snapshots(tmp_path: Path):
    """Random records, snapshots at random moments; the state in memory is the one on the disk."""
    for seed in range(25):
        source = random.Random(seed)
        store = store_in(tmp_path)
        session = await store.create()
        for step in range(source.randrange(5, 60)):
            random_step(session, source, step)
            if source.random() < 0.1:
                await session.writer.journal.flush()
            if source.random() < 0.1:
                session.writer.idle()
                await asyncio.sleep(0.003)
        before = session.writer.state()
        await crashed(session)
        with_snapshot = store.read(session.session_id)
        assert with_snapshot.state == before
        (Path(session.directory) / SNAPSHOT).unlink(missing_ok=True)
        without = store.read(session.session_id)
        assert without.state == before
        assert without.tasks == with_snapshot.tasks
        assert all(is_legal(task.record.history) == [] for task in without.tasks)


def random_step(session: OpenSession, source: random.Random, step: int) -> None:
    writer = session.writer
    task_id = source.randrange(1, 4)
    one = call(f"c{source.randrange(6)}")
    match source.randrange(13):
        case 0:
            writer.record_task(
                task_id, TaskChanged(f"t{step}", "running", copy_of=source.randrange(4), copied=9)
            )
        case 1 | 2:
            writer.record_message(task_id, said(f"u{step}"))
        case 3 | 4:
            writer.record_message(task_id, replied(f"a{step}", "x", one, finish="calls"))
        case 5:
            writer.record_message(task_id, result(f"r{step}", one.id))
        case 6:
            writer.tool_begin(task_id, one.id, one.name)
        case 7:
            writer.tool_end(task_id, one.id, "ok", 1.0)
        case 8:
            writer.record_queue(task_id, (said(f"u{step + 1}"), said("q")), (said(f"u{step + 2}"),))
        case 9:
            writer.replace_history(task_id, "rewind", source.randrange(4), (said(f"n{step}"),))
        case 10:
            writer.record_compaction(task_id, Compaction(source.randrange(5), "s"))
        case 11:
            writer.record_partial(task_id, replied(f"p{step}", "half", finish="cut"))
            writer._partials[task_id].flush()
        case _:
            writer.record_checkpoint(task_id, CheckpointTaken(f"k{step}", ""))
            writer.record_approval(task_id, asked(f"r{step}", one))
            carrier = f"u{step + source.randrange(4)}" if source.random() < 0.5 else ""
            writer.record_notes(task_id, (Note(f"n{step}", task_id, "t", "x", "h", carrier), *writer.notes))
