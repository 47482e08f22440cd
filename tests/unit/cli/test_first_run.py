"""The first screen of somebody without a model: what it offers can be typed as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.app.providers import load_catalogue
from buddy.cli.first_run import welcome
from buddy.llm.local_servers import USUAL, LocalServer
from buddy.llm.routing import route
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

PROBLEM = "no model is set"


def test_without_anything_it_says_what_to_set() -> None:
    assert (
        welcome(PROBLEM, (), ())
        == """\
Welcome to buddy. It needs a model before it can answer:
  no model is set

With a key:
  export OPENAI_API_KEY=…  (or ANTHROPIC_API_KEY, …), or: buddy login openai
  then  buddy -m openai/MODEL; buddy models lists the models
Locally, without a key:
  start Ollama, LM Studio, llama.cpp or vLLM; buddy detects it
Permanently:
  set [api] model in your buddy.toml; buddy init writes one
Try it:
  buddy demo  runs the whole program with a scripted model"""
    )


def test_what_a_chosen_model_lacks_comes_first_and_the_rest_is_about_another_one() -> None:
    rows = welcome("no key for anthropic: set ANTHROPIC_API_KEY", (), (), chosen=True).split("\n")
    assert rows[1] == "  no key for anthropic: set ANTHROPIC_API_KEY"
    assert "Another model, with a key:" in rows
    assert "With a key:" not in rows


def test_what_was_found_comes_first_with_the_command_that_uses_it() -> None:
    servers = [
        LocalServer("ollama", "http://127.0.0.1:11434/v1", ("qwen3-coder:30b", "llama3.1")),
        LocalServer("lm_studio", "http://127.0.0.1:1234/v1", ("gemma", *"abcde")),
        LocalServer("llama_cpp", "http://127.0.0.1:8080/v1", ()),
    ]
    assert (
        welcome(PROBLEM, ["GROQ_API_KEY", "OPENAI_API_KEY"], servers)
        == """\
Welcome to buddy. It needs a model before it can answer:
  no model is set

Found a model server on this machine, at http://127.0.0.1:11434/v1:
  buddy -m ollama/qwen3-coder:30b
  (or llama3.1)
Found a model server on this machine, at http://127.0.0.1:1234/v1:
  buddy -m lm_studio/gemma
  (or a, b, c, d, …)
Found a model server on this machine, at http://127.0.0.1:8080/v1:
  it has no model yet; after adding one:  buddy -m llama_cpp/MODEL
Keys in your environment: GROQ_API_KEY, OPENAI_API_KEY.
  Choose a model:  buddy -m PROVIDER/MODEL
Permanently:
  set [api] model in your buddy.toml; buddy init writes one
Try it:
  buddy demo  runs the whole program with a scripted model"""
    )


@pytest.mark.parametrize("place", USUAL, ids=lambda place: place.provider)
def test_a_server_at_its_usual_place_needs_no_base_url(place) -> None:
    found = route(load_catalogue(), f"{place.provider}/some-model")
    assert (found.lane, found.base_url.replace("localhost", "127.0.0.1")) == ("direct", place.base_url)


async def test_a_server_of_ones_own_is_used_without_a_key(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")]) as server:
        program = Program(tmp_path, server.url, environment={"FAKE_LLM_KEY": "\0"})
        program.configure({"api": {"model": "ollama/m", "api_key_env": ""}})
        ran = await program.run("exec", "hi")
    assert (ran.code, ran.out) == (0, "Hello\n"), ran.err
