"""Skills, command files, subagent files and templates of a trusted project that lead elsewhere. A clone
brings such links; what they lead to must not reach a model, or a file that is read without a question."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from buddy.extend.scaffolds.templates import Scaffolds, TemplateError, template_folders
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

SECRET = "xq-7731-secret-value"
SKILL = "---\nname: x\ndescription: d\n---\nbody"
SESSION = ".buddyx/sessions/0123-4567-89ab-cdef/journal.jsonl"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def link(path: Path, to: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def _skill_file(folder: str, place: str, file: str) -> Callable[[Path], dict[str, Any]]:
    """Return a plant: a skill in `folder`, a secret at `place`, read as `file` of the skill."""

    def plant(repo: Path) -> dict[str, Any]:
        write(repo / folder / "SKILL.md", SKILL)
        write(repo / place, SECRET)
        return {"name": "x", "file": file}

    return plant


def _linked_folder(path: str, to: str, place: str, file: str) -> Callable[[Path], dict[str, Any]]:
    """Return a plant: a link at `path`, the skill of which leads to files of the project."""

    def plant(repo: Path) -> dict[str, Any]:
        write(repo / place, SECRET)
        link(repo / path, to)
        if not (repo / ".claude/skills/x/SKILL.md").exists():
            write(repo / ".claude/skills/x/SKILL.md", SKILL)
        return {"name": "x", "file": file}

    return plant


def _linked_file(path: str, to: str, place: str) -> Callable[[Path], dict[str, Any]]:
    """Return a plant: a definition that is a link to a secret of the project."""

    def plant(repo: Path) -> dict[str, Any]:
        write(repo / place, f"pin {SECRET}\n")
        link(repo / path, to)
        return {"name": "x"}

    return plant


PLANTS = {
    "beside": _skill_file(".claude/skills/x", ".claude/skills/x/.env", ".env"),
    "beside, spelled otherwise": _skill_file(".claude/skills/x", ".claude/skills/x/.env", "./a/../.env"),
    "below": _skill_file(".claude/skills/x", ".claude/skills/x/a/server.pem", "a/server.pem"),
    "in .agents": _skill_file(".agents/skills/x", ".agents/skills/x/.netrc", ".netrc"),
    "in .buddyx": _skill_file(".buddyx/skills/x", ".buddyx/skills/x/id_rsa", "id_rsa"),
    "above": _skill_file(".claude/skills/x", ".env", "../../../.env"),
    "skill is the project": _linked_folder(".claude/skills/x", "../..", ".env", ".env"),
    "journal": _linked_folder(".claude/skills/x", "../..", SESSION, SESSION),
    "plain file behind a link": _linked_folder(".claude/skills/x", "../../private", "private/a.txt", "a.txt"),
    "skills are a link": _linked_folder(".claude/skills", "../conf", "conf/x/a.txt", "a.txt"),
    "everything is a link": _linked_folder(".claude", "conf", "conf/skills/x/a.txt", "a.txt"),
    "SKILL.md": _linked_file(".claude/skills/x/SKILL.md", "../../../.env", ".env"),
    "SKILL.md, key": _linked_file(".agents/skills/x/SKILL.md", "../../../id_rsa", "id_rsa"),
    "SKILL.md, journal": _linked_file(".claude/skills/x/SKILL.md", f"../../../{SESSION}", SESSION),
    "SKILL.md, two links": _linked_file(".claude/skills/x/SKILL.md", "../../../conf/.env", "conf/.env"),
    "agent": _linked_file(".claude/agents/x.md", "../../.env", ".env"),
    "agent of another": _linked_file(".opencode/agent/x.md", "../../.env", ".env"),
    "command": _linked_file(".claude/commands/x.md", "../../.env", ".env"),
    "command of another": _linked_file(".gemini/commands/x.toml", "../../.env", ".env"),
}


@pytest.mark.parametrize("name", PLANTS)
async def test_ATTACK10_a_definition_brings_no_secret_file_to_the_model(tmp_path: Path, name: str) -> None:
    arguments = PLANTS[name](Program(tmp_path, "http://127.0.0.1:1").repo)
    script = [reply(call("skill", arguments=json.dumps(arguments))), reply("done"), reply("done")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        await program.run("exec", "--trust", "go")
        sent = json.dumps([request.json for request in server.requests])
    assert "go" in sent
    assert SECRET not in sent


async def test_ATTACK10_a_command_file_that_is_a_secret_is_refused_by_name(tmp_path: Path) -> None:
    PLANTS["command"](Program(tmp_path, "http://127.0.0.1:1").repo)
    async with FakeLLM([reply("done")]) as server:
        ran = await Program(tmp_path, server.url).run("exec", "--trust", "/x")
        assert server.requests == []
    assert "which no model gets unasked: its name says that it holds secrets" in ran.err


async def test_ATTACK10_a_persons_skill_shows_no_secret_file_beside_it(tmp_path: Path) -> None:
    script = [reply(call("skill", arguments='{"name": "x", "file": ".env"}')), reply("done")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        write(program.home / ".claude/skills/x/SKILL.md", SKILL)
        write(program.home / ".claude/skills/x/.env", SECRET)
        await program.run("exec", "go")
        sent = json.dumps(server.requests[-1].json)
    assert SECRET not in sent
    assert "read_file asks the person" in sent


async def test_a_plain_file_of_a_skill_is_read(tmp_path: Path) -> None:
    script = [reply(call("skill", arguments='{"name": "x", "file": "a/style.md"}')), reply("done")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        write(program.repo / ".claude/skills/x/SKILL.md", SKILL)
        write(program.repo / ".claude/skills/x/a/style.md", "short sentences")
        await program.run("exec", "--trust", "go")
        assert "short sentences" in json.dumps(server.requests[-1].json)


def _commit(folder: Path) -> None:
    """Make a folder a repository that can be cloned."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "x")):
        subprocess.run(["git", *words], cwd=folder, check=True)


