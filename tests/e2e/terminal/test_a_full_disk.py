"""A disk that is full under the journal, the snapshot, the history and a long output, and has room again: the
prompt lives, what is lost is said, nothing is half written, and the work goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.legal_history import is_legal
from tests.support.program import YOLO, Program
from tests.support.small_disk import SmallDisk
from tests.support.terminal import Terminal, on_terminal

LONG = "long " * 4000
"""More than the last page of any file has room for."""
FLOOD = "head -c 600000 /dev/zero | tr '\\0' x"


def program_of(folder: Path, server: FakeLLM) -> Program:
    program = Program(folder, server.url)
    program.files(main__py="print(1)\n")
    return program


async def left(terminal: Terminal) -> None:
    assert await terminal.leaves("\x15\x04") == 0
    assert terminal.is_restored()
    assert b"Traceback" not in terminal.output


def half_written(program: Program) -> list[str]:
    """Files on their way that never arrived, and lines without an end."""
    places = [
        path for root in (program.repo / ".buddyx", program.home / ".local") for path in root.rglob("*")
    ]
    names = [path.name for path in places if path.name.endswith((".tmp", ".part", ".new", ".torn"))]
    lines = [path for path in places if path.suffix == ".jsonl" or path.name == "history"]
    return names + [path.name for path in lines if not path.read_bytes().endswith(b"\n")]


@requires("unshare")
@pytest.mark.slow
async def test_REL_062_a_full_disk_holds_the_work_until_there_is_room(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if asked.last_user_text == "third" and not asked.tool_results:
            return reply(call("run_shell", command="touch ran"))
        return reply(f"Heard {asked.last_user_text.split()[0]}.")

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        disk = SmallDisk(program)
        async with on_terminal(program, *YOLO, command=disk.program) as terminal:
            await terminal.line("first")
            await terminal.has_shown("Heard first.")
            await terminal.shows("done")
            await disk.fill()
            await terminal.feed(f"\x1b[200~second {LONG}\x1b[201~".encode())
            await terminal.shows("pasted #1")
            await terminal.line("")
            await terminal.has_shown("NOT SAVED: [Errno 28] No space left on device; new messages are held")
            shown = "".join("".join(terminal.everything()).split())  # a long path is folded somewhere
            assert f"freespaceon{program.repo}" in shown
            asked = len(server.requests)
            await terminal.type("still here")
            await terminal.until(lambda: terminal.input_line() == "still here", "keys")
            assert len(server.requests) == asked, "nothing goes on that is not saved"
            await disk.empty()
            await terminal.has_shown("saved again", "Heard second.")
            await terminal.until(lambda: "NOT SAVED" not in terminal.rows()[-1], "the footer")
            terminal.keys("\x15")
            await terminal.line("third")
            await terminal.has_shown("Heard third.")
            assert (program.repo / "ran").exists()
            await left(terminal)
        await disk.bring_back()
        assert half_written(program) == []
        assert await program.prompts() == ["first", f"second {LONG}".rstrip(), "third"]
        assert is_legal(await program.history()) == []
        typed = (program.home / ".local/state/buddy/history").read_text().splitlines()
        assert [json.loads(line).split()[0] for line in typed] == ["first", "third"]


@requires("unshare")
@pytest.mark.slow
async def test_REL_062_leaving_a_full_disk_says_what_is_lost_and_fails(tmp_path: Path) -> None:
    async with FakeLLM(lambda asked: reply(f"Heard {asked.last_user_text.split()[0]}.")) as server:
        program = program_of(tmp_path, server)
        disk = SmallDisk(program)
        async with on_terminal(program, *YOLO, command=disk.program) as terminal:
            await terminal.line("first")
            await terminal.has_shown("Heard first.")
            await terminal.shows("done")
            await disk.fill()
            await terminal.feed(f"\x1b[200~second {LONG}\x1b[201~".encode())
            await terminal.shows("pasted #1")
            await terminal.line("")
            await terminal.has_shown("NOT SAVED: [Errno 28] No space left on device; new messages are held")
            await terminal.type("\x03")
            assert await terminal.leaves("\x15\x04") == 1
            assert terminal.is_restored()
            shown = "".join("".join(terminal.everything()).split())
            assert "thesessionisnotsaved:" in shown
            assert "couldnotbewritten" in shown
            assert b"Traceback" not in terminal.output


@requires("unshare")
@pytest.mark.slow
async def test_REL_062_an_output_that_has_no_room_is_told_and_takes_none(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if len(asked.tool_results) < {"flood": 1, "again": 2}[asked.last_user_text]:
            return reply(call("run_shell", command=FLOOD))
        return reply(f"Heard {asked.last_user_text}.")

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        disk = SmallDisk(program)
        async with on_terminal(program, *YOLO, command=disk.program) as terminal:
            await terminal.shows("sandbox")
            await disk.fill(leave_kb=450)
            await terminal.line("flood")
            await terminal.has_shown("Heard flood.")
            told = server.requests[-1].tool_results[0]
            assert "the whole output could not be kept: No space left on device" in told
            assert "NOT SAVED" not in "\n".join(terminal.rows())
            await disk.empty()
            await terminal.line("again")
            await terminal.has_shown("Heard again.")
            assert "the whole is in " in server.requests[-1].tool_results[1]
            await left(terminal)
        await disk.bring_back()
        assert half_written(program) == []
        (kept,) = (program.repo / ".buddyx/sessions").glob("*/output/*.out")
        assert kept.stat().st_size == 600_000
        assert is_legal(await program.history()) == []
