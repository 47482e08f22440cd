"""Resuming with a model or a permission mode on the command line, and changing them afterwards."""

from __future__ import annotations

from pathlib import Path

from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.status import footer_line
from tests.fake_llm.script import Tokens, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Desk
from tests.support.sitting_desk import Sitting, seated
from tests.support.terminal import on_terminal


def desk_of(folder: Path, server: FakeLLM) -> Desk:
    fast = {
        "model": "openai/fast-model",
        "api_key_env": "FAKE_LLM_KEY",
        "base_url": f"{server.url}/v1",
        "context_limit": 50_000,
    }
    keyless = {"model": "anthropic/claude-sonnet-4-5", "api_key_env": "MISSING_KEY"}
    desk = Desk(folder, server.url, settings={"models": {"fast": fast, "keyless": keyless}})
    desk.files(main__py="print(1)\n")
    return desk


async def test_a_session_goes_on_with_the_model_of_the_command_line(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        desk = desk_of(tmp_path, server)
        async with seated(desk, server) as sat:
            await sat.turn("one")
            await sat.turn("a second task &")
        async with seated(desk, server, "-c", "-m", "fast") as sat:
            assert sat.front.controller.facts().model == "fast"
            await sat.turn("two")
            assert sat.context.board.tasks[2].model == ""
        async with seated(desk, server, "-c") as sat:
            await sat.turn("three")
        models = [asked.model for asked in server.requests]
        assert (models[0], models[-2:]) == ("fake-model", ["fast-model", "fast-model"])


async def test_a_model_chosen_after_a_resume_is_asked_and_kept(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        desk = desk_of(tmp_path, server)
        async with seated(desk, server, "-m", "fast") as sat:
            await sat.turn("one")
        async with seated(desk, server, "-c") as sat:
            assert sat.front.controller.facts().model == "fast"
            sat.say("/model openai/fake-model")
            await sat.hints("model: openai/fake-model")
            await sat.turn("two")
            await sat.turn("on the side &")
        async with seated(desk, server, "-c") as sat:
            await sat.turn("three")
        assert [asked.model for asked in server.requests] == ["fast-model", *["fake-model"] * 3]


async def test_a_session_gone_to_later_keeps_its_own_model(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        desk = desk_of(tmp_path, server)
        async with seated(desk, server) as sat:
            sat.say("/model openai/fake-model")
            await sat.hints("model: openai/fake-model")
            await sat.turn("one")
            kept = sat.context.session.session_id
        async with seated(desk, server, "-m", "fast") as sat:
            await sat.turn("two")
            mine = sat.context.session.session_id
            sat.say(f"/resume {kept}")
            await sat.reopened(mine)
            await sat.turn("three")
        assert [asked.model for asked in server.requests] == [
            "fake-model",
            "fast-model",
            "fake-model",
        ]


async def test_a_model_without_its_key_is_said_when_it_is_asked_and_loses_nothing(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        desk = desk_of(tmp_path, server)
        async with seated(desk, server) as sat:
            await sat.turn("one")
        async with seated(desk, server, "-c", "-m", "keyless") as sat:
            sat.say("two")
            await sat.shows("MISSING_KEY")
            await sat.quiet()
            assert len(sat.context.board.tasks[1].history) >= 3


async def test_the_permission_mode_of_the_command_line_holds_for_a_resumed_session(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        desk = desk_of(tmp_path, server)
        async with seated(desk, server) as sat:
            await sat.turn("one")
            assert sat.context.session.policy.mode == "ask"
        async with seated(desk, server, "-c", "--permission-mode", "plan") as sat:
            assert (sat.context.session.policy.mode, sat.front.controller.facts().mode) == ("plan", "plan")
            sat.say("/mode edit")
            await sat.hints("mode: edit")
            assert sat.context.session.policy.mode == "edit"


def footer(sat: Sitting) -> str:
    """Return the footer."""
    sat.paper.touch()
    return "".join(
        text for _style, text in footer_line(sat.paper.state, 200, Look("mono", UNICODE, ansi=False))
    )


async def test_a_resumed_session_says_at_once_what_it_has_used(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.", usage=Tokens(12_000, 500))) as server:
        desk = desk_of(tmp_path, server)
        async with seated(desk, server) as sat:
            assert "context" not in footer(sat)
            await sat.turn("one")
            await sat.turn("two")
            left = footer(sat)
            assert "12% context" in left
            assert "25.0k tokens" in left
        async with seated(desk, server, "-c") as sat:
            await sat.until(lambda: footer(sat) == left, left)
            await sat.said("/context", "in use", "12.5k")
            await sat.said("/cost", "session: 25.0k tokens")
            await sat.said("/ps", "25.0k")
            await sat.said("/status", "12.5k of 100.0k tokens (12%)", "25.0k tokens")


async def test_the_footer_goes_with_the_window_of_another_model(tmp_path: Path) -> None:
    answer = reply("Hello.", usage=Tokens(12_000, 500))
    async with FakeLLM([answer]) as server, seated(desk_of(tmp_path, server), server) as sat:
        await sat.turn("one")
        sat.say("/model fast")
        await sat.hints("model: fast")
        assert "25% context" in footer(sat)


async def test_words_after_the_session_are_the_first_prompt_on_a_terminal(tmp_path: Path) -> None:
    async with FakeLLM(lambda asked: reply(f"Answer to {asked.last_user_text}.")) as server:
        desk = desk_of(tmp_path, server)
        await desk.run("exec", "one")
        (first,) = desk.sessions()
        ways = ((("resume", "--last"), "two"), (("resume", "-c"), "three"), (("resume", first), "four"))
        for arguments, word in ways:
            async with on_terminal(desk, *arguments, word, "and", "more") as terminal:
                await terminal.has_shown(f"Answer to {word} and more.", "done ·")
                assert await terminal.leaves() == 0
        assert desk.sessions() == [first]
        assert await desk.prompts() == ["one", "two and more", "three and more", "four and more"]
