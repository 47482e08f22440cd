"""Text that would take over the terminal, from everywhere text comes from: the whole program on a pty, and
what it wrote byte by byte."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import HttpError, Reply, call, reply, think
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program
from tests.support.terminal import Terminal, on_terminal

HOSTILE = "start \x1b]52;c;aGk=\x07 \x1b[31;7m \x9b31m \x1bPq\x1b\\ \u202e \U000e0041 end"
IN_A_NAME = "start\x1b]52;c;aGk=\x07\x1b[31;7m\x9b31m\u202eend"
IN_A_BRANCH = "start\x9b31m\u202e\u200bend"
FORBIDDEN = (b"\x1b]52", b"\x1b[31;7m", b"\xc2\x9b", b"\x1bP", "\u202e".encode(), "\U000e0041".encode())
MARKUP = "[/x] [link=http://e]y[/link] <b> & \\x1b [bold]z[/] {0} %s"
QUICKLY_AWAY = """
import sys
import buddy.repl.screen.terminal_status as announce

announce.AWAY_S = 0.5
from buddy.__main__ import main
sys.exit(main())
"""


def program_of(folder: Path, server: FakeLLM, **variables: str) -> Program:
    program = Program(folder, server.url, environment=variables)
    program.files(main__py="print(1)\n")
    return program


def reached(terminal: Terminal) -> list[bytes]:
    """Return the parts of the hostile text that the terminal would have obeyed."""
    return [sequence for sequence in FORBIDDEN if sequence in terminal.output]


@pytest.mark.slow
async def test_SEC_079_hostile_text_is_inert_wherever_it_comes_from(tmp_path: Path) -> None:
    """Output, file name, branch name, tool name, thoughts and text of the model, error text, title, input."""

    def model(asked: Asked) -> Reply:
        match asked.last_user_text.split()[0], len(asked.tool_results):
            case "fail", _:
                return Reply((), fault=HttpError(400, {}, {"error": {"message": HOSTILE}}))
            case _, 0:
                return reply(
                    think(HOSTILE), HOSTILE, call("run_shell", command="cat hostile.txt; cat hostile.txt >&2")
                )
            case _, 1:
                return reply(
                    call("list_files", path="."),
                    call("read_file", path=IN_A_NAME),
                    call(HOSTILE, {HOSTILE: HOSTILE}),
                    call("edit_file", path=IN_A_NAME, old="no such text", new=HOSTILE),
                )
            case _:
                return reply(f"# {HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}\n```\n\n- `{HOSTILE}`\n\nlast words")

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        (program.repo / "hostile.txt").write_text(f"{HOSTILE}\n" * 3)
        (program.repo / IN_A_NAME).write_text(f"{HOSTILE}\n")
        program.git("checkout", "-q", "-b", IN_A_BRANCH)
        async with on_terminal(program, *YOLO) as terminal:
            await terminal.line("go on")
            await terminal.has_shown("last words")
            await terminal.shows("done")
            await terminal.line("fail now")
            await terminal.has_shown("failed")
            terminal.keys(f"\x1b[200~/rename {IN_A_NAME}\x1b[201~")
            await terminal.until(lambda: terminal.input_line().endswith("end"), "pasted")
            await terminal.line("")
            await terminal.line("/status")
            await terminal.line("/session list")
            await terminal.line("/tools")
            terminal.keys("@start\t")
            await terminal.until(lambda: terminal.input_line().startswith("@"), "a file name")
            assert await terminal.leaves("\x15\x04") == 0
            assert reached(terminal) == []
            assert terminal.is_restored()
            assert sum("start" in row and "end" in row for row in terminal.everything()) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("chars", [1, 2, 3])
async def test_SEC_080_a_sequence_split_anywhere_in_the_models_stream_is_inert(
    tmp_path: Path, chars: int
) -> None:
    def model(asked: Asked) -> Reply:
        if asked.tool_results:
            return reply("last words")
        return reply(
            think(HOSTILE),
            f"{HOSTILE}\n\n{HOSTILE}",
            call("write_file", path=IN_A_NAME, content=HOSTILE),
            chars=chars,
            delay_s=0.02,
            fragmentation="byte" if chars == 3 else "frames",
        )

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program, *YOLO) as terminal:
            await terminal.line("go on")
            await terminal.has_shown("last words")
            assert reached(terminal) == []


SPLIT = """
import os, time
whole = {whole!r}
for cut in range(1, len(whole)):
    for half in (whole[:cut], whole[cut:]):
        os.write(1, half)
        time.sleep(0.06)
    os.write(1, b" line %d\\n" % cut)
"""


@pytest.mark.slow
async def test_SEC_080_a_sequence_split_at_any_byte_of_a_commands_output_is_inert(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if asked.tool_results:
            return reply("last words")
        return reply(call("run_shell", command=f"{sys.executable} split.py"))

    whole = "a\x1b]52;c;aGk=\x07b\x1b[31;7mc\x9b31md\x1bPq\x1b\\e\u202ef".encode()
    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        (program.repo / "split.py").write_text(SPLIT.format(whole=whole))
        async with on_terminal(program, *YOLO) as terminal:
            await terminal.line("go on")
            await terminal.has_shown("last words")
            assert reached(terminal) == []
            terminal.keys("\x0f")
            await terminal.has_shown(f"line {len(whole) - 1}")
            assert reached(terminal) == []


@pytest.mark.slow
async def test_SEC_081_markup_in_any_output_is_shown_as_it_is(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if asked.tool_results:
            return reply("last words")
        return reply(
            call("run_shell", command="cat markup.txt"),
            call("read_file", path="markup.txt"),
            call("read_file", path=MARKUP),
            call("grep", pattern="link="),
        )

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        (program.repo / "markup.txt").write_text(f"{MARKUP}\n")
        async with on_terminal(program, *YOLO, columns=140) as terminal:
            await terminal.line("go on")
            await terminal.has_shown("last words")
            shown = [row for row in terminal.everything() if MARKUP in row]
            assert len(shown) >= 2, "\n".join(terminal.everything())
            assert all(row.startswith(("│ ", "✓ ", "✗ ")) for row in shown)
            assert "Traceback" not in "\n".join(terminal.everything())
            assert b"\x1b]8;" not in terminal.output


@pytest.mark.slow
async def test_SEC_085_title_and_notification_hold_short_plain_text_alone(tmp_path: Path) -> None:
    hostile = f"{HOSTILE} {'long ' * 60}"

    def model(asked: Asked) -> Reply:
        return reply(call("run_shell", command=f"echo '{hostile}'"), first_s=1.2)

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server, TERM_PROGRAM="iTerm.app")
        command = (sys.executable, "-c", QUICKLY_AWAY)
        async with on_terminal(program, command=command) as terminal:
            await terminal.shows("sandbox")
            terminal.keys(f"\x1b[200~{hostile}\x1b[201~")
            await terminal.until(lambda: "long" in terminal.input_line(), "pasted")
            await terminal.line("")
            await terminal.shows("y yes")
            await terminal.until(lambda: b"\x1b]9;buddy" in terminal.output, "a notification")
            texts = re.findall(rb"\x1b\](?:[029]|777|99);(.*?)(?:\x07|\x1b\\)", terminal.output, re.DOTALL)
            assert any(b"task 1 asks" in text for text in texts)
            assert [text for text in texts if not text.decode().isprintable()] == []
            assert [text for text in texts if len(text.decode()) > 80] == []
            assert reached(terminal) == []
