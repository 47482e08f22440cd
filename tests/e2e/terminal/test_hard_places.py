"""The REPL where little works: few descriptors, no home, no path, no UTF-8, many tasks at once."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.faults.signal_round import running
from tests.support.poor_environments import POOR_ENVIRONMENTS
from tests.support.program import Program
from tests.support.terminal import ENTER_S, KEY_S, Terminal, on_terminal

TASKS = 50
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from buddy.__main__ import main
sys.exit(main())
"""
NO_THREADS = """
import sys, threading
start = threading.Thread.start

def refused(self):
    if sys.modules.get("buddy.tasks.board") is not None and refused.left == 0:
        raise RuntimeError("can't start new thread")
    if sys.modules.get("buddy.tasks.board") is not None:
        refused.left -= 1
    start(self)

refused.left = 3
threading.Thread.start = refused
from buddy.__main__ import main
sys.exit(main())
"""


def streams(asked: Asked) -> Reply:
    """A long reply, or a short one."""
    if "short" in asked.last_user_text:
        return reply("That was short.")
    words = "".join(f"word{number} " for number in range(4000))
    return reply(words, chars=12, delay_s=0.02)


def repository(folder: Path, url: str, **environment: str) -> Program:
    program = Program(folder, url, environment=environment)
    program.files(main__py="print(1)\n")
    return program


async def started(terminal: Terminal, number: int) -> None:
    """One more task in the background. Lines that follow each other at once would be one paste."""
    await asyncio.sleep(ENTER_S)
    terminal.keys(f"/bg stream {number}")
    await terminal.until(lambda: terminal.input_line().endswith(f"stream {number}"), "the line")
    await asyncio.sleep(KEY_S * 2)
    terminal.keys("\r")
    await terminal.until(lambda: terminal.input_line() == "", "sent")


async def left(terminal: Terminal) -> int:
    """Leave, whatever runs."""
    return await terminal.leaves("\x15\x04")


async def _ended(terminal: Terminal, within_s: float) -> bool:
    for _ in range(int(within_s / 0.02)):
        if terminal.process.poll() is not None:
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.slow
async def test_REL_051_fifty_tasks_stream_while_a_person_types(tmp_path: Path) -> None:
    async with FakeLLM(streams) as server:
        program = repository(tmp_path, server.url)
        async with on_terminal(program, columns=110, rows=40) as terminal:
            await terminal.line("short")
            await terminal.has_shown("That was short.")
            for number in range(TASKS):
                await started(terminal, number)
            await terminal.shows(f"{TASKS} tasks running")
            typed = "abcdefghijklmnopqrstuvwxyz0123456789" * 3
            for key in typed:
                terminal.keys(key)
                await asyncio.sleep(0.005)
            await terminal.until(lambda: terminal.input_line() == typed, "every key once")
            assert len(os.listdir(f"/proc/{terminal.process.pid}/fd")) < 500
            assert await left(terminal) == 0
        histories = [await program.history("last", task_id) for task_id in range(2, TASKS + 2)]
    assert all(len(history) >= 1 for history in histories), "no task is lost"
    assert running(program) == []


@pytest.mark.slow
async def test_REL_052_with_64_descriptors_tasks_wait_or_say_why_and_the_prompt_goes_on(
    tmp_path: Path,
) -> None:
    async with FakeLLM(streams) as server:
        program = repository(tmp_path, server.url)
        command = (sys.executable, "-c", LIMITED)
        async with on_terminal(program, command=command, columns=110, rows=40) as terminal:
            await terminal.shows("sandbox")
            for number in range(TASKS):
                await started(terminal, number)
            await terminal.type("still here")
            await terminal.until(lambda: terminal.input_line() == "still here", "keys")
            assert terminal.process.poll() is None
            shown = "\n".join(terminal.everything())
            assert "Traceback" not in shown
            assert "this is a bug" not in shown
            assert await left(terminal) == 0
        assert terminal.output.count(b"Traceback") == 0


