"""A word near a subcommand is refused with advice; a prompt is a prompt."""

from __future__ import annotations

import pytest

from buddy.app.options import UsageError
from buddy.cli.arguments import COMMANDS, parse
from buddy.cli.mistaken import mistaken_command
from buddy.repl.commands.registry import builtin_commands


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("loign openai", "did you mean `buddy login openai`?"),
        ("session", "/session works inside buddy"),
        ("docter", "did you mean `buddy doctor`?"),
        ("exce hi", "did you mean `buddy exec hi`?"),
        ("inti", "did you mean `buddy init`?"),
        ("modles gpt", "did you mean `buddy models gpt`?"),
        ("resum abc tests", "did you mean `buddy resume abc tests`?"),
        ("hlep", "did you mean `buddy help`?"),
        ("config", "`buddy init --print` shows every setting"),
        ("config set", "`buddy init` writes it"),
        ("update", "pipx upgrade buddy-repl"),
        ("version", "`buddy --version`"),
        ("doctor please", "buddy doctor takes no words"),
        ("permission test git push", "did you mean `buddy permissions test git push`?"),
        ("permisions test git push origin main now", "did you mean `buddy permissions test git"),
        ("loign openai with a new key please", "did you mean `buddy login openai with"),
        ("exce fix the failing tests in main.py", "did you mean `buddy exec fix"),
        ("resmue abc and go on with it", "did you mean `buddy resume abc"),
        ("init the repository", "As a prompt: buddy -- init the repository"),
    ],
)
def test_RU_A15_a_word_near_a_subcommand_is_refused_with_advice(line: str, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line.split())
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["hello"],
        ["explain", "main.py"],
        ["fix", "the", "bug"],
        ["update", "the", "readme"],
        ["model", "the", "data", "flow"],
        ["unit", "tests"],
        ["list", "all", "files"],
        ["session handling is broken, fix it"],
        ["session", "handling", "is", "broken", "again"],
        ["permission", "denied", "when", "I", "run", "make"],
        ["fix", "the", "tests"],
        ["helper", "functions", "should", "be", "private"],
        ["test", "the", "login", "page", "again"],
        ["demote", "the", "warning", "to", "info"],
        ["explain", "what", "main.py", "does", "and", "why"],
        ["help", "me", "understand", "this"],
        ["Config"],
        ["login.py: add a docstring"],
        ["--", "loign"],
        ["--", "login", "openai"],
        ["-p", "update"],
    ],
)
def test_RU_A15_a_prompt_is_a_prompt(words: list[str]) -> None:
    options = parse(words)
    assert (options.command, options.help) == ("", False)
    assert list(options.words) == [word for word in words if word not in ("--", "-p")]


def test_WALK_16_every_slash_command_as_a_single_word_is_answered_and_never_sent() -> None:
    names = {one.name for one in builtin_commands().all()}
    answered = {name for name in names if f"/{name} works inside buddy" in mistaken_command([name], COMMANDS)}
    own_words = {"config", "continue", "status"}  # advice of their own
    wanted = names - own_words
    assert answered == wanted, (
        f"_INSIDE of cli/mistaken.py: add {sorted(wanted - answered)}, remove {sorted(answered - wanted)}"
    )
    for name in sorted(answered - {*COMMANDS, "agents", "hooks", "mcp", "skills"}):
        with pytest.raises(UsageError, match="works inside buddy"):
            parse([name])


@pytest.mark.parametrize(
    "words", [["explain"], ["undo", "the", "last", "commit"], ["export", "it"], ["--", "undo"]]
)
def test_WALK_16_other_words_stay_prompts(words: list[str]) -> None:
    assert parse(words).words == tuple(word for word in words if word != "--")


@pytest.mark.parametrize("words", [["--help"], ["exec", "-h"], ["help", "-h"]])
def test_RU_A15_help_is_help(words: list[str]) -> None:
    assert parse(words).help


@pytest.mark.parametrize("words", [["help"], ["help", "exec"], ["help", "mcp"], ["help", "modes"]])
def test_RU_A15_help_with_at_most_one_word_is_the_manual(words: list[str]) -> None:
    options = parse(words)
    assert (options.command, list(options.words)) == ("help", words[1:])


@pytest.mark.parametrize("words", [["-p", "help"], ["-p", "help", "me"], ["help", "me", "please"]])
def test_RU_A15_other_words_behind_help_are_a_prompt(words: list[str]) -> None:
    options = parse(words)
    assert (options.command, list(options.words)) == ("", [word for word in words if word != "-p"])


def test_RU_A15_exec_takes_every_word_as_its_prompt() -> None:
    assert parse(["exec", "loign"]).words == ("loign",)


def test_RU_5_12_json_means_the_format_of_exec() -> None:
    assert parse(["exec", "--json", "hi"]).output_format == "json"
    assert parse(["-p", "hi", "--json"]).output_format == "json"
    assert parse(["sessions", "--json"]).output_format == "text"
    assert parse(["exec", "--json", "--output-format", "json", "hi"]).output_format == "json"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("exec --json --output-format sse hi", "--json and --output-format sse exclude each other"),
        ("exec --include-partial-messages hi", "goes with --output-format stream-json"),
        ("exec --include-partial-messages --json hi", "goes with --output-format stream-json"),
        ("models --json", "buddy models has no --json"),
    ],
)
def test_RU_5_12_options_that_mean_nothing_together_are_refused(line: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse(line.split())
