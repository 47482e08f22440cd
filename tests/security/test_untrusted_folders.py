"""A headless run in a folder nobody trusted: what lies in it changes nothing."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program


async def test_SEC_046_the_env_file_of_the_workspace_does_not_move_buddys_own_settings(
    tmp_path: Path,
) -> None:
    async with FakeLLM([reply("Hello")]) as server:
        program = Program(tmp_path, server.url)
        lines = ["BUDDY_HOME=/nowhere", "HTTPS_PROXY=http://127.0.0.1:9", "SSL_CERT_FILE=/nowhere"]
        lines += ["OPENAI_BASE_URL=http://127.0.0.1:9", "FAKE_LLM_KEY=other", "XDG_CONFIG_HOME=/nowhere"]
        (program.repo / ".env").write_text("\n".join(lines))
        ran = await program.run("exec", "hi")
        assert (ran.code, ran.out) == (0, "Hello\n")
        assert len(server.requests) == 1


async def test_SEC_047_settings_of_an_untrusted_folder_are_not_used_and_that_is_said(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")] * 2) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "buddy.toml").write_text(
            '[permissions]\nmode = "yolo"\n[agent]\nmax_iterations = 1\n'
        )
        ran = await program.run("exec", "hi", "--output-format", "stream-json")
        assert ran.code == 0
        assert any("trust" in line for line in ran.told())
        (start,) = [one for one in ran.objects() if one.get("subtype") == "init"]
        assert start["permissionMode"] == "default"
