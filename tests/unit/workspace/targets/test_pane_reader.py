"""The reader of a command in a pane: marks, text, and what is left out."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from buddy.workspace.targets import pane_reader, pane_script
from buddy.workspace.targets.pane_command import READER
from buddy.workspace.targets.pane_reader import CommandOutput, TerminalText

BEGIN, END = b"\x1b]7791;t.1;begin;42\x07", b"\x1b]7791;t.1;end;3\x07"


def test_both_sides_write_the_same_mark() -> None:
    assert pane_reader.MARK == pane_script.MARK


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_cut_anywhere_gives_the_same_text(seed: int) -> None:
    said = b"prompt$ . /x\r\n\x1b[1mred\x1b[0m\r\n\x1b]0;title\x1b\\a\tb\xc3\xa9\r\n10%\r20%\r\n\x1b(Bend\r\n"
    stream = b"$ . /x/run\r\nbuddy: x\r\n" + BEGIN + said + END + b"$ prompt"
    chance = random.Random(seed)
    output, text, at = CommandOutput("t.1"), b"", 0
    while at < len(stream):
        step = chance.randint(1, 12)
        text += output.feed(stream[at : at + step])
        at += step
    text += output.finish()
    assert (output.pid, output.code) == (42, 3)
    lines = [line.rpartition(b"\r")[2] for line in text.split(b"\n")]
    assert b"\n".join(lines) == b"prompt$ . /x\nred\na\tb\xc3\xa9\n20%\nend\n"


def test_marks_of_others_are_text_without_a_trace() -> None:
    output = CommandOutput("t.1")
    stream = BEGIN + b"a" + END.replace(b"t.1", b"t.2") + b"b"
    assert output.feed(stream) + output.finish() == b"ab"
    assert output.code is None


def test_nothing_of_a_pane_before_the_command_is_passed_on() -> None:
    output = CommandOutput("t.1")
    assert output.feed(b"secret of before\r\n" * 1000) + output.finish() == b""
    assert output.pid is None


def test_a_string_that_is_never_closed_holds_nothing_back_for_good() -> None:
    text = TerminalText()
    said = b"".join(text.feed(b"\x1b]0;" + b"x" * 1000) for _ in range(10)) + text.finish()
    assert b"\x1b" not in text.feed(b"after\n")
    assert len(said) > 4000


def run_reader(folder: Path, said: bytes) -> subprocess.CompletedProcess[bytes]:
    pipe = folder / "out"
    os.mkfifo(pipe)
    reader = subprocess.Popen(
        [sys.executable, "-I", "-S", READER, str(pipe)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reader.stdin is not None
    reader.stdin.write(b"t.1")
    reader.stdin.close()
    reader.stdin = None
    with pipe.open("wb") as writer:
        writer.write(said)
    out, err = reader.communicate(timeout=30)
    return subprocess.CompletedProcess([], reader.returncode, out, err)


def test_the_reader_ends_as_the_command_did(tmp_path: Path) -> None:
    done = run_reader(tmp_path, BEGIN + b"hello\r\n" + END)
    assert (done.returncode, done.stdout) == (3, b"hello\n")
    assert b"buddy:t.1 pid=42\n" in done.stderr
    assert b"buddy:t.1 end=3\n" in done.stderr


def test_a_pane_that_closes_is_no_exit_code(tmp_path: Path) -> None:
    done = run_reader(tmp_path, BEGIN + b"half a li")
    assert (done.returncode, done.stdout) == (-2, b"half a li")
    assert b"buddy:t.1 gone\n" in done.stderr
