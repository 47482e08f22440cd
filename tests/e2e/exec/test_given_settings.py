"""`--settings` of a run: hooks, variables and the sandbox in Claude's form, and who may set them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

WRITE = reply(call("write_file", path="a.txt", content="one\n"))
EDITS = ("exec", "--permission-mode", "acceptEdits")


def hook(event: str, command: str, matcher: str = "") -> dict[str, Any]:
    return {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]}


async def test_a_hook_of_the_settings_denies_a_call(tmp_path: Path) -> None:
    settings = {"hooks": hook("PreToolUse", "echo not that >&2; exit 2", "Write")}
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        await program.run(*EDITS, "--settings", json.dumps(settings), "write")
    assert not (program.repo / "a.txt").exists()
    assert "not that" in str(server.requests[1].json)


async def test_hooks_can_be_switched_off_for_a_run(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        mine = program.home / ".claude" / "settings.json"
        mine.parent.mkdir()
        mine.write_text(json.dumps({"hooks": hook("PreToolUse", "exit 2", "Write")}))
        await program.run(*EDITS, "--settings", '{"disableAllHooks": true}', "write")
    assert (program.repo / "a.txt").read_text() == "one\n"


async def test_variables_reach_commands_and_hooks(tmp_path: Path) -> None:
    settings = {
        "env": {"NODE_ENV": "test", "DATABASE_URL": "sqlite://x", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5"},
        "hooks": hook("PostToolUse", "echo $DATABASE_URL > hook.txt"),
    }
    run = reply(call("run_shell", command="echo $NODE_ENV $CLAUDE_CODE_MAX_OUTPUT_TOKENS > env.txt"))
    async with FakeLLM([run, reply("Done.")]) as server:
        program = Program(tmp_path, server.url)
        ran = await program.run("exec", *YOLO, "--settings", json.dumps(settings), "run")
    assert (program.repo / "env.txt").read_text() == "test\n"
    assert (program.repo / "hook.txt").read_text() == "sqlite://x\n"
    assert "'CLAUDE_CODE_MAX_OUTPUT_TOKENS' sets up Claude Code; it does nothing here" in ran.err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, "chooses what commands run") for name in (
            "PATH", "BASH_ENV", "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "LD_PRELOAD", "PAGER", "LESSOPEN",
            "RIPGREP_CONFIG_PATH", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT",
            "XDG_CONFIG_HOME", "HOME", "IFS", "npm_config_script_shell", "GOFLAGS", "RUSTC_WRAPPER", "TERM",
            "GIT_TERMINAL_PROMPT", "JAVA_TOOL_OPTIONS", "EDITOR", "PROMPT_COMMAND", "PS4",
        )),
        *((name, "may hold a key") for name in ("GITHUB_TOKEN", "DB_PASSWORD", "my_secret")),
        *((name, "sets up the program") for name in (
            "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "BUDDY_PERMISSION_MODE", "AI_AGENT",
        )),
        *((name, "expected a name") for name in ("A=B", "", "A B", "1A", "BASH_FUNC_ls%%")),
    ],
)  # fmt: skip
async def test_a_variable_that_chooses_programs_or_holds_a_key_is_refused(
    tmp_path: Path, name: str, reason: str
) -> None:
    async with FakeLLM([]) as server:
        ran = await Program(tmp_path, server.url).run(
            "exec", "--settings", json.dumps({"env": {name: "x"}}), "hi"
        )
    assert (ran.code, server.requests) == (2, [])
    assert reason in ran.err


@pytest.mark.parametrize("value", [1, None, ["x"], "a\0b"])
async def test_a_variable_is_a_text(tmp_path: Path, value: object) -> None:
    async with FakeLLM([]) as server:
        ran = await Program(tmp_path, server.url).run(
            "exec", "--settings", json.dumps({"env": {"A": value}}), "hi"
        )
    assert (ran.code, server.requests) == (2, [])
    assert "expected a name and a text" in ran.err


@pytest.mark.parametrize("where", ["settings.json", "../link.json", "out.json", "folder/own.json"])
async def test_a_file_of_an_untrusted_folder_is_refused(tmp_path: Path, where: str) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
        (program.folder / "link.json").symlink_to(program.repo / "settings.json")
        (program.folder / "own.json").write_text("{}")
        (program.repo / "out.json").symlink_to(program.folder / "own.json")
        (program.repo / "folder").symlink_to(program.folder)
        ran = await program.run("exec", "--settings", where, "hi")
    assert (ran.code, server.requests) == (2, [])
    assert "a folder you don't trust" in ran.err


@pytest.mark.parametrize(
    "settings",
    [
        {"env": {"A": "b"}},
        {"sandbox": {"enabled": False}},
        {"disableAllHooks": True},
        {"permissions": {"defaultMode": "acceptEdits"}},
        {"permissions": {"defaultMode": "auto"}},
    ],
)
async def test_a_file_of_a_trusted_folder_can_not_widen(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "settings.json").write_text(json.dumps(settings))
        ran = await program.run("exec", "--trust", "--settings", "settings.json", "hi")
    assert (ran.code, server.requests) == (2, [])
    assert "only in a file outside the workspace" in ran.err


async def test_what_a_file_of_the_workspace_allows_runs_in_the_sandbox_only(tmp_path: Path) -> None:
    run = reply(call("run_shell", command="touch b.txt"))
    async with FakeLLM([run, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "settings.json").write_text('{"permissions": {"allow": ["Bash(touch:*)"]}}')
        ran = await program.run("exec", "--trust", "--settings", "settings.json", "touch")
    assert (ran.code, (program.repo / "b.txt").exists()) == (3, False)


async def test_what_a_file_of_the_workspace_denies_is_denied(tmp_path: Path) -> None:
    async with FakeLLM([WRITE, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "settings.json").write_text('{"permissions": {"deny": ["Write"]}}')
        await program.run(*EDITS, "--trust", "--settings", "settings.json", "write")
    assert not (program.repo / "a.txt").exists()


async def test_a_link_of_the_workspace_to_settings_elsewhere_can_not_widen(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        (program.folder / "own.json").write_text('{"sandbox": {"enabled": false}}')
        (program.repo / "settings.json").symlink_to(program.folder / "own.json")
        ran = await program.run("exec", "--trust", "--settings", "settings.json", "hi")
    assert (ran.code, server.requests) == (2, [])
    assert "only in a file outside the workspace" in ran.err


async def test_the_sandbox_can_be_switched_off_by_the_person_and_then_commands_ask(tmp_path: Path) -> None:
    run = reply(call("run_shell", command="touch b.txt"))
    async with FakeLLM([run, reply("No.")]) as server:
        program = Program(tmp_path, server.url)
        (program.folder / "own.json").write_text('{"sandbox": {"enabled": false}}')
        ran = await program.run("exec", "--permission-mode", "auto", "--settings", "../own.json", "touch")
    assert not (program.repo / "b.txt").exists()
    assert ran.code == 3
