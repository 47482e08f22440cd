"""`buddy permissions test`: every line gets an answer, whatever it holds."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from buddy.app.options import UsageError
from buddy.cli.arguments import parse
from buddy.cli.permissions import MAX_LINE_BYTES, PermissionLine, judge_line, permissions, requests
from buddy.safety.policy.decide import Decision

LS = ("allow", "read-only: a shell command that only reads")
BUDDY = [sys.executable, "-m", "buddy", "permissions", "test"]


def run(folder: Path, given: bytes, *words: str) -> tuple[list[object], str, int]:
    """Answers, the error stream and the exit code of the program in a folder."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(
        [*BUDDY, *words], input=given, capture_output=True, cwd=folder, env=environment, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode(), done.returncode


def line(identity: object, decision: str, why: str) -> dict[str, object]:
    return {"id": identity, "decision": decision, "why": why}


def test_odd_lines_are_answered_one_by_one_and_the_rest_goes_on(tmp_path: Path) -> None:
    given = b"\n".join(
        [
            b'\xef\xbb\xbf{"id": 1, "command": "ls"}',
            b'{"id": 1, "command": "pwd"}\r',
            b"   ",
            b"not json",
            b"[1]",
            b'{"command": "ls"}',
            b'{"id": 5}',
            b'{"id": 6, "command": 7}',
            b'{"id": 7, "command": "a\\u0000b"}',
            b'{"id": 8, "command": "ls \xff"}',
            b'{"id": 9, "command": "\\ud800"}',
            b'{"id": 10, "command": "' + b"a" * 1_000_000 + b'"}',
            b'{"id": 11, "command": "' + b"a" * MAX_LINE_BYTES + b'"}',
            b"[" * 100_000,
            b'{"id": 1e999, "command": "ls"}',
            b'{"id": 13, "id": 14, "command": "ls"}',
            b'{"id": {"a": null}, "command": ""}',
            b'{"id": "half", "comm',
            b'{"id": "last", "command": "ls"}',
        ]
    )
    answers, said, code = run(tmp_path, given, "--json")
    assert (said, code) == ("", 0)
    assert answers == [
        line(1, *LS),
        line(1, *LS),
        line(
            None,
            "ask",
            "line 4 of stdin is not valid JSON: Expecting value at character 0, near 'not json'.",
        ),
        line(None, "ask", 'line 5 of stdin is not a JSON object with "id" and "command"'),
        line(None, "ask", 'line 6 of stdin has no "id"'),
        line(5, "ask", 'line 7 of stdin has no "command" that is text'),
        line(6, "ask", 'line 8 of stdin has no "command" that is text'),
        line(7, "ask", "unparsed command: a control character, U+0000"),
        line(8, "ask", "unparsed command: an invisible or unusual character, U+DCFF"),
        line(9, "ask", "unparsed command: an invisible or unusual character, U+D800"),
        line(10, "ask", "line 12 of stdin is 1000025 characters long; at most 1000000 are taken"),
        line(11, "ask", f"line 13 of stdin is longer than {MAX_LINE_BYTES} bytes"),
        line(None, "ask", "line 14 of stdin is nested deeper than 64 levels"),
        line(None, "ask", 'line 15 of stdin has an "id" that is too large a number'),
        line(13, "ask", "line 16 of stdin is not acceptable JSON: key 'id' is given twice"),
        line({"a": None}, "ask", "unparsed command: the command is empty"),
        line(
            "half",
            "ask",
            "line 18 of stdin is not valid JSON: Unterminated string starting at character 15, "
            """near '{"id": "half", "comm'.""",
        ),
        line("last", *LS),
    ]


@pytest.mark.parametrize("stdin", [b"", b"\n \n"])
def test_WALK_7_an_empty_stdin_is_a_mistake_of_usage(tmp_path: Path, stdin: bytes) -> None:
    expected = "buddy: expected commands as arguments, or JSON lines on stdin; stdin was empty\n"
    assert run(tmp_path, stdin) == ([], expected, 2)


