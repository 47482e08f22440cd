"""`buddy import` on the real program: what it shows, writes and leaves alone, and what works afterwards."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

SETTINGS = {
    "permissions": {"allow": ["Bash(touch made.txt)"], "deny": ["Bash(date:*)"]},
    "model": "claude-opus-4-5",
}
SERVER = {"command": "no-such-server", "env": {"API_KEY": "not-a-known-shape"}}


def with_claude(program: Program) -> Program:
    folder = program.home / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    (program.home / ".claude.json").write_text(json.dumps({"mcpServers": {"s": SERVER}}))
    return program


async def test_it_shows_first_and_writes_only_when_told(tmp_path: Path) -> None:
    program = with_claude(Program(tmp_path, "http://127.0.0.1:9"))
    before = (program.config / "buddy.toml").read_text()
    for words in ((), ("--print",), ("--print", "--yes")):
        ran = await program.run("import", *words)
        assert ran.code == 0
        assert "rule: allow shell touch made.txt" in ran.out
        assert "MCP server: s (no-such-server); set API_KEY in the environment" in ran.out
        assert "nothing was written" in ran.out
        assert (program.config / "buddy.toml").read_text() == before
        assert not (program.config / "mcp.json").exists()
    ran = await program.run("import", "--yes")
    assert ran.code == 0, ran.err
    after = (program.config / "buddy.toml").read_text()
    assert after.startswith(before.rstrip())
    assert tomllib.loads(after)["models"] == {"claude": {"model": "anthropic/claude-opus-4-5"}}
    assert json.loads((program.config / "mcp.json").read_text()) == {
        "mcpServers": {"s": {"command": "no-such-server", "env": {"API_KEY": "${API_KEY}"}}}
    }
    assert "not-a-known-shape" not in after + (program.config / "mcp.json").read_text()
    ran = await program.run("import", "--yes")
    assert "nothing new to take over" in ran.out
    assert (program.config / "buddy.toml").read_text() == after


async def test_imported_rules_decide(tmp_path: Path) -> None:
    def model(asked: object) -> object:
        turns.append(asked)
        return [
            reply(call("run_shell", command="touch made.txt"), call("run_shell", command="date")),
            reply("done"),
        ][len(turns) - 1]

    turns: list[object] = []
    async with FakeLLM(model) as server:
        program = with_claude(Program(tmp_path, server.url))
        program.files(a__txt="x")
        assert (await program.run("import", "--yes")).code == 0
        (program.config / "mcp.json").unlink()
        ran = await program.run("exec", "go")
        assert "done" in ran.out
    assert (program.repo / "made.txt").exists()
    assert "deny" in ran.err or "denied" in ran.err


async def test_a_file_that_cannot_take_tables_is_left_as_it_is(tmp_path: Path) -> None:
    program = with_claude(Program(tmp_path, "http://127.0.0.1:9"))
    text = 'rule = [{tool = "shell", argv = ["id"], decision = "deny"}]\n'
    (program.config / "buddy.toml").write_text(text)
    ran = await program.run("import", "--yes")
    assert ran.code == 4
    assert "add them yourself" in ran.err
    assert "[[rule]]" in ran.err
    assert (program.config / "buddy.toml").read_text() == text
    (program.config / "buddy.toml").unlink()
    (program.config / "mcp.json").write_text("{")
    ran = await program.run("import", "--yes")
    assert ran.code == 4
    assert "mcp.json: not valid JSON" in ran.err
    assert not (program.config / "buddy.toml").exists()


async def test_both_files_stay_as_they_are_where_one_cannot_be_written(tmp_path: Path) -> None:
    program = with_claude(Program(tmp_path, "http://127.0.0.1:9"))
    before = (program.config / "buddy.toml").read_text()
    servers = program.config / "mcp.json"
    servers.mkdir()
    ran = await program.run("import", "--yes")
    assert (ran.code, "mcp.json" in ran.err, "Traceback" in ran.err) == (4, True, False)
    servers.rmdir()
    for text in ('{"mcpServers": []}', '{"mcpServers": {}}' + " " * 1_000_001):
        servers.write_text(text)
        ran = await program.run("import", "--yes")
        assert (ran.code, "mcp.json" in ran.err, servers.read_text() == text) == (4, True, True)
    assert (program.config / "buddy.toml").read_text() == before


async def test_a_date_in_a_server_costs_only_that_server(tmp_path: Path) -> None:
    program = with_claude(Program(tmp_path, "http://127.0.0.1:9"))
    (program.home / ".codex").mkdir()
    text = 'model = "gpt-5"\n[mcp_servers.d]\ncommand = "run"\ncwd = 2026-01-01\n'
    (program.home / ".codex/config.toml").write_text(text)
    (program.config / "mcp.json").write_text('{"servers": {"mine": {"command": "x"}}}')
    ran = await program.run("import", "--yes")
    assert ran.code == 0, ran.err
    assert "left out: MCP server d" in ran.out
    assert set(json.loads((program.config / "mcp.json").read_text())["servers"]) == {"mine", "s"}


async def test_a_link_to_the_settings_stays_a_link(tmp_path: Path) -> None:
    program = with_claude(Program(tmp_path, "http://127.0.0.1:9"))
    target = tmp_path / "dotfiles.toml"
    (program.config / "buddy.toml").rename(target)
    target.chmod(0o644)
    (program.config / "buddy.toml").symlink_to(target)
    assert (await program.run("import", "--yes")).code == 0
    assert (program.config / "buddy.toml").is_symlink()
    assert "[[rule]]" in target.read_text()
    assert target.stat().st_mode & 0o777 == 0o644


async def test_an_imported_session_is_continued(tmp_path: Path) -> None:
    asked_texts: list[str] = []

    def model(asked: object) -> object:
        asked_texts.append(str(getattr(asked, "body", asked)))
        return reply("and on")

    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        folder = (
            program.home
            / ".claude/projects"
            / "".join(letter if letter.isalnum() else "-" for letter in str(program.repo))
        )
        folder.mkdir(parents=True)
        head = {"isSidechain": False, "cwd": str(program.repo), "sessionId": "4f35e220-c435"}
        answer = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "it is a parser"}]}
        lines = [
            {**head, "uuid": "1", "type": "user", "message": {"role": "user", "content": "what is it?"}},
            {**head, "uuid": "2", "parentUuid": "1", "type": "assistant", "message": answer},
        ]
        (folder / "4f35e220-c435.jsonl").write_text("\n".join(map(json.dumps, lines)))
        ran = await program.run("import", "sessions")
        assert "claude-4f35e220" in ran.out
        assert program.sessions() == []
        ran = await program.run("import", "sessions", "all", "--print")
        assert (ran.code, program.sessions()) == (0, [])
        assert "nothing was imported" in ran.out
        ran = await program.run("import", "sessions", "nope")
        assert (ran.code, program.sessions()) == (2, [])
        ran = await program.run("import", "sessions", "claude-4f35e220")
        assert "buddy resume claude-4f35e220" in ran.out
        assert "(already here)" in (await program.run("import", "sessions", "all")).out
        assert len(program.sessions()) == 1
        ran = await program.run("exec", "--resume", "claude-4f35e220", "and now?")
        assert (ran.code, ran.out) == (0, "and on\n"), ran.err
        assert await program.prompts() == ["what is it?", "and now?"]
    assert "it is a parser" in asked_texts[-1]


async def test_without_other_programs_it_says_so(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9")
    ran = await program.run("import")
    assert (ran.code, ran.out) == (
        0,
        "no settings of Claude Code, Codex, Gemini CLI, opencode or aider are here\n",
    )
    assert (await program.run("import", "sessions")).out == (
        "no sessions of Claude Code or Codex are kept for this folder\n"
    )
    assert (await program.run("import", "everything")).code == 2
