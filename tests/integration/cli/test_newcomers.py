"""The first start of buddy: a key that is missing or belongs to another model,
words that are almost right, failures of commands."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from buddy.agent.budget import plain_dollars
from buddy.agent.display import Command
from buddy.agent.events import ToolFinished
from buddy.app.options import UsageError
from buddy.cli.arguments import parse
from buddy.cli.setup import TEMPLATES, init
from buddy.config.loading import first_model
from buddy.headless.formats import ProgressLines
from buddy.repl.render.numbers import money
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

NOWHERE = "http://127.0.0.1:9"
OWN = {"ANTHROPIC_API_KEY": "x"}


def _init(home: Path, variables: dict[str, str], *options: str) -> dict[str, str]:
    """The `[api]` table that init leaves."""
    assert init(parse(["init", *options]), {"HOME": str(home), **variables}) == 0
    return tomllib.loads((home / ".config/buddy/buddy.toml").read_text())["api"]


# --- buddy init -------------------------------------------------------------------------------------------


def test_WALK_1_force_takes_the_key_that_is_there_where_nobody_chose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = first_model(OWN)
    assert first is not None
    path = tmp_path / ".config/buddy/buddy.toml"
    for model, key in TEMPLATES:  # an earlier version wrote another model
        _init(tmp_path, {}, "--force")
        text = path.read_text().replace(TEMPLATES[0][0], model).replace(TEMPLATES[0][1], key)
        path.write_text(text)
        assert _init(tmp_path, OWN, "--force") == {"model": first.model, "api_key_env": first.key_env}
        path.unlink()
    capsys.readouterr()
    assert _init(tmp_path, {})["api_key_env"] == "ANTHROPIC_API_KEY"
    assert "export ANTHROPIC_API_KEY=…  (or: buddy login anthropic)" in capsys.readouterr().out
    assert _init(tmp_path, OWN, "--force") == {"model": first.model, "api_key_env": first.key_env}
    said = capsys.readouterr().out
    assert f"The model is {first.model}; its key is in ANTHROPIC_API_KEY. Start: buddy" in said


@pytest.mark.parametrize(
    ("mine", "variables", "says"),
    [
        (
            'model = "openai/mine"\napi_key_env = "OPENAI_API_KEY"\n',
            OWN,
            "The model is openai/mine. It needs a key:\n"
            "  export OPENAI_API_KEY=…  (or: buddy login openai)\n",
        ),
        (
            'model = "openai/gpt-5.2"\napi_key_env = "OPENAI_API_KEY"\n',
            {**OWN, "OPENAI_API_KEY": "y"},
            "The model is openai/gpt-5.2; its key is in OPENAI_API_KEY. Start: buddy",
        ),
        (
            'model = "ollama/qwen3-coder"\nbase_url = "http://127.0.0.1:11434/v1"\n',
            OWN,
            "The model is ollama/qwen3-coder. Start: buddy",
        ),
    ],
)
def test_WALK_1_force_reports_the_model_it_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mine: str, variables: dict[str, str], says: str
) -> None:
    path = tmp_path / ".config/buddy/buddy.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f"[api]\n{mine}")
    assert _init(tmp_path, variables, "--force") == tomllib.loads(mine)
    assert says in capsys.readouterr().out


# --- words that are almost right --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--format", "--output-format"),
        ("--prompts", "--permission-prompts"),
        ("--fork-it", "--fork"),
        ("--modle", "--model"),
    ],
)
def test_WALK_3_an_option_is_found_by_one_of_its_words(word: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}\\?"):
        parse(["exec", word, "xml"])


async def test_WALK_8_a_misspelled_model_is_named(tmp_path: Path) -> None:
    ran = await Program(tmp_path, NOWHERE).run("models", "sonet")
    assert (ran.code, ran.out) == (1, "")
    assert ran.told()[1:] == ["no model has 'sonet' in its name; did you mean sonnet?"]
    ran = await Program(tmp_path, NOWHERE).run("models", "xyzzyplugh")
    assert ran.told()[1:] == ["no model has 'xyzzyplugh' in its name; buddy models lists all"]


async def test_RU_5_8_models_lists_those_of_the_configured_servers(tmp_path: Path) -> None:
    proxy = FakeLLM([], models=("via-anthropic", "via-openai"), context=200_000)
    async with proxy as server, FakeLLM([], models=("small",)) as other:
        fast = {"model": "openai/small", "base_url": other.url}
        program = Program(tmp_path, server.url, settings={"models": {"fast": fast}})
        ran = await program.run("models", "via")
        assert (ran.code, ran.told()) == (0, [])
        assert [line.split() for line in ran.out.splitlines()] == [
            ["via-anthropic", "200,000", "at", f"{server.url}/v1"],
            ["via-openai", "200,000", "at", f"{server.url}/v1"],
        ]
        everything = (await program.run("models")).out.splitlines()
    assert [line.split()[0] for line in everything[:3]] == ["via-anthropic", "via-openai", "small"]
    assert len(everything) > 100, "the catalogue follows"


async def test_RU_5_8_a_server_that_does_not_answer_is_told_and_the_catalogue_listed(tmp_path: Path) -> None:
    ran = await Program(tmp_path, NOWHERE).run("models", "sonnet")
    assert ran.code == 0
    assert "sonnet" in ran.out
    (told,) = ran.told()
    assert told.startswith(f"the models of {NOWHERE}/v1 are not listed: ")


async def test_WALK_2_a_misspelled_mode_of_the_environment_ends_the_run(tmp_path: Path) -> None:
    program = Program(tmp_path, NOWHERE, environment={"BUDDY_PERMISSIONS_MODE": "edti"})
    ran = await program.run("exec", "hi")
    assert ran.code == 4
    assert ran.told() == ["BUDDY_PERMISSIONS_MODE: expected plan, ask, edit or auto, found 'edti'"]
    assert program.sessions() == []


# --- keys -------------------------------------------------------------------------------------------------


async def test_WALK_8_a_missing_key_names_the_model_whose_key_is_there(tmp_path: Path) -> None:
    first = first_model(OWN)
    assert first is not None
    program = Program(tmp_path, NOWHERE, environment={"FAKE_LLM_KEY": "\0", **OWN})
    ran = await program.run("exec", "hi")
    (line,) = ran.told()
    assert ran.code == 4
    assert line.startswith("no key for openai: set FAKE_LLM_KEY, or run `buddy login openai`; ")
    assert line.endswith(f"ANTHROPIC_API_KEY is set: -m {first.model}")


@pytest.mark.parametrize("form", ["text", "json"])
async def test_WALK_4_a_start_without_a_key_leaves_no_session(tmp_path: Path, form: str) -> None:
    program = Program(tmp_path, NOWHERE, environment={"FAKE_LLM_KEY": "\0"})
    ran = await program.run("exec", "--output-format", form, "hi")
    assert ran.code == 4
    assert "no key for openai: set FAKE_LLM_KEY in the environment" in ran.err
    assert program.sessions() == []


# --- a run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0.000001, "$0.000001"),
        (0.0000012, "$0.0000012"),
        (0.125, "$0.125"),
        (2.5, "$2.5"),
        (100, "$100"),
        (1_000_000, "$1,000,000"),
        (0, "$0"),
    ],
)
def test_WALK_5_money_is_written_in_plain_decimals(usd: float, text: str) -> None:
    assert plain_dollars(usd) == text


def test_WALK_5_a_tiny_amount_is_not_nothing() -> None:
    assert (money(0.000001), money(0.0042), money(0)) == ("$0.000001", "$0.0042", "$0.00")


async def test_WALK_5_a_tiny_limit_is_named_as_it_was_given(tmp_path: Path) -> None:
    async with FakeLLM([reply("never asked")]) as server:
        program = Program(tmp_path, server.url, "litellm-chat")
        ran = await program.run("exec", "--max-cost", "0.000001", "hi")
    assert ran.code == 5
    assert "$0.000001 of" in ran.err
    assert "e-0" not in ran.err


async def test_WALK_6_a_failing_command_is_told_by_its_exit_code(tmp_path: Path) -> None:
    steps = [
        reply(call("run_shell", command="echo first; echo 1; exit 3")),
        reply(call("run_shell", command="exit 4")),
        reply("Done."),
    ]
    async with FakeLLM(steps) as server:
        ran = await Program(tmp_path, server.url, tools=("run_shell",)).run("exec", *YOLO, "Run it")
    lines = [line.strip() for line in ran.err.splitlines()]
    assert "exit code 3: 1" in lines
    assert "exit code 4" in lines


def test_WALK_6_the_reason_of_an_ending_is_kept() -> None:
    said: list[str] = []
    text = "a\nlast\n[exit code 143, 2.0 s; stopped: time limit]"
    shown = Command("sleep", "a\nlast\n", 143, "", 2.0, limit="stopped: time limit")
    ProgressLines(said.append).event(ToolFinished("c", "error", text, shown, 2.0, cached=False))
    assert said == ["  exit code 143 (stopped: time limit): last\n"]


async def test_WALK_8_a_hidden_session_is_counted_in_plain_words(tmp_path: Path) -> None:
    async with FakeLLM(lambda _: reply("answered")) as server:
        program = Program(tmp_path, server.url)
        await program.run("exec", "theirs")
        ran = await program.run("sessions")
    assert ran.err == "1 session hidden (from exec, or without an answer); --all shows it\n"
