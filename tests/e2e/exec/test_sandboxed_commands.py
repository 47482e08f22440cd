"""Commands of a model in the sandbox, through the real program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.security.test_racing_names import RACE
from tests.support.processes import processes_with
from tests.support.program import YOLO, Program
from tests.support.sandbox_machine import WITHOUT_NAMESPACES
from tests.support.through_the_proxy import FETCH, far_server

AUTO = ("--permission-mode", "auto")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which is private inside."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-test-", dir=os.path.expanduser("~"))))
    yield made
    shutil.rmtree(made)


def confined_program(folder: Path, server: FakeLLM, **sandbox: object) -> Program:
    """The program with its sandbox on."""
    program = Program(folder, server.url)
    program.configure({"sandbox": {"level": "auto", **sandbox}})
    return program


async def answers(
    folder: Path, *commands: str, options: tuple[str, ...] = AUTO, settings: dict[str, object] | None = None
) -> tuple[Program, list[str]]:
    """Run commands as calls of a model; return what it was answered."""
    replies = [reply(call("run_shell", command=command)) for command in commands]
    async with FakeLLM([*replies, reply("Done.")]) as server:
        program = confined_program(folder, server, **(settings or {}))
        await program.run("exec", "go", *options)
        return program, [one.text for one in await program.history() if isinstance(one, ToolMessage)]


@requires("bwrap")
async def test_auto_runs_a_command_inside_and_nothing_outside_changes(folder: Path) -> None:
    program, (answer,) = await answers(folder, "echo made > made.txt; touch ~/outside; echo end")

    assert (program.repo / "made.txt").read_text() == "made\n"
    assert not (program.home / "outside").exists()
    assert "Read-only file system" in answer
    assert "end\n[exit code 0" in answer


@requires("bwrap")
async def test_a_blocked_command_says_to_the_model_what_was_blocked(folder: Path) -> None:
    _, (answer,) = await answers(folder, "curl -sS https://registry.example/ && true")

    assert "[the sandbox blocked the host registry.example; nobody is there to allow it]" in answer


@requires("bwrap")
async def test_a_blocked_folder_is_named_by_the_one_to_open(folder: Path) -> None:
    _, (answer,) = await answers(folder, "mkdir -p ~/.tool/deep/er")

    assert "[the sandbox blocked writing to ~/.tool; nobody is there to allow it]" in answer


@requires("bwrap")
async def test_a_name_created_by_racing_is_told_to_model_and_person(folder: Path) -> None:
    command = f"{os.path.realpath(sys.executable)} -I race.py mkdir .codexx .codex"
    async with FakeLLM([reply(call("run_shell", command=command)), reply("Done.")]) as server:
        program = confined_program(folder, server)
        (program.repo / "race.py").write_text(RACE)
        ran = await program.run("exec", "go", *AUTO)
        (answer,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]

    assert "RACED" in answer  # otherwise this tests nothing
    told = ".codex was created; it is now .buddyx/quarantine/"
    assert f"[a sandboxed command changed a protected name: {told}" in answer
    assert f"a sandboxed command changed a protected name: {told}" in ran.err
    assert not (program.repo / ".codex").exists()


@requires("bwrap")
async def test_a_folder_of_the_settings_is_open(folder: Path) -> None:
    async with FakeLLM([reply(call("run_shell", command="touch ~/.tool/x")), reply("Done.")]) as server:
        again = confined_program(folder, server, write=["~/.tool"])
        (again.home / ".tool").mkdir()
        await again.run("exec", "go", *AUTO)
    assert (again.home / ".tool" / "x").exists()


@requires("bwrap")
async def test_a_server_of_one_command_is_reached_by_the_next(folder: Path) -> None:
    serve = "python3 -m http.server 8123 --bind 127.0.0.1"
    ask = "until curl -s http://127.0.0.1:8123/ | grep -o 'Directory listing'; do sleep 0.1; done"
    async with FakeLLM(
        [
            reply(call("run_shell", command=serve, background=True)),
            reply(call("run_shell", command=ask)),
            reply(call("read_job", job=1)),
            reply("Done."),
        ]
    ) as server:
        program = confined_program(folder, server)
        await program.run("exec", "go", *AUTO)
        found = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert "Directory listing" in found[1]
    assert (
        "It serves port 8123 inside the sandbox: commands here reach that, the person's browser" in found[2]
    )


@requires("bwrap")
async def test_a_rule_runs_a_server_where_the_browser_reaches_it(folder: Path) -> None:
    serve = "python3 -m http.server 0 --bind 127.0.0.1 --directory /usr/share/doc"
    rule = {"tool": "shell", "argv": ["python3", "-m", "http.server", "*"], "decision": "allow"}
    async with FakeLLM(
        [
            reply(call("run_shell", command=serve, background=True)),
            reply(call("run_shell", command="sleep 1")),
            reply("Done."),
        ]
    ) as server:
        program = confined_program(folder, server)
        program.configure({"sandbox": {"level": "auto"}, "rule": [{**rule, "sandbox": "off"}]})
        work = asyncio.ensure_future(program.run("exec", "go", *AUTO))
        namespaces = set[str]()
        while not work.done():
            for pid in processes_with("http.server\x000"):
                with contextlib.suppress(OSError):
                    namespaces.add(os.readlink(f"/proc/{pid}/ns/net"))
            await asyncio.sleep(0.02)
    assert namespaces == {os.readlink("/proc/self/ns/net")}


async def test_yolo_runs_outside_of_the_sandbox(folder: Path) -> None:
    program, _ = await answers(folder, "touch ~/outside", options=YOLO)

    assert (program.home / "outside").exists()


@requires("bwrap")
@pytest.mark.parametrize("kind", ["run_shell", "run_tests"])
async def test_a_required_sandbox_that_is_not_there_stops_commands(folder: Path, kind: str) -> None:
    words = {"command": "touch ran; cat main.py"} if kind == "run_shell" else {"target": ""}
    with no_landlock() as before:
        async with FakeLLM([reply(call(kind, **words)), reply("Done.")]) as server:
            program = confined_program(folder, server, level="require")
            program.before = before
            program.files(test_it__py="def test_it():\n    open('ran', 'w')\n")
            await program.run("exec", "go", *AUTO, pass_fds=(int(before[-2]),))
            (answer,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert '[sandbox] level = "require", and there is no sandbox here: bubblewrap does not work' in answer
    assert "Landlock" in answer
    assert not (program.repo / "ran").exists()


@requires("bwrap")
async def test_without_any_sandbox_the_program_works_and_says_so(folder: Path) -> None:
    with no_landlock() as before:
        async with FakeLLM([reply(call("run_shell", command="cat main.py")), reply("Done.")]) as server:
            program = confined_program(folder, server)
            program.before = before
            program.files(main__py="print(1)\n")
            ran = await program.run("exec", "go", pass_fds=(int(before[-2]),))
            (answer,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    with no_landlock() as before:
        program.before = before
        doctor = await program.run("doctor", pass_fds=(int(before[-2]),))
    assert (ran.code, answer.partition("\n")[0]) == (0, "print(1)")
    assert "sandbox: none (bubblewrap does not work here" in doctor.out
    assert "a command that runs can do whatever you can do" in doctor.out


@contextlib.contextmanager
def no_landlock() -> Iterator[tuple[str, ...]]:
    """Words in front of a program that make a system for it that has neither bubblewrap nor Landlock."""
    refused = struct.pack(
        "=HBBIHBBIHBBIHBBI",
        *(0x20, 0, 0, 0),  # load the number of the system call
        *(0x15, 0, 1, 444),  # landlock_create_ruleset
        *(0x06, 0, 0, 0x00050000 | 38),  # ENOSYS
        *(0x06, 0, 0, 0x7FFF0000),
    )
    descriptor = os.memfd_create("filter", 0)
    try:
        os.write(descriptor, refused)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield (*WITHOUT_NAMESPACES[:-1], "--seccomp", str(descriptor), "--")
    finally:
        os.close(descriptor)


@requires("bwrap")
@pytest.mark.parametrize(
    ("hosts", "networks", "says"),
    [
        (False, False, "[the sandbox blocked the host {far}; nobody is there to allow it]"),
        (True, False, "[the sandbox blocked a connection to {far} ("),
        (True, True, "answer of the far server"),
    ],
)
async def test_an_allowed_host_leads_to_a_private_network_only_where_that_is_named(
    folder: Path, hosts: bool, networks: bool, says: str
) -> None:
    async with far_server() as far:
        settings: dict[str, object] = {
            "hosts": [far] if hosts else [],
            "networks": ["127.0.0.0/8"] if networks else [],
        }
        async with FakeLLM(
            [reply(call("run_shell", command=f"python3 fetch.py {far}")), reply("Done.")]
        ) as server:
            program = confined_program(folder, server, **settings)
            program.files(fetch__py=FETCH)
            await program.run("exec", "go", *AUTO)
            (answer,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert says.format(far=far) in answer


@requires("bwrap")
async def test_a_folder_of_add_dir_can_be_changed_and_its_settings_cannot(folder: Path) -> None:
    (folder / "more/.vscode").mkdir(parents=True)
    command = f"cd {folder}/more; touch file; touch .vscode/tasks.json; mkdir .codex"
    async with FakeLLM([reply(call("run_shell", command="bash script.sh")), reply("Done.")]) as server:
        program = confined_program(folder, server)
        (program.repo / "script.sh").write_text(command)
        await program.run("exec", "go", "--add-dir", str(folder / "more"), *AUTO)
        (answer,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert sorted(str(one.relative_to(folder / "more")) for one in (folder / "more").rglob("*")) == [
        ".vscode",
        "file",
    ]
    assert "the sandbox blocked writing to" in answer


@requires("bwrap")
async def test_what_only_reads_may_loop_unasked_and_sees_no_secret(folder: Path) -> None:
    async with FakeLLM(
        [
            reply(call("run_shell", command="for i in a b; do cat .env ~/.ssh/id_rsa; echo $i; done")),
            reply(call("run_shell", command="for i in a b; do wc -c main.py; done")),
            reply("Done."),
        ]
    ) as server:
        program = confined_program(folder, server)
        program.files(main__py="print(1)\n")
        await program.run("exec", "go", "--permission-mode", "plan")
        first, second = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert "[exit code" not in first  # secrets ask, sandbox or not
    assert second.count("main.py") == 2


@requires("bwrap")
async def test_ATTACK3_the_file_a_profile_reads_its_key_from_is_hidden(folder: Path) -> None:
    key, moved = folder / "key.txt", folder / "moved"
    (moved / "gh").mkdir(parents=True)
    (moved / "gh/hosts.yml").write_text("the-token\n")
    key.write_text("the-key-of-the-profile\n")
    key.chmod(0o600)
    async with FakeLLM(
        [
            reply(call("run_shell", command=f"base64 {key}; cat {moved}/gh/hosts.yml; echo end")),
            reply("Done."),
        ]
    ) as server:
        program = Program(folder, server.url, environment={"GH_CONFIG_DIR": str(moved / "gh")})
        other = {"model": "openai/x", "api_key_file": str(key)}
        program.configure({"sandbox": {"level": "auto"}, "models": {"other": other}})
        await program.run("exec", "go", *AUTO)
        (answer,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert "dGhlLWtleS" not in answer
    assert "the-token" not in answer
    assert "end" in answer