async def test_ATTACK10_a_copied_plug_in_shows_its_plain_files_alone(tmp_path: Path) -> None:
    files = ("a/style.md", ".env", "a/server.pem")
    calls = [reply(call("skill", arguments=json.dumps({"name": "notes:x", "file": file}))) for file in files]
    async with FakeLLM([*calls, reply("done")]) as server:
        program = Program(tmp_path, server.url)
        plugin = tmp_path / "plug"
        write(plugin / ".claude-plugin/plugin.json", '{"name": "notes"}')
        write(plugin / "skills/x/SKILL.md", SKILL)
        write(plugin / "skills/x/a/style.md", "short sentences")
        write(plugin / "skills/x/.env", SECRET)
        write(plugin / "skills/x/a/server.pem", SECRET)
        _commit(plugin)
        await program.run("plugin", "add", f"file://{plugin}")
        await program.run("exec", "go")
        sent = json.dumps(server.requests[-1].json)
    assert "short sentences" in sent
    assert sent.count("read_file asks the person") == 2
    assert SECRET not in sent


@pytest.mark.parametrize("folder", [".config/buddy/skills", ".claude/skills", ".codex/skills"])
async def test_a_plain_file_of_a_persons_skill_is_read(tmp_path: Path, folder: str) -> None:
    script = [reply(call("skill", arguments='{"name": "x", "file": "style.md"}')), reply("done")]
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        write(program.home / folder / "x/SKILL.md", SKILL)
        write(program.home / folder / "x/style.md", "short sentences")
        await program.run("exec", "go")
        assert "short sentences" in json.dumps(server.requests[-1].json)


TEMPLATE = 'title = "T"\ndescription = "D"\nlanguage = "python"\n'


def _render(root: Path) -> dict[str, bytes]:
    """Return the files of the project that the template `t` of a trusted project makes."""
    scaffolds = Scaffolds(lambda: template_folders("/nowhere", str(root), trusted=True))
    return {file.path: file.data for file in scaffolds.new_project("t", "new", {}, None).files}


def _template(root: Path) -> Path:
    return write(root / ".buddyx/templates/projects/t/template.toml", TEMPLATE).parent


def _files_are_a_link(root: Path, outside: Path) -> None:
    link(_template(root) / "files", str(outside))


def _template_is_a_link(root: Path, outside: Path) -> None:
    write(outside / "template.toml", TEMPLATE)
    write(outside / "files/notes.txt", SECRET)
    link(root / ".buddyx/templates/projects/t", str(outside))


def _projects_are_a_link(root: Path, outside: Path) -> None:
    write(outside / "t/template.toml", TEMPLATE)
    write(outside / "t/files/notes.txt", SECRET)
    link(root / ".buddyx/templates/projects", str(outside))


def _templates_are_a_link(root: Path, outside: Path) -> None:
    write(outside / "projects/t/template.toml", TEMPLATE)
    write(outside / "projects/t/files/notes.txt", SECRET)
    link(root / ".buddyx/templates", str(outside))


def _all_is_a_link(root: Path, outside: Path) -> None:
    write(outside / "templates/projects/t/template.toml", TEMPLATE)
    write(outside / "templates/projects/t/files/notes.txt", SECRET)
    link(root / ".buddyx", str(outside))


def _description_is_a_link(root: Path, outside: Path) -> None:
    write(outside / "t.toml", TEMPLATE.replace('"T"', f'"{SECRET}"'))
    write(root / ".buddyx/templates/projects/t/files/a.txt", "a")
    link(root / ".buddyx/templates/projects/t/template.toml", str(outside / "t.toml"))


def _a_file_is_a_link(root: Path, outside: Path) -> None:
    (_template(root) / "files").mkdir()
    link(_template(root) / "files/a.txt", str(outside / "notes.txt"))


@pytest.mark.parametrize(
    "plant",
    [
        _files_are_a_link,
        _template_is_a_link,
        _projects_are_a_link,
        _templates_are_a_link,
        _all_is_a_link,
        _description_is_a_link,
        _a_file_is_a_link,
    ],
)
def test_ATTACK10_a_template_copies_nothing_from_behind_a_link(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    root, outside = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    write(outside / "notes.txt", SECRET)
    plant(root, outside)
    with pytest.raises(TemplateError, match=r"link|there is no template"):
        _render(root)


def test_a_template_of_plain_files_is_rendered(tmp_path: Path) -> None:
    write(_template(tmp_path) / "files/src/a.txt", "a")
    assert _render(tmp_path)[os.path.join("src", "a.txt")] == b"a"
