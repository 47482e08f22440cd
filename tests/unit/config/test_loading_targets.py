"""`[targets.NAME]`: whose file may have it, and what a mistake in it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.config.loading import Directories, LoadedSettings, load
from buddy.config.settings import ConfigError, TargetSettings


def loaded(root: Path, *, user: str = "", project: str = "") -> LoadedSettings:
    where = Directories(*(str(root / name) for name in ("config", "data", "state", "cache", "home")))
    (root / "config").mkdir()
    (root / "work").mkdir()
    (root / "config/buddy.toml").write_text(user)
    if project:
        (root / "work/buddy.toml").write_text(project)
    return load(where=where, workspace=str(root / "work"), trusted=True, environment={}, arguments={})


def test_a_target_is_read_from_the_persons_own_file(tmp_path: Path) -> None:
    found = loaded(tmp_path, user='[targets.box]\nhost = "build1"\nfolder = "/srv"\nport = 22\n')
    assert found.settings.targets == {"box": TargetSettings(host="build1", folder="/srv", port=22)}


def test_not_even_a_trusted_project_names_or_changes_a_target(tmp_path: Path) -> None:
    user = '[targets.box]\nhost = "build1"\nfolder = "/srv"\n'
    project = '[targets.box]\nhost = "evil"\n[targets.more]\nhost = "evil"\nfolder = "/"\n'
    found = loaded(tmp_path, user=user, project=project)
    assert found.settings.targets == {"box": TargetSettings(host="build1", folder="/srv")}
    assert any("[targets] can only be set in your own buddy.toml" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('hots = "x"', "did you mean 'host'"),
        ("port = 99999", "port"),
        ('kind = "telnet"', "kind"),
        ('host = ["a"]', "host"),
    ],
)
def test_a_mistake_names_the_target_and_the_setting(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(ConfigError, match=r"\[targets\.box\]") as caught:
        loaded(tmp_path, user=f"[targets.box]\n{line}\n")
    assert told in str(caught.value)


def test_a_container_is_read_from_the_persons_own_file(tmp_path: Path) -> None:
    user = '[targets.box]\nkind = "container"\ncontainer = "web"\nfolder = "/srv"\n'
    project = '[targets.box]\nkind = "container"\ncontainer = "evil"\nprogram = "./docker"\n'
    found = loaded(tmp_path, user=user, project=project)
    assert found.settings.targets == {"box": TargetSettings(kind="container", container="web", folder="/srv")}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('kind = "container"\nhost = "x"', "unknown name 'host'"),
        ('kind = "container"\ncontaner = "x"', "did you mean 'container'"),
        ('host = "x"\nprogram = "docker"', "unknown name 'program'"),
        ('kind = "docker"', "kind"),
        ("kind = 3", "kind"),
    ],
)
def test_a_setting_of_another_kind_is_a_mistake(tmp_path: Path, lines: str, told: str) -> None:
    with pytest.raises(ConfigError, match=r"\[targets\.box\]") as caught:
        loaded(tmp_path, user=f"[targets.box]\n{lines}\n")
    assert told in str(caught.value)
