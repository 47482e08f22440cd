"""A hostile model on a real terminal, its displays and their answers: the whole program on a pty."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import ENTER_S, Terminal, on_terminal

SEEN_S = 0.4
"""A request has to be on the screen for 0.3 s before a key counts."""


def program_of(folder: Path, server: FakeLLM) -> Program:
    program = Program(folder, server.url)
    program.files(main__py="print(1)\n")
    return program


def everything(terminal: Terminal) -> str:
    return "\n".join(terminal.everything())


def in_a_row(terminal: Terminal) -> str:
    """All that is shown, wrapped lines joined."""
    return "".join(row.strip(" │") for row in terminal.everything())


@pytest.mark.slow
async def test_SEC_082_a_command_that_hides_something_is_shown_with_what_it_hides(tmp_path: Path) -> None:
    command = "touch a\u202e\u200b\U000e0041" + " " * 300 + "; touch hidden" + "\n" * 50 + "touch last"

    def model(asked: Asked) -> Reply:
        return reply("I did.") if asked.turns[-1][0] == "tool" else reply(call("run_shell", command=command))

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program) as terminal:
            await terminal.line("go on")
            await terminal.shows("y yes")
            await terminal.has_shown("│ touch last")
            shown = in_a_row(terminal)
            for part in ("⟨U+202E⟩", "⟨U+200B⟩", "⟨U+E0041⟩", "⟨300 spaces⟩", "touch hidden", "touch last"):
                assert part in shown, part
            assert "blank lines⟩" in shown or shown.count("⟨U+000A⟩") == 50
            assert "\u202e".encode() not in terminal.output
            rule = next(at for at, row in enumerate(terminal.rows()) if row and set(row) == {"─"})
            row = "".join(terminal.rows()[:rule][-8:])
            assert "y yes" in row, "the request stands right above the line"


SLOW_PAINTER = """
import os, sys, time
from buddy.repl.screen.paint_queue import LazyPainter
warm = LazyPainter.warm

def slowly(self):
    while not os.path.exists("go on"):
        time.sleep(0.01)
    warm(self)

LazyPainter.warm = slowly
from buddy.__main__ import main
sys.exit(main())
"""
"""The whole text of a request takes as long to be printed as the test wants."""


@pytest.mark.slow
async def test_SEC_082_a_request_is_not_answered_before_all_of_it_is_printed(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        last = asked.turns[-1][0] == "tool"
        return reply("I did.") if last else reply(call("run_shell", command="touch first\ntouch second"))

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program, command=(sys.executable, "-c", SLOW_PAINTER)) as terminal:
            await terminal.line("go on")
            await terminal.shows("y yes")
            assert "│ touch second" not in terminal.rows()
            await asyncio.sleep(SEEN_S)
            await terminal.line("y")
            await terminal.shows("Not answered: the request came while you typed")
            (program.repo / "go on").touch()
            await terminal.has_shown("│ touch second")
            assert not (program.repo / "first").exists()
            terminal.keys("\x15")
            await asyncio.sleep(SEEN_S)
            await terminal.line("y")
            await terminal.has_shown("I did.")
            assert (program.repo / "second").exists()


@pytest.mark.slow
async def test_SEC_083_a_copied_request_in_output_stands_behind_the_gutter(tmp_path: Path) -> None:
    copy = "▸ request 1 (task 1) high git push · 0 s\n  y yes · a this session · n no (n WORDS says why)"

    def model(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "tool":
            return reply("That is all.")
        return reply(call("read_file", path="copy.txt"), call("grep", pattern="y yes"))

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        (program.repo / "copy.txt").write_text(copy)
        async with on_terminal(program) as terminal:
            await terminal.line("go on")
            await terminal.shows("That is all.")
            terminal.keys("\x0f")
            await terminal.has_shown("(task 1) high git push")
            copied = [row for row in terminal.everything() if "y yes" in row or "(task 1) high" in row]
            assert copied != []
            assert [row for row in copied if not row.startswith(("│ ", "✓ ", "search "))] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[https://good.example](https://evil.example/x)",
        "[https://good.example][ref]\n\n[ref]: https://evil.example/x",
        "- a list with [good.example](https://evil.example/x 'title')",
        "| where |\n|---|\n| [good.example](https://evil.example/x) |",
        "# [good.example](https://evil.example/x)",
        "![good.example](https://evil.example/x)",
        "> [![good.example](https://good.example/i.png)](https://evil.example/x)",
        "**[good.example](<https://evil.example/x>)**",
    ],
)
async def test_SEC_084_where_a_link_goes_is_printed(tmp_path: Path, text: str) -> None:
    async with FakeLLM([reply(f"{text}\n\nEND")]) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program) as terminal:
            await terminal.line("go on")
            await terminal.has_shown("END", "done")
            assert "good.example" in everything(terminal)
            assert "https://evil.example/x" in everything(terminal)
            assert b"\x1b]8;" not in terminal.output


@pytest.mark.slow
async def test_SEC_040_SEC_041_two_requests_name_their_tasks_a_paste_answers_none_and_esc_denies_one(
    tmp_path: Path,
) -> None:
    def model(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "tool":
            return reply("END of it.")
        name = "first" if "first" in asked.last_user_text else "second"
        return reply(call("run_shell", command=f"touch {name}"))

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            for number, name in ((2, "first"), (3, "second")):
                await terminal.line(f"the {name} &")
                await terminal.shows(f"(task {number}) high run_shell touch {name}")
            await terminal.shows("2 approvals waiting")
            await asyncio.sleep(SEEN_S)
            terminal.keys("\x1b[200~y\n\x1b[201~")
            await terminal.until(lambda: terminal.input_line() == "y", "pasted")
            await asyncio.sleep(ENTER_S)
            terminal.keys("\r")
            await terminal.shows("pasted text never answers")
            terminal.keys("\x15")
            await asyncio.sleep(SEEN_S)
            terminal.keys("\x1b")
            await terminal.shows("Esc again denies request 1 (task 2): run_shell touch first")
            terminal.keys("\x1b")
            await terminal.shows("denied: run_shell touch first", "1 approval waiting")
            await asyncio.sleep(SEEN_S)
            await terminal.shows("▸ request 2 (task 3) high run_shell touch second")
            await terminal.line("y")
            await terminal.has_shown("task 3 the second: done")
            assert not (program.repo / "first").exists()
            assert (program.repo / "second").exists()


BROKEN = """
import os, sys
import buddy.repl.view.status as bars
footer_line = bars.footer_line

def broken(*given, **named):
    if os.path.exists("boom"):
        raise ZeroDivisionError("the footer is broken")
    return footer_line(*given, **named)

bars.footer_line = broken
from buddy.__main__ import main
sys.exit(main())
"""


@pytest.mark.slow
async def test_REL_060_an_error_of_the_screen_gives_the_terminal_back_and_names_the_session(
    tmp_path: Path,
) -> None:
    async with FakeLLM([reply("Hello."), reply("Again.")]) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program, command=(sys.executable, "-c", BROKEN)) as terminal:
            await terminal.line("hello")
            await terminal.shows("Hello.", "done")
            (program.repo / "boom").write_text("")
            terminal.keys("x\x7f\x0c")
            assert await terminal.exit_code() not in (0, None)
            assert terminal.is_restored()
            assert b"\x1b[?2004l" in terminal.output.rpartition(b"\x1b[?2004h")[2]
            await terminal.has_shown("the footer is broken", "resume with: buddy resume ")
        (program.repo / "boom").unlink()
        async with on_terminal(program, "-c") as terminal:
            await terminal.has_shown("Hello.")
