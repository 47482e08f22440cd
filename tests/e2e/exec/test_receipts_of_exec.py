"""E10 through the real program: a run ends with a receipt of what it changed, checked and was refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program, Ran

TEST = "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n"
TEST += "    def test_add(self):\n        self.assertEqual(add(2, 2), 4)\n"
TOOLS = ("edit_file", "run_shell", "delete_file")
COMMAND = "python3 -m unittest test_calc"
WORK = [
    reply(call("edit_file", path="calc.py", old="a - b", new="a * b + 1")),
    reply(call("run_shell", command=COMMAND)),
    reply(call("delete_file", path="test_calc.py")),
    reply("All tests pass now."),
]


async def _worked(tmp_path: Path, *options: str) -> tuple[Program, Ran]:
    async with FakeLLM(WORK) as server:
        program = Program(tmp_path, server.url, tools=TOOLS)
        program.files(
            calc__py="def add(a, b):\n    return a - b\n", test_calc__py=TEST, __gitignore="__pycache__\n"
        )
        ran = await program.run(
            "exec", "--permission-mode", "edit", "--allow", f"Bash({COMMAND})", *options, "Mend it."
        )
    assert (program.repo / "test_calc.py").exists()
    return program, ran


def _receipt(ran: Ran, output_format: str) -> dict[str, Any]:
    if output_format == "json":
        return json.loads(ran.out)["receipt"]
    return next(one["receipt"] for one in ran.objects() if one.get("subtype") == "receipt")


async def test_E10_text_says_what_was_changed_checked_and_refused(tmp_path: Path) -> None:
    _, ran = await _worked(tmp_path)
    rows = dict(line.split(maxsplit=1) for line in ran.err.splitlines() if " " in line.strip())
    assert ran.out == "All tests pass now.\n"
    assert rows["changed"] == "calc.py +1 \N{MINUS SIGN}1", ran.err
    assert rows["checked"] == f"{COMMAND}: 1 failed (exit 1)"
    assert rows["refused"] == "delete_file test_calc.py"


@pytest.mark.parametrize("output_format", ["json", "stream-json"])
async def test_E10_machines_get_the_same_receipt(tmp_path: Path, output_format: str) -> None:
    _, ran = await _worked(tmp_path, "--output-format", output_format)
    receipt = _receipt(ran, output_format)
    (file,) = receipt["files"]
    assert (file["path"], file["added"], file["removed"]) == ("calc.py", 1, 1)
    (check,) = receipt["checks"]
    assert (check["kind"], check["command"], check["exit_code"]) == ("tests", COMMAND, 1)
    assert receipt["refused"] == ["delete_file test_calc.py"]
