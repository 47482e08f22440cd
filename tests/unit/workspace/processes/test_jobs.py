"""Jobs from start to end: listed, read, waited for, typed into, stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.tools.jobs import capture_pane, list_jobs, read_job, send_keys, stop_job, write_job
from buddy.tools.shell import run_shell
from buddy.workspace.processes.jobs import KEPT_ENDED
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.screen_model import ScreenModel
from tests.support.tool_project import CommandProject, tool_project
from tests.support.waiting import until

GO = "until test -e go; do sleep 0.01; done; "
"""What follows it in a command waits for `go`: the first look at a job is over by then."""


def go(project: CommandProject) -> None:
    (project.root / "go").write_text("")


async def ended(project: CommandProject, number: int) -> None:
    await until(lambda: project.jobs.get(number).status().state == "ended")


async def has_said(project: CommandProject, said: bytes) -> None:
    await until(lambda: said.decode() in project.jobs.get(1).log.text())


async def test_a_job_is_told_of_when_it_begins_and_when_it_ends(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command=GO + "exit 4", background=True)
        go(project)
        await until(lambda: len(project.changes) == 2)
        begun, over = project.changes
        assert (begun.id, begun.task_id, begun.state, begun.exit) == (1, 1, "running", None)
        assert (over.id, over.state, over.exit and over.exit.code) == (1, "ended", 4)


async def test_jobs_are_listed_with_what_became_of_them(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        assert (await project.call(list_jobs)).text == "no jobs"
        await project.call(run_shell, command="sleep 60", background=True)
        await project.call(run_shell, command=GO + "kill -KILL $$", background=True)
        go(project)
        await ended(project, 2)
        lines = (await project.call(list_jobs)).text.splitlines()
        assert lines[0].startswith("job 1: running (")
        assert lines[0].endswith("0 bytes, task 1): sleep 60")
        assert lines[1].startswith("job 2: ended by SIGKILL, ")


async def test_a_job_is_read_in_pieces_without_gap_or_overlap(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        command = GO + "for i in 1 2 3; do echo line $i; sleep 0.4; done"
        await project.call(run_shell, command=command, background=True)
        go(project)
        offset, text = 0, ""
        for _ in range(20):
            result = await project.call(read_job, job=1, offset=offset, wait=5)
            piece, _, note = result.text.rpartition("[")
            text += piece
            offset = int(note.partition("next offset ")[2].partition(".")[0])
            if project.jobs.get(1).status().state == "ended" and offset == project.jobs.get(1).log.total:
                break
        assert text == "line 1\nline 2\nline 3\n"


async def test_reading_waits_for_news_for_the_end_and_for_a_cancellation(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command=GO, background=True)
        work = asyncio.ensure_future(project.call(read_job, job=1, wait=50))
        await asyncio.sleep(0.1)
        assert not work.done()
        go(project)
        assert "[bytes 0–0 of 0" in (await work).text
        await project.call(run_shell, command="sleep 60", background=True)
        work = asyncio.ensure_future(project.call(read_job, job=2, wait=50))
        await asyncio.sleep(0.05)
        project.cancelled.set()
        await work


async def test_the_end_of_a_job_is_read_with_a_negative_offset(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command="echo first; echo last; sleep 60", background=True)
        await has_said(project, b"first\nlast\n")
        assert (await project.call(read_job, job=1, offset=-5)).text.startswith("last\n[bytes 6–11 of 11")


async def test_a_read_never_begins_or_ends_inside_a_character(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command="printf 'äöü€'; sleep 60", background=True)
        await has_said(project, "äöü€".encode())
        result = await project.call(read_job, job=1, offset=1)
        assert result.text.startswith("öü€\n[bytes 2–9 of 9")


async def test_what_was_not_kept_is_said(tmp_path: Path) -> None:
    bounds = OutputBounds(head_bytes=10, tail_bytes=10, cap_bytes=30)
    async with tool_project(tmp_path, bounds=bounds) as project:
        command = "printf 0123456789; printf 'm%.0s' {1..200}; sleep 60"
        await project.call(run_shell, command=command, background=True)
        await until(lambda: project.jobs.all() == () or project.jobs.get(1).log.total == 210)
        if project.jobs.all():
            assert "were not kept" in (await project.call(read_job, job=1, offset=50)).text


async def test_stopping_a_job_ends_it_and_stopping_it_again_is_no_error(tmp_path: Path) -> None:
    async with tool_project(tmp_path, grace_s=20) as project:
        await project.call(run_shell, command="sleep 60 & sleep 60", background=True)
        assert (await project.call(stop_job, job=1)).text.startswith("job 1 ended after ")
        status = project.jobs.get(1).status()
        assert (status.state, status.exit and status.exit.signal) == ("ended", "SIGTERM")
        assert (await project.call(stop_job, job=1)).text.startswith("already ended. job 1: ended by SIGTERM")


async def test_an_unknown_job_names_the_known_ones(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        with pytest.raises(ToolError, match="there is no job 5; jobs: none"):
            await project.call(read_job, job=5)
        await project.call(run_shell, command="sleep 60", background=True)
        with pytest.raises(ToolError, match="there is no job 5; jobs: 1"):
            await project.call(stop_job, job_id=5)


async def test_a_job_without_a_terminal_cannot_be_typed_into(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command="sleep 60", background=True)
        for call in (
            project.call(write_job, job=1, text="x"),
            project.call(send_keys, job=1, keys=["Enter"]),
            project.call(capture_pane, job=1),
        ):
            with pytest.raises(ToolError, match="job 1 does not run on a terminal"):
                await call


async def test_a_program_on_a_terminal_is_typed_into_and_its_screen_is_seen(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        script = 'read -p "name? " name; echo "hello $name"; stty size; test -t 0 && echo terminal; cat'
        first = await project.call(run_shell, command=script, pty=True)
        assert "running on a terminal as job 1" in first.text
        await has_said(project, b"name?")
        await project.call(write_job, job=1, text="Ada\n")
        await has_said(project, b"terminal")
        screen = await project.call(capture_pane, job=1)
        assert screen.text.splitlines()[:4] == ["name? Ada", "hello Ada", "24 80", "terminal"]
        await project.call(send_keys, job=1, keys=["x", "Space", "y", "BSpace", "z", "Enter", "C-d"])
        await ended(project, 1)
        assert (await project.call(capture_pane, job=1)).text.splitlines()[4:6] == ["x z", "x z"]


async def test_control_c_reaches_the_program_on_the_terminal(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(
            run_shell,
            command="trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done",
            pty=True,
        )
        await has_said(project, b"ready")
        await project.call(send_keys, job=1, keys=["C-c"])
        await ended(project, 1)
        status = project.jobs.get(1).status()
        assert status.exit is not None
        assert status.exit.code == 9


async def test_a_program_that_asks_where_its_cursor_is_gets_an_answer(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        command = (
            r"stty raw -echo; printf 'ab\033[6n'; IFS= read -rsd R answer; stty sane; echo; echo ${answer#?}"
        )
        await project.call(run_shell, command=command, pty=True)
        await until(lambda: all(job.state == "ended" for job in project.jobs.all()))
        assert "[1;3" in project.jobs.get(1).log.text() if project.jobs.all() else True


async def test_typing_into_a_program_that_does_not_read_ends(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command="stty raw -echo; echo ready; sleep 60", pty=True)
        await has_said(project, b"ready")
        terminal = project.jobs.get(1).terminal
        assert terminal is not None
        with pytest.raises(ToolError, match="too much to type at once"):
            await terminal.write(b"x" * 100_000)
        with pytest.raises(ToolError, match="the job does not read; "):
            await terminal.write(b"x" * 60_000)


async def test_typing_into_a_job_that_ended_says_so(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command=GO, pty=True)
        go(project)
        await ended(project, 1)
        with pytest.raises(ToolError, match="the job has ended"):
            await project.call(write_job, job=1, text="x")


async def test_typing_in_the_moment_a_job_ends_says_so(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command=GO + "seq 1 3000", pty=True)
        child = project.jobs.get(1).child
        go(project)
        while not child.is_closed:
            await asyncio.sleep(0)
        with pytest.raises(ToolError, match="the job has ended"):
            await project.call(write_job, job=1, text="x")


async def test_a_flood_on_a_terminal_shows_its_end(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command="seq 1 60000; echo over; sleep 60", pty=True)
        await until(lambda: project.jobs.get(1).log.text().endswith("over\r\n"), within_s=50)
        assert "60000\nover" in (await project.call(capture_pane, job=1)).text


async def test_a_screen_that_never_rests_is_shown_all_the_same(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        async with asyncio.timeout(60):
            started = await project.call(run_shell, command="yes 'never at rest'", pty=True)
            await until(lambda: project.jobs.get(1).log.total > 1000)
            shown = await project.call(capture_pane, job=1)
        assert "running on a terminal as job 1" in started.text
        assert shown.text.count("never at rest") > 5
        await project.call(stop_job, job=1)


async def test_old_ended_jobs_are_forgotten(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        for _ in range(KEPT_ENDED + 3):
            project.jobs.start(project.request("true"), command="true")
            await until(lambda: project.jobs.all()[-1].state == "ended")
        await until(lambda: [job.id for job in project.jobs.all()] == list(range(4, KEPT_ENDED + 4)))


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("Enter", b"\r"), ("Tab", b"\t"), ("Up", b"\x1b[A"), ("C-c", b"\x03"), ("C-[", b"\x1b"),
        ("M-x", b"\x1bx"), ("enter", b"\r"), ("ctrl-c", b"\x03"), ("Ctrl+C", b"\x03"), ("^C", b"\x03"),
        ("alt-x", b"\x1bx"), ("pageup", b"\x1b[5~"),
        ("M-Up", b"\x1b\x1b[A"), ("F5", b"\x1b[15~"), ("F12", b"\x1b[24~"), ("é", "é".encode()), ("^", b"^"),
    ],
)  # fmt: skip
def test_keys_send_what_a_terminal_sends(name: str, sent: bytes) -> None:
    assert ScreenModel(TerminalSize()).key(name) == sent


def test_arrow_keys_follow_the_mode_the_program_chose() -> None:
    model = ScreenModel(TerminalSize())
    model.feed(b"\x1b[?1h")
    assert (model.key("Up"), model.key("Enter")) == (b"\x1bOA", b"\r")


@pytest.mark.parametrize(
    "name", ["", "Entr", "C-", "C-ä", "C-ß", "^ß", "c-ﬀ", "C-1", "c-1", "hello", "M-" * 3000 + "x"]
)
def test_unknown_keys_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ToolError, match="expected a key name"):
        ScreenModel(TerminalSize()).key(name)


def test_no_byte_sequence_breaks_the_screen() -> None:
    model = ScreenModel(TerminalSize(20, 5))
    for final in range(0x40, 0x7F):
        for middle in (b"", b"?", b"?1;2;3", b"9999999", b">", b"1;1;1;1;1", b"!", b"=3"):
            model.feed(b"\x1b[" + middle + bytes([final]))
    model.feed(bytes(range(256)) * 3 + b"\x1b]0;title\x07\x1bP1$q\x1b\\\xff\xfe")
    model.feed(b"\x1bc\x1b[2J\x1b[Hfine")
    assert model.lines()[0] == "fine"
