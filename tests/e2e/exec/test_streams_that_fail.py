"""Runs whose standard streams fail, and signals that whoever started the run wanted ignored."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.fake_llm.script import Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import ROOT, YOLO, Program, finished, running

WRITES = call("write_file", path="new.txt", content="x")


@pytest.mark.parametrize("form", ["text", "json", "stream-json", "sse"])
async def test_a_full_disk_behind_stdout_is_named_as_what_it_is(tmp_path: Path, form: str) -> None:
    async with FakeLLM([reply(WRITES), reply("ok")]) as server:
        program = Program(tmp_path, server.url)
        full = os.open("/dev/full", os.O_WRONLY)
        ran = await program.run("exec", *YOLO, "--output-format", form, "hi", stdout=full)
        os.close(full)
    assert (ran.code, ran.told()) == (
        1,
        ["can't write the answer to standard output (No space left on device); `buddy resume` shows it"],
    )


async def test_a_full_disk_behind_stderr_stops_nothing(tmp_path: Path) -> None:
    async with FakeLLM([reply(WRITES), reply("ok")]) as server:
        program = Program(tmp_path, server.url)
        full = os.open("/dev/full", os.O_WRONLY)
        ran = await program.run("exec", *YOLO, "hi", stderr=full)
        os.close(full)
    assert (ran.code, ran.out) == (0, "ok\n")
    assert (program.repo / "new.txt").read_text() == "x"


async def test_a_reader_of_stderr_that_left_stops_nothing(tmp_path: Path) -> None:
    async with FakeLLM([reply(WRITES), reply("ok")]) as server:
        program = Program(tmp_path, server.url)
        reading, writing = os.pipe()
        os.close(reading)
        ran = await program.run("exec", *YOLO, "hi", stderr=writing)
        os.close(writing)
    assert (ran.code, ran.out) == (0, "ok\n")


@pytest.mark.parametrize(("words", "code"), [(["exec", "--max-turns", "x", "hi"], 2), (["exec", "hi"], 4)])
def test_what_cannot_be_told_keeps_its_exit_code(tmp_path: Path, words: list[str], code: int) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "buddy", *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
            cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=full,
            timeout=60, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (code, b"")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
async def test_a_signal_that_was_to_be_ignored_is_ignored(tmp_path: Path, number: signal.Signals) -> None:
    """`nohup buddy exec …`, and a run in the background of a script."""
    async with FakeLLM([reply("one two three", fault=Stall(after=1))]) as server:
        program = Program(
            tmp_path, server.url, before=("sh", "-c", f"trap '' {number.name[3:]}; exec \"$@\"", "sh")
        )
        async with running(program, "exec", "Count") as process:
            await server.arrived(1)
            process.send_signal(number)
            await asyncio.sleep(0.2)
            assert process.returncode is None
            process.send_signal(signal.SIGTERM)
            ran = await finished(process)
    assert (ran.code, ran.told()) == (143, ["terminated"])


@requires("unshare")
async def test_an_ephemeral_run_in_a_folder_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    script = 'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$@"'
    async with FakeLLM([reply(call("read_file", path="a.txt")), reply(WRITES), reply("ok")]) as server:
        program = Program(tmp_path, server.url, before=("unshare", "-rm", "sh", "-c", script, "sh"))
        program.environment = {"TMPDIR": str(tmp_path / "temporary")}
        (tmp_path / "temporary").mkdir()
        program.files(a__txt="hello\n")
        ran = await program.run("exec", *YOLO, "--ephemeral", "hi")
    assert (ran.code, ran.out) == (0, "ok\n"), ran.err
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (program.repo / "new.txt").exists()


async def test_what_a_killed_run_left_beside_a_file_goes_when_the_session_goes_on(tmp_path: Path) -> None:
    async with FakeLLM([reply(WRITES), reply("ok"), reply("again")]) as server:
        program = Program(tmp_path, server.url)
        await program.run("exec", *YOLO, "hi")
        (log,) = program.repo.glob(".buddyx/sessions/*/undo/log.jsonl")
        (name,) = re.findall(r"[.]buddy-[0-9a-f]+[.]tmp", log.read_text())
        (program.repo / name).write_text((program.repo / "new.txt").read_text()[:1])
        aside = program.repo / name.replace(".tmp", ".old")
        aside.write_text("somebody saved this at that moment")
        ran = await program.run("exec", "--continue", "on")
    assert (ran.code, ran.out) == (0, "again\n"), ran.err
    assert not (program.repo / name).exists()
    assert aside.read_text() == "somebody saved this at that moment"