@pytest.mark.slow
async def test_REL_052_without_further_threads_it_says_so_or_works(tmp_path: Path) -> None:
    async with FakeLLM(streams) as server:
        program = repository(tmp_path, server.url)
        command = (sys.executable, "-c", NO_THREADS)
        async with on_terminal(program, command=command, columns=110, rows=40) as terminal:

            def over() -> bool:
                return terminal.process.poll() is not None

            def said(*texts: str) -> bool:
                return any(text in "\n".join(terminal.everything()) for text in texts)

            await terminal.until(lambda: over() or said("❯"), "a prompt or the end")
            if not over():
                terminal.keys("short")
                await terminal.until(lambda: over() or terminal.input_line() == "short", "the line")
                await asyncio.sleep(ENTER_S)
                terminal.keys("\r")
                await terminal.until(
                    lambda: over() or said("That was short.", "thread"), "an answer or why not"
                )
                await left(terminal)
            shown = "\n".join(terminal.everything())
            assert "That was short." in shown or "thread" in shown, shown
            assert b"Traceback" not in terminal.output
            assert terminal.is_restored()


@pytest.mark.slow
async def test_REL_055_leaving_with_running_tasks_asks_and_then_ends_them_all(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        return reply(call("run_shell", command=f"sleep 6{asked.last_user_text[-1]}.5"))

    async with FakeLLM(model) as server:
        program = repository(tmp_path, server.url)
        async with on_terminal(program, "--permission-mode", "yolo", "--i-know") as terminal:
            await terminal.shows("sandbox")
            for number in range(3):
                await started(terminal, number)
            await terminal.shows("3 tasks running")
            await terminal.until(lambda: sum("sleep" in one for one in running(program)) >= 3, "they began")
            terminal.keys("\x04")
            await terminal.shows("Ctrl+D again within 10 s")
            assert terminal.process.poll() is None
            terminal.keys("\x04")
            assert await _ended(terminal, 50.0)
            assert await terminal.exit_code() == 0
            assert terminal.is_restored()
        assert running(program) == []
        async with on_terminal(program, "-c") as terminal:
            await terminal.has_shown("Task 2 was interrupted", "Task 4 was interrupted")
            await left(terminal)


@pytest.mark.slow
@pytest.mark.parametrize("while_it", ["waits", "streams", "has a paste"])
async def test_REL_057_suspended_and_back_everything_is_where_it_was(tmp_path: Path, while_it: str) -> None:
    async with FakeLLM(streams) as server:
        program = repository(tmp_path, server.url)
        async with on_terminal(program, command=(sys.executable, "-c", AS_A_JOB)) as terminal:
            await terminal.shows("sandbox")
            draft = "my draft"
            if while_it == "streams":
                await terminal.line("stream")
                await terminal.shows("writing")
            if while_it == "has a paste":
                terminal.keys("\x1b[200~" + "line\n" * 30 + "\x1b[201~")
                draft = "[pasted #1, 30 lines]"
            else:
                await terminal.type(draft)
            await terminal.until(lambda: terminal.input_line().endswith(draft), "the draft")
            terminal.keys("\x1a")
            await terminal.shows("stopped")
            assert terminal.is_restored(), "the shell has its terminal"
            terminal.keys("fg\n")
            await terminal.until(lambda: terminal.input_line().endswith(draft), "the draft again")
            await terminal.type("!")
            await terminal.until(lambda: terminal.input_line().endswith(draft + "!"), "keys")
            assert await left(terminal) == 0
            assert terminal.is_restored()


AS_A_JOB = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-m", "buddy", *sys.argv[1:]])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status) % 256)
    os.tcsetpgrp(0, os.getpgrp())
    print("stopped", flush=True)
    input()
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
"""
"""A shell with one job."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [
        *POOR_ENVIRONMENTS,
        {"TERM": "dumb"},
        {"TERM": ""},
        {"TERM": "no-such-terminal"},
        {"COLUMNS": "0", "LINES": "nonsense"},
    ],
    ids=str,
)
async def test_REL_062_REL_063_a_poor_environment_still_has_a_prompt(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    async with FakeLLM([reply("Größe: 5 → 日本 🎉 END")]) as server:
        program = repository(tmp_path, server.url, **variables)
        term = variables.get("TERM", "xterm-256color")
        config = str(program.config / "buddy.toml")
        async with on_terminal(program, "--config", config, ready="", term=term) as terminal:
            await terminal.until(lambda: any(sign in "\n".join(terminal.rows()) for sign in "❯>"), "prompt")
            await asyncio.sleep(0.3)
            for key in "short":
                terminal.keys(key)
                await asyncio.sleep(0.02)
            await asyncio.sleep(ENTER_S)
            terminal.keys("\r")
            await terminal.has_shown("END")
            assert await left(terminal) == 0
            assert b"Traceback" not in terminal.output
            assert b"UnicodeEncodeError" not in terminal.output
            assert terminal.is_restored()


async def test_REL_062_a_home_that_cannot_be_written_is_said_or_worked_around(tmp_path: Path) -> None:
    async with FakeLLM([reply("fine END")]) as server:
        program = repository(tmp_path, server.url, HOME="/proc/nowhere")
        async with on_terminal(program, ready="", term="xterm-256color") as terminal:
            await terminal.until(lambda: terminal.process.poll() is not None, "the end")
            await asyncio.sleep(0.05)
            assert "/proc/nowhere" in "\n".join(terminal.rows())
            assert b"Traceback" not in terminal.output
            assert terminal.is_restored()


async def test_REL_062_a_working_directory_that_is_gone_is_said_before_any_screen(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = repository(tmp_path, server.url)
        gone = tmp_path / "gone"
        gone.mkdir()
        script = f'cd "{gone}" && rmdir "{gone}" && exec "{sys.executable}" -m buddy'
        async with on_terminal(program, command=("sh", "-c", script), ready="no longer exists") as terminal:
            assert await terminal.exit_code() == 2
            assert terminal.is_restored()


@pytest.mark.slow
async def test_REL_062_a_disk_quota_is_said_and_the_prompt_goes_on(tmp_path: Path) -> None:
    async with FakeLLM(streams) as server:
        # Python 3.11 would keep compiled modules that were cut by the limit.
        program = repository(tmp_path, server.url, PYTHONDONTWRITEBYTECODE="1")
        code = (
            "import resource, signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
            "from buddy.__main__ import main\nsys.exit(main())\n"
        )
        async with on_terminal(program, command=(sys.executable, "-c", code)) as terminal:
            await terminal.shows("sandbox")
            terminal.keys("short " + "x" * 2500 + " short")
            await terminal.until(lambda: terminal.input_line().endswith(" short"), "the line")
            await asyncio.sleep(ENTER_S)
            terminal.keys("\r")
            await terminal.has_shown("NOT SAVED")
            await terminal.type("still here")
            await terminal.until(lambda: "still here" in terminal.input_line(), "keys")
            await terminal.leaves("\x15\x04")
            assert b"Traceback" not in terminal.output
            assert terminal.is_restored()


@pytest.mark.slow
async def test_REL_059_a_closed_terminal_stops_the_tasks_and_saves_the_session(tmp_path: Path) -> None:
    async with FakeLLM(streams) as server:
        program = repository(tmp_path, server.url)
        async with on_terminal(program) as terminal:
            await terminal.line("stream")
            await terminal.shows("writing")
            await asyncio.sleep(1.0)
            terminal.hang_up()
            assert await _ended(terminal, 50.0), f"{terminal.process.pid} still runs"
            assert terminal.process.returncode == 129
        logs = (program.home / ".local/state/buddy/logs").glob("*")
        assert [one.name for one in logs if "Traceback" in one.read_text()] == []
        assert await program.prompts() == ["stream"]
        await server.ended(1)
        assert server.requests[0].outcome == "aborted"