def test_a_command_of_the_arguments_may_be_any_bytes(tmp_path: Path) -> None:
    done = subprocess.run(
        [*(word.encode() for word in BUDDY), b"ls \xff", b"pwd"],
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.decode().splitlines() == [
        "ask    ls ⟨U+DCFF⟩",
        "       unparsed command: an invisible or unusual character, U+DCFF",
        "allow  pwd",
        f"       {LS[1]}",
    ]


def test_a_folder_that_is_gone_is_said() -> None:
    gone = "mkdir -p $0/gone && cd $0/gone && rmdir $0/gone && exec $1 -m buddy permissions test ls"
    done = subprocess.run(
        ["sh", "-c", gone, f"/tmp/buddy-{os.getpid()}", sys.executable], capture_output=True, check=False
    )
    Path(f"/tmp/buddy-{os.getpid()}").rmdir()
    assert done.stderr == b"buddy: the current directory no longer exists; start in another one\n"
    assert done.returncode == 2


@pytest.mark.parametrize("fault", [RecursionError("deep"), MemoryError(), ValueError("null byte"), OSError()])
def test_a_fault_in_judging_one_command_asks_about_it_and_says_so(fault: Exception) -> None:
    def judge(command: str) -> tuple[Decision, str]:
        raise fault

    expected = ("ask", f"buddy failed to judge it, so it asks: {type(fault).__name__}: {fault}")
    assert judge_line(PermissionLine(1, "ls"), judge) == expected


def test_an_interrupt_still_ends_the_run() -> None:
    def judge(command: str) -> tuple[Decision, str]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge_line(PermissionLine(1, "ls"), judge)


def test_a_line_without_end_is_not_read_into_memory() -> None:
    class Endless(io.RawIOBase):
        asked = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 < size <= MAX_LINE_BYTES + 1
            self.asked += 1
            return b"x" * size if self.asked < 20 else b""

    found = list(requests(cast("BinaryIO", Endless())))
    assert [one.problem for one in found] == [f"line 1 of stdin is longer than {MAX_LINE_BYTES} bytes"]


def test_RU_L7_programs_are_looked_up_on_the_persons_path(tmp_path: Path) -> None:
    own = tmp_path / "bin" / "ls"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    done = subprocess.run(
        [*BUDDY, "--json"],
        input=b'{"id": 1, "command": "ls"}',
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": f"{own.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        check=True,
    )
    assert "would be the workspace's own" in json.loads(done.stdout)["why"]


@pytest.mark.parametrize("option", [("--permission-mode", "plan"), ("--trust",), ("--config", "x.toml")])
def test_options_that_would_change_nothing_are_refused(option: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="judges in mode ask"):
        permissions(parse([*option, "permissions", "test", "ls"]), {})


RULES = """
[[rule]]
tool = "shell"
argv = ["git", "log", "*"]
decision = "allow"
why = "history \\u001b[2J"

[permissions]
deny = ["Read(secrets/**)"]
"""


def listed(folder: Path, *words: str, rules: str = RULES) -> subprocess.CompletedProcess[str]:
    settings = folder / ".config/buddy/buddy.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(rules)
    (folder / "work").mkdir(exist_ok=True)
    return subprocess.run(
        [*BUDDY[:-1], *words],
        capture_output=True,
        text=True,
        cwd=folder / "work",
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        check=False,
    )


@pytest.mark.parametrize("words", [(), ("list",)])
def test_N6_the_rules_are_listed_outside_of_a_session(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = listed(tmp_path, *words)
    assert (done.stderr, done.returncode) == ("", 0)
    first, second = done.stdout.splitlines()
    assert first.startswith("user  allow")
    assert "git log" in first
    assert "\x1b" not in first
    assert "deny" in second
    assert "secrets" in second


def test_N6_programs_get_the_rules_as_json(tmp_path: Path) -> None:
    rows = json.loads(listed(tmp_path, "list", "--json").stdout)
    assert [(row["from"], row["decision"]) for row in rows] == [("user", "allow"), ("user", "deny")]


def test_N6_rules_that_do_not_load_are_named(tmp_path: Path) -> None:
    done = listed(tmp_path, rules='[[rule]]\ntool = "shell"\nargv = ["git"]\ndecision = "maybe"\n')
    assert done.returncode == 0
    assert "maybe" in done.stderr


def test_N6_no_rules_and_rules_of_a_project_that_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/buddy.toml").write_text('[permissions]\nallow = ["Bash(ls:*)"]\n')
    done = listed(tmp_path, rules="")
    assert done.stdout == "no rules; buddy help permissions shows how to write one\n"
    assert "this folder is not trusted" in done.stderr


def test_N6_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    done = listed(tmp_path, rules="[[rule]\n")
    assert done.returncode == 4
    assert done.stderr.startswith("buddy: ")
    assert "buddy.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_N6_other_words_are_refused(tmp_path: Path) -> None:
    done = listed(tmp_path, "lists")
    assert done.returncode == 2
    assert "expected: buddy permissions [list], buddy permissions test" in done.stderr
