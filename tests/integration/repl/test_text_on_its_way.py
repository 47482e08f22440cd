"""Text that was sent and is not a turn yet: Esc takes it back into the line, and no turn begins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from buddy.agent.messages import Text, UserMessage, text_of
from buddy.extend.mentions import ExpandedPrompt
from buddy.repl.early import Controller
from buddy.repl.intents import Cancel, Intent, Prompt, Queue, Slash, ToTask
from buddy.repl.view.state import NO_SESSION, SessionFacts
from tests.fake_llm.script import Stall, reply
from tests.support.repl import Repl, open_repl, open_repl_in
from tests.support.screen_harness import running_repl


class Carried:
    """A repl that notes what it is to do."""

    def __init__(self) -> None:
        self.intents: list[Intent] = []

    def act(self, intent: Intent) -> None:
        self.intents.append(intent)

    def facts(self) -> SessionFacts:
        return NO_SESSION


class SlowFiles:
    """Whatever a text mentions is read when it is told to be."""

    def __init__(self, repl: Repl) -> None:
        self.may_go_on = asyncio.Event()
        self.reading: list[str] = []
        repl.context.session.expand = self._expand

    async def _expand(self, task_id: int, text: str) -> ExpandedPrompt:
        self.reading.append(text)
        await self.may_go_on.wait()
        return ExpandedPrompt((Text(text),), ())


def said(repl: Repl) -> list[str]:
    """Return the user's prompts in the foreground task."""
    history = repl.context.board.task(1).history
    return [text_of(one) for one in history if isinstance(one, UserMessage)]


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["Esc", "Ctrl+C"])
async def test_esc_and_ctrl_c_are_for_a_prompt_of_which_no_event_has_told(key: str) -> None:
    async with running_repl() as stage:
        stage.facts = replace(NO_SESSION, coming=True)
        stage.type(key)
        await stage.until(lambda: stage.intents == [Cancel()])


async def test_RU_B17_a_refused_line_comes_back_as_it_was_and_one_enter_does_not_send_it_again() -> None:
    async with running_repl() as stage:
        stage.repl.put("", over=False)
        stage.repl.put("@5 hello", over=False)
        assert stage.repl.editor.text == "@5 hello"
        stage.type("\r")
        await stage.shows("This was refused")
        assert stage.intents == []
        stage.type("\r")
        await stage.until(lambda: stage.intents == [ToTask(5, "hello", aside=False)])
        stage.repl.put("@5 hello", over=False)
        stage.type("\x1b[C")
        await stage.until(lambda: not stage.repl.editor.is_replaceable)
        stage.type(" you\r")
        await stage.until(lambda: stage.intents[1:] == [ToTask(5, "hello you", aside=False)])


@pytest.mark.parametrize("vi", [False, True], ids=["emacs", "vi"])
async def test_what_is_typed_next_takes_the_place_of_a_refused_line(vi: bool) -> None:
    async with running_repl(vi=vi) as stage:
        stage.type("9\r")
        await stage.until(lambda: stage.intents == [Prompt("9")])
        stage.repl.put("9", over=False)
        await stage.shows("Not sent. Type to replace it")
        stage.type("21")
        await stage.until(lambda: stage.repl.editor.text == "21")
        await stage.shows_not("Not sent.")
        if not vi:
            stage.type("\x1f\x1f")  # undo
            await stage.until(lambda: stage.repl.editor.text == "9")
        stage.type("\x15\x1b[A")
        await stage.until(lambda: stage.repl.editor.text == "9")


async def test_a_paste_takes_the_place_of_a_refused_line_and_an_edit_keeps_it() -> None:
    async with running_repl() as stage:
        for keys, text in {
            "\x1b[200~pasted\x1b[201~": "pasted",
            "\x7f": "@5 hell",
            "\x1b[D!": "@5 hell!o",
            "\x01x": "x@5 hello",
            "\x05!": "@5 hello!",
        }.items():
            stage.repl.editor.clear()
            stage.repl.put("@5 hello", over=False)
            stage.type(keys)
            await stage.until(lambda text=text: stage.repl.editor.text == text)


async def test_a_refused_line_that_is_typed_anew_is_sent() -> None:
    async with running_repl() as stage:
        stage.repl.put("@5 hello", over=False)
        stage.type("\x03")
        await stage.line("@5 hello")
        await stage.until(lambda: stage.intents == [ToTask(5, "hello", aside=False)])


async def test_a_letter_held_because_nothing_waits_is_not_glued_to_what_is_typed_next() -> None:
    async with running_repl() as stage:
        await stage.line("y")
        await stage.shows("Nothing waits for an answer")
        await stage.line("fix the tests")
        await stage.until(lambda: stage.intents == [Prompt("fix the tests")])


async def test_a_line_begun_meanwhile_stays_and_the_refused_one_is_in_the_history() -> None:
    async with running_repl() as stage:
        await stage.line("@1 before")
        await stage.until(lambda: len(stage.intents) == 1)
        stage.type("/fg 2")
        await stage.until(lambda: stage.repl.editor.text == "/fg 2")
        stage.repl.put("@1 before", over=False)
        await stage.shows("Up brings it back")
        stage.type("!")
        await stage.until(lambda: stage.repl.editor.text == "/fg 2!")
        stage.type("\x1b[A")
        await stage.until(lambda: stage.repl.editor.text == "@1 before")


