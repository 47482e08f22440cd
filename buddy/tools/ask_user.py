"""`ask_user`: questions of the model to the person, and where they wait for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from buddy.agent.display import Plain
from buddy.agent.formatting import whole_number
from buddy.agent.tool import ToolContext, ToolError, ToolResult, no_access, tool

MAX_OPTIONS = 8


class Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer to choose from. A plain text stands for its label."""

    label: Annotated[str, Meta(min_length=1, max_length=500)]
    description: Annotated[str, Meta(max_length=1000)] = ""

    def text(self) -> str:
        """Return the line that shows the option."""
        return f"{self.label} - {self.description}" if self.description else self.label


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question of a call. `multiple`: several options may be chosen."""

    question: Annotated[str, Meta(min_length=1, max_length=2000)]
    header: Annotated[str, Meta(max_length=60, description="Two or three words that name the choice")] = ""
    options: Annotated[
        list[Option], Meta(max_length=MAX_OPTIONS, description="Answers to choose from; others are possible")
    ] = []
    multiple: Annotated[bool, Meta(description="Several options may be chosen")] = False

    def is_choice(self, words: str) -> bool:
        """Tell whether an answer is an option's label, or several of them where several may be chosen."""
        labels = {option.label.strip() for option in self.options}
        parts = {part.strip() for part in words.split(",")} if self.multiple else set[str]()
        return words in labels or (bool(parts) and parts <= labels)

    def resolve(self, words: str) -> str:
        """Return the labels that an answer names by number, or the answer as it is. Raises `ValueError` for
        a number without an option."""
        parts = words.replace(",", " ").split() if self.multiple else [words]
        numbers = [whole_number(part) for part in parts]
        if not self.options or not numbers or None in numbers:
            return words
        labels: list[str] = []
        for number in dict.fromkeys(number for number in numbers if number is not None):
            if not 1 <= number <= len(self.options):
                raise ValueError(f"has options 1 to {len(self.options)}, found {words}")
            labels.append(self.options[number - 1].label)
        return ", ".join(labels)


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question that waits. `number` is what the person types: `/answer 3 …`."""

    number: int
    task_id: int
    question: Question

    def words(self) -> str:
        """Return the model's words: the question and its options."""
        header = f"{self.question.header}: " if self.question.header else ""
        options = [f"  {at}. {option.text()}" for at, option in enumerate(self.question.options, 1)]
        return "\n".join([f"? {self.number}  {header}{self.question.question}", *options])

    def ways(self, before: str = "") -> str:
        """Say what to type. `before` stands in front of each answer: `@2 ` for a task that is not in
        front."""
        own = f"{before}your own words" if before else "your own words"
        count = len(self.question.options)
        if not count:
            return f"Type {own}."
        several = f" ({before}1,2 takes both)" if self.question.multiple and count > 1 else ""
        numbers = f"{before}1" + (f", {before}2" if count == 2 else f" to {count}" if count > 2 else "")
        return f"Type {numbers}{several} or {own}."

    def text(self) -> str:
        """Return the question as it is shown, with the command that answers it from anywhere."""
        return f"{self.words()}\n  {self.ways(f'/answer {self.number} ')}"


class Unanswered(Exception):
    """An answer that fits no open question; one sentence."""


