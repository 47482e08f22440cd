"""Rules buddy saved itself: they stand beside the person's own, name their project, and can be removed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import tomli_w

from buddy.app.launch import LaunchContext
from buddy.app.policy import RuleFiles, own_programs
from buddy.config.loading import directories, load
from buddy.safety.paths import Boundary
from buddy.safety.policy.rules import Rule, RuleSet
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import CommandPlace

OLD = {"tool": "shell", "argv": ["pytest", "*"], "decision": "allow"}
NEW = {"tool": "shell", "argv": ["make"], "decision": "allow", "project": "/p", "folder": "/p"}


def rule_files(folder: Path, *, own: str = "", saved: list[dict[str, object]] | None = None) -> RuleFiles:
    where = directories({"HOME": str(folder / "home")})
    config = Path(where.config)
    config.mkdir(parents=True, exist_ok=True)
    (config / "buddy.toml").write_text(own)
    if saved is not None:
        (config / "settings.toml").write_text(tomli_w.dumps({"rule": saved}))
    loaded = load(where=where, workspace=str(folder), trusted=True, environment={}, arguments={})
    boundary = Boundary(str(folder), str(folder), where.home)
    return RuleFiles(LaunchContext(boundary, where, {}, is_repository=False, trusted=True), loaded)


def on_disk(folder: Path) -> list[dict[str, object]]:
    path = folder / "home" / ".config" / "buddy" / "settings.toml"
    return tomllib.loads(path.read_text())["rule"]


def shown(rules: RuleSet) -> list[tuple[str, str]]:
    return [(rule.origin, rule.shown) for rule in rules.rules]


def test_RU_H11_a_rule_of_an_older_version_is_named_and_allows_nothing(tmp_path: Path) -> None:
    found = rule_files(tmp_path, saved=[OLD, NEW]).load(())

    assert shown(found) == [("saved", "allow shell: make, in /p")]
    assert [rule.shown for rule in found.unused] == ["allow shell: pytest *"]
    assert not found.broken
    (note,) = found.errors
    assert "1 rule saved by an older version would apply in every project" in note
    assert note.endswith(
        "pytest *. Answer p to save them for a project; /permissions remove N deletes the old ones"
    )


def test_RU_H11_edits_and_hosts_of_an_older_version_stay(tmp_path: Path) -> None:
    saved: list[dict[str, object]] = [
        {"tool": "edit", "path": "/p/src/**", "decision": "allow"},
        {"tool": "fetch", "host": "x.org", "decision": "allow"},
        {"tool": "delegate", "decision": "allow"},
    ]
    found = rule_files(tmp_path, saved=saved).load(())

    assert [rule.tool for rule in found.rules] == ["edit", "fetch"]
    assert [rule.tool for rule in found.unused] == ["delegate"]


def test_what_was_saved_does_not_replace_the_rules_of_the_person(tmp_path: Path) -> None:
    own = '[[rule]]\ntool = "shell"\nargv = ["git", "push", "*"]\ndecision = "deny"\n'
    found = rule_files(tmp_path, own=own, saved=[NEW]).load(())

    assert shown(found) == [("user", "deny shell: git push *"), ("saved", "allow shell: make, in /p")]


def test_RU_B10_a_saved_rule_is_deleted_and_the_others_stay(tmp_path: Path) -> None:
    files = rule_files(tmp_path, saved=[OLD, NEW])
    found = files.load(())
    pinned = Rule("shell", "allow", "saved", command="sh x > y", project="/p", files=(("/p/x", "ab"),))
    files.save([pinned])

    files.forget(found.unused[0])
    assert [table.get("argv") for table in on_disk(tmp_path)] == [["make"], None]
    files.forget(found.rules[0])
    assert on_disk(tmp_path) == [
        {
            "tool": "shell",
            "command": "sh x > y",
            "project": "/p",
            "files": {"/p/x": "ab"},
            "decision": "allow",
        }
    ]
    files.forget(pinned)
    assert on_disk(tmp_path) == []


def test_a_settings_file_with_wrong_rules_asks_about_everything(tmp_path: Path) -> None:
    files = rule_files(tmp_path, saved=[{"tool": "shell", "argv": ["rm"], "decision": "denny"}])

    assert files.load(()).broken


@pytest.mark.parametrize(
    ("command", "search_path", "own"),
    [
        ("npm ci", "{work}/.venv/bin:/usr/bin", ("npm",)),
        ("npm ci", "/usr/bin:/bin", ()),
        ("npm ci", ".venv/bin:/usr/bin", ("npm",)),
        ("cd .venv/bin && ls", "/usr/bin:/bin", ()),
        ("env A=1 npm ci", "{work}/.venv/bin:/usr/bin:/bin", ("npm",)),
        ("xargs npm < list", "{work}/.venv/bin:/usr/bin:/bin", ("npm",)),
        ("ls && npm ci", "{work}/.venv/bin:/usr/bin:/bin", ("npm",)),
        (".venv/bin/npm ci", "{work}/.venv/bin:/usr/bin:/bin", ()),
        ("npm ci", "{home}/bin:/usr/bin", ("npm",)),
        ("npm ci", "{linked}:/usr/bin", ("npm",)),
    ],
)
def test_A6_7_programs_of_the_workspace_are_known_by_where_path_leads(
    tmp_path: Path, command: str, search_path: str, own: tuple[str, ...]
) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    program = work / ".venv/bin/npm"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home / "bin").mkdir(parents=True)
    (home / "bin/npm").symlink_to(program)
    (tmp_path / "linked").symlink_to(program.parent)
    found = search_path.format(work=work, home=home, linked=tmp_path / "linked")
    boundary = Boundary(str(work), str(work), str(home))
    analysis = Analyser().analyse(command, CommandPlace(boundary, found))
    assert own_programs(analysis, boundary, found) == own
