"""The sessions of a workspace: made, found, opened, named, forked, forgotten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.agent.display import NOTHING
from buddy.agent.events import ApprovalRequested
from buddy.sessions.errors import FolderError, ForeignSessionError, SessionError
from buddy.sessions.folder import workspace_root
from buddy.sessions.line_codec import encode
from buddy.sessions.lock import LockedError
from buddy.sessions.records import JobChanged, TaskChanged
from buddy.sessions.session import Watch
from tests.support.session_files import Faults, add_bytes, call, replied, said, store_in


async def test_a_session_comes_back_as_it_was_left(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create(name="fix", title="fix the bug")
    await session.writer.record_message(1, said("u1"))
    await session.writer.record_message(1, replied("a1", "done"))
    before = session.writer.state()
    await session.close()

    again = await store.open("last")
    assert again.session_id == session.session_id
    assert again.loaded.state == before
    assert again.loaded.problems == ()
    assert [task.record.history for task in again.loaded.tasks] == [(said("u1"), replied("a1", "done"))]
    await again.writer.record_message(1, said("u2"))
    await again.close()
    assert store.read(session.session_id).tasks[0].record.history[-1] == said("u2")


def test_no_folder_is_made_before_the_first_session(tmp_path: Path):
    store = store_in(tmp_path)
    assert store.list() == ()
    with pytest.raises(SessionError, match="no session to resume"):
        store.find("last")
    assert list((tmp_path / "work").iterdir()) == []


async def test_the_folder_is_ignored_by_git(tmp_path: Path):
    session = await store_in(tmp_path).create()
    await session.close()
    assert (tmp_path / "work/.buddyx/.gitignore").read_text() == "*\n"
    assert (tmp_path / "work/.buddyx/sessions/.gitignore").read_text() == "*\n"


async def test_a_folder_that_is_part_of_the_project_keeps_its_files(tmp_path: Path):
    store = store_in(tmp_path)
    (tmp_path / "work/.buddyx/ext").mkdir(parents=True)
    session = await store.create()
    await session.close()
    assert not (tmp_path / "work/.buddyx/.gitignore").exists()
    assert (tmp_path / "work/.buddyx/sessions/.gitignore").exists()


async def test_SEC_090_files_and_folders_are_private_whatever_the_umask(tmp_path: Path):
    for umask in (0o000, 0o077, 0o777):
        root = tmp_path / f"{umask:o}"
        root.mkdir()
        (root / "state").mkdir()
        (root / "work").mkdir()
        before = os.umask(umask)
        try:
            session = await store_in(root).create(name="x")
            await session.writer.record_message(1, said("u1"))
            await session.close()
        finally:
            os.umask(before)
        for folder, _, names in os.walk(root / "work/.buddyx"):
            assert os.stat(folder).st_mode & 0o777 == 0o700
            for name in names:
                assert (name, os.stat(os.path.join(folder, name)).st_mode & 0o777) == (name, 0o600)
        assert os.stat(root / "state/session.key").st_mode & 0o777 == 0o600


async def test_SEC_091_planted_links_are_refused(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store = store_in(tmp_path)
    (tmp_path / "work/.buddyx").symlink_to(elsewhere)
    with pytest.raises(FolderError, match="symbolic link"):
        await store.create()
    (tmp_path / "work/.buddyx").unlink()
    (tmp_path / "work/.buddyx").mkdir()
    (tmp_path / "work/.buddyx/sessions").symlink_to(elsewhere)
    with pytest.raises(FolderError, match="symbolic link"):
        await store.create()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["journal.jsonl", "lock", "snapshot.json", "journal.torn"])
async def test_SEC_091_a_planted_link_inside_a_session_is_neither_read_nor_written(tmp_path: Path, name: str):
    store = store_in(tmp_path)
    session = await store.create()
    await session.writer.record_message(1, said("u1"))
    await session.close()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    target = Path(session.directory) / name
    target.unlink(missing_ok=True)
    if name == "journal.torn":
        add_bytes(session.directory, b"half a li")
    target.symlink_to(victim)
    try:
        again = await store.open(session.session_id)
        await again.writer.record_message(1, said("u2"))
        await again.close()
    except (OSError, SessionError):
        assert name != "snapshot.json"
    assert victim.read_text() == "precious"


async def test_SEC_091_a_planted_pipe_is_not_waited_for(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.close()
    journal = Path(session.directory) / "journal.jsonl"
    journal.unlink()
    os.mkfifo(journal)
    assert store.list() == ()


async def test_last_is_the_one_in_which_something_was_said(tmp_path: Path):
    """A buddy that was killed before its first prompt leaves a session, which is newer and empty."""
    store = store_in(tmp_path)
    blank = await store.create()
    await blank.close()
    assert store.find("last") == blank.directory
    talk = await store.create()
    await talk.writer.record_task(1, TaskChanged("talk", "idle"))
    await talk.writer.record_message(1, said("hello"))
    await talk.close()
    for _ in range(2):
        killed = await store.create()
        await killed.writer.record_task(1, TaskChanged("", "idle"))
        await killed.close()
    assert store.find("last") == talk.directory


async def test_a_session_is_found_by_id_beginning_name_or_last(tmp_path: Path):
    store = store_in(tmp_path)
    first = await store.create(name="parser")
    await first.close()
    second = await store.create()
    await second.writer.record_message(1, said("hello"))
    await second.close()
    assert store.find(first.session_id) == first.directory
    assert store.find(first.session_id[:9].upper()) == first.directory
    assert store.find("parser") == first.directory
    assert store.find("last") == second.directory
    with pytest.raises(SessionError, match="no session 'nothing'"):
        store.find("nothing")


async def test_an_ambiguous_beginning_is_refused_with_the_choices(tmp_path: Path):
    store = store_in(tmp_path)
    ids = []
    for _ in range(17):
        session = await store.create()
        await session.close()
        ids.append(session.session_id)
    letters = [name[0] for name in ids]
    twice = next(letter for letter in letters if letters.count(letter) > 1)
    with pytest.raises(SessionError, match="write more of the id"):
        store.find(twice)
    assert len(set(ids)) == 17


async def test_the_list_tells_what_each_session_is(tmp_path: Path):
    store = store_in(tmp_path, watch=Watch(clock=lambda: 1000.0))
    session = await store.create(name="old")
    session.writer.rename(name="new", title="a title")
    session.writer.record_task(1, TaskChanged("one", "idle"))
    await session.writer.record_task(2, TaskChanged("two", "idle"))
    (row,) = store.list()
    assert (row.name, row.title, row.tasks, row.locked, row.foreign, row.newer) == (
        "new",
        "a title",
        2,
        True,
        False,
        False,
    )
    assert row.created_at == 1000.0
    assert row.size_bytes == os.path.getsize(os.path.join(session.directory, "journal.jsonl"))
    await session.close()
    assert not store.list()[0].locked


async def test_SEC_052_a_session_of_another_person_or_machine_is_not_offered(tmp_path: Path):
    theirs = store_in(tmp_path)
    session = await theirs.create(name="innocent")
    session.writer.record_grant("g1", {"tool": "run_shell", "pattern": "*"})
    question = ApprovalRequested("r1", call("c1"), "high", "harmless", NOTHING, "", "d1")
    session.writer.record_approval(1, question)
    await session.writer.record_message(1, said("u1"))
    await session.close()

    (tmp_path / "state/session.key").unlink()
    mine = store_in(tmp_path)
    assert [row.foreign for row in mine.list()] == [True]
    for reference in ("last", "innocent"):
        with pytest.raises(SessionError, match="there is no session"):
            mine.find(reference)
    with pytest.raises(ForeignSessionError, match="not made by you"):
        await mine.open(session.session_id)
    seen = mine.read(session.session_id)
    assert seen.foreign
    assert seen.state.grants == ()
    assert seen.tasks[0].record.approvals == ()
    forked = await mine.open(mine.fork(session.session_id))
    assert forked.loaded.state.grants == ()
    assert forked.loaded.tasks[0].record.approvals == ()
    assert forked.loaded.tasks[0].record.history == (said("u1"),)
    await forked.close()


async def test_SEC_052_a_grant_written_into_a_journal_by_hand_grants_nothing(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.writer.record_grant("mine", {"tool": "read_file"})
    await session.close()
    number = session.writer.journal.last_number
    forged = {"grant_id": "forged", "grant": {"tool": "run_shell"}, "seal": "00"}
    add_bytes(session.directory, encode(number + 1, "grant", 0, 1.0, forged, session.seal))
    assert [grant.grant_id for grant in store.read("last").state.grants] == ["mine"]


async def test_a_grant_is_taken_back(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    session.writer.record_grant("g1", {"tool": "read_file"})
    await session.writer.record_grant("g1", None)
    await session.close()
    assert store.read("last").state.grants == ()


async def test_a_fork_is_a_copy_up_to_a_point_and_names_its_parent(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create(name="trunk")
    session.writer.record_grant("g1", {"tool": "read_file"})
    session.writer.record_job(1, JobChanged("1", "running"))
    point = await session.writer.record_message(1, said("u1"))
    await session.writer.record_message(1, replied("a1", "done"))

    branch = await store.open(store.fork(session.session_id, through=point))
    assert branch.loaded.problems == ()
    assert branch.loaded.header is not None
    assert (branch.loaded.header.parent, branch.loaded.header.parent_number) == (session.session_id, point)
    assert branch.loaded.tasks[0].record.history == (said("u1"),)
    assert [grant.grant for grant in branch.loaded.state.grants] == [{"tool": "read_file"}]
    assert branch.loaded.state.jobs == (), "a job runs for one session"
    await branch.close()
    await session.close()


async def test_sessions_are_forgotten_by_age_and_count_but_never_the_current_or_one_in_use(tmp_path: Path):
    now = [0.0]
    store = store_in(tmp_path, watch=Watch(clock=lambda: now[0]))
    sessions = []
    for hour in range(5):
        now[0] = hour * 3600.0
        sessions.append(await store.create())
    for session in sessions[1:]:
        await session.close()
    ids = [session.session_id for session in sessions]
    assert store.forget_old(max_age_s=0, max_count=0) == ()
    assert store.forget_old(max_age_s=2.5 * 3600, max_count=0, current=ids[2]) == (ids[1],)
    assert set(store.forget_old(max_age_s=0, max_count=1, current=ids[2])) == {ids[3]}
    assert {row.session_id for row in store.list()} == {ids[0], ids[2], ids[4]}
    await sessions[0].close()


async def test_a_tenth_more_than_the_count_is_let_be(tmp_path: Path):
    store = store_in(tmp_path)
    for _ in range(11):
        await (await store.create()).close()
    assert store.forget_old(max_age_s=0, max_count=10) == ()
    await (await store.create()).close()
    assert len(store.forget_old(max_age_s=0, max_count=10)) == 2
    assert len(store.list()) == 10


async def test_a_start_and_an_end_open_each_older_session_once(tmp_path: Path):
    opened: list[int] = []
    for _ in range(7):
        faults = Faults()
        store = store_in(tmp_path, files=faults.files())
        session = await store.create()
        await session.close()
        store.forget_old(max_age_s=3600, max_count=100, current=session.session_id)
        opened.append(faults.counts["open"])
    assert opened[6] - opened[2] == 2 * 4, (
        "each of the four more is opened once at the start, once at the end"
    )


async def test_the_order_of_sessions_does_not_depend_on_foreign_ones(tmp_path: Path):
    now = [1_000.0]
    store = store_in(tmp_path, watch=Watch(clock=lambda: now[0]))
    first = await store.create()
    await first.close()
    folder = tmp_path / "work/.buddyx/sessions/0000-0000-0000-0001"
    folder.mkdir()
    (folder / "journal.jsonl").write_bytes(encode(1, "task", 1, 9e9, TaskChanged("t", "idle")))
    second = await store.create()
    await second.close()
    assert 1_000.0 < store.list()[1].last_at < 1_001.0
    assert store.find("last") == second.directory


async def test_a_session_is_deleted_unless_it_is_in_use(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    (Path(session.directory) / "output").mkdir()
    (Path(session.directory) / "output/1.txt").write_text("big")
    with pytest.raises(LockedError):
        store.delete(session.session_id)
    await session.close()
    store.delete(session.session_id)
    assert store.list() == ()
    assert not os.path.exists(session.directory)


async def test_REL_061_a_clock_that_was_set_back_changes_neither_order_nor_last(tmp_path: Path):
    now = [2_000_000.0]
    store = store_in(tmp_path, watch=Watch(clock=lambda: now[0]))
    first = await store.create()
    await first.close()
    seen = []
    for jump in (-86_400.0, -2_000_000.0, 3_600.0, 86_400.0):
        now[0] += jump
        session = await store.create()
        await session.writer.record_message(1, said("u1"))
        now[0] -= 3_600
        await session.writer.record_message(1, said("u2"))
        await session.close()
        assert store.find("last") == session.directory
        assert store.read("last").tasks[0].record.history == (said("u1"), said("u2"))
        seen.append(session.session_id)
    assert [row.session_id for row in store.list()] == [*reversed(seen), first.session_id]


def test_the_workspace_root_is_the_nearest_ancestor_with_git(tmp_path: Path):
    inner = tmp_path / "repo/sub/deep"
    inner.mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    assert workspace_root(str(inner)) == str(tmp_path / "repo")
    (tmp_path / "repo/sub/.git").write_text("gitdir: ../.git/worktrees/sub")
    assert workspace_root(str(inner)) == str(tmp_path / "repo/sub")
    assert workspace_root("/proc") == "/proc"


async def test_a_creation_that_was_interrupted_is_no_foreign_session_and_can_be_used(tmp_path: Path):
    store = store_in(tmp_path)
    session = await store.create()
    await session.close()
    (Path(session.directory) / "snapshot.json").unlink()
    (Path(session.directory) / "journal.jsonl").write_bytes(b"")
    assert [row.foreign for row in store.list()] == [False]
    again = await store.open(session.session_id)
    await again.writer.record_message(1, said("u1"))
    await again.close()
    assert not store.read("last").foreign


async def test_SEC_052_a_session_whose_first_line_was_cut_out_and_seals_do_not_fit_is_foreign(
    tmp_path: Path,
):
    store = store_in(tmp_path)
    session = await store.create()
    await session.close()
    (Path(session.directory) / "snapshot.json").unlink()
    journal = Path(session.directory) / "journal.jsonl"
    journal.write_bytes(encode(2, "message", 1, 1.0, said("u1")))
    assert store.read(session.session_id).foreign
    assert store.list()[0].foreign
    with pytest.raises(ForeignSessionError, match="first line is damaged"):
        await store.open(session.session_id)
