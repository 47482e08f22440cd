"""A picture from the clipboard to the model, on a real terminal."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from tests.fake_llm.pictures import png
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal


async def test_ctrl_v_attaches_the_picture_on_the_clipboard(tmp_path: Path) -> None:
    shelf = tmp_path / "bin"
    shelf.mkdir()
    (shelf / "shot").write_bytes(png())
    (shelf / "wl-paste").write_text(
        f'#!/bin/sh\ncase "$1" in --list-types) echo image/png;; *) exec cat {shelf}/shot;; esac\n'
    )
    (shelf / "wl-paste").chmod(0o755)
    async with FakeLLM([reply("a blue rectangle")]) as server:
        environment = {"PATH": f"{shelf}:{os.environ['PATH']}", "WAYLAND_DISPLAY": "wayland-0"}
        program = Program(tmp_path, server.url, environment=environment)
        async with on_terminal(program) as terminal:
            await terminal.shows("type a task")
            await terminal.type("what is this?\x16")
            await terminal.shows("what is this? @~/.cache/buddy/pictures/clip-")
            await terminal.line("")
            await terminal.shows("a blue rectangle")
        picture = base64.b64encode(png()).decode()
        assert f"data:image/png;base64,{picture}".encode() in server.requests[0].raw
