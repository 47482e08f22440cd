"""Resuming with a model or a permission mode on the command line, and changing them afterwards."""

from __future__ import annotations

from pathlib import Path

from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.status import footer_line
from tests.fake_llm.script import Tokens, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import Repl, open_repl_in
from tests.support.terminal import on_terminal


def program_of(folder: Path, server: FakeLLM) -> Program:
    fast = {
        "model": "openai/fast-model",
        "api_key_env": "FAKE_LLM_KEY",
        "base_url": f"{server.url}/v1",
        "context_limit": 50_000,
    }
    keyless = {"model": "anthropic/claude-sonnet-4-5", "api_key_env": "MISSING_KEY"}
    program = Program(folder, server.url, settings={"models": {"fast": fast, "keyless": keyless}})
    program.files(main__py="print(1)\n")
    return program


async def test_a_session_goes_on_with_the_model_of_the_command_line(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        program = program_of(tmp_path, server)
        async with open_repl_in(program, server) as repl:
            await repl.turn("one")
            await repl.turn("a second task &")
        async with open_repl_in(program, server, "-c", "-m", "fast") as repl:
            assert repl.front.controller.facts().model == "fast"
            await repl.turn("two")
            assert repl.context.board.tasks[2].model == ""
        async with open_repl_in(program, server, "-c") as repl:
            await repl.turn("three")
        models = [asked.model for asked in server.requests]
        assert (models[0], models[-2:]) == ("fake-model", ["fast-model", "fast-model"])


async def test_a_model_chosen_after_a_resume_is_asked_and_kept(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        program = program_of(tmp_path, server)
        async with open_repl_in(program, server, "-m", "fast") as repl:
            await repl.turn("one")
        async with open_repl_in(program, server, "-c") as repl:
            assert repl.front.controller.facts().model == "fast"
            repl.say("/model openai/fake-model")
            await repl.hints("model: openai/fake-model")
            await repl.turn("two")
            await repl.turn("on the side &")
        async with open_repl_in(program, server, "-c") as repl:
            await repl.turn("three")
        assert [asked.model for asked in server.requests] == ["fast-model", *["fake-model"] * 3]


async def test_a_session_gone_to_later_keeps_its_own_model(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        program = program_of(tmp_path, server)
        async with open_repl_in(program, server) as repl:
            repl.say("/model openai/fake-model")
            await repl.hints("model: openai/fake-model")
            await repl.turn("one")
            kept = repl.context.session.session_id
        async with open_repl_in(program, server, "-m", "fast") as repl:
            await repl.turn("two")
            mine = repl.context.session.session_id
            repl.say(f"/resume {kept}")
            await repl.reopened(mine)
            await repl.turn("three")
        assert [asked.model for asked in server.requests] == [
            "fake-model",
            "fast-model",
            "fake-model",
        ]


async def test_a_model_without_its_key_is_said_when_it_is_asked_and_loses_nothing(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        program = program_of(tmp_path, server)
        async with open_repl_in(program, server) as repl:
            await repl.turn("one")
        async with open_repl_in(program, server, "-c", "-m", "keyless") as repl:
            repl.say("two")
            await repl.shows("MISSING_KEY")
            await repl.quiet()
            assert len(repl.context.board.tasks[1].history) >= 3


async def test_the_permission_mode_of_the_command_line_holds_for_a_resumed_session(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.")) as server:
        program = program_of(tmp_path, server)
        async with open_repl_in(program, server) as repl:
            await repl.turn("one")
            assert repl.context.session.policy.mode == "ask"
        async with open_repl_in(program, server, "-c", "--permission-mode", "plan") as repl:
            assert (repl.context.session.policy.mode, repl.front.controller.facts().mode) == ("plan", "plan")
            repl.say("/mode edit")
            await repl.hints("mode: edit")
            assert repl.context.session.policy.mode == "edit"


def footer(repl: Repl) -> str:
    """Return the footer."""
    repl.paper.touch()
    return "".join(
        text for _style, text in footer_line(repl.paper.state, 200, Look("mono", UNICODE, ansi=False))
    )


async def test_a_resumed_session_says_at_once_what_it_has_used(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello.", usage=Tokens(12_000, 500))) as server:
        program = program_of(tmp_path, server)
        async with open_repl_in(program, server) as repl:
            assert "context" not in footer(repl)
            await repl.turn("one")
            await repl.turn("two")
            left = footer(repl)
            assert "12% context" in left
            assert "25.0k tokens" in left
        async with open_repl_in(program, server, "-c") as repl:
            await repl.until(lambda: footer(repl) == left, left)
            await repl.said("/context", "in use", "12.5k")
            await repl.said("/cost", "session: 25.0k tokens")
            await repl.said("/ps", "25.0k")
            await repl.said("/status", "12.5k of 100.0k tokens (12%)", "25.0k tokens")


async def test_the_footer_goes_with_the_window_of_another_model(tmp_path: Path) -> None:
    answer = reply("Hello.", usage=Tokens(12_000, 500))
    async with FakeLLM([answer]) as server, open_repl_in(program_of(tmp_path, server), server) as repl:
        await repl.turn("one")
        repl.say("/model fast")
        await repl.hints("model: fast")
        assert "25% context" in footer(repl)


async def test_words_after_the_session_are_the_first_prompt_on_a_terminal(tmp_path: Path) -> None:
    async with FakeLLM(lambda asked: reply(f"Answer to {asked.last_user_text}.")) as server:
        program = program_of(tmp_path, server)
        await program.run("exec", "one")
        (first,) = program.sessions()
        ways = ((("resume", "--last"), "two"), (("resume", "-c"), "three"), (("resume", first), "four"))
        for arguments, word in ways:
            async with on_terminal(program, *arguments, word, "and", "more") as terminal:
                await terminal.has_shown(f"Answer to {word} and more.", "done ·")
                assert await terminal.leaves() == 0
        assert program.sessions() == [first]
        assert await program.prompts() == ["one", "two and more", "three and more", "four and more"]
