"""Pictures ordered through the whole program: permission, price, undo, limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.fake_llm.pictures import PictureAnswer, form_of, made, png
from tests.fake_llm.script import Script, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

PICTURE = png()
USAGE = {"input_tokens": 100, "output_tokens": 1000}


def drawing(**arguments: object) -> list[object]:
    return [reply(call("generate_image", prompt="a cat", path="cat.png", **arguments)), reply("done")]


def program_at(folder: Path, server: FakeLLM, lane: str = "auto", **settings: object) -> Program:
    painter = {
        "model": "openai/gpt-image-1",
        "base_url": f"{server.url}/v1",
        "api_key_env": "FAKE_LLM_KEY",
        "lane": lane,
    }
    given = {"pictures": {"model": "painter"}, "models": {"painter": painter}, **settings}
    return Program(folder, server.url, settings=given)


@pytest.fixture
def script() -> Script:
    return drawing()  # type: ignore[return-value]


async def test_a_picture_is_made_its_price_is_counted_and_one_undo_takes_it_back(
    tmp_path: Path, script: Script
) -> None:
    async with FakeLLM(script, pictures=[made(PICTURE, usage=USAGE)]) as server:
        program = program_at(tmp_path, server)
        ran = await program.run("exec", *YOLO, "--output-format", "json", "draw a cat")
        assert ran.code == 0, ran.err
        assert (program.repo / "cat.png").read_bytes() == PICTURE
        told = next(one.text for one in await program.history() if isinstance(one, ToolMessage))
        assert told == f"cat.png: 4 × 3, image/png, {len(PICTURE)} bytes\ncost: $0.0405"
        assert json.loads(ran.out)["total_cost_usd"] == pytest.approx(0.0405)
        assert server.orders[0].headers["authorization"].startswith("Bearer ")


@pytest.mark.parametrize("mode", ["ask", "edit", "plan"])
async def test_without_permission_nothing_is_ordered(tmp_path: Path, script: Script, mode: str) -> None:
    async with FakeLLM(script, pictures=[made(PICTURE)]) as server:
        await program_at(tmp_path, server).run("exec", "--permission-mode", mode, "draw a cat")
        assert (server.orders, (tmp_path / "repo/cat.png").exists()) == ([], False)


async def test_a_rule_allows_pictures_but_none_over_a_file_that_is_there(
    tmp_path: Path, script: Script
) -> None:
    async with FakeLLM(script, pictures=[made(PICTURE)]) as server:
        rules = [{"tool": "generate_image", "decision": "allow"}]
        program = program_at(tmp_path, server, rule=rules)
        (program.repo / "cat.png").write_bytes(b"mine")
        await program.run("exec", "draw a cat")
        told = next(one.text for one in await program.history() if isinstance(one, ToolMessage))
        assert "cat.png exists and nobody was asked whether it may be replaced" in told
        assert ((program.repo / "cat.png").read_bytes(), server.orders) == (b"mine", [])


async def test_a_limit_in_dollars_holds_for_pictures(tmp_path: Path, script: Script) -> None:
    async with FakeLLM(script, pictures=[made(PICTURE)]) as server:
        ran = await program_at(tmp_path, server).run("exec", *YOLO, "--max-cost", "0.1", "draw a cat")
        told = [
            one.text for one in await program_at(tmp_path, server).history() if isinstance(one, ToolMessage)
        ]
        assert (server.orders, (tmp_path / "repo/cat.png").exists()) == ([], False), ran.err
        assert "no picture was ordered: the next request could cost $0.25" in told[0]


async def test_without_a_setting_the_call_says_what_to_set(tmp_path: Path, script: Script) -> None:
    async with FakeLLM(script, pictures=[made(PICTURE)]) as server:
        program = Program(tmp_path, server.url)
        await program.run("exec", *YOLO, "draw a cat")
        told = next(one.text for one in await program.history() if isinstance(one, ToolMessage))
        assert told.startswith("no model for pictures is set: the user can set one in buddy.toml")


async def test_a_model_without_an_image_api_is_named(tmp_path: Path, script: Script) -> None:
    async with FakeLLM(script) as server:
        program = Program(
            tmp_path, server.url, settings={"pictures": {"model": "anthropic/claude-sonnet-4-5"}}
        )
        await program.run("exec", *YOLO, "draw a cat")
        told = next(one.text for one in await program.history() if isinstance(one, ToolMessage))
        assert "anthropic/claude-sonnet-4-5 makes no pictures: anthropic has no image API" in told


async def test_a_project_cannot_choose_who_is_paid(tmp_path: Path, script: Script) -> None:
    async with FakeLLM(script, pictures=[made(PICTURE)]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "buddy.toml").write_text('[pictures]\nmodel = "openai/gpt-image-1"\n')
        ran = await program.run("exec", "--trust", *YOLO, "draw a cat")
        assert "[pictures] can only be set in your own buddy.toml" in ran.err
        assert server.orders == []


async def test_others_go_through_litellm(tmp_path: Path, script: Script) -> None:
    async with FakeLLM(script, pictures=[made(PICTURE)]) as server:
        program = program_at(tmp_path, server, "litellm")
        ran = await program.run("exec", *YOLO, "draw a cat")
        assert (program.repo / "cat.png").read_bytes() == PICTURE, ran.err
        assert server.orders[0].path == "/v1/images/generations"


async def test_a_background_is_removed_through_litellm_too(tmp_path: Path) -> None:
    cut = [reply(call("remove_background", path="cat.png", to="cut.png")), reply("done")]
    clear = png(alpha=True)
    async with FakeLLM(cut, pictures=[made(clear)]) as server:
        program = program_at(tmp_path, server, "litellm")
        (program.repo / "cat.png").write_bytes(PICTURE)
        ran = await program.run("exec", *YOLO, "cut the cat out")
        assert (program.repo / "cut.png").read_bytes() == clear, ran.err
        assert PICTURE in form_of(server.orders[0]).values()


async def test_a_refusal_through_litellm_is_told(tmp_path: Path, script: Script) -> None:
    body = json.dumps({"error": {"message": "rejected by the safety system", "code": "moderation_blocked"}})
    async with FakeLLM(script, pictures=[PictureAnswer(body.encode(), 400)]) as server:
        program = program_at(tmp_path, server, "litellm")
        await program.run("exec", *YOLO, "draw a cat")
        told = next(one.text for one in await program.history() if isinstance(one, ToolMessage))
        assert "rejected by the safety system" in told
        assert not (program.repo / "cat.png").exists()
