"""Prompts of servers as commands: names and arguments."""

from __future__ import annotations

import pytest

from buddy.agent.tool import ToolError
from buddy.extend.mcp.prompts import prompts_of, values_of
from buddy.extend.mcp.records import PromptArgument, PromptInfo

ARGUMENTS = (PromptArgument("who", "", required=True), PromptArgument("how", "", required=False))
(PROMPT,) = prompts_of("my server", [PromptInfo("greet", "Greet\x1b[2J \u202esomebody", ARGUMENTS)])


def test_a_prompt_has_the_name_of_its_server_and_an_inert_description() -> None:
    assert PROMPT.command.endswith("__greet")
    assert not {"\x1b", "\u202e"} & set(PROMPT.about())
    assert PROMPT.usage() == "who [how]"


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("Ada", {"who": "Ada"}),
        ('"Ada L." loudly', {"who": "Ada L.", "how": "loudly"}),
        ("how=loudly Ada", {"who": "Ada", "how": "loudly"}),
        ("a=b", {"who": "a=b"}),
        ("Ada very loudly", {"who": "Ada", "how": "very loudly"}),
    ],
)
def test_words_fill_the_arguments(words: str, values: dict[str, str]) -> None:
    assert values_of(PROMPT, words) == values


@pytest.mark.parametrize(
    ("words", "problem"),
    [("", "who is missing"), ('"Ada', "not closed"), ("x" * 30_000, "at most")],
)
def test_words_that_do_not_fit_are_refused(words: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        values_of(PROMPT, words)
