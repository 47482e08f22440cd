"""A hook is accepted together with the scripts its command names: one that the model edits afterwards does
not run with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buddy.extend.plugin_folders import plugin_of_folder
from buddy.safety.hook_scripts import hook_scripts, project_variables
from buddy.safety.trusted_files import trusted_things
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

EDIT_THEN_READ = [
    reply(call("read_file", path="tools/h.sh")),
    reply(call("write_file", path="tools/h.sh", content="touch OWNED\n")),
    reply(call("read_file", path="a.txt")),
    reply("Done."),
]


def hooks(command: str) -> str:
    entry = {"matcher": "", "hooks": [{"type": "command", "command": command}]}
    return json.dumps({"hooks": {"PreToolUse": [entry]}})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("owner", ["project", "person", "plug-in"])
async def test_a_script_the_model_edited_does_not_run_as_a_hook(tmp_path: Path, owner: str) -> None:
    async with FakeLLM(EDIT_THEN_READ) as server:
        program = Program(tmp_path, server.url, tools=("read_file", "write_file"))
        repo = program.repo
        write(repo / "tools" / "h.sh", "true\n")
        write(repo / "a.txt", "a\n")
        options = ["--permission-mode", "edit"]
        if owner == "project":
            write(repo / ".claude" / "settings.json", hooks("sh tools/h.sh"))
            options.append("--trust")
        elif owner == "person":
            write(program.home / ".claude" / "settings.json", hooks("sh tools/h.sh"))
        else:
            write(repo / "tools" / "hooks" / "hooks.json", hooks('sh "$CLAUDE_PLUGIN_ROOT/h.sh"'))
            options += ["--plugin-dir", str(repo / "tools")]
        ran = await program.run("exec", *options, "go")
        assert not (repo / "OWNED").exists()
        assert "tools/h.sh is not as it was when this hook was accepted" in ran.err
        assert ran.code == 3


async def test_an_unchanged_script_runs(tmp_path: Path) -> None:
    async with FakeLLM([reply(call("read_file", path="a.txt")), reply("Done.")]) as server:
        program = Program(tmp_path, server.url, tools=("read_file",))
        write(program.repo / "tools" / "h.sh", "touch RAN\n")
        write(program.repo / "a.txt", "a\n")
        write(program.repo / ".claude" / "settings.json", hooks("sh tools/h.sh"))
        ran = await program.run("exec", "--trust", "go")
        assert (ran.code, (program.repo / "RAN").exists()) == (0, True)


def test_trust_covers_the_scripts_of_hooks(tmp_path: Path) -> None:
    write(tmp_path / ".claude" / "settings.json", hooks("cd tools && ./h.sh"))
    write(tmp_path / "tools" / "h.sh", "true\n")
    before = trusted_things(str(tmp_path))
    write(tmp_path / "tools" / "h.sh", "touch OWNED\n")
    after = trusted_things(str(tmp_path))
    assert {name for name in after if after[name] != before.get(name)} == {"tools/h.sh"}


def test_a_plug_in_is_added_with_the_scripts_of_its_hooks(tmp_path: Path) -> None:
    write(tmp_path / "hooks" / "hooks.json", hooks("${CLAUDE_PLUGIN_ROOT}/run.sh"))
    write(tmp_path / "run.sh", "true\n")
    before = plugin_of_folder(str(tmp_path)).hooks
    write(tmp_path / "run.sh", "touch OWNED\n")
    assert plugin_of_folder(str(tmp_path)).hooks != before


@pytest.mark.parametrize(
    "command",
    [
        "tools/h.sh",
        "./tools/h.sh --fast",
        "sh 'tools/h.sh' x",
        'sh "$CLAUDE_PROJECT_DIR"/tools/h.sh',
        "${BUDDY_PROJECT_DIR}/tools/h.sh",
        "$(git rev-parse --show-toplevel)/tools/h.sh",
        "`pwd`/tools/h.sh",
        "X=tools/h.sh; sh $X",
        "env A=1 timeout 5 tools/h.sh",
        ". tools/h.sh",
        "cd tools && ./h.sh",
        "(cd ./tools; sh h.sh)",
        "bash -c 'cd tools && sh h.sh'",
        "sh <tools/h.sh",
        "cat tools/h.sh|sh",
        "sh tools/*.sh",
        "for f in tools/*; do sh $f; done",
        "sh tools/{g,h}.sh",
        "sh tools/$NAME.sh",
        "sh tools/$(echo h).sh",
        'sh too""ls/h.sh',
        "sh tools\\/h.sh",
        "sh tools//../tools/h.sh",
        "sh 'tools/h.sh",
        "test -x tools/h.sh&&tools/h.sh",
    ],
)
def test_a_script_is_found_in_a_command(tmp_path: Path, command: str) -> None:
    write(tmp_path / "tools" / "h.sh", "true\n")
    named = hook_scripts(command, (str(tmp_path),), project_variables(str(tmp_path)))
    assert "h.sh" in {Path(path).name for path in named}


@pytest.mark.parametrize("command", ["python3 -m tools.h", "python3 tools", "node tools"])
def test_a_module_is_found_in_a_command(tmp_path: Path, command: str) -> None:
    for name in ("h.py", "__main__.py", "index.js"):
        write(tmp_path / "tools" / name, "1")
    assert hook_scripts(command, (str(tmp_path),), {})


@pytest.mark.parametrize(
    "command",
    [
        "ruff format $(jq -r .tool_input.file_path)",
        "jq . package.json",
        "black --config pyproject.toml .",
        "/usr/bin/env true",
        "echo h.sh",
    ],
)
def test_other_words_are_no_scripts(tmp_path: Path, command: str) -> None:
    for name in ("package.json", "pyproject.toml", "tools/h.sh"):
        write(tmp_path / name, "1")
    assert hook_scripts(command, (str(tmp_path),), {}) == {}


def test_a_script_that_cannot_be_read_is_never_taken_for_accepted(tmp_path: Path) -> None:
    (tmp_path / "big.sh").touch()
    with (tmp_path / "big.sh").open("r+b") as file:
        file.truncate(70_000_000)
    assert set(hook_scripts("./big.sh", (str(tmp_path),), {}).values()) == {""}
