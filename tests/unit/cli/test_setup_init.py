"""`buddy init` writes settings once, and never takes any away."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from buddy.cli.arguments import parse
from buddy.cli.setup import init

MINE = '[api]\nmodel = "openai/mine"\nbase_url = "http://127.0.0.1:9/v1"\n'
MINE += '\n[models.fast]\nmodel = "openai/quick"\n'


def _init(home: Path, *options: str) -> int:
    return init(parse(["init", *options]), {"HOME": str(home)})


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """The path of the person's buddy.toml."""
    path = tmp_path / ".config" / "buddy" / "buddy.toml"
    path.parent.mkdir(parents=True)
    return path


def test_it_writes_settings_that_can_be_read(tmp_path: Path, settings: Path) -> None:
    assert _init(tmp_path) == 0
    assert tomllib.loads(settings.read_text())["api"]["model"]
    assert settings.stat().st_mode & 0o777 == 0o600


def test_RU_B12_a_second_init_changes_nothing_and_says_what_stands_there(
    tmp_path: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text(MINE)
    assert _init(tmp_path) == 0
    assert settings.read_text() == MINE
    assert [one.name for one in settings.parent.iterdir()] == ["buddy.toml"]
    said = capsys.readouterr().out
    assert f"{settings} already exists (model openai/mine, profiles fast); nothing was changed." in said
    assert "buddy init --force" in said


def test_RU_B12_force_begins_anew_with_the_same_models_and_a_copy(tmp_path: Path, settings: Path) -> None:
    settings.write_text(MINE + '\n[permissions]\nmode = "plan"\n')
    before = tomllib.loads(settings.read_text())
    assert _init(tmp_path, "--force") == 0
    after = tomllib.loads(settings.read_text())
    assert (after["api"], after["models"]) == (before["api"], before["models"])
    assert after["permissions"]["mode"] == "ask"
    (copy,) = [one for one in settings.parent.iterdir() if one.name != "buddy.toml"]
    assert tomllib.loads(copy.read_text()) == before


def test_RU_B12_settings_that_cannot_be_read_stay(
    tmp_path: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text("[api\n")
    assert (_init(tmp_path), _init(tmp_path, "--force")) == (0, 4)
    assert settings.read_text() == "[api\n"
    assert "not valid TOML" in capsys.readouterr().out


def test_RU_B21_the_reference_of_all_settings_can_be_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _init(tmp_path, "--print") == 0
    shown = tomllib.loads(capsys.readouterr().out)
    assert {"api", "agent", "tools", "permissions", "network", "budget"} <= shown.keys()
    assert not (tmp_path / ".config").exists()