async def test_a_refused_line_that_is_sent_again_stands_once_in_the_history() -> None:
    async with running_repl() as stage:
        stage.type("hello")
        await stage.until(lambda: stage.repl.editor.text == "hello")
        stage.type("\r")
        await stage.until(lambda: len(stage.intents) == 1)
        stage.repl.put("hello", over=False)
        stage.type("\r")
        await stage.shows("This was refused")
        stage.type("\r")
        await stage.until(lambda: len(stage.intents) == 2)
        assert stage.repl.editor.buffer.history.get_strings() == ["hello"]


async def test_what_was_for_a_session_that_cannot_be_had_is_not_sent_to_the_one_opened_instead(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, lambda asked: reply("ok")) as repl:
        await repl.turn("hello")
        first = repl.context.session.session_id
        async with open_repl_in(repl.program, repl.server, "-r", first, "go on with it") as other:
            await other.shows("Open in another buddy (pid")
            await other.until(lambda: other.front.controller.dispatcher is not None, "another session")
            assert other.paper.line == "go on with it"
            assert said(other) == []
        assert [asked.last_user_text for asked in repl.server.requests] == ["hello"]


async def test_a_prompt_sent_before_the_session_is_open_is_taken_back_and_commands_stay() -> None:
    put: list[str] = []
    controller, repl = Controller(NO_SESSION, put.append), Carried()
    controller.act(Cancel())
    assert not controller.facts().coming
    for intent in (Prompt("first"), Slash("/status"), Queue("second")):
        controller.act(intent)
    assert controller.facts().coming
    controller.act(Cancel())
    assert put == ["first\n\nsecond"]
    assert not controller.facts().coming
    controller.open(repl)
    assert repl.intents == [Slash("/status")]


async def test_what_a_slow_file_holds_up_is_taken_back_before_what_was_typed_since(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda asked: reply("ok")) as repl:
        files = SlowFiles(repl)
        repl.act(Prompt("read @slow"))
        repl.act(ToTask(1, "and then", aside=False))
        assert repl.front.controller.facts().coming
        await repl.until(lambda: files.reading == ["read @slow"], "the file is read")
        repl.paper.line = "typed since"
        repl.act(Cancel())
        await repl.until(lambda: repl.paper.line == "read @slow\n\n@1 and then\ntyped since", "the line")
        assert not repl.front.controller.facts().coming
        repl.act(Prompt("another"))
        await repl.until(lambda: files.reading == ["read @slow", "another"], "the next one waits for nothing")
        files.may_go_on.set()
        await repl.shows("ok")
        await repl.quiet()
        assert said(repl) == ["another"]
        assert len(repl.server.requests) == 1


async def test_what_was_on_its_way_to_a_turn_that_is_cancelled_begins_none(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda asked: reply("so slow " * 9, fault=Stall(after=3))) as repl:
        repl.say("be slow")
        await repl.server.arrived(1)
        files = SlowFiles(repl)
        repl.act(Prompt("use @slow"))
        await repl.until(lambda: bool(files.reading), "the file is read")
        repl.act(Cancel())
        await repl.until(lambda: repl.paper.line == "use @slow", "the line")
        files.may_go_on.set()
        await repl.quiet()
        await repl.shows("cancelled")
        assert said(repl) == ["be slow"]


async def test_esc_ends_what_was_begun_last_a_command_or_a_prompt_on_its_way(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda asked: reply("ok")) as repl:
        files = SlowFiles(repl)
        repl.act(Prompt("first @slow"))
        await repl.until(lambda: bool(files.reading), "the file is read")
        repl.say("!sleep 30")
        await repl.until(lambda: bool(repl.front.controller.facts().own), "the command runs")
        repl.act(Cancel())
        await repl.until(lambda: not repl.front.controller.facts().own, "the command has ended")
        assert repl.front.controller.facts().coming
        repl.act(Cancel())
        await repl.until(lambda: repl.paper.line == "first @slow", "the line")


async def test_at_whatever_moment_esc_comes_the_prompt_is_taken_back_or_its_turn_cancelled(
    tmp_path: Path,
) -> None:
    ends: set[str] = set()
    async with open_repl(tmp_path, lambda asked: reply("so slow " * 9, fault=Stall(after=3))) as repl:
        task = repl.context.board.task(1)
        for rounds in range(40):
            prompt = f"prompt {rounds}"
            repl.paper.line = ""
            repl.act(Prompt(prompt))
            for _ in range(rounds):
                await asyncio.sleep(0)
            assert repl.front.controller.facts().coming, rounds
            repl.act(Cancel())
            await repl.until(lambda: not repl.front.controller.facts().coming, f"an end after {rounds}")
            is_back, began = repl.paper.line == prompt, prompt in said(repl)
            assert is_back != began, rounds
            assert not began or (task.outcome is not None and task.outcome.outcome == "cancelled"), rounds
            ends.add("taken back" if is_back else "cancelled")
    assert ends == {"taken back", "cancelled"}
