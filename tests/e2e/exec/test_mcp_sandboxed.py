"""Servers with a command, in the sandbox: the files and hosts they reach, and what their definition opens."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import KEY, YOLO, Program

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
pytestmark = [pytest.mark.slow, requires("bwrap")]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which is private inside."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-test-", dir=os.path.expanduser("~"))))
    yield made
    shutil.rmtree(made)


async def tries(folder: Path, *what: str, level: str = "auto", **definition: object) -> dict[str, str]:
    """Results of a server in the sandbox for each thing it tried; `{repo}`, `{home}` and `{port}` are filled
    in."""
    entry = {"command": sys.executable, "args": [SERVER, "tries"], "required": True, **definition}
    script: list[Any] = []
    async with FakeLLM(script) as server:
        program = Program(folder, server.url, settings={"mcp_servers": {"plain": entry}})
        program.configure({"mcp_servers": {"plain": entry}, "sandbox": {"level": level}})
        program.files(main__py="1\n")
        for name in (".ssh", "notes", ".cache/uv", "other"):
            (program.home / name).mkdir(parents=True, exist_ok=True)
        (program.home / ".ssh/id_rsa").write_text("secret")
        (program.repo / ".env").write_text("SECRET=1")
        port = server.url.rsplit(":", 1)[1].split("/")[0]
        places = {"repo": program.repo, "home": program.home, "port": port}
        asked = [one.format(**places) for one in what]
        script += [reply(call("mcp__plain__echo", text="|".join(asked))), reply("done")]
        ran = await program.run(*YOLO, "exec", "go")
        assert ran.out == "done\n", ran.err
        found = json.loads(server.requests[-1].tool_results[0])
    return dict(zip(what, (found[one] for one in asked), strict=True))


async def test_a_server_changes_the_workspace_and_its_caches_only(folder: Path) -> None:
    got = await tries(
        folder,
        *("write {repo}/made.txt", "write {home}/.cache/uv/x"),
        *(
            "write {repo}/.git/hooks/pre-commit",
            "write {repo}/.mcp.json",
            "write {repo}/.claude/settings.json",
        ),
        *("write {home}/.bashrc", "write {home}/notes/x", "write {home}/.config/buddy/mcp.json"),
        *("read {home}/.ssh/id_rsa", "connect 127.0.0.1 {port}", "variable FAKE_LLM_KEY"),
    )
    allowed = [what for what, answer in got.items() if answer in ("written", "connected", KEY)]
    assert allowed == ["write {repo}/made.txt", "write {home}/.cache/uv/x"], got
    assert not got["read {home}/.ssh/id_rsa"].startswith("read 6")


async def test_a_definition_opens_the_folders_it_names(folder: Path) -> None:
    got = await tries(folder, "write {home}/notes/x", "write {home}/other/x", write=["~/notes"])
    assert got["write {home}/notes/x"] == "written"
    assert got["write {home}/other/x"].startswith("refused")


async def test_a_definition_may_leave_the_sandbox_unless_one_is_demanded(folder: Path) -> None:
    got = await tries(folder, "write {home}/other/x", "connect 127.0.0.1 {port}", sandbox=False)
    assert set(got.values()) == {"written", "connected"}
    assert await tries(folder, "variable FAKE_LLM_KEY", sandbox=False) == {"variable FAKE_LLM_KEY": ""}
