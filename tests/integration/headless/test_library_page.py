"""The whole program in somebody's own program, as the manual shows it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

PAGE = Path(__file__).resolve().parents[3] / "templates/help/library.md"


async def test_the_example_without_a_front_end_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1]
    async with FakeLLM([reply(call("write_file", path="b.txt", content="b\n")), reply("Done.")]) as server:
        program = Program(tmp_path, server.url, "chat", ("read_file", "write_file"))
        for name, value in program.variables().items():
            monkeypatch.setenv(name, value)
        names: dict[str, Any] = {"folder": str(program.repo)}
        exec("async def run():\n" + textwrap.indent(block, "    ") + "\n    return answer", names)
        assert await names["run"]() == "Done."
    assert (program.repo / "b.txt").read_text() == "b\n"
    assert "Done." in capsys.readouterr().out
