"""run_shell as a model uses it: results, wait modes, limits, names."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from buddy.agent.display import Command
from buddy.agent.tool import Access, ToolError, ToolRegistry
from buddy.tools.shell import ShellSettings, duration_s, run_shell
from tests.support.tool_project import tool_project
from tests.support.waiting import until


def without_seconds(text: str) -> str:
    head, _, rest = text.rpartition(", ")
    return f"{head}, {rest.partition(' s')[2]}"


async def test_a_command_gives_its_output_exit_code_and_display(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        result = await project.call(run_shell, command="echo out; echo err >&2; exit 3")
        assert without_seconds(result.text) == "out\nerr\n[exit code 3, ]"
        assert result.ok is False
        display = result.display
        assert isinstance(display, Command)
        assert (display.command, display.output, display.exit_code, display.ended) == (
            "echo out; echo err >&2; exit 3", "out\nerr\n", 3, "",
        )  # fmt: skip


async def test_a_command_without_output_and_one_without_newline(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        assert without_seconds((await project.call(run_shell, command="true")).text) == "[exit code 0, ]"
        assert (
            without_seconds((await project.call(run_shell, command="printf x")).text) == "x\n[exit code 0, ]"
        )


async def test_a_signal_is_named(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        result = await project.call(run_shell, command="kill -SEGV $$")
        assert without_seconds(result.text) == "[ended by SIGSEGV, ]"
        assert isinstance(result.display, Command)
        assert (result.display.exit_code, result.display.ended) == (None, "SIGSEGV")


async def test_output_is_shown_while_the_command_runs(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        (project.root / "gate").write_text("")
        work = asyncio.ensure_future(
            project.call(run_shell, command="echo first; while [ -e gate ]; do sleep 0.01; done; echo second")
        )
        await until(lambda: project.progress == ["first\n"])
        (project.root / "gate").unlink()
        await work
        assert project.progress == ["first\n", "second\n"]


async def test_names_and_arguments_of_other_programs_are_taken(tmp_path: Path) -> None:
    registry = ToolRegistry([run_shell])
    async with tool_project(tmp_path) as project:
        for name in ("bash", "shell", "run_command", "execute_command"):
            found = registry.get(name)
            assert found is run_shell
        (project.root / "sub").mkdir()
        result = await project.call(run_shell, cmd="pwd", workdir="sub", timeout_seconds=5)
        assert result.text.startswith(f"{project.root}/sub\n")


def test_it_may_change_anything_and_says_so() -> None:
    arguments = run_shell.decode('{"command": "ls"}')
    assert run_shell.access(arguments) == Access(anything=True)
    assert run_shell.risk == "high"
    assert run_shell.preview is not None


async def test_past_its_time_limit_a_command_goes_on_as_a_job(tmp_path: Path) -> None:
    for limit_s in (0.3, 3, 15):  # until the machine is fast enough for the first word
        async with tool_project(tmp_path, shell=ShellSettings(time_limit_s=limit_s)) as project:
            result = await project.call(run_shell, command="echo begun; sleep 60")
            jobs = [(job.id, job.state) for job in project.jobs.all()]
        if "begun" in result.text:
            break
    assert result.ok
    assert "begun\n[still running after " in result.text
    assert "it goes on in the background as job 1. read_job(job=1, offset=6)" in result.text
    assert jobs == [(1, "running")]
    assert isinstance(result.display, Command)
    assert (result.display.exit_code, result.display.ended) == (None, "running as job 1")


@pytest.mark.parametrize(
    "how", [{"wait": False}, {"wait": "false"}, {"background": True}, {"run_in_background": True}]
)
async def test_what_need_not_be_waited_for_returns_at_once(tmp_path: Path, how: dict[str, object]) -> None:
    async with tool_project(tmp_path) as project:
        result = await project.call(run_shell, command="sleep 60", **how)
        assert "as job 1" in result.text


async def test_a_background_command_that_fails_at_once_says_so(tmp_path: Path) -> None:
    for _ in range(20):
        async with tool_project(tmp_path) as project:
            result = await project.call(run_shell, command="no-such-program", background=True)
            jobs = project.jobs.all()
        if jobs == ():  # otherwise the machine was slower than the first look at it
            break
    assert without_seconds(result.text).endswith("no-such-program: command not found\n[exit code 127, ]")
    assert jobs == ()


@pytest.mark.parametrize("wait", ["200ms", "0.2", "0.2s", 0.2])
async def test_a_duration_waits_so_long(tmp_path: Path, wait: object) -> None:
    async with tool_project(tmp_path) as project:
        assert "as job 1" in (await project.call(run_shell, command="sleep 60", wait=wait)).text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("10m", 600), ("1.5h", 5400), ("500ms", 0.5), (" 2 min ", 120), ("3S", 3)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "10 m s", "1e9", "", "9" * 30 + "x"])
async def test_other_words_for_wait_are_refused_with_an_example(tmp_path: Path, text: str) -> None:
    with pytest.raises(ToolError, match='expected true, false or a duration like "30s" or "10m"'):
        duration_s(text)


async def test_an_empty_command_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        with pytest.raises(ToolError, match="the command is empty"):
            await project.call(run_shell, command=" \n")
        with pytest.raises(ToolError, match="expected a folder to work in"):
            await project.call(run_shell, command="true", cwd="nowhere")


async def test_a_deleted_working_directory_is_explained(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        project.root.rmdir()
        with pytest.raises(ToolError, match="expected a folder to work in, found none at"):
            await project.call(run_shell, command="true")


async def test_a_command_can_delete_its_own_folder(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        result = await project.call(run_shell, command='rmdir "$PWD"; echo gone')
        assert result.text.startswith("gone\n")


async def test_nothing_is_started_after_the_cancellation(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        project.cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await project.call(run_shell, command="sleep 0.5; touch ran")
        assert not (project.root / "ran").exists()


async def test_commands_run_side_by_side(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        results = await asyncio.gather(
            *(project.call(run_shell, command=f"echo {n}; exit {n}") for n in range(20))
        )
        assert [without_seconds(result.text) for result in results] == [
            f"{n}\n[exit code {n}, ]" for n in range(20)
        ]
