"""Texts of `buddy --help` and of mistaken options."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from buddy.app.options import Options, UsageError
from buddy.cli.arguments import COMMANDS, LATER, OPTIONS, parse
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import open_repl
from tests.support.terminal import on_terminal

NOWHERE = "http://127.0.0.1:9"


async def test_the_help_fits_into_80_columns_and_names_every_command(tmp_path: Path) -> None:
    ran = await Program(tmp_path, NOWHERE).run("--help")
    assert ran.code == 0
    assert [line for line in ran.out.split("\n") if len(line) > 79] == []
    assert all(f"buddy {name} " in ran.out for name in COMMANDS)
    assert not any(f"buddy {name}" in ran.out for name in LATER)


@pytest.mark.parametrize("command", COMMANDS)
async def test_the_help_of_a_command_has_its_options_alone(tmp_path: Path, command: str) -> None:
    program = Program(tmp_path, NOWHERE)
    ran = await program.run(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage\n  buddy {command} ")
    for names, _value, takers, text in OPTIONS:
        listed = re.search(rf"^  {', '.join(names.split())}(?![a-z-])", ran.out, re.MULTILINE) is not None
        assert listed == (command in takers.split()), names
        assert bool(takers) == bool(text)


@pytest.mark.parametrize("words", [("--plain", "--version"), ("exec", "-V")])
async def test_the_version_is_printed_wherever_it_is_asked_for(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    ran = await Program(tmp_path, NOWHERE).run(*words)
    assert (ran.code, ran.out.split()[0], ran.err) == (0, "buddy", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-m"], "-m needs a value"),
        (["exec", "--model", "--json", "hi"], "--model needs a value"),
        (["--debug=1", "hi"], "--debug takes no value, found '1'"),
        (["-cx", "hi"], "-c takes no value, found 'x'"),
        (["--mod", "x", "hi"], "unknown option '--mod'; did you mean --model?"),
        (["--worktree=", "hi"], "--worktree= needs a name"),
        (["-5", "hi"], "unknown option '-5'"),
        (["hi", "--model"], "--model needs a value"),
        (["--last=yes"], "--last takes no value, found 'yes'"),
    ],
)
def test_a_mistaken_option_is_refused_in_words_of_buddy(words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["-m is not read, fix it"], {"words": ("-m is not read, fix it",)}),
        (["exec", "-c breaks -p"], {"command": "exec", "words": ("-c breaks -p",)}),
        (["fix", "-", "it"], {"words": ("fix", "-", "it")}),
        (["-w", "fix", "it"], {"in_worktree": True, "words": ("fix", "it")}),
        (["a", "--worktree=b c", "d"], {"in_worktree": True, "worktree": "b c", "words": ("a", "d")}),
        (["--allow=a", "b", "--allow", "c"], {"words": ("b",), "allow": ("a", "c")}),
        (["--max-cost", "2", "--", "--json", "--"], {"max_cost": 2.0, "words": ("--json", "--")}),
        (["exec", "-o", "-", "hi"], {"command": "exec", "output": "-", "words": ("hi",)}),
        (["--model=", "x"], {"model": "", "words": ("x",)}),
        (["@file", "and", "more"], {"words": ("@file", "and", "more")}),
        (["-m", "a", "-m", "b", "x"], {"model": "b", "words": ("x",)}),
    ],
)  # fmt: skip
def test_options_are_taken_anywhere_and_prompts_stay_whole(
    words: list[str], fields: dict[str, object]
) -> None:
    assert msgspec.structs.asdict(parse(words)) == {**msgspec.structs.asdict(Options()), **fields}


@pytest.mark.parametrize("entry", ["zz", "Bash(git", "Nothing(x)"])
async def test_a_rule_nobody_can_mean_ends_the_run_before_the_model_is_asked(
    tmp_path: Path, entry: str
) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = Program(tmp_path, server.url)
        program.files(a__txt="alpha\n")
        ran = await program.run("exec", "--allow", "Bash(ls:*)", "--allow", entry, "hi")
        assert (ran.code, ran.out) == (2, "")
        assert ran.told() == [
            "--allow: expected a tool and what it may do, like Bash(git log:*), Edit(src/**) or "
            f"WebFetch(domain:example.com); found the allow entry {entry!r}"
        ]
        assert server.requests == []


async def test_kill_alone_closes_no_task_that_does_not_run(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("an answer")) as repl:
        await repl.said("/kill", "Task 1 is not running. /kill 1 closes it")
        await repl.turn("hello there")
        await repl.said("/kill", "Task 1 (hello there) is not running. /kill 1 closes it")
        assert not repl.context.board.task(1).closed
        await repl.said("/kill 1", "task 1 is closed")


async def test_the_help_marks_names_without_colours(tmp_path: Path) -> None:
    program = Program(tmp_path, NOWHERE)
    async with on_terminal(program, "--help", ready="--require-trust", rows=80) as terminal:
        assert await terminal.exit_code() == 0
        assert b"\x1b[1m--trust\x1b[m" in terminal.output
        assert b"\x1b[3" not in terminal.output


@pytest.mark.parametrize("command", sorted({*COMMANDS, *LATER}))
@pytest.mark.parametrize(
    "before",
    ["-p", "--print", "-cp", "-m import -p", "-p -m x", "-pm x", "--json -p", "-p --", "--add-dir new -p"],
)
def test_a_word_behind_p_is_a_prompt_whatever_command_it_names(before: str, command: str) -> None:
    options = parse([*before.split(), command, "now"])
    assert (options.command, options.words, options.print) == ("", (command, "now"), True)


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        ("import -p", "import", ()),
        ("import --print sessions", "import", ("sessions",)),
        ("import -yp", "import", ()),
        ("init -p", "init", ()),
        ("new a b -p", "new", ("a", "b")),
        ("exec -p hi", "exec", ("hi",)),
        ("resume -p last", "resume", ("last",)),
        ("-op models", "models", ()),
        ("mcp add x -- cmd -p 80", "mcp", ("add", "x", "cmd", "-p", "80")),
    ],
)
def test_p_behind_a_command_belongs_to_it(words: str, command: str, rest: tuple[str, ...]) -> None:
    options = parse(words.split())
    assert (options.command, options.words) == (command, rest)


@pytest.mark.parametrize("words", ["doctor -p", "mcp add x cmd -p 80", "models -p gpt"])
def test_p_behind_a_command_that_has_none_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match=r"has no -p. As a prompt: buddy -p "):
        parse(words.split())
