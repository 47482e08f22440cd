"""Key lookups of a start: a command once, a keyring not at all where a server may need no key."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.fake_llm.script import HttpError, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import ROOT, Program
from tests.support.terminal import on_terminal

KEYRING = """
import os
def get_password(service, provider):
    open(os.environ["KEYRING_ASKED"], "a").write("x")
    return None
"""


def commanded(folder: Path) -> dict[str, Any]:
    """A profile whose command gives another key each time: sk-1, sk-2 …"""
    count = folder / "count"
    code = f"open({str(count)!r}, 'a').write('x'); print('sk-' + str(len(open({str(count)!r}).read())))"
    return {"api": {"api_key_command": f'{sys.executable} -c "{code}"'}}


async def test_a_key_command_runs_once_for_the_start_and_all_prompts(tmp_path: Path) -> None:
    async with FakeLLM([reply("one"), reply("two")]) as server:
        program = Program(tmp_path, server.url, settings=commanded(tmp_path))
        async with on_terminal(program) as terminal:
            for prompt, answer in (("first", "one"), ("second", "two")):
                await terminal.line(prompt)
                await terminal.shows(answer)
    assert [asked.headers["authorization"] for asked in server.requests] == ["Bearer sk-1", "Bearer sk-1"]
    assert (tmp_path / "count").read_text() == "x"


async def test_a_key_command_is_asked_again_when_its_key_is_refused(tmp_path: Path) -> None:
    async with FakeLLM([reply("never", fault=HttpError(401)), reply("fine")]) as server:
        program = Program(tmp_path, server.url, settings=commanded(tmp_path))
        ran = await program.run("exec", "hi")
    assert (ran.code, ran.out) == (0, "fine\n"), ran.err
    assert [asked.headers["authorization"] for asked in server.requests] == ["Bearer sk-1", "Bearer sk-2"]


async def test_a_server_that_may_need_no_key_has_the_keyring_asked_with_the_first_prompt(
    tmp_path: Path,
) -> None:
    packages, asked = tmp_path / "packages", tmp_path / "asked"
    packages.mkdir()
    (packages / "keyring.py").write_text(KEYRING)
    async with FakeLLM([reply("one"), reply("two")]) as server:
        program = Program(tmp_path, server.url, settings={"api": {"api_key_env": ""}})
        program.environment = {"PYTHONPATH": f"{packages}{os.pathsep}{ROOT}", "KEYRING_ASKED": str(asked)}
        async with on_terminal(program) as terminal:
            await terminal.line("/model")
            await terminal.shows("profile")
            assert not asked.exists()
            for prompt, answer in (("first", "one"), ("second", "two")):
                await terminal.line(prompt)
                await terminal.shows(answer)
    assert asked.read_text() == "x"
    assert ["authorization" in request.headers for request in server.requests] == [False, False]
