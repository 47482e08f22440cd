"""Commands that flood, never end, hold on or do not listen, under a person who goes on typing: memory stays
bounded, every key shows at once, the model is told, and nothing of the command is left."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from buddy.workspace.processes.output import CAP_BYTES
from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.faults.signal_round import running
from tests.support.loop_watch import LoopWatch
from tests.support.program import YOLO, Program
from tests.support.terminal import ENTER_S, on_terminal
from tests.support.typist import Typist, resident_kb

GROWTH_KB = 20_000
STRETCH_MS = 100
KEY_DEADLINE_S = 2.0
WARM = "go first"


@dataclass(frozen=True)
class Scene:
    """A command, and what the model reads of it when it is over; `cancelled`: it is not over by itself;
    `spilled`: the whole of its output is on the disk; `no_room`: there is no place for that; `how`:
    further arguments."""

    command: str
    told: tuple[str, ...] = ()
    cancelled: bool = False
    spilled: bool = False
    no_room: bool = False
    how: Mapping[str, bool] = field(default_factory=dict)


STOPPED = ("it wrote more than is kept, so it was stopped", "(the first 50 MB) is in ")
SCENES = {
    "a gigabyte in one line": Scene(
        "head -c 1G /dev/zero | tr '\\0' 'x'; echo not reached", STOPPED, spilled=True
    ),
    "endless lines": Scene("yes 'a line of output that never ends'", STOPPED, spilled=True),
    "endless empty lines": Scene("yes ''", STOPPED, spilled=True),
    "endless bytes of any kind": Scene("cat /dev/urandom", STOPPED, spilled=True),
    "endless slowly": Scene("while :; do echo tick; sleep 0.01; done", cancelled=True),
    "a fork that keeps the pipe": Scene(
        "(sleep 300; echo late) & echo done",
        ("done", "exit code 0", "processes it started are still running: they are job 1"),
    ),
    "a daemon that left its session": Scene(
        "(setsid sh -c 'sleep 300 & sleep 300' >/dev/null 2>&1 &); echo done",
        ("done", "exit code 0", "processes it started are still running: they are job 1"),
    ),
    "it ignores being told to end": Scene(
        "trap '' TERM INT HUP; while :; do echo still here; sleep 0.05; done", cancelled=True
    ),
    "a hundred processes at once": Scene(
        "for n in $(seq 100); do (trap '' TERM; while :; do sleep 0.2; done) & done; wait", cancelled=True
    ),
    "it closes its output and runs on": Scene("echo done; exec >&- 2>&-; sleep 300", cancelled=True),
    "it wants to read": Scene("cat; read -r line; echo got=$line", ("got=", "exit code 0")),
    "it wants the terminal": Scene(
        "(stty raw -echo </dev/tty; printf '\\033[?1049h' >/dev/tty) 2>&1; stty raw 2>&1; true",
        ("No such device or address", "exit code 0"),
    ),
    "it sets a terminal's modes in its output": Scene(
        "printf '\\033[?1049h\\033[?25l\\033[2J\\033c\\033]0;owned\\007\\033[20;20r'; yes | head -c 300000",
        ("exit code 0",),
        spilled=True,
    ),
    "its output cannot be kept": Scene(
        "yes", ("the whole output could not be kept: ", "so it was stopped"), no_room=True
    ),
    "endless lines on a terminal of its own": Scene(
        "yes 'a line of output that never ends'", ("running on a terminal as job 1",), how={"pty": True}
    ),
    "the modes of a terminal of its own": Scene(
        "stty raw -echo; printf '\\033[?1049h\\033[?25l\\033]0;owned\\007'; sleep 300",
        ("running on a terminal as job 1",),
        how={"pty": True},
    ),
    "endless in the background": Scene(
        "trap '' TERM; while :; do echo tick; done",
        ("it goes on in the background as job 1",),
        how={"background": True},
    ),
    "its folder is gone": Scene("mkdir gone && cd gone && rmdir ../gone && pwd -P; echo code=$?", ("code=",)),
}


async def results(server: FakeLLM, count: int) -> None:
    """Wait until the model has read so many results."""
    for _ in range(6000):
        if server.requests and len(server.requests[-1].tool_results) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the command never came to its end")


@requires("proc")
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SCENES)
async def test_REL_045_the_prompt_lives_and_memory_stays_whatever_a_command_does(
    tmp_path: Path, name: str
) -> None:
    scene = SCENES[name]

    def model(asked: Asked) -> Reply:
        if not asked.tool_results:
            return reply("First.", call("run_shell", command="echo warm"))
        if asked.last_user_text == "go on" and len(asked.tool_results) == 1:
            return reply("I run it.", call("run_shell", {"command": scene.command, **scene.how}))
        return reply("That is all.")

    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        watch = LoopWatch(tmp_path)
        async with on_terminal(program, *YOLO, columns=110, rows=40, command=watch.program) as terminal:
            await terminal.line(WARM)
            await terminal.has_shown("That is all.")
            if scene.no_room:
                (session,) = program.repo.glob(".buddyx/sessions/*-*")
                (session / "output").write_text("a file where the folder should be")
            before_kb = resident_kb(terminal.process.pid)
            watch.begin()
            await terminal.line("go on")
            await terminal.has_shown("I run it.")
            typist = Typist(terminal)
            if scene.cancelled:
                for _ in range(40):
                    await typist.key()
                    await asyncio.sleep(0.02)
                terminal.keys("\x1b")
                await terminal.has_shown("cancelled")
                await typist.key()
            else:
                await typist.keys_while(asyncio.ensure_future(results(server, 2)))
                for _ in range(60 if scene.how else 0):
                    await typist.key()
                    await asyncio.sleep(0.02)
            assert typist.peak_kb - before_kb < GROWTH_KB, f"{typist.peak_kb - before_kb} kB more"
            assert typist.usual_slowest_s < KEY_DEADLINE_S, f"a key took {typist.usual_slowest_s:.1f} s"
            assert watch.usual_longest_ms() < STRETCH_MS, f"{watch.stretches_ms()[:20]} ms without a look"
            if scene.cancelled:
                assert not [
                    line for line in running(program) if "buddy" not in line and "/git " not in line
                ], "it lives on"
            assert typist.typed == terminal.input_line()
            terminal.keys("\x15")
            await terminal.until(lambda: terminal.input_line() == "", "an empty line")
            await asyncio.sleep(ENTER_S)
            assert await terminal.leaves() == 0
            assert terminal.is_restored()
            assert b"owned\x07" not in terminal.output
            assert running(program) == []
    _check_told(scene, program, server)


def _check_told(scene: Scene, program: Program, server: FakeLLM) -> None:
    files = list((program.repo / ".buddyx/sessions").glob("*/output/*.out"))
    assert bool(files) is scene.spilled or scene.how
    assert all(file.stat().st_size <= CAP_BYTES for file in files)
    if scene.cancelled:
        return
    told = server.requests[-1].tool_results[1]
    assert len(told) < 140_000
    for text in scene.told:
        assert text in told
    if scene.spilled:
        path = re.search(r"is in (\S+) …\]", told)
        assert path is not None
        assert Path(path[1]) == files[0]
        assert files[0].stat().st_mode & 0o777 == 0o600