class Questions:
    """The open questions of a session. `attended`: somebody is there to answer. A front end that wants to
    hear of new ones appends to `listeners`; of closed ones, by number, to `close_listeners`."""

    def __init__(self, *, attended: bool) -> None:
        self.attended = attended
        self.listeners: list[Callable[[OpenQuestion], None]] = []
        self.close_listeners: list[Callable[[int], None]] = []
        self._open: dict[int, OpenQuestion] = {}
        self._answers: dict[int, asyncio.Future[str | None]] = {}
        self._count = 0

    def waiting(self) -> tuple[OpenQuestion, ...]:
        """Return the open questions, oldest first."""
        return tuple(self._open.values())

    async def ask(
        self, task_id: int, questions: list[Question], show: Callable[[str], None]
    ) -> tuple[str | None, ...]:
        """Put questions and wait for all answers; None for one that was withdrawn."""
        asked: list[OpenQuestion] = []
        loop = asyncio.get_running_loop()
        for question in questions:
            self._count += 1
            one = OpenQuestion(self._count, task_id, question)
            self._open[one.number] = one
            self._answers[one.number] = loop.create_future()
            asked.append(one)
        try:
            for one in asked:
                show(one.text() + "\n")
                for listener in self.listeners:
                    listener(one)
            return tuple([await self._answers[one.number] for one in asked])
        finally:
            for one in asked:
                if one.number in self._open:
                    self._close(one, None)
                del self._answers[one.number]

    def answer(self, text: str) -> OpenQuestion:
        """Take an answer as typed: `3 my words`, or the answer alone where one question waits. A number alone
        is an option's where one question waits; where several do it answers nothing. Raises `Unanswered`."""
        one, words = self._meant(text.strip())
        if not words:
            raise Unanswered(_only_its_number(one) if text.strip() else f"expected an answer: {_ways(one)}")
        self._resolve(one, words)
        return one

    def answer_number(self, number: int, words: str) -> None:
        """Take an answer to this question alone. Labels are taken as they are, also those that look like an
        option's number. Raises `Unanswered`."""
        one = self._open.get(number)
        if one is None:
            raise Unanswered(f"question {number} is not open")
        words = words.strip()
        if not words:
            raise Unanswered(f"expected an answer to question {number}")
        if one.question.is_choice(words):
            self._close(one, words)
        else:
            self._resolve(one, words)

    def _resolve(self, one: OpenQuestion, words: str) -> None:
        try:
            words = one.question.resolve(words)
        except ValueError as error:
            raise Unanswered(f"question {one.number} {error}") from error
        self._close(one, words)

    def _close(self, one: OpenQuestion, answer: str | None) -> None:
        del self._open[one.number]
        if not self._answers[one.number].done():
            self._answers[one.number].set_result(answer)
        for listener in self.close_listeners:
            listener(one.number)

    def _meant(self, text: str) -> tuple[OpenQuestion, str]:
        if not self._open:
            raise Unanswered("no question is open")
        first, _, rest = text.partition(" ")
        number = whole_number(first)
        known = None if number is None else self._open.get(number)
        if known is not None and (rest or len(self._open) > 1):
            return known, rest.strip()
        if len(self._open) == 1:
            return next(iter(self._open.values())), text
        numbers = ", ".join(str(number) for number in self._open)
        raise Unanswered(
            f"several questions wait ({numbers}); say which: /answer {next(iter(self._open))} your words"
        )

    def withdraw(self, task_id: int) -> None:
        """Withdraw the task's questions: the user sent new instructions instead."""
        for one in list(self._open.values()):
            if one.task_id == task_id:
                self._close(one, None)

    def withdraw_number(self, number: int) -> None:
        """Withdraw this question alone, if it is still open."""
        if number in self._open:
            self._close(self._open[number], None)


@tool(
    anywhere=True,
    risk="low",
    category="plan",
    access=no_access,
    asks_person=True,
    aliases=("AskUserQuestion", "ask_question", "ask", "request_user_input"),
    argument_aliases={
        "text": "question",
        "choices": "options",
        "multiSelect": "multiple",
        "multi_select": "multiple",
        "value": "label",
        "name": "label",
    },
)
async def ask_user(
    ctx: ToolContext, questions: Annotated[list[Question], Meta(min_length=1, max_length=4)]
) -> ToolResult:
    """Ask the person what only they can decide, each question with the options you see. Not what you can
    look up, nor for permission: that is asked by itself."""
    service = ctx.find(Questions)
    if service is None or not service.attended:
        raise ToolError(
            "nobody is here to answer; decide by yourself, take the safer way, and say what you assumed"
        )
    answers = await service.ask(ctx.task_id, questions, ctx.progress)
    lines = [_answer_text(question, answer) for question, answer in zip(questions, answers, strict=True)]
    given = sum(answer is not None for answer in answers)
    return ToolResult("\n".join(lines), Plain(f"{given} of {len(answers)} answered", "\n".join(lines)))


def _ways(one: OpenQuestion) -> str:
    return f"/answer {one.number} and an option's number or your words"


def _only_its_number(one: OpenQuestion) -> str:
    """Return a note for people who may have meant the option of that number."""
    number, options = one.number, one.question.options
    hint = ""
    if number <= len(options):
        hint = f": /answer {number} {number} is its option {number} ({options[number - 1].label})"
    return f"{number} is the question's own number{hint}; expected {_ways(one)}"


def _answer_text(question: Question, answer: str | None) -> str:
    said = answer if answer is not None else "(not answered: the person sent new instructions instead)"
    return f"{question.question}\n→ {said}"
