"""Questions to the person: asked, answered, withdrawn, and refused where nobody is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import ToolContext, ToolError, ToolResult
from buddy.tools.ask_user import OpenQuestion, Question, Questions, Unanswered, ask_user

COLOUR = {"header": "Colour", "question": "Which colour?", "options": ["red", "green"]}
NAME = {"question": "Which name?"}


class Asker:
    """A task whose model asks, and the person's side."""

    def __init__(self, *, attended: bool = True) -> None:
        self.questions = Questions(attended=attended)
        self.shown: list[str] = []
        self.heard: list[OpenQuestion] = []
        self.questions.listeners.append(self.heard.append)

    async def ask(self, *questions: dict[str, Any], task_id: int = 1) -> ToolResult:
        context = ToolContext(task_id, "c", self.shown.append, asyncio.Event(), {Questions: self.questions})
        return await ask_user.run(context, ask_user.decode(json.dumps({"questions": questions})))

    async def asked(self, *questions: dict[str, Any], task_id: int = 1) -> asyncio.Task[ToolResult]:
        before = len(self.heard)
        work = asyncio.ensure_future(self.ask(*questions, task_id=task_id))
        while len(self.heard) < before + len(questions):
            await asyncio.sleep(0)
        return work


async def test_one_question_is_shown_and_answered_by_an_options_number() -> None:
    asker = Asker()
    work = await asker.asked(COLOUR)
    assert asker.shown == [
        "? 1  Colour: Which colour?\n  1. red\n  2. green\n"
        "  Type /answer 1 1, /answer 1 2 or /answer 1 your own words.\n"
    ]
    asker.questions.answer("2")
    assert (await work).text == "Which colour?\n→ green"
    assert asker.questions.waiting() == ()


async def test_words_of_ones_own_are_an_answer_too() -> None:
    asker = Asker()
    work = await asker.asked(COLOUR)
    asker.questions.answer("  something like teal ")
    assert (await work).text == "Which colour?\n→ something like teal"


async def test_a_number_alone_is_an_option_of_the_only_question_left() -> None:
    asker = Asker()
    work = await asker.asked(NAME, COLOUR)
    with pytest.raises(Unanswered) as refused:
        asker.questions.answer("2")
    assert str(refused.value) == (
        "2 is the question's own number: /answer 2 2 is its option 2 (green); "
        "expected /answer 2 and an option's number or your words"
    )
    asker.questions.answer("1 Ada")
    asker.questions.answer("2")
    assert (await work).text == "Which name?\n→ Ada\nWhich colour?\n→ green"


@pytest.mark.parametrize("typed", ["1", "1 1"])
async def test_RU_4_12_the_answer_1_takes_option_1_of_the_only_question(typed: str) -> None:
    asker = Asker()
    work = await asker.asked(COLOUR)
    asker.questions.answer(typed)
    assert (await work).text.endswith("red")


async def test_the_only_question_without_options_takes_a_number_as_an_answer() -> None:
    asker = Asker()
    work = await asker.asked({"question": "How many?"})
    asker.questions.answer("1")
    assert (await work).text == "How many?\n→ 1"


async def test_an_answer_to_a_number_touches_only_that_question() -> None:
    asker = Asker()
    closed: list[int] = []
    asker.questions.close_listeners.append(closed.append)
    first = await asker.asked(NAME)
    first.cancel()
    await asyncio.wait([first])
    second = await asker.asked(COLOUR)
    with pytest.raises(Unanswered, match="question 1 is not open"):
        asker.questions.answer_number(1, "Ada")
    asker.questions.withdraw_number(1)
    assert [one.number for one in asker.questions.waiting()] == [2]
    with pytest.raises(Unanswered, match="has options 1 to 2"):
        asker.questions.answer_number(2, "3")
    with pytest.raises(Unanswered, match="expected an answer"):
        asker.questions.answer_number(2, "  ")
    asker.questions.answer_number(2, "2")
    assert (await second).text == "Which colour?\n→ green"
    assert closed == [1, 2]


async def test_a_withdrawn_number_leaves_the_others_of_its_task_open() -> None:
    asker = Asker()
    work = await asker.asked(NAME, COLOUR)
    asker.questions.withdraw_number(1)
    asker.questions.answer_number(2, "red")
    assert (await work).text.endswith("new instructions instead)\nWhich colour?\n→ red")


WRITTEN = {
    "objects": [{"label": "red", "description": "warm"}, {"label": "green"}],
    "a text among objects": ["red", {"label": "green", "description": ""}],
    "other names": [{"value": "red"}, {"name": "green", "description": "calm"}],
    "a JSON text": '["red", {"label": "green"}]',
}


