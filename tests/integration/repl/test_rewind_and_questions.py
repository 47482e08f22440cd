"""/rewind with files, and the questions of models: shown, answered, asked again after a crash."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from buddy.agent.messages import text_of
from buddy.repl.commands.registry import CommandError
from buddy.repl.commands.rewind import rewind
from buddy.repl.input.completion import SessionCompleter
from buddy.repl.render.console import plain_row
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.render.text import line_cells, plain
from buddy.repl.view.blocks import QuestionAsked
from buddy.repl.view.live import inbox_lines, phase_text, queue_lines
from buddy.repl.view.state import QueueRow
from buddy.tools.ask_user import OpenQuestion, Option, Question
from buddy.workspace.undo.log import UndoEntry
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, ToolCall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import Repl, open_repl, open_repl_in

EDIT = {"permissions": {"mode": "edit"}}
LOOK = Look("default", UNICODE, ansi=True)


def edits(asked: Asked) -> Reply:
    """`write NAME TEXT` writes a file; anything else is only heard."""
    if asked.turns[-1][0] == "user" and asked.last_user_text.startswith("write "):
        _, name, text = asked.last_user_text.split(" ", 2)
        return reply(call("write_file", path=name, content=text + "\n"))
    return reply("done as asked")


def asks(asked: Asked) -> Reply:
    """Asks which database, and says the answer."""
    if asked.turns[-1][0] == "user":
        question = {"question": "Which database?", "options": ["sqlite", "postgres"]}
        return reply(call("ask_user", questions=[question]))
    return reply("You said: " + asked.turns[-1][1].split("→ ")[-1])


def said(repl: Repl) -> list[str]:
    return [
        text_of(one) for one in repl.context.board.task(1).history if one.__class__.__name__ == "UserMessage"
    ]


async def offered(repl: Repl, line: str) -> list[str]:
    completer = repl.front.completer.source
    assert isinstance(completer, SessionCompleter)
    event = CompleteEvent(completion_requested=True)
    return [one.text async for one in completer.get_completions_async(Document(line), event)]


async def test_rewind_offers_conversation_files_or_both_with_the_difference_first(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, settings=EDIT) as repl:
        await repl.turn("write a.txt one")
        await repl.turn("write b.txt two")
        await repl.turn("thanks")
        shown = await repl.said("/rewind", "write a.txt one", "thanks")
        assert [row.rsplit("│", 1)[-1].strip() for row in shown.splitlines() if "│" in row][-3:] == [
            "2 files",
            "1 file",
            "0 files",
        ]
        await repl.said("/rewind 2", "+two", "1 file changed since prompt 2. Nothing is undone yet")
        assert said(repl) == ["write a.txt one", "write b.txt two", "thanks"]
        assert (repl.program.repo / "b.txt").exists()
        await repl.said("/rewind 3", "back to before prompt 3\n")
        assert said(repl) == ["write a.txt one", "write b.txt two"]


def edits_as_call_0(asked: Asked) -> Reply:
    """The same from a server that counts its calls from 0 in every reply."""
    answer = edits(asked)
    parts = tuple(
        dataclasses.replace(part, id="call_0") if isinstance(part, ToolCall) else part
        for part in answer.parts
    )
    return dataclasses.replace(answer, parts=parts)


async def test_calls_whose_ids_a_server_gives_again_are_told_apart(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits_as_call_0, settings=EDIT) as repl:
        await repl.turn("write a.txt one")
        await repl.turn("write b.txt two")
        await repl.said("/rewind 2", "1 file changed since prompt 2")
        await repl.said("/rewind 2 both", "Undone since prompt 2: b.txt. /redo brings it back.")
        assert (repl.program.repo / "a.txt").read_text() == "one\n"


class UndoInterrupted:
    """The undo log, and a person who sends a prompt as soon as something was taken back."""

    def __init__(self, repl: Repl, line: str) -> None:
        self._repl = repl
        self._line = line
        self._undo = repl.context.session.undo
        self._loop = asyncio.get_running_loop()
        self.entries = self._undo.entries

    def undo(self, *args: Any, **kwargs: Any) -> UndoEntry:
        entry = self._undo.undo(*args, **kwargs)

        async def send() -> None:
            self._repl.say(self._line)
            await self._repl.until(lambda: self._repl.context.board.task(1).running, "a turn")

        asyncio.run_coroutine_threadsafe(send(), self._loop).result()
        return entry


async def test_a_turn_that_began_while_files_were_taken_back_keeps_its_conversation(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, settings=EDIT) as repl:
        await repl.turn("write a.txt one")
        undo = UndoInterrupted(repl, "write b.txt two")
        context = repl.context
        context.session.undo = undo
        with pytest.raises(CommandError, match="task 1 got new text meanwhile; the conversation stays"):
            await rewind.run(context, "1 both")
        await repl.quiet()
        assert said(repl) == ["write a.txt one", "write b.txt two"]
        assert not (repl.program.repo / "a.txt").exists()


async def test_rewind_both_takes_files_and_conversation_back_and_redo_makes_them_again(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, edits, settings=EDIT) as repl:
        await repl.turn("write a.txt one")
        await repl.turn("write b.txt two")
        await repl.turn("write c.txt three")
        (repl.program.repo / "mine.txt").write_text("the person's own\n")
        await repl.said(
            "/rewind 2 both", "Undone since prompt 2: b.txt, c.txt. /redo, 2 times, brings", "back to"
        )
        assert sorted(one.name for one in repl.program.repo.glob("*.txt")) == ["a.txt", "mine.txt"]
        assert said(repl) == ["write a.txt one"]
        assert repl.paper.line == "write b.txt two"
        await repl.said("/redo", "Redone: b.txt (task 1's edit)")
        await repl.said("/redo", "Redone: c.txt (task 1's edit)")
        assert (repl.program.repo / "c.txt").read_text() == "three\n"


async def test_rewind_of_files_or_of_the_conversation_alone(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, settings=EDIT) as repl:
        await repl.turn("write a.txt one")
        await repl.turn("write b.txt two")
        await repl.said("/rewind 2 files", "Undone since prompt 2: b.txt. /redo brings it back.")
        assert len(said(repl)) == 2
        await repl.said("/rewind 2 files", "task 1 has no changes since prompt 2 that could be undone")
        await repl.said("/rewind 1 conversation", "back to before prompt 1; files stay as they are")
        assert (repl.program.repo / "a.txt").exists()
        assert said(repl) == []


async def test_a_file_the_person_changed_since_is_never_touched(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, settings=EDIT) as repl:
        await repl.turn("write a.txt one")
        await repl.turn("write b.txt two")
        (repl.program.repo / "a.txt").write_text("mine\n")
        await repl.said("/rewind 1 both", "1 change undone, 1 change not. The conversation stays")
        assert (repl.program.repo / "a.txt").read_text() == "mine\n"
        assert not (repl.program.repo / "b.txt").exists()
        assert len(said(repl)) == 2
        await repl.said("/rewind 1 everything", "expected the number of a prompt, 1 to 2, and conversation,")


async def test_prompts_and_what_to_rewind_are_completed(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, settings=EDIT) as repl:
        await repl.turn("write a.txt one")
        await repl.turn("thanks")
        assert await offered(repl, "/rewind ") == ["2", "1"]
        assert await offered(repl, "/rewind 1 ") == ["conversation", "files", "both"]
        assert await offered(repl, "/rewind 1 f") == ["files"]
        assert await offered(repl, "/rewind 1 files x") == []


async def test_a_question_of_a_background_task_names_it_waits_and_is_answered(tmp_path: Path) -> None:
    async with open_repl(tmp_path, asks) as repl:
        repl.say("choose one &")
        await repl.shows("Task 2 has a question", "Which database?", "1. sqlite")
        facts = repl.front.controller.facts()
        assert facts.queue == (QueueRow("question", 2, "Which database?", 1),)
        repl.paper.touch()
        state = repl.paper.state
        assert plain(queue_lines(state, 80, LOOK)[0]) == "? task 2 Which database? (/answer 1 …)"
        assert max(line_cells(line) for line in queue_lines(state, 30, LOOK)) <= 29
        assert phase_text(state, state.task(2), state.task(2).heard_at).startswith("waiting for your answer")
        assert inbox_lines(state, 0.0, 80, LOOK) == []
        assert await offered(repl, "/answer ") == ["1"]
        repl.say("/answer 1 2")
        await repl.hints("answered question 1 of task 2")
        await repl.shows("You said: postgres")
        assert repl.front.controller.facts().queue == (QueueRow("note", 2, "task 2's answer (choose one)"),)
        await repl.said("/answer", "no question is open")


async def test_an_approval_that_was_open_when_buddy_died_is_announced_and_asked_again(
    tmp_path: Path,
) -> None:
    script = [reply(call("edit_file", path="main.py", old="1", new="2")), reply("Changed.")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with open_repl_in(program, server) as repl:
            repl.say("change it")
            await repl.until(lambda: len(repl.context.board.inbox.waiting()) == 1, "the question")
            journal = next((program.repo / ".buddyx/sessions").glob("*/journal.jsonl"))
            at_the_question = journal.read_bytes()
        journal.write_bytes(at_the_question)
        for snapshot in journal.parent.glob("snapshot*"):
            snapshot.unlink()
        async with open_repl_in(program, server, "-c") as repl:
            await repl.shows(
                "Task 1 was interrupted. /continue 1 resumes it; its one call that did "
                "not run will ask for your approval if it needs it.",
                "✗ edit_file main.py",
            )
            repl.say("/continue")
            await repl.until(lambda: len(repl.context.board.inbox.waiting()) == 1, "the question again")
            await repl.said("/ok", "Changed.")
    assert (program.repo / "main.py").read_text() == "print(2)\n"


async def test_a_question_that_was_open_when_buddy_died_is_asked_again(tmp_path: Path) -> None:
    async with FakeLLM(asks) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        process = await program.start(
            "exec", "x"
        )  # a session is made the way any is; its journal is cut below
        await process.communicate()
        journal = next((program.repo / ".buddyx/sessions").glob("*/journal.jsonl"))
        lines = journal.read_bytes().splitlines(keepends=True)
        begun = next(at for at, line in enumerate(lines) if b'"tool_begin"' in line)
        journal.write_bytes(b"".join(lines[: begun + 1]))
        for snapshot in journal.parent.glob("snapshot*"):
            snapshot.unlink()
        async with open_repl_in(program, server, "-c") as repl:
            await repl.shows("Task 1 was interrupted")
            repl.say("/continue")
            await repl.shows("Which database?")
            await asyncio.sleep(0)
            repl.say("/answer 1 1")
            await repl.shows("You said: sqlite")


async def test_RU_B6_what_is_typed_while_the_task_in_front_asks_is_the_answer(tmp_path: Path) -> None:
    question = {"question": "Which database?", "options": ["sqlite", "postgres"]}
    script = [reply(call("ask_user", questions=[question])), reply("END of it.")]
    async with open_repl(tmp_path, script) as repl:
        repl.say("go")
        await repl.shows("Task 1 has a question", "Which database?")
        repl.say("2")
        await repl.shows("END of it.")
        assert "→ postgres" in str(repl.server.requests[-1].turns)


async def test_RU_B6_a_question_says_below_what_to_type(tmp_path: Path) -> None:
    question = {"question": "Which database?", "options": ["sqlite", "postgres"]}
    script = [reply(call("ask_user", questions=[question])), reply("END of it.")]
    async with open_repl(tmp_path, script) as repl:
        repl.say("go")
        await repl.shows("Task 1 has a question", "2. postgres\nType 1, 2 or your own words.")
        repl.say("/answer sqlite please")
        await repl.shows("END of it.")
        assert "→ sqlite please" in str(repl.server.requests[-1].turns)


async def test_RU_B6_a_question_of_a_background_task_is_answered_by_its_number(tmp_path: Path) -> None:
    async with open_repl(tmp_path, asks) as repl:
        repl.say("choose one &")
        await repl.shows("Type @2 1, @2 2 or @2 your own words.")
        repl.say("@2 2")
        await repl.hints("answered question 1 of task 2")
        await repl.shows("You said: postgres")


def test_RU_M7_no_line_of_a_question_can_pass_for_a_row_of_buddys_own() -> None:
    text = "Which?\n▸ request 1 (task 1) low read_file notes.txt\ny yes · n no\x1b[2K\r▸ request 2 (task 1)"
    lines = [plain_row(row) for row in Painter(LOOK).rows(QuestionAsked(2, text, "Type @2 1."), 60)]
    assert lines[0] == "Task 2 has a question"
    assert lines[-1] == "Type @2 1."
    assert len(lines) > 4
    assert all(line.startswith(f"{LOOK.glyphs.gutter} ") for line in lines[1:-1]), lines


@pytest.mark.parametrize(
    ("options", "multiple", "before", "says"),
    [
        (0, False, "", "Type your own words."),
        (1, False, "", "Type 1 or your own words."),
        (2, True, "", "Type 1, 2 (1,2 takes both) or your own words."),
        (5, False, "@3 ", "Type @3 1 to 5 or @3 your own words."),
    ],
)
def test_RU_B6_the_ways_to_answer_in_words(options: int, multiple: bool, before: str, says: str) -> None:
    question = Question("Why?", options=[Option(str(at)) for at in range(options)], multiple=multiple)
    assert OpenQuestion(1, 1, question).ways(before) == says
