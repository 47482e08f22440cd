"""The catalogue: every place, its precedence, trust, and reading again what changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from buddy.extend.catalogue import ExtensionCatalogue
from buddy.extend.hooks.protocol import Hook
from buddy.extend.search_folders import ExtensionPlaces

COMMANDS = {
    ".buddyx/commands/a.md": "a",
    ".claude/commands/sub/b.md": "sub:b",
    ".opencode/commands/c.md": "c",
    ".gemini/commands/sub/d.toml": "sub:d",
}
OWN_COMMANDS = {
    ".config/buddy/commands/e.md": "e",
    ".claude/commands/f.md": "f",
    ".codex/prompts/g.md": "g",
    ".gemini/commands/h.toml": "h",
}
SKILLS = (".buddyx/skills/a", ".agents/skills/b", "src/.agents/skills/c", ".claude/skills/d")
OWN_SKILLS = (
    *(".config/buddy/skills/e", ".config/agents/skills/f", ".agents/skills/g", ".claude/skills/h"),
    ".codex/skills/i",
)
AGENTS = (".buddyx/agents/a.md", ".claude/agents/b.md", ".opencode/agents/c.md")
OWN_AGENTS = (".config/buddy/agents/d.md", ".claude/agents/e.md")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Folders:
    """A project in which buddy was started in `src`, a home, and their catalogue."""

    def __init__(self, folder: Path, *, trusted: bool = True) -> None:
        self.root, self.home = folder / "repo", folder / "home"
        (self.root / "src").mkdir(parents=True)
        self.hooks: tuple[Hook, ...] = ()
        places = ExtensionPlaces(
            str(self.root), str(self.root / "src"), str(self.home), str(self.home / ".config/buddy")
        )
        self.catalogue = ExtensionCatalogue(lambda: places, trusted=trusted, hooks_changed=self._put)

    def _put(self, hooks: tuple[Hook, ...]) -> None:
        self.hooks = hooks


def test_every_place_is_looked_into(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    for top, files in ((folders.root, COMMANDS), (folders.home, OWN_COMMANDS)):
        for name in files:
            write(top / name, 'prompt = "x"' if name.endswith("toml") else "x")
    for top, skills in ((folders.root, SKILLS), (folders.home, OWN_SKILLS)):
        for name in skills:
            write(top / name / "SKILL.md", "---\ndescription: d\n---\nx")
    for top, names in ((folders.root, AGENTS), (folders.home, OWN_AGENTS)):
        for name in names:
            write(top / name, "x")
    folders.catalogue.refresh()
    names = {
        kind: [one.name for one in folders.catalogue.of_kind(kind)] for kind in ("command", "skill", "agent")
    }
    assert names["command"] == sorted([*COMMANDS.values(), *OWN_COMMANDS.values()])
    assert names["skill"] == list("abcdefghi")
    assert names["agent"] == list("abcde")
    assert all(one.state == "active" for one in folders.catalogue.definitions)


def test_the_first_definition_of_a_name_wins_and_the_others_say_so(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    for top, name in (
        (folders.root, ".claude/skills"),
        (folders.root, ".buddyx/skills"),
        (folders.home, ".claude/skills"),
    ):
        write(top / name / "x/SKILL.md", f"---\ndescription: {name}\n---\nx")
    folders.catalogue.refresh()
    states = {one.label: (one.state, one.reason) for one in folders.catalogue.of_kind("skill")}
    assert states == {
        ".buddyx/skills/x/SKILL.md": ("active", ""),
        ".claude/skills/x/SKILL.md": ("shadowed", ".buddyx/skills/x/SKILL.md comes first"),
        "~/.claude/skills/x/SKILL.md": ("shadowed", ".buddyx/skills/x/SKILL.md comes first"),
    }


def test_nothing_of_a_project_is_active_before_trust(tmp_path: Path) -> None:
    folders = Folders(tmp_path, trusted=False)
    for name in (*COMMANDS, *AGENTS, *(f"{name}/SKILL.md" for name in SKILLS)):
        write(folders.root / name, 'prompt = "x"' if name.endswith("toml") else "x")
    write(folders.home / ".claude/skills/d/SKILL.md", "---\ndescription: mine\n---\nx")
    entry = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}
    for name in (".claude/settings.json", ".claude/settings.local.json", ".buddyx/hooks.json"):
        write(folders.root / name, json.dumps(entry))
    folders.catalogue.refresh()
    assert {one.state for one in folders.catalogue.definitions if one.scope == "project"} == {"untrusted"}
    assert folders.hooks == ()
    assert all("not trusted" in entry.reason for entry in folders.catalogue.hooks)
    assert folders.catalogue.prompt_text().count("\n- ") == 1
    mine = folders.catalogue.find("skill", "d")
    assert mine is not None
    assert mine.description == "mine"


def test_an_edit_is_read_and_no_edit_is_not(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    assert not folders.catalogue.refresh()
    file = folders.home / ".claude/commands/x.md"
    write(file, "---\ndescription: one\n---\nx")
    assert folders.catalogue.refresh()
    assert not folders.catalogue.refresh()
    file.write_text("---\ndescription: other\n---\nx")
    os.utime(file, ns=(1, 1))
    assert folders.catalogue.refresh()
    assert folders.catalogue.of_kind("command")[0].description == "other"
    file.unlink()
    assert folders.catalogue.refresh()
    assert folders.catalogue.definitions == ()


def test_the_person_switches_all_hooks_off(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    entry = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}
    write(folders.root / ".claude/settings.json", json.dumps(entry))
    write(folders.home / ".claude/settings.json", json.dumps({"disableAllHooks": True}))
    folders.catalogue.refresh()
    assert folders.hooks == ()
    assert [one.reason for one in folders.catalogue.hooks] == ["disableAllHooks is set"]


def test_a_hooks_file_of_a_project_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    entry = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}
    write(tmp_path / "elsewhere.json", json.dumps(entry))
    (folders.root / ".claude").mkdir()
    (folders.root / ".claude/settings.json").symlink_to(tmp_path / "elsewhere.json")
    folders.catalogue.refresh()
    assert folders.hooks == ()


def test_the_list_in_the_prompt_is_bounded_and_leaves_out_what_is_for_people(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    for number in range(60):
        text = f"---\ndescription: {'x' * 900}\n---\nx"
        write(folders.home / f".claude/skills/s{number:02}/SKILL.md", text)
    write(
        folders.home / ".claude/skills/a/SKILL.md",
        "---\ndescription: d\ndisable-model-invocation: true\n---\nx",
    )
    folders.catalogue.refresh()
    text = folders.catalogue.prompt_text()
    assert len(text) < 13_000
    assert "more" in text.splitlines()[-1]
    assert "- a:" not in text
