"""Questions of servers to the person: forms, their defaults, and answers that are never sent unseen."""

from collections.abc import Mapping
from typing import Any

import pytest

from buddy.extend.mcp.elicitation import DEFAULT_CHARS, ask_person, default_of
from buddy.extend.mcp.records import FormAnswer, FormRequest
from buddy.tools.ask_user import OpenQuestion, Questions

FORM: dict[str, Any] = {
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
}
WHOLE = {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}


class Person:
    """Gives the answers in their order, and keeps what was asked."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[OpenQuestion] = []
        self.questions = Questions(attended=True)
        self.questions.listeners.append(self._answer)

    def _answer(self, question: OpenQuestion) -> None:
        self.asked.append(question)
        self.questions.answer(self._answers.pop(0))

    async def fill(self, schema: Mapping[str, Any], message: str = "Who?") -> FormAnswer:
        request = FormRequest(message, dict(schema))
        return await ask_person("s", request, self.questions, 1, lambda _text: None)

    def labels(self, at: int = -1) -> list[str]:
        return [option.label for option in self.asked[at].question.options]


async def test_defaults_that_fill_a_form_are_one_question() -> None:
    person = Person("1")
    assert await person.fill(FORM) == FormAnswer("accept", WHOLE)
    (asked,) = person.asked
    assert asked.question.question.endswith(
        "Send it these values, its own defaults?\n"
        "  name: John Doe\n  age: 30\n  score: 95.5\n  status: active\n  verified: yes"
    )
    assert person.labels() == ["send", "change them first", "do not send"]


async def test_a_person_may_change_them_one_by_one() -> None:
    person = Person("2", "Ada", "1", "leave it out", "inactive", "no", "1")
    content = {"name": "Ada", "age": 30, "status": "inactive", "verified": False}
    assert await person.fill(FORM) == FormAnswer("accept", content)
    assert person.labels(1) == ["John Doe", "leave it out"]
    assert person.labels(4) == ["active", "inactive", "leave it out"]
    assert person.labels(5) == ["yes", "no", "leave it out"]
    assert "score" not in person.asked[-1].question.question


async def test_they_are_declined_as_one() -> None:
    assert await Person("do not send").fill(FORM) == FormAnswer("decline")


async def test_a_required_field_without_a_default_is_asked_for() -> None:
    schema = {
        "properties": {"who": {"type": "string"}, "age": {"type": "integer", "default": 3}},
        "required": ["who"],
    }
    person = Person("Ada", "1", "1")
    assert await person.fill(schema) == FormAnswer("accept", {"who": "Ada", "age": 3})
    assert person.labels(0) == []


async def test_nobody_there_means_no_answer_whatever_the_defaults() -> None:
    questions = Questions(attended=False)
    request = FormRequest("Who?", FORM)
    assert await ask_person("s", request, questions, 1, lambda _text: None) == FormAnswer("cancel")


@pytest.mark.parametrize(
    "field",
    [
        {"type": "integer", "default": "7"},
        {"type": "integer", "default": True},
        {"type": "integer", "default": 1.5},
        {"type": "number", "default": float("inf")},
        {"type": "boolean", "default": "yes"},
        {"type": "boolean", "default": 1},
        {"type": "string", "default": 5},
        {"type": "string", "default": "  "},
        {"type": "string", "default": "a\nb"},
        {"type": "string", "default": "\x1b[2Jfine"},
        {"type": "string", "default": "good\u202elive"},
        {"type": "string", "default": "z\u200bero"},
        {"type": "string", "default": "x" * (DEFAULT_CHARS + 1)},
        {"type": "string", "default": "a" + " " * 100 + "hidden"},
        {"type": "string", "enum": ["a"], "default": "b"},
        {"type": "array", "items": {"enum": ["a"]}, "default": ["a", "b"]},
        {"type": "array", "items": {"enum": ["a"]}, "default": "a"},
        {"type": "array", "items": {"enum": ["a"]}, "default": []},
        {"type": "object", "default": {}},
        {"type": ["string"], "default": "x"},
        {"type": "string"},
    ],
)
def test_a_default_that_does_not_fit_or_cannot_be_shown_is_none(field: dict[str, Any]) -> None:
    assert default_of(field) is None


async def test_defaults_too_long_for_one_question_are_asked_one_by_one() -> None:
    schema = {"properties": {f"f{at}": {"type": "string", "default": "x" * 115} for at in range(10)}}
    person = Person(*["1"] * 11)
    answer = await person.fill(schema, "m" * 2_000)
    assert answer.action == "accept"
    assert len(person.asked) == 11
    assert all(f"f{at}: {'x' * 115}" in person.asked[-1].question.question for at in range(10))


async def test_an_option_of_the_server_called_like_buddys_own_means_the_servers() -> None:
    schema = {"properties": {"f": {"type": "string", "enum": ["leave it out", "b"]}}}
    assert await Person("leave it out", "1").fill(schema) == FormAnswer("accept", {"f": "leave it out"})
