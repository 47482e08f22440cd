"""`buddy doctor` tells what would stop the first prompt."""

from __future__ import annotations

from pathlib import Path

from tests.headless.program import Desk


async def test_a_missing_key_is_bad_and_said_with_what_to_do(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "http://127.0.0.1:9", environment={"FAKE_LLM_KEY": ""})
    ran = await desk.run("doctor")
    assert ran.code == 1
    (line,) = [line for line in ran.out.splitlines() if line.startswith("BAD ")]
    assert "no key for openai: set FAKE_LLM_KEY in the environment, run `buddy login openai`" in line


async def test_with_a_key_nothing_is_bad(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "http://127.0.0.1:9")
    ran = await desk.run("doctor")
    assert (ran.code, [line for line in ran.out.splitlines() if line.startswith("BAD ")]) == (0, [])
    assert "ok    key: there is one, or none needed" in ran.out


async def test_no_model_is_bad(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "http://127.0.0.1:9")
    (desk.config / "buddy.toml").write_text("")
    ran = await desk.run("doctor")
    assert ran.code == 1
    assert "BAD   model: no model is set: run buddy init" in ran.out
