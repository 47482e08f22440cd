"""A session around a container: what people see of it, and where the tools of this machine run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError, ToolResult, tool
from buddy.app.options import Options
from buddy.headless.serve.requests import SessionRequests
from buddy.headless.serve.snapshot import task_facts
from buddy.llm.scripted import Reply as ScriptedReply
from buddy.llm.scripted import Say, ScriptedCall
from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.containers import NAME, StandInContainer, settings_of, stand_in
from tests.support.program import Program
from tests.support.remote_tools import call as call_tool
from tests.support.remote_tools import session_on, until
from tests.support.repl import open_repl_in
from tests.support.scripted_session import scripted_session

pytestmark = requires("linux")
YOLO = ("--permission-mode", "yolo", "--i-know")


@pytest.fixture
def container(tmp_path: Path) -> Iterator[StandInContainer]:
    with stand_in(tmp_path / "machine") as running:
        yield running


def writes(asked: Asked) -> Reply:
    """`write NAME TEXT` writes a file; anything else is only heard."""
    if asked.turns[-1][0] == "user" and asked.last_user_text.startswith("write "):
        _, name, text = asked.last_user_text.split(" ", 2)
        return reply(call("write_file", path=name, content=text + "\n"))
    return reply("done")


def program_with_box(root: Path, url: str, container: StandInContainer) -> Program:
    box = {
        "kind": "container",
        "container": NAME,
        "folder": container.inside,
        "program": str(container.program),
    }
    root.mkdir(exist_ok=True)
    program = Program(root, url, settings={"targets": {"box": box}})
    program.files(main__py="print(1)\n")
    return program


async def test_a_person_sees_where_a_task_works_and_that_it_was_lost(
    container: StandInContainer, tmp_path: Path
) -> None:
    where = f"container {NAME}:{container.inside}"
    async with FakeLLM(writes) as model:
        program = program_with_box(tmp_path / "here", model.url, container)
        async with open_repl_in(program, model, *YOLO) as repl:
            await repl.said("/target", where, "not connected")
            await repl.said("/target box", f"works on box ({where})")
            await repl.turn("write a.txt there")
            assert (container.folder / "a.txt").read_text() == "there\n"
            await repl.said("/ps", "on box")
            await repl.said(
                "/try 2 write c.txt twice", "variants work on this machine, and task 1 works on box"
            )
            assert list(repl.context.session.board.tasks) == [1]
            session = repl.context.session
            assert task_facts(session.board.task(1)).target == "box"
            await asyncio.to_thread(container.stop)
            task = session.board.task(1)
            await repl.until(lambda: session.target_words(task) == "box (lost)")
            await repl.said("/ps", "on box (lost)")
            await repl.said("/target", f"lost: the container {NAME} was stopped or removed")
            await repl.said("/target box", f"the container {NAME} is not running; start it")
            await repl.turn("write b.txt never")
            assert not (container.folder / "b.txt").exists()
            assert not (program.repo / "b.txt").exists()
            await asyncio.to_thread(container.start)
            await repl.turn("write b.txt again")
            assert (container.folder / "b.txt").read_text() == "again\n"
            diff = await SessionRequests(session).diff(1)
            assert [file.path for file in diff.files] == [
                f"box:{container.inside}/a.txt",
                f"box:{container.inside}/b.txt",
            ]
            await repl.said("/undo", "b.txt")
            assert not (container.folder / "b.txt").exists()


async def test_doctor_connects_to_a_container(container: StandInContainer, tmp_path: Path) -> None:
    async with FakeLLM([]) as model:
        program = program_with_box(tmp_path / "here", model.url, container)
        ran = await program.run("doctor")
        assert f"ok    target box: container {NAME}:{container.inside} answers" in ran.out
        await asyncio.to_thread(container.remove)
        ran = await program.run("doctor")
        assert f"target box: box can't be reached: there is no container {NAME}" in ran.out


async def test_a_session_is_continued_in_a_container(container: StandInContainer, tmp_path: Path) -> None:
    async with FakeLLM(writes) as model:
        program = program_with_box(tmp_path / "here", model.url, container)
        ran = await program.run("exec", *YOLO, "hello")
        assert ran.code == 0
        ran = await program.run("exec", *YOLO, "--last", "--target", "box", "write a.txt there")
        assert (ran.code, (container.folder / "a.txt").read_text()) == (0, "there\n")
        ran = await program.run("exec", *YOLO, "--last", "write b.txt there")
        assert (ran.code, (container.folder / "b.txt").read_text()) == (0, "there\n")


@tool(risk="high", source="plug-in", effect="it notes something")
async def note(text: str) -> ToolResult:
    """Note something."""
    return ToolResult(f"noted {text}")


async def test_a_tool_of_this_machine_says_that_it_runs_here(
    container: StandInContainer, tmp_path: Path
) -> None:
    async with session_on(settings_of(container, local_tools=("not*",)), tmp_path / "here") as session:
        fitted = session.board.task(1).workspace.fit(note)
        assert fitted.description == "Note something. It runs on the person's computer, not on box."
        result = await call_tool(session, note, {"text": "a"})
        assert result.text == "noted a\n[note ran on this machine, not on box]"
    async with session_on(settings_of(container), tmp_path / "other") as session:
        with pytest.raises(ToolError, match=r"note does not work on box.* local_tools"):
            await call_tool(session, note, {"text": "a"})


async def test_its_question_says_so_too(container: StandInContainer, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    script = (ScriptedReply((ScriptedCall("note", '{"text": "a"}'),)), ScriptedReply((Say("done"),)))
    targets = {"box": settings_of(container, local_tools=("note",))}
    async with scripted_session(
        here, script, tools=(note,), targets=targets, options=Options(trust=True, target="box")
    ) as session:
        turn = session.board.submit(1, "go")
        inbox = session.board.inbox
        await until(lambda: len(inbox.waiting()) == 1)
        event = inbox.waiting()[0].event
        assert event.reason.startswith("on this machine, not on box: ")
        inbox.answer(event.request_id, event.digest, "denied")
        await turn
