"""Skills, command files and subagent files on the disk, hostile ones too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.extend.definitions import ExtensionFile, definitions_in, read_body
from buddy.extend.search_folders import Kind, SearchFolder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(
    folder: Path, kind: Kind, *, inside: str = "", endings: tuple[str, ...] = (".md",)
) -> dict[str, ExtensionFile]:
    place = SearchFolder(
        kind, str(folder), "here", "project", inside, deep=kind == "command", endings=endings
    )
    return {one.name: one for one in definitions_in(place)}


def test_a_skill_is_read_with_its_fields(tmp_path: Path) -> None:
    write(
        tmp_path / "notes/SKILL.md",
        "---\nname: notes\ndescription: Writes\nallowed-tools: Bash(git log:*) Read\npaths: ['src/**']\n"
        "context: fork\nuser-invocable: false\nmodel: inherit\n---\nbody",
    )
    (skill,) = found(tmp_path, "skill").values()
    assert (skill.name, skill.description, skill.state, skill.warning) == ("notes", "Writes", "active", "")
    assert (skill.allowed_tools, skill.paths) == (("Bash(git log:*)", "Read"), ("src/**",))
    assert (skill.fork, skill.for_user, skill.for_model, skill.model) == (True, False, True, "")
    assert read_body(skill).body == "body"


def test_folders_become_part_of_a_commands_name(tmp_path: Path) -> None:
    write(tmp_path / "git/pr/open.md", "x")
    write(tmp_path / "top.md", "# First line\n\nx")
    write(tmp_path / ".hidden/no.md", "x")
    names = found(tmp_path, "command")
    assert set(names) == {"git:pr:open", "top"}
    assert names["top"].description == "First line"


def test_a_link_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    project, secret = tmp_path / "project", tmp_path / "secret.md"
    write(secret, "the secret")
    write(project / "skills/inside/SKILL.md", "---\ndescription: fine\n---\nx")
    (project / "skills/file").mkdir()
    (project / "skills/file/SKILL.md").symlink_to(secret)
    write(tmp_path / "outside/SKILL.md", "the secret")
    (project / "skills/folder").symlink_to(tmp_path / "outside")
    (project / "skills/inner").symlink_to(project / "skills/inside")
    skills = found(project / "skills", "skill", inside=str(project))
    assert {name: one.state for name, one in skills.items()} == {
        "file": "malformed",
        "folder": "malformed",
        "inner": "active",
        "inside": "active",
    }
    assert "outside of the folder it belongs to" in skills["folder"].reason
    with pytest.raises(ToolError, match="outside of the folder"):
        read_body(skills["file"])


def test_pipes_circles_and_floods_hold_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/SKILL.md")
    write(tmp_path / "large/SKILL.md", "x" * 300_000)
    write(tmp_path / "empty/SKILL.md", "---\nname: empty\n---\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/SKILL.md").symlink_to("nowhere")
    states = {name: (one.state, one.reason) for name, one in found(tmp_path, "skill").items()}
    assert all(state == "malformed" for state, _ in states.values())
    assert states["large"][1] == "it is over 256 KiB"
    assert states["empty"][1] == "it has no text"
    (tmp_path / "circle").mkdir()
    (tmp_path / "circle/again").symlink_to(tmp_path / "circle")
    write(tmp_path / "circle/x.md", "x")
    assert set(found(tmp_path / "circle", "command")) == {"x"}


def test_names_and_texts_with_escapes_are_inert(tmp_path: Path) -> None:
    write(tmp_path / "a\x1b[2J.md", "x")
    write(tmp_path / "plain.md", '---\ndescription: "x\\e[31m\\u202ey"\nargument-hint: "\\e]0;t\\a"\n---\nx')
    names = found(tmp_path, "command")
    assert "\x1b" not in "".join(names)
    assert "\x1b" not in "".join(one.label + one.reason for one in names.values())
    plain = names["plain"]
    assert plain.description == "xy"
    assert "\x1b" not in plain.hint
    bad = next(one for name, one in names.items() if name != "plain")
    assert (bad.state, "can't be typed" in bad.reason) == ("malformed", True)


def test_a_skill_that_breaks_the_format_is_used_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path / "Big_Name/SKILL.md", "---\nname: other\ndescription: x\n---\nbody")
    write(tmp_path / "silent/SKILL.md", "body alone")
    write(tmp_path / "colon/SKILL.md", "---\nname: colon\ndescription: when: now\n---\nbody")
    write(tmp_path / "wordy/SKILL.md", f"---\ndescription: {'x' * 1100}\n---\nbody")
    skills = found(tmp_path, "skill")
    assert [one.state for one in skills.values()] == ["active"] * 4
    assert "over 1,024 characters" in skills["wordy"].warning
    assert "the folder's counts" in skills["Big_Name"].warning
    assert "no description" in skills["silent"].warning
    assert (skills["colon"].description, "no valid YAML" in skills["colon"].warning) == ("when: now", True)


def test_geminis_toml_is_a_command(tmp_path: Path) -> None:
    write(tmp_path / "git/fix.toml", 'description = "Fixes"\nprompt = """Fix {{args}}"""\n')
    write(tmp_path / "bad.toml", "prompt = [")
    write(tmp_path / "none.toml", 'description = "x"\n')
    commands = found(tmp_path, "command", endings=(".toml",))
    assert (commands["git:fix"].description, commands["git:fix"].is_toml) == ("Fixes", True)
    assert "no valid TOML" in commands["bad"].reason
    assert commands["none"].reason == 'expected a text as "prompt"'


def test_a_subagent_file_gives_its_limits(tmp_path: Path) -> None:
    write(
        tmp_path / "x.md",
        "---\nname: critic\ndescription: d\ntools: Read, Grep\ndisallowedTools: Write\npermissionMode: plan\n"
        "maxTurns: 5\nbackground: true\nisolation: worktree\nskills: a, b\n---\nYou are a critic.",
    )
    (agent,) = found(tmp_path, "agent").values()
    assert (agent.name, agent.tools, agent.disallowed_tools) == ("critic", ("Read", "Grep"), ("Write",))
    assert (agent.permission_mode, agent.max_turns, agent.background, agent.worktree, agent.skills) == (
        "plan",
        5,
        True,
        True,
        ("a", "b"),
    )
