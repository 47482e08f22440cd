"""`buddy doctor` tells what would stop the first prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program


async def test_a_missing_key_is_bad_and_said_with_what_to_do(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9", environment={"FAKE_LLM_KEY": ""})
    ran = await program.run("doctor")
    assert ran.code == 1
    (line,) = [line for line in ran.out.splitlines() if line.startswith("BAD ")]
    assert "no key for openai: set FAKE_LLM_KEY in the environment, run `buddy login openai`" in line


async def test_RU_B13_with_a_key_and_a_server_nothing_is_bad(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        ran = await program.run("doctor")
        asked = server.listings
    assert (ran.code, [line for line in ran.out.splitlines() if line.startswith("BAD ")]) == (0, [])
    assert "ok    key: from the environment variable FAKE_LLM_KEY" in ran.out
    assert f"ok    server: {server.url}/v1 answers" in ran.out
    assert asked[0].headers["authorization"].startswith("Bearer ")


async def test_RU_B13_a_dead_address_a_wrong_key_and_a_missing_model_are_bad(tmp_path: Path) -> None:
    for name in ("dead", "other"):
        (tmp_path / name).mkdir()
    program = Program(tmp_path / "dead", "http://127.0.0.1:9")
    assert "BAD   server: 127.0.0.1:9 refuses connections" in (await program.run("doctor")).out
    async with FakeLLM([], models=("other-model",)) as server:
        program = Program(tmp_path / "other", server.url)
        ran = await program.run("doctor")
        assert "BAD   server: 127.0.0.1 has no model 'fake-model'; did you mean other-model?" in ran.out
    assert ran.code == 1


async def test_no_model_is_bad(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:9")
    (program.config / "buddy.toml").write_text("")
    ran = await program.run("doctor")
    assert ran.code == 1
    assert "BAD   model: no model is chosen" in ran.out


async def test_a_start_names_an_mcp_server_that_cannot_be_used(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")]) as server:
        ran = await Program(tmp_path, server.url, settings={"mcp_servers": {"docs": {}}}).run("exec", "hi")
    assert (ran.code, ran.out) == (0, "Hello\n")
    assert ran.told() == [
        "[mcp_servers] of buddy.toml: MCP server docs: expected command (a program) or url (an address), "
        "found neither"
    ]


async def test_RU_F2_the_report_tells_of_a_damaged_session(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")]) as server:
        program = Program(tmp_path, server.url)
        assert "last session" not in (await program.run("doctor")).out
        await program.run("exec", "hi")
        (session_id,) = program.sessions()
        assert f"ok    last session: {session_id}, undamaged\n" in (await program.run("doctor")).out
        folder = program.repo / ".buddyx" / "sessions" / session_id
        snapshot = folder / "snapshot.json"
        whole = snapshot.read_bytes()
        snapshot.write_bytes(whole[: len(whole) // 2])
        told = (await program.run("doctor")).out
        assert f"note  last session: {session_id}: the snapshot was not used: " in told
        snapshot.unlink()
        lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "journal.jsonl").write_bytes(b"".join([*lines[:2], b"damaged\n", *lines[3:]]))
        told = (await program.run("doctor")).out
        assert f"note  last session: {session_id}: bytes " in told
        assert "record 3 is missing" in told


async def test_RU_B13_doctor_as_json_says_the_same(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        for arguments in (("doctor", "--json"), ("doctor", "--output-format", "json")):
            ran = await program.run(*arguments)
            rows = json.loads(ran.out)
            assert {row["level"] for row in rows} <= {"ok", "note", "bad"}
            assert {"level": "ok", "text": f"server: {server.url}/v1 answers"} in rows
        plain = await program.run("doctor")
    assert [row["text"] for row in rows] == [line[6:] for line in plain.out.splitlines()]


@pytest.mark.parametrize("output", [(), ("--json",)])
async def test_ATTACK3_a_server_s_model_names_do_not_control_the_terminal(
    tmp_path: Path, output: tuple[str, ...]
) -> None:
    names = ("m\x1b]0;title\x07\x1b[2J\x9b31m\u202e\x7f", "b" * 100_000, "c\nBAD   key: leaked")
    async with FakeLLM([], models=names) as server:
        ran = await Program(tmp_path, server.url).run("doctor", *output)
    assert ran.code == 1
    assert "127.0.0.1 has no model 'fake-model'; it has m, bbb" in ran.out
    assert all(sign.isprintable() or sign == "\n" for sign in ran.out)
    assert not any(line.startswith("BAD   key") for line in ran.out.splitlines())
    assert len(ran.out) < 10_000
