"""Starting commands: what they get, what they cannot get, what is said when they do not start."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path

import msgspec
import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import shell_argv, trusted_program
from buddy.workspace.processes.limits import (
    NO_LIMITS,
    RTTIME_FLOOR,
    ProcessLimits,
    limit_reached,
    with_limits,
)
from buddy.workspace.processes.pool import CommandRequest
from buddy.workspace.processes.process_tree import (
    ProcessInfo,
    all_processes,
    members,
    new_tag,
    own_children,
    parse_stat,
    read_process,
    tag_number,
)
from tests.capabilities import requires
from tests.support.tool_project import tool_project
from tests.support.waiting import until

linux = requires("proc")


def test_a_child_gets_the_allow_list_and_buddys_own_words() -> None:
    given = {
        "HOME": "/h", "PATH": "/p", "LANG": "C", "LC_ALL": "C", "XDG_DATA_HOME": "/d", "TERM": "xterm",
        "EDITOR": "vi", "API_KEY": "k", "PROXY": "p", "PAGER": "less", "GIT_DIR": "/g", "BASH_ENV": "/b",
    }  # fmt: skip
    environment = ChildEnvironment(
        given, "s", frozenset({"EDITOR", "API_KEY", "PROXY"}), frozenset({"PROXY"})
    )
    assert environment.for_child(task_id=7, tag="t", extra={"X": "y"}) == {
        "HOME": "/h", "PATH": "/p", "LANG": "C", "LC_ALL": "C", "XDG_DATA_HOME": "/d", "EDITOR": "vi",
        "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "AI_AGENT": "buddy",
        "BUDDY_SESSION_ID": "s", "BUDDY_TASK_ID": "7", "BUDDY_JOB": "t", "X": "y",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["LC_PIN", "LC_", "LC_TERMINAL", "XDG_SEAT_PIN", "XDG_", "XDG_CONFIG_HOME_", "lc_all", "XDG_VTNR"]
)
def test_RU_L4_only_names_of_the_standards_reach_a_child(name: str) -> None:
    assert not ChildEnvironment({}, "s").passes(name)
    assert ChildEnvironment({}, "s", frozenset({name})).passes(name)


def test_without_a_path_there_is_a_trusted_one() -> None:
    assert (
        ChildEnvironment({}, "s")
        .for_child(task_id=1, tag="t", extra={})["PATH"]
        .startswith("/usr/local/bin:")
    )


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "api_key", "MyToken", "DB_PASSWD", "AWS_CREDENTIALS_FILE", "SECRET"]
)
def test_secret_names_never_pass(name: str) -> None:
    assert not ChildEnvironment({name: "x"}, "s", frozenset({name})).passes(name)


def test_programs_come_from_trusted_folders_and_never_from_the_workspace(tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "bin"
    for folder in (work, elsewhere):
        folder.mkdir()
        (folder / "oddly-named").write_text("#!/bin/sh\n")
        (folder / "oddly-named").chmod(0o755)
    (tmp_path / "link").symlink_to(work)
    path = f"{work}:.:{tmp_path}/link:{elsewhere}"
    assert trusted_program("oddly-named", path, str(work)) == str(elsewhere / "oddly-named")
    assert trusted_program("oddly-named", f"{work}:{tmp_path}/link", str(work)) is None
    assert trusted_program("sh", path, str(work)) in ("/usr/bin/sh", "/bin/sh")


def test_a_command_is_exactly_one_argument_of_a_bare_bash() -> None:
    assert shell_argv("echo 'a b'; exit 1")[1:] == ("--noprofile", "--norc", "-c", "echo 'a b'; exit 1")
    with pytest.raises(ToolError, match="NUL"):
        shell_argv("a\0b")


@linux
def test_limits_cost_nothing_when_there_are_none_and_one_bash_when_there_are() -> None:
    assert with_limits(("x",), NO_LIMITS, "/bin/bash") == ("x",)
    limits = ProcessLimits(cpu_s=5, memory_bytes=10_000_000, file_bytes=2048, processes=7, open_files=9)
    script = "ulimit -c 0; ulimit -t 6; ulimit -S -t 5; "
    script += 'ulimit -v 9765; ulimit -f 2; ulimit -u 7; ulimit -n 9; exec "$@"'
    assert with_limits(("x", "y"), limits, "/bin/bash") == (
        "/bin/bash", "--noprofile", "--norc", "-c", script, "buddy-limits", "x", "y",
    )  # fmt: skip


@linux
def test_a_limit_beyond_what_the_system_allows_is_what_it_allows() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    script = with_limits(("x",), ProcessLimits(open_files=hard + 1), "/bin/bash")[4]
    assert script == f'ulimit -c 0; ulimit -n {hard}; exec "$@"'


@pytest.mark.parametrize(
    ("code", "signal", "text", "says"),
    [
        (0, "", "MemoryError\n", ""),
        (1, "", "wrong\n", ""),
        (None, "SIGKILL", "", ""),
        (1, "", "MemoryError\n", "the settings allow 10 MB of memory ([tools] shell_memory_mb)"),
        (153, "", "", "the settings allow 1,002 MB in a file ([tools] shell_file_mb)"),
        (None, "SIGXFSZ", "", "the settings allow 1,002 MB in a file ([tools] shell_file_mb)"),
        (None, "SIGXCPU", "", "the settings allow 5 s of processor time ([tools] shell_cpu_s)"),
        (
            1,
            "",
            "fork: Resource temporarily unavailable\nToo many open files",
            "the settings allow 7 processes ([tools] shell_processes), "
            "9 open files ([tools] shell_open_files)",
        ),
    ],
)
def test_a_command_that_came_to_a_limit_says_which_setting_it_is(
    code: int | None, signal: str, text: str, says: str
) -> None:
    mega = 1_000_000
    limits = ProcessLimits(cpu_s=5, memory_bytes=10 * mega, file_bytes=1002 * mega, processes=7, open_files=9)
    assert limit_reached(limits, code, signal, text) == says
    assert limit_reached(NO_LIMITS, code, signal, text) == ""


async def test_a_start_up_file_of_the_home_is_not_read(tmp_path: Path) -> None:
    async with tool_project(tmp_path, variables={"BASH_ENV": str(tmp_path / "home" / ".bashrc")}) as project:
        for name in (".bashrc", ".profile", ".bash_profile"):
            (tmp_path / "home" / name).write_text("echo start-up\n")
        assert (await project.run("echo only; echo $-")).text.split("\n")[0] == "only"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            CommandRequest(("/dev/null/nowhere/program",), "/", 1),
            "program could not be started: Not a directory",
        ),
        (CommandRequest(("/etc/passwd",), "/", 1), "passwd could not be started: Permission denied"),
        (
            CommandRequest(shell_argv("true"), "/dev/null/nowhere", 1),
            "expected a folder to work in, found none at /dev/null/nowhere",
        ),
        (CommandRequest(shell_argv("x" * 3_000_000), "/", 1), "too long for one process"),
    ],
    ids=["no program", "not executable", "no folder", "too long"],
)
async def test_what_cannot_start_says_why_and_leaks_nothing(
    tmp_path: Path, request_: CommandRequest, words: str
) -> None:
    async with tool_project(tmp_path) as project:
        await project.run("true")
        descriptors = os.listdir("/proc/self/fd") if sys.platform == "linux" else []
        with pytest.raises(ToolError, match=words):
            project.children.start(request_)
        terminal = msgspec.structs.replace(project.request("true"), cwd="/dev/null/nowhere")
        with pytest.raises(ToolError, match="folder"):
            project.jobs.start(terminal, command="true")
        if descriptors:
            assert len(os.listdir("/proc/self/fd")) == len(descriptors)


@linux
async def test_descendants_carry_the_tag_even_without_environment_and_session(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        child = project.children.start(project.request("(env -i setsid /bin/sleep 50 &); sleep 50; true"))

        def found() -> dict[int, ProcessInfo]:
            return members(child.tree.tag, child.tree.leader)

        await until(lambda: len(found()) == 3 and len({one.session for one in found().values()}) == 2)
        assert {tag_number(pid) for pid in found()} == {child.tree.tag.number}
        await child.end("test")
        assert members(child.tree.tag, child.tree.leader) == {}


@linux
async def test_buddys_own_limits_are_as_before(tmp_path: Path) -> None:
    import resource

    before = (resource.getrlimit(resource.RLIMIT_RTTIME), resource.getrlimit(resource.RLIMIT_CORE))
    async with tool_project(tmp_path) as project:
        await project.run("true")
    assert (resource.getrlimit(resource.RLIMIT_RTTIME), resource.getrlimit(resource.RLIMIT_CORE)) == before
    assert tag_number(os.getpid()) is None
    assert RTTIME_FLOOR > 10**15


@linux
def test_tags_are_unlike_each_other_and_name_their_maker() -> None:
    tags = [new_tag() for _ in range(100)]
    assert len({tag.text for tag in tags}) == len({tag.number for tag in tags}) == 100
    me = read_process(os.getpid())
    assert me is not None
    assert tags[0].text.startswith(f"{me.pid}.{me.started}.")


def test_a_process_whose_session_leader_is_outside_of_the_container_is_still_a_process() -> None:
    """In a PID namespace such a process reads group 0 and session 0, as kernel threads do everywhere."""
    tail = b"99 0 0 0 0 0 0 0 20 0 1 0 1121479 3133440 394 1 2 3"
    inside = parse_stat(2, b"2 (sh) R 1 0 0 0 -1 4194304 " + tail)
    thread = parse_stat(2, b"2 (kthreadd) S 0 0 0 0 -1 2129984 " + tail)
    assert (inside, thread) == (
        ProcessInfo(2, parent=1, group=0, session=0, state="R", started=1121479, kernel=False),
        ProcessInfo(2, parent=0, group=0, session=0, state="S", started=1121479, kernel=True),
    )
    assert parse_stat(2, b"2 (sh) R 1 0") is None


@linux
def test_a_process_whose_name_imitates_the_format_is_read_rightly(tmp_path: Path) -> None:
    import subprocess

    odd = tmp_path / ") Z 1 1"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "50"]) as running:
        found = read_process(running.pid)
        assert found is not None
        assert (found.parent, found.alive) == (os.getpid(), True)
        assert running.pid in own_children()
        assert running.pid in all_processes()
        running.kill()


async def test_running_and_reading_of_other_owners_children_is_left_alone(tmp_path: Path) -> None:
    """A child of somebody else in this process keeps its exit status for its owner."""
    async with tool_project(tmp_path) as project:
        other = await asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 5")
        for _ in range(20):
            await project.run("(true &)")
        assert await other.wait() == 5


GIT_SETTINGS = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "touch OWNED",
    "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=touch OWNED'",
    "GIT_CONFIG_GLOBAL": "/elsewhere",
    "GIT_CONFIG_SYSTEM": "/elsewhere",
    "GIT_DIR": "/elsewhere",
    "GIT_WORK_TREE": "/elsewhere",
    "GIT_EXTERNAL_DIFF": "touch OWNED",
    "GIT_SSH_COMMAND": "touch OWNED",
    "GIT_EXEC_PATH": "/elsewhere",
    "GIT_TEMPLATE_DIR": "/elsewhere",
    "GIT_ASKPASS": "touch OWNED",
    "GIT_PROXY_COMMAND": "touch OWNED",
}


async def test_no_git_of_a_child_has_the_settings_of_the_users_environment(tmp_path: Path) -> None:
    """Git runs what the files it reads name, so nothing else may decide it."""
    async with tool_project(tmp_path, variables=GIT_SETTINGS) as project:
        await project.run("git init -q .")
        environment = (await project.run("env")).text
        assert not [name for name in GIT_SETTINGS if f"\n{name}=" in f"\n{environment}"]
        assert "OWNED" not in (await project.run("git config --list --show-origin; git status; ls")).text
