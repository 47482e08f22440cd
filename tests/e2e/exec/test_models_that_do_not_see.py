"""Pictures and a model that takes none: each way in is refused with a sentence."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from buddy.agent.messages import ToolMessage
from tests.fake_llm.pictures import png
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program


def blind(folder: Path, server: FakeLLM) -> Program:
    profile = {
        "model": "openai/fake-model",
        "base_url": f"{server.url}/v1",
        "api_key_env": "FAKE_LLM_KEY",
        "context_limit": 100_000,
        "vision": False,
    }
    program = Program(folder, server.url, settings={"api": profile})
    (program.repo / "shot.png").write_bytes(png())
    return program


async def test_a_mention_is_not_attached_and_says_why(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        ran = await blind(tmp_path, server).run("exec", "what is on @shot.png?")
        assert "@shot.png was not attached: shot.png is a picture (4 × 3 pixels)" in ran.err
        assert "takes none: expected a model that sees" in ran.err
        assert b"base64" not in server.requests[0].raw


async def test_a_tool_that_reads_one_says_why(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("view_image", path="shot.png")), reply("ok")]) as server:
        program = blind(tmp_path, server)
        await program.run("exec", *YOLO, "look")
        told = next(one.text for one in await program.history() if isinstance(one, ToolMessage))
        assert told.startswith("shot.png is a picture (4 × 3 pixels), and openai/fake-model takes none")


async def test_the_option_is_refused(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        ran = await blind(tmp_path, server).run("exec", "--image", "shot.png", "look")
        assert (ran.code, server.requests) == (2, [])
        assert "--image: openai/fake-model takes no pictures" in ran.err


async def test_one_of_a_program_is_left_out_in_words(tmp_path: Path) -> None:
    data = base64.b64encode(png()).decode()
    content = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    ]
    line = json.dumps({"type": "user", "message": {"role": "user", "content": content}}).encode()
    async with FakeLLM([reply("ok")]) as server:
        options = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        ran = await blind(tmp_path, server).run("exec", *options, stdin=line + b"\n")
        assert ran.code == 0, ran.err
        assert "a picture was left out: this model takes none" in server.requests[0].last_user_text
        assert b"base64" not in server.requests[0].raw


async def test_the_catalogue_knows_models_that_do_not_see(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "shot.png").write_bytes(png())
        program.configure({"api": {"model": "deepseek/deepseek-chat", "base_url": f"{server.url}/v1"}})
        ran = await program.run("exec", "what is on @shot.png?")
        assert "takes none: expected a model that sees" in ran.err


async def test_a_model_that_sees_gets_the_picture_by_either_name(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("view_image", image_path="shot.png")), reply("ok")]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "shot.png").write_bytes(png())
        ran = await program.run("exec", *YOLO, "what is on @shot.png?")
        assert ran.code == 0, ran.err
        assert [one.raw.count(b"data:image/png;base64,") for one in server.requests] == [1, 2]
