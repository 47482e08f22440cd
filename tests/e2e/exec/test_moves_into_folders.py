"""Files that are copied and moved into folders, through the whole program: judged at the path they get."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program


async def test_a_folder_as_target_takes_the_file_in(tmp_path: Path) -> None:
    calls = (
        call("copy_file", source="a.txt", target="dir"),
        call("move_file", source="b.txt", target="dir/"),
        call("move_file", source="other", target="dir"),
    )
    async with FakeLLM([reply(calls[0]), reply(calls[1]), reply(calls[2]), reply("ok")]) as server:
        program = Program(tmp_path, server.url)
        program.files(a__txt="a\n", b__txt="b\n")
        (program.repo / "dir").mkdir()
        (program.repo / "other").mkdir()
        (program.repo / "other/c.txt").write_text("c\n")
        ran = await program.run("exec", *YOLO, "hi")
    assert ran.code == 0, ran.err
    found = sorted(str(one.relative_to(program.repo)) for one in program.repo.glob("**/*.txt"))
    assert found == ["a.txt", "dir/a.txt", "dir/b.txt", "dir/other/c.txt"], ran.err


async def test_a_copy_into_a_folder_is_judged_by_the_name_it_gets_there(tmp_path: Path) -> None:
    async with FakeLLM(
        [reply(call("copy_file", source="harmless/sitecustomize.py", target=".")), reply("ok")]
    ) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "harmless").mkdir()
        (program.repo / "harmless/sitecustomize.py").write_text("print(1)\n")
        ran = await program.run("exec", "--permission-mode", "edit", "hi")
    assert not (program.repo / "sitecustomize.py").exists()
    assert "needs approval" in ran.err
