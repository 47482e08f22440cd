"""A person and a model at one tmux pane, through the program's own front end."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.display import Command, Plain
from buddy.repl.intents import Cancel
from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.processes import sleepers
from tests.support.program import Program, running
from tests.support.repl import Repl, open_repl_in
from tests.support.secrets_for_tests import SHAPED
from tests.support.tmux_pane import PaneServer, pane_server

pytestmark = requires("tmux", "linux")
YOLO = ("--permission-mode", "yolo", "--i-know")
BASH = ("bash", "--norc", "-i")


@pytest.fixture
def server() -> Iterator[PaneServer]:
    with pane_server() as pane:
        yield pane


def obeys(asked: Asked) -> Reply:
    """`TOOL: TEXT` calls the tool; anything else is only heard."""
    found = re.search(r"^(run|type|write|look): (.*)", asked.last_user_text, re.MULTILINE)
    if found is None or asked.turns[-1][0] != "user":
        return reply("done")
    text = found[2]
    match found[1]:
        case "run":
            return reply(call("run_shell", command=text))
        case "type":
            return reply(call("send_keys", text=text, keys=["Enter", "C-c"]))
        case "write":
            return reply(call("write_file", path=text, content="x\n"))
        case _:
            return reply(call("capture_pane"))


def program_with_pane(root: Path, model: FakeLLM, server: PaneServer, **more: Any) -> Program:
    settings = {"targets": {"box": {"kind": "tmux", "socket": server.socket}}, **more}
    program = Program(root, model.url, settings=settings)
    program.files(main__py="print(1)\n")
    return program


@asynccontextmanager
async def at_pane(root: Path, server: PaneServer, *arguments: str, **more: Any) -> AsyncIterator[Repl]:
    """A session on the pane of the server, which runs bash."""
    server.open(*BASH)
    async with FakeLLM(obeys) as model:
        program = program_with_pane(root, model, server, **more)
        async with open_repl_in(program, model, "--target", "box", *arguments) as repl:
            yield repl


async def asked_about(repl: Repl) -> Any:
    """Wait for a request for approval."""
    await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a request")
    return repl.context.board.inbox.waiting()[0].event


async def test_every_command_and_key_asks_and_names_the_pane(server: PaneServer, tmp_path: Path) -> None:
    async with at_pane(tmp_path, server) as repl:
        assert repl.context.session.target_words(repl.context.board.task(1)) == "box"
        repl.say("run: ls")
        event = await asked_about(repl)
        shown = f"box (tmux -S {server.socket} attach -t box)"
        assert event.reason.startswith(f"on {shown}: ")
        assert isinstance(event.preview, Command)
        assert event.preview.output == f"runs on {shown}"
        assert "on box" in event.session
        assert server.screen().count("ls") == 0
        await repl.said("/ok", "approved once")
        await repl.quiet()
        assert "main.py" in repl.server.requests[-1].tool_results[-1]
        repl.say("type: a\x1bb\x03")
        event = await asked_about(repl)
        assert event.reason.startswith(f"on {shown}: it types into the shared pane")
        assert event.preview == Plain(f"type into {shown}", "a⟨Escape⟩b⟨C-c⟩ ⟨Enter⟩ ⟨C-c⟩")
        await repl.said("/no", "denied")
        await repl.quiet()
        await repl.turn("look: now")
        assert "main.py" in repl.server.requests[-1].tool_results[-1]


async def test_a_rule_without_the_target_does_not_allow_it(server: PaneServer, tmp_path: Path) -> None:
    everywhere = {"tool": "shell", "argv": ["echo", "a"], "decision": "allow"}
    there = {"tool": "shell", "target": "box", "argv": ["echo", "b"], "decision": "allow"}
    async with at_pane(tmp_path, server, rule=[everywhere, there]) as repl:
        await repl.turn("run: echo b")
        assert repl.server.requests[-1].tool_results[-1].startswith("b\n[exit code 0")
        repl.say("run: echo a")
        await asked_about(repl)
        await repl.said("/no", "denied")
        await repl.quiet()


async def test_reading_mode_looks_and_types_nothing(server: PaneServer, tmp_path: Path) -> None:
    async with at_pane(tmp_path, server, "--permission-mode", "plan") as repl:
        for line in ("run: ls", "type: x"):
            await repl.turn(line)
            assert "read-only" in repl.server.requests[-1].tool_results[-1]
        await repl.turn("look: now")
        assert "runs bash" in repl.server.requests[-1].tool_results[-1]
        assert server.screen().count("\n") == 0


async def test_secrets_of_the_pane_reach_no_model(server: PaneServer, tmp_path: Path) -> None:
    secret = SHAPED["GitHub"]
    async with at_pane(tmp_path, server, *YOLO) as repl:
        (repl.program.repo / "keys.txt").write_text(f"key = {secret}\n")
        await repl.turn("run: cat keys.txt")
        await repl.turn("look: now")
        assert "key = " in server.screen()
        texts = [text for one in repl.server.requests for text in one.tool_results]
        assert any("key = " in text for text in texts)
        assert not any(secret in text for text in texts)


async def test_the_target_is_listed_with_the_line_to_attach_with(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    async with FakeLLM(obeys) as model:
        program = program_with_pane(tmp_path, model, server)
        async with open_repl_in(program, model, *YOLO) as repl:
            await repl.said("/target", f"tmux -S {server.socket} attach -t box", "not connected")
            await repl.said("/target box", "task 1 works on box (tmux -S")
            await repl.said("/target", "* box", "connected")
            await repl.said("/session", f"also works on box (tmux -S {server.socket} attach -t box)")
            await repl.turn("write: a.txt")
            await repl.said("/undo", "a.txt")
            await repl.said("!!echo from here", "from here")
            await repl.said("/target local", "works on this machine")
            await repl.turn("run: echo $TERM")
            assert repl.server.requests[-1].tool_results[-1].startswith("dumb\n")


async def test_escape_ends_a_command_and_the_shell_stays(server: PaneServer, tmp_path: Path) -> None:
    mark = "86380.5"
    async with at_pane(tmp_path, server, *YOLO) as repl:
        repl.say(f"run: sleep {mark}; echo on")
        await repl.until(lambda: len(sleepers(mark)) == 1, "the command")
        repl.act(Cancel())
        await repl.quiet()
        assert sleepers(mark) == []
        await repl.turn("run: echo back")
        assert repl.server.requests[-1].tool_results[-1].startswith("back\n[exit code 0")


async def test_a_person_attaches_and_detaches_in_a_command(server: PaneServer, tmp_path: Path) -> None:
    async with at_pane(tmp_path, server, *YOLO) as repl:
        repl.say("run: for i in $(seq 20); do echo line $i; sleep 0.05; done")
        await asyncio.to_thread(server.until_shows, "line 3")
        person = await asyncio.create_subprocess_exec(
            *("tmux", "-S", server.socket, "-C", "attach", "-t", "box"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert person.stdin is not None
        person.stdin.write(b"refresh-client -C 40x10\n")
        await repl.until(lambda: server.ask("#{session_attached}") == "1", "a person")
        person.stdin.close()
        await person.wait()
        await repl.quiet()
        lines = "".join(f"line {number}\n" for number in range(1, 21))
        assert repl.server.requests[-1].tool_results[-1].startswith(f"{lines}[exit code 0")


async def test_a_killed_buddy_leaves_the_command_to_the_person_and_comes_back(
    server: PaneServer, tmp_path: Path
) -> None:
    mark = "86381.5"
    server.open(*BASH)
    async with FakeLLM(obeys) as model:
        program = program_with_pane(tmp_path, model, server)
        words = ("exec", "--target", "box", *YOLO, f"run: sleep {mark}; echo on")
        async with running(program, *words) as process:
            await asyncio.to_thread(server.until, lambda: len(sleepers(mark)) == 1)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        assert len(sleepers(mark)) == 1
        async with open_repl_in(program, model, "--continue", *YOLO) as repl:
            assert repl.context.session.target_words(repl.context.board.task(1)) == "box"
            assert any(mark in note for note in repl.context.session.notes)
            await repl.turn("run: echo back")
            assert "the pane runs sleep" in repl.server.requests[-1].tool_results[-1]
            server.type("C-c")
            await repl.until(lambda: sleepers(mark) == [], "the end of the command")
            await repl.turn("run: echo back")
            assert repl.server.requests[-1].tool_results[-1].startswith("back\n[exit code 0")


async def test_a_project_can_not_bring_a_pane(server: PaneServer, tmp_path: Path) -> None:
    async with FakeLLM(obeys) as model:
        program = Program(tmp_path, model.url)
        program.files(
            main__py="print(1)\n", buddy__toml=f'[targets.box]\nkind = "tmux"\nsocket = "{server.socket}"\n'
        )
        ran = await program.run("exec", "--trust", "--target", "box", "hi")
        assert ran.code == 4
        assert "--target box: not in your buddy.toml" in ran.err


async def test_doctor_names_the_pane_and_makes_none(server: PaneServer, tmp_path: Path) -> None:
    async with FakeLLM(obeys) as model:
        program = program_with_pane(tmp_path, model, server)
        ran = await program.run("doctor")
        assert f"target box: tmux -S {server.socket} attach -t box" in ran.out
        assert server("list-sessions", check=False) == ""


async def test_a_tmux_of_the_workspace_is_not_run(server: PaneServer, tmp_path: Path) -> None:
    async with FakeLLM(obeys) as model:
        program = program_with_pane(tmp_path, model, server)
        own = program.repo / "bin/tmux"
        own.parent.mkdir()
        own.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        own.chmod(0o755)
        program.environment = {"PATH": f"{own.parent}:{program.variables()['PATH']}"}
        ran = await program.run("exec", "--target", "box", *YOLO, "run: echo x")
        assert ran.code == 0, ran.err
        assert not (tmp_path / "ran").exists()
