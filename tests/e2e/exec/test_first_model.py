"""A key in the environment is enough to start, and the model that was chosen is remembered."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from buddy.app.providers import load_catalogue
from buddy.config.loading import IN_ORDER, Directories, first_model, load, remember_model
from buddy.llm.keys import save_credential
from buddy.llm.routing import route
from tests.support.program import Program


def loaded(folder: Path, environment: dict[str, str] | None = None) -> Any:
    where = Directories(str(folder), str(folder), str(folder), str(folder), str(folder))
    return load(
        where=where,
        workspace=str(folder / "w"),
        trusted=False,
        environment=environment or {},
        arguments={},
    )


@pytest.mark.parametrize("one", IN_ORDER, ids=lambda one: one.model)
def test_RU_A5_every_first_model_is_known_can_use_tools_and_takes_that_key(one) -> None:
    found = route(load_catalogue(), one.model)
    assert found.match is not None
    assert found.key_env == one.key_env
    assert "tools" in found.match.info.capabilities


def test_RU_A5_the_first_key_found_decides() -> None:
    assert first_model({}) is None
    assert first_model({"OPENAI_API_KEY": " "}) is None
    both = first_model({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    assert both is not None
    assert both.key_env == "ANTHROPIC_API_KEY"


def test_RU_A5_a_key_is_enough_and_is_said(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"OPENAI_API_KEY": "k"})
    model = first_model({"OPENAI_API_KEY": "k"})
    assert model is not None
    assert found.settings.api.model == found.first_model == model.model
    assert found.warnings == (f"model: {model.model}, because OPENAI_API_KEY is set; /model changes it",)
    (tmp_path / "buddy.toml").write_text('[api]\nmodel = "ollama/qwen3"\n')
    found = loaded(tmp_path, {"OPENAI_API_KEY": "k"})
    assert (found.settings.api.model, found.first_model, found.warnings) == ("ollama/qwen3", "", ())


def test_RU_A5_a_saved_key_is_enough_where_the_environment_has_none() -> None:
    saved = first_model({}, lambda: {"groq": "k", "openai": "k"})
    assert saved is not None
    assert saved.key_env == "OPENAI_API_KEY"
    mixed = first_model({"GROQ_API_KEY": "k"}, lambda: {"openai": "k"})
    assert mixed is not None
    assert mixed.key_env == "GROQ_API_KEY"


async def test_RU_A5_what_login_saved_chooses_the_first_model(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9")
    (program.config / "buddy.toml").write_text("")
    kept = program.home / ".local/share/buddy/credentials.json"
    save_credential(kept, "mistral", "k-123456")
    told = (await program.run("doctor")).out
    assert "model: mistral/mistral-large-latest, because its provider's key is saved" in told
    assert "ok    key: from the saved key of mistral" in told
    kept.write_text("{")
    assert "is not what buddy wrote there" in (await program.run("doctor")).out


def test_RU_A5_a_chosen_model_is_remembered_until_the_persons_file_names_another(tmp_path: Path) -> None:
    own = tmp_path / "buddy.toml"
    own.write_text('[api]\nmodel = "openai/a"\n')
    found = loaded(tmp_path)
    table: dict[str, Any] = {}
    remember_model(table, "fast", found.own_model)
    assert table == {"remembered": {"model": "fast", "instead_of": "openai/a"}}
    (tmp_path / "settings.toml").write_text('[remembered]\nmodel = "fast"\ninstead_of = "openai/a"\n')
    assert loaded(tmp_path).settings.agent.model == "fast"
    own.write_text('[api]\nmodel = "openai/b"\n')
    found = loaded(tmp_path)
    assert (found.settings.agent.model, found.settings.api.model) == ("", "openai/b")
    assert tomllib.loads((tmp_path / "settings.toml").read_text())["remembered"]["model"] == "fast"
