"""Preparation while the user types the first prompt: litellm, where the model needs it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

import pytest

from buddy.app.launch import find_launch, read_settings
from buddy.app.options import Options
from buddy.app.providers import Models
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

NOTED = """
import os, sys
class Noted:
    def find_spec(self, name, path, target=None):
        if name == "litellm":
            open(os.environ["NOTE"], "w").close()
        return None
sys.meta_path.insert(0, Noted())
from buddy.__main__ import main
sys.exit(main())
"""
"""The program; it makes a file when it begins to import litellm."""


async def test_litellm_is_imported_before_anything_is_asked_and_leaving_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    note = tmp_path / "note"
    async with FakeLLM([reply("never asked")]) as server:
        program = Program(tmp_path, server.url, lane="litellm-chat", environment={"NOTE": str(note)})
        async with on_terminal(program, command=(sys.executable, "-c", NOTED)) as terminal:
            await terminal.type("a draft")
            await terminal.until(note.exists, "the import")
            assert terminal.input_line() == "a draft"
            assert await terminal.leaves("\x15\x04") == 0
            assert b"Traceback" not in terminal.output
        assert server.requests == []


@pytest.mark.parametrize(
    ("lane", "key"),
    [("chat", "sk-x"), ("anthropic", "sk-x"), ("litellm-chat", "\0"), ("litellm-gemini", "\0")],
)
async def test_nothing_is_imported_for_a_direct_lane_nor_for_a_model_without_a_key(
    tmp_path: Path, lane: str, key: str
) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9", lane=lane, environment={"FAKE_LLM_KEY": key})
    options = Options()
    with contextlib.chdir(program.repo):
        launch = find_launch(options, {**os.environ, **program.variables()})
    models = Models(read_settings(launch, options).settings, launch)
    models.access("")
    await models.prepare("", offers_models=True)
    assert "import-litellm" not in {thread.name for thread in threading.enumerate()}
    await models.aclose()
