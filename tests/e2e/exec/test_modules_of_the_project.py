"""A project names its files like modules and packages of the library: none runs before trust is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

NAMES = ("shutil", "difflib", "ssl", "json", "tomllib", "msgspec", "litellm", "zipfile", "importlib_metadata")


@pytest.mark.slow
async def test_SEC_045_files_that_are_named_like_modules_are_not_imported(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("list_files", path="nowhere")), reply("Done.")]) as server:
        program = Program(tmp_path, server.url, tools=["list_files"])
        ran_here = program.repo / "it ran"
        trap = f"open({str(ran_here)!r}, 'a').write(__name__ + ' ')\n"
        for name in (*NAMES, "evil"):
            (program.repo / f"{name}.py").write_text(trap)
        package = program.repo / "evil-1.0.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text("[buddy.tools]\nevil = evil:tool\n")
        ran = await program.run("exec", "hi", *YOLO)
        assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
        assert not ran_here.exists(), ran_here.read_text()
