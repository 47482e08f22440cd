"""Pictures on a real terminal: from the clipboard to the model, made and shown, cancelled."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from tests.fake_llm.pictures import PictureAnswer, made, png
from tests.fake_llm.script import call, reply
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


def painting(folder: Path, server: FakeLLM, **environment: str) -> Program:
    painter = {"model": "openai/gpt-image-1", "base_url": f"{server.url}/v1", "api_key_env": "FAKE_LLM_KEY"}
    return Program(
        folder,
        server.url,
        settings={"pictures": {"model": "painter"}, "models": {"painter": painter}},
        environment={"COLORTERM": "truecolor", **environment},
    )


DRAW = call("generate_image", prompt="a cat", path="cat.png")


async def test_a_made_picture_is_shown_in_half_blocks_where_the_terminal_says_nothing(tmp_path: Path) -> None:
    async with FakeLLM([reply(DRAW), reply("here it is")], pictures=[made(png(8, 8))]) as server:
        program = painting(tmp_path, server)
        async with on_terminal(program, "--permission-mode", "yolo", "--i-know") as terminal:
            await terminal.shows("type a task")
            await terminal.line("draw a cat")
            await terminal.shows("cat.png: 8 × 8, image/png", "▀▀▀▀▀▀▀▀", "here it is")
        assert b"\x1b_Gi=31" in terminal.output  # it was asked, and its silence held nobody up
        assert (program.repo / "cat.png").read_bytes() == png(8, 8)


async def test_over_ssh_a_made_picture_is_only_named(tmp_path: Path) -> None:
    async with FakeLLM([reply(DRAW), reply("here it is")], pictures=[made(png(8, 8))]) as server:
        program = painting(tmp_path, server, SSH_CONNECTION="192.0.2.1 50000 192.0.2.2 22")
        async with on_terminal(program, "--permission-mode", "yolo", "--i-know") as terminal:
            await terminal.shows("type a task")
            await terminal.line("draw a cat")
            await terminal.shows("cat.png: 8 × 8, image/png", "here it is")
            assert not any("▀" in row for row in terminal.everything())
        assert b"\x1b_G" not in terminal.output


async def test_esc_cancels_a_picture_that_is_being_made(tmp_path: Path) -> None:
    answer = PictureAnswer(made(png()).body, stalls=True)
    async with FakeLLM([reply(DRAW), reply("unused")], pictures=[answer]) as server:
        program = painting(tmp_path, server)
        async with on_terminal(program, "--permission-mode", "yolo", "--i-know") as terminal:
            await terminal.shows("type a task")
            await terminal.line("draw a cat")
            await server.ordered(1)
            terminal.keys("\x1b")
            assert (await server.order_ended(1)).outcome == "aborted"
            await terminal.shows("cancelled")
        assert not (program.repo / "cat.png").exists()