@pytest.mark.parametrize("options", WRITTEN.values(), ids=WRITTEN)
async def test_RU_B6_options_are_objects_or_texts(options: Any) -> None:
    asker = Asker()
    work = await asker.asked({"question": "Which colour?", "options": options})
    asker.questions.answer("2")
    assert (await work).text == "Which colour?\n→ green"


async def test_RU_B6_the_description_of_an_option_is_shown_and_not_answered() -> None:
    asker = Asker()
    work = await asker.asked({"question": "Which?", "options": [{"label": "red", "description": "warm"}]})
    assert asker.shown[0].splitlines()[1] == "  1. red - warm"
    asker.questions.answer("1")
    assert (await work).text == "Which?\n→ red"


@pytest.mark.parametrize(
    "questions", [COLOUR, [COLOUR], json.dumps([COLOUR])], ids=["object", "list", "text"]
)
async def test_RU_B6_one_question_may_stand_without_a_list(questions: Any) -> None:
    decoded = ask_user.decode(json.dumps({"questions": questions}))
    assert [one.question for one in decoded.questions] == ["Which colour?"]  # type: ignore[attr-defined]


def test_RU_B6_a_question_may_be_a_text() -> None:
    decoded = ask_user.decode('{"questions": "Why?"}')
    assert decoded.questions == [Question("Why?")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("1,3", "red, blue"), ("1 3 1 3", "blue, red"), ("1 2, 2 3", "green, blue"), ("1 only 2", "only 2")],
)
async def test_RU_B6_several_options_of_a_multiSelect_question(typed: str, answer: str) -> None:
    asker = Asker()
    options = [{"label": label, "description": ""} for label in ("red", "green", "blue")]
    work = await asker.asked({"question": "Which?", "multiSelect": True, "options": options})
    assert "1,2 takes both" in asker.shown[0]
    asker.questions.answer(typed)
    assert (await work).text == f"Which?\n→ {answer}"


async def test_an_option_without_a_label_is_refused_with_the_fields_of_one() -> None:
    with pytest.raises(
        ArgumentsError, match=r"options\[0\].*\(an object with label, description \(optional\)\)"
    ):
        await Asker().ask({"question": "Which?", "options": [{"description": "warm"}]})


async def test_several_questions_are_answered_by_their_numbers() -> None:
    asker = Asker()
    work = await asker.asked(COLOUR, NAME)
    with pytest.raises(Unanswered, match=r"several questions wait \(1, 2\); say which: /answer 1"):
        asker.questions.answer("Ada")
    with pytest.raises(Unanswered, match="2 is the question's own number; expected /answer 2 and"):
        asker.questions.answer("2")
    asker.questions.answer("2 Ada")
    asker.questions.answer("1 1")
    assert (await work).text == "Which colour?\n→ red\nWhich name?\n→ Ada"


async def test_an_option_that_is_not_there_is_refused_and_the_question_waits_on() -> None:
    asker = Asker()
    work = await asker.asked(COLOUR)
    with pytest.raises(Unanswered, match="options 1 to 2, found 7"):
        asker.questions.answer("7")
    assert [one.number for one in asker.questions.waiting()] == [1]
    asker.questions.answer("1 1")
    assert (await work).text.endswith("red")


async def test_an_answer_without_a_question_is_refused() -> None:
    with pytest.raises(Unanswered, match="no question is open"):
        Asker().questions.answer("yes")


async def test_new_instructions_withdraw_the_questions_of_that_task_alone() -> None:
    asker = Asker()
    one, two = await asker.asked(COLOUR, task_id=1), await asker.asked(NAME, task_id=2)
    asker.questions.withdraw(1)
    assert "not answered: the person sent new instructions" in (await one).text
    asker.questions.answer("Ada")
    assert (await two).text == "Which name?\n→ Ada"


async def test_a_cancelled_call_leaves_no_question_behind() -> None:
    asker = Asker()
    work = await asker.asked(COLOUR, NAME)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert asker.questions.waiting() == ()
    with pytest.raises(Unanswered):
        asker.questions.answer("1 red")


async def test_where_nobody_is_the_model_is_told_to_decide() -> None:
    with pytest.raises(ToolError, match="nobody is here to answer; decide by yourself"):
        await Asker(attended=False).ask(COLOUR)


async def test_the_number_of_questions_and_unknown_fields_are_checked() -> None:
    asker = Asker()
    for questions in ([], [NAME] * 5, [{"question": "x", "colour": 1}], [{"question": ""}]):
        with pytest.raises(ArgumentsError):
            await asker.ask(*questions)


def test_a_question_without_options_asks_for_words() -> None:
    assert OpenQuestion(3, 1, Question("Why?")).text() == "? 3  Why?\n  Type /answer 3 your own words."
