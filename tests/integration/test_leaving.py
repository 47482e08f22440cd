"""The program leaves without taking the interpreter down, and nothing that was due at its end is lost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import ROOT, Program, finished


def left(folder: Path, at_start: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program with some code run at its start, to its end. The code may write to `said`."""
    (folder / "sitecustomize.py").write_text(at_start)
    return subprocess.run(
        [sys.executable, "-m", "buddy", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--version"], 0), (["--help"], 0), (["--nonsense"], 2), (["exec", "hi"], 4)]
)
def test_the_exit_code_is_the_one_of_the_run(tmp_path: Path, arguments: list[str], code: int) -> None:
    assert left(tmp_path, "", *arguments).returncode == code


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["doctor"]])
def test_what_is_registered_for_the_end_is_done(tmp_path: Path, arguments: list[str]) -> None:
    ran = left(
        tmp_path, "import atexit\natexit.register(lambda: open('said', 'w').write('done'))", *arguments
    )
    assert (tmp_path / "said").read_text() == "done", ran.stderr


def test_no_module_is_taken_down(tmp_path: Path) -> None:
    code = "class Kept:\n    def __del__(self):\n        open('said', 'w').write('taken down')\nkept = Kept()"
    ran = left(tmp_path, code, "--help")
    assert (ran.returncode, (tmp_path / "said").exists()) == (0, False), ran.stderr


def test_a_thread_that_still_writes_is_waited_for(tmp_path: Path) -> None:
    code = (
        "import sys, threading, time\n"
        "def late():\n"
        "    while not hasattr(sys.modules.get('buddy.cli.main'), 'run'):\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(0.5)\n"
        "    open('said', 'w').write('all of it')\n"
        "threading.Thread(target=late).start()\n"
    )
    ran = left(tmp_path, code, "--help")
    assert (ran.returncode, (tmp_path / "said").read_text()) == (0, "all of it"), ran.stderr


def test_a_thread_nobody_waits_for_is_left_behind(tmp_path: Path) -> None:
    code = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    ran = left(tmp_path, code, "--help")
    assert (ran.returncode, ran.stdout[:6]) == (0, "buddy:"), ran.stderr


async def test_a_long_answer_is_whole_in_a_pipe_that_is_read_slowly(tmp_path: Path) -> None:
    answer = "".join(f"line {number}\n" for number in range(30_000))
    async with FakeLLM([reply(answer)]) as server:
        process = await Program(tmp_path, server.url).start("exec", "hi")
        assert process.stdout is not None
        pieces: list[bytes] = []
        while piece := await process.stdout.read(10_000):
            pieces.append(piece)
            await asyncio.sleep(0)
        ran = await finished(process)
    assert (ran.code, b"".join(pieces).decode()) == (0, answer), ran.err


@pytest.mark.parametrize(
    ("words", "unbuffered", "told"),
    [
        (["--version"], "", "standard output: No space left on device"),
        (["models"], "", "not everything could be written: No space left on device"),
        (["models"], "1", "not everything could be written: No space left on device"),
    ],
)
def test_what_cannot_be_written_is_a_failure_and_is_said(
    tmp_path: Path, words: list[str], unbuffered: str, told: str
) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "buddy", *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stderr.decode()) == (1, f"buddy: {told}\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["models", "zzz"], 1),
        (["sessions"], 0),
        (["login", "zzz"], 4),
        (["permissions", "test"], 2),
        (["permissions", "zzz"], 2),
        (["--nonsense"], 2),
    ],
)
@pytest.mark.parametrize("at_start", ["", "import sys\nsys.setprofile(lambda *_: None)"])
def test_a_full_stderr_does_not_change_how_a_command_ends(
    tmp_path: Path, words: list[str], code: int, at_start: str
) -> None:
    """The second time the interpreter is taken down as usual, which flushes what is left."""
    (tmp_path / "sitecustomize.py").write_text(at_start)
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "buddy", *words],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{ROOT}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=60,
            check=False,
        )
    assert ran.returncode == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["models", "gpt"], 0),
        (["models", "zzz"], 1),
        (["permissions", "test", "ls"], 0),
        (["login", "zzz"], 4),
        (["init"], 0),
        (["--nonsense"], 2),
        (["exec", "hi"], 4),
    ],
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_good_as_nothing(
    tmp_path: Path, closed: str, words: list[str], code: int
) -> None:
    ran = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "buddy", *words],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, b"Traceback" in ran.stderr) == (code, False), ran.stderr


async def test_the_session_is_closed_on_the_disk(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")]) as server:
        program = Program(tmp_path, server.url)
        ran = await program.run("exec", "hi")
        history = await program.history()
    assert (ran.code, ran.out, len(history)) == (0, "Hello\n", 2), ran.err
    folder = program.repo / ".buddyx" / "sessions" / program.sessions()[0]
    assert all(json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines())


async def test_coverage_of_a_run_is_still_measured(tmp_path: Path) -> None:
    settings = tmp_path / "coverage.ini"
    settings.write_text(f"[run]\nsource_pkgs = buddy\ndata_file = {tmp_path}/found\n")
    async with FakeLLM([reply("Hello")]) as server:
        program = Program(tmp_path, server.url)
        program.before = (
            sys.executable,
            "-m",
            "coverage",
            "run",
            f"--rcfile={settings}",
            str(tmp_path / "go.py"),
        )
        (tmp_path / "go.py").write_text(
            "import sys; del sys.argv[1:4]\nfrom buddy.__main__ import main\nmain()\n"
        )
        process = await program.start("exec", "hi")
        ran = await finished(process)
    assert (ran.code, ran.out) == (0, "Hello\n"), ran.err
    assert (tmp_path / "found").stat().st_size > 10_000
