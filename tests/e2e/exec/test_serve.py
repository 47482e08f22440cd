"""`buddy serve` as a program: its address, its endings, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.headless.serve.server import listen_on_port
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.page_address import PrintedPage
from tests.support.program import Program


class Served(PrintedPage):
    """A running `buddy serve`."""

    def __init__(self, process: asyncio.subprocess.Process, line: str, socket: str) -> None:
        super().__init__(line.rpartition(" ")[2], socket=socket)
        self.process = process
        self.line = line

    async def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code and stderr."""
        self.process.send_signal(number)
        _out, err = await self.process.communicate()
        return self.process.returncode or 0, err.decode()


@asynccontextmanager
async def served(program: Program, *words: str) -> AsyncIterator[Served]:
    process = await program.start("serve", *words)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        assert line, (await process.communicate())[1].decode()
        yield Served(process, line, words[1] if words[:1] == ("--socket",) else "")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_session_is_served_and_resumed(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello from buddy"), reply("Again")]) as server:
        program = Program(tmp_path, server.url)
        async with served(program) as page:
            assert page.line.startswith(f"http://127.0.0.1:{page.address.port}/#")
            assert len(page.token) >= 43
            assert (await page.ask("POST", "/prompt", {"text": "hi"}))["task_id"] == 1
            session = await page.session_with(2)
            assert session["tasks"][0]["messages"][1]["parts"][0]["text"] == "Hello from buddy"
            code, err = await page.end(signal.SIGINT)
            assert code == 0
            assert f"resume with: buddy resume {session['session_id']}" in err
            assert page.token not in err
        async with served(program, session["session_id"]) as again:
            assert again.token != page.token
            resumed = await again.ask("GET", "/session")
            assert len(resumed["tasks"][0]["messages"]) == 2
            assert (await again.end(signal.SIGTERM))[0] == 143


async def test_an_unused_session_is_not_kept(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        async with served(program) as page:
            assert (await page.end(signal.SIGINT))[0] == 0
        assert list(program.store().list()) == []


async def test_a_unix_socket_serves_and_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "page"
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        async with served(program, "--socket", str(path)) as page:
            assert page.line.startswith(f"the unix socket {path}, ")
            assert (await page.ask("GET", "/session"))["mode"] == "ask"
            await page.end(signal.SIGINT)
        assert not os.path.lexists(path)


async def test_an_open_session_is_not_opened_twice(tmp_path: Path) -> None:
    async with FakeLLM([reply("Hello")]) as server:
        program = Program(tmp_path, server.url)
        async with served(program) as page:
            session = await page.ask("GET", "/session")
            refused = await program.run("serve", session["session_id"])
            assert (refused.code, refused.out) == (2, "")
            assert refused.told() == [
                f"Open in another buddy (pid {page.process.pid}). "
                "Type /serve there to show it in the browser; `--fork` continues in a copy."
            ]


async def test_what_cannot_be_served_is_said(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        with listen_on_port(0) as listener:
            port = listener.getsockname()[1]
            for words, code, sentence in (
                (("--port", str(port)), 2, f"port {port} is in use: choose another one, or leave it out"),
                (("--port", "0"), 2, "--port needs a number from 1 to 65535, found '0'"),
                (("--port", "70000"), 2, "--port needs a number from 1 to 65535, found '70000'"),
                (("--socket", str(tmp_path / "no" / "page")), 2, "expected a path for a new socket"),
                (("--socket", "x", "--port", "1"), 2, "--port and --socket exclude each other"),
                (("nothing-there",), 2, "nothing-there"),
                (("a", "b"), 2, "buddy serve takes one session, found 'a b'"),
            ):
                refused = await program.run("serve", *words)
                assert (refused.code, refused.out) == (code, ""), words
                assert sentence in refused.err
        assert list(program.store().list()) == []
        keyless = Program(tmp_path, server.url, environment={"FAKE_LLM_KEY": "\0"})
        assert (await keyless.run("serve")).code == 4
        assert list(program.store().list()) == []
        elsewhere = await program.run("exec", "--port", "8000", "hi")
        assert (elsewhere.code, elsewhere.told()) == (2, ["--port goes with buddy serve"])
