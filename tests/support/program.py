"""The real program for a test: a temporary git repository, a temporary home whose buddy.toml points at a fake
server, `buddy …` as a child process, and what is looked at afterwards.

    async with FakeLLM([reply("Hello")]) as server:
        program = Program(tmp_path, server.url)
        ran = await program.run("exec", "hi")
        assert (ran.code, ran.out) == (0, "Hello\n")
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from buddy import __version__
from buddy.agent.messages import Message, UserMessage, text_of
from buddy.extend.scaffolds.templates import Scaffolds
from buddy.extend.scaffolds.tools import scaffold_tools
from buddy.sessions.identity import load_signer
from buddy.sessions.store import SessionStore
from buddy.tools.builtin import BUILTIN_TOOLS
from tests.fake_llm.asked import Asked
from tests.support.legal_history import is_legal

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
KEY = "sk-test-journey-0123456789"
DEADLINE_S = 100.0
YOLO = ("--permission-mode", "yolo", "--i-know")

LANES: dict[str, dict[str, str]] = {
    # a name → the profile, where {url} is the fake server's address
    "chat": {"model": "openai/fake-model", "base_url": "{url}/v1"},
    "anthropic": {"model": "anthropic/fake-model", "base_url": "{url}"},
    "litellm-chat": {"model": "openai/gpt-4o", "base_url": "{url}/v1", "lane": "litellm"},
    "litellm-responses": {"model": "openai/gpt-5.2-pro", "base_url": "{url}/v1", "lane": "litellm"},
    "litellm-anthropic": {"model": "anthropic/claude-sonnet-4-5", "base_url": "{url}", "lane": "litellm"},
    "litellm-gemini": {"model": "gemini/gemini-2.5-pro", "base_url": "{url}/v1beta", "lane": "litellm"},
}
DIRECT = ("chat", "anthropic")


@dataclass(frozen=True)
class Ran:
    """The result of a run of the program."""

    code: int
    out: str
    err: str

    def objects(self) -> list[dict[str, Any]]:
        """Stdout as one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def told(self) -> list[str]:
        """The lines of stderr that buddy itself says, without `buddy: `."""
        return [line.removeprefix("buddy: ") for line in self.err.splitlines() if line.startswith("buddy: ")]


@dataclass
class Program:
    """A repository, a home and settings. `settings` is merged over what every test has."""

    folder: Path
    url: str
    lane: str = "chat"
    tools: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[str] = ()
    """Words before the program's own: another program that starts it."""

    def __post_init__(self) -> None:
        self.folder = Path(os.path.realpath(self.folder))
        self.repo.mkdir(exist_ok=True)
        self.config.mkdir(parents=True, exist_ok=True)
        if not (self.repo / ".git").exists():
            self.git("init", "-q", "-b", "main")
        self.configure(self.settings)

    @property
    def repo(self) -> Path:
        """The environment the program is started in."""
        return self.folder / "repo"

    @property
    def home(self) -> Path:
        """The person's home."""
        return self.folder / "home"

    @property
    def config(self) -> Path:
        """The person's own configuration directory."""
        return self.home / ".config" / "buddy"

    def git(self, *words: str) -> str:
        """Run git in the repository, as a person who is always the same."""
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *who, *words], cwd=self.repo, check=True, capture_output=True, text=True
        ).stdout

    def files(self, **contents: str) -> None:
        """Write and commit files; `calc__py` is calc.py."""
        for name, text in contents.items():
            path = self.repo / name.replace("__", ".")
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "start")

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write the person's buddy.toml."""
        profile = {key: value.format(url=self.url) for key, value in LANES[self.lane].items()}
        table: dict[str, Any] = {
            "api": {**profile, "api_key_env": "FAKE_LLM_KEY", "context_limit": 100_000},
            "network": {"tries": 3, "unattended_tries": 3},
            # Most tests are about what happens without one; those of the sandbox switch it on.
            "sandbox": {"level": "off"},
            # Most tests call a tool without a search before; those of search_tools set another number.
            "tools": {"direct": 0},
        }
        if self.tools:
            every = (*BUILTIN_TOOLS, *scaffold_tools(Scaffolds(tuple)))
            table["tools"]["disabled"] = [tool.name for tool in every if tool.name not in self.tools]
        for section, values in settings.items():
            table[section] = (
                {**table.get(section, {}), **values} if isinstance(values, Mapping) else list(values)
            )
        (self.config / "buddy.toml").write_text(tomli_w.dumps(table))

    def variables(self) -> dict[str, str]:
        """The child's environment."""
        given = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "FAKE_LLM_KEY": KEY,
            **self.environment,
        }
        return {name: value for name, value in given.items() if value != "\0"}

    async def start(self, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
        """The program, running; its pipes are the caller's."""
        given: dict[str, Any] = {
            "cwd": self.repo,
            "env": self.variables(),
            "stdin": asyncio.subprocess.DEVNULL,
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.PIPE,
        }
        return await asyncio.create_subprocess_exec(
            *self.before, sys.executable, "-m", "buddy", *arguments, **{**given, **options}
        )

    async def run(self, *arguments: str, stdin: bytes | None = None, **options: Any) -> Ran:
        """The program, to its end."""
        if stdin is not None:
            options["stdin"] = asyncio.subprocess.PIPE
        process = await self.start(*arguments, **options)
        return await finished(process, stdin)

    # -- what is left ---------------------------------------------------------------------------------------

    def store(self) -> SessionStore:
        """The sessions of the repository, as the program keeps them."""
        return SessionStore(str(self.repo), load_signer(str(self.home / ".local/state/buddy")))

    async def history(self, reference: str = "last", task: int = 1) -> tuple[Message, ...]:
        """The conversation of a session as it would be continued; checked to be legal."""
        session = await self.store().open(reference)
        try:
            found = next(one for one in session.loaded.tasks if one.record.task_id == task)
            assert is_legal(found.record.history) == []
            return tuple(found.record.history)
        finally:
            await session.close()

    async def prompts(self) -> list[str]:
        """Return the user's prompts in the newest session."""
        return [text_of(one) for one in await self.history() if isinstance(one, UserMessage)]

    def sessions(self) -> list[str]:
        """The ids of all sessions in the repository."""
        folder = self.repo / ".buddyx" / "sessions"
        if not folder.is_dir():
            return []
        return sorted(one.name for one in folder.iterdir() if one.is_dir())

    def normal(self, text: str) -> str:
        """A text without what differs from run to run and from machine to machine."""
        return normal(text, {str(self.repo): "{repo}", str(self.home): "{home}", self.url: "{url}"})


async def finished(process: asyncio.subprocess.Process, stdin: bytes | None = None) -> Ran:
    """Wait for the end; a program that does not come to one is killed and fails the test."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate(stdin)
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        raise AssertionError(f"the program did not end\n{out.decode()}\n{err.decode()}") from None
    assert process.returncode is not None
    return Ran(process.returncode, (out or b"").decode("utf-8", "replace"), (err or b"").decode())


@asynccontextmanager
async def running(
    program: Program, *arguments: str, **options: Any
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program, killed if it still runs at the end."""
    process = await program.start(*arguments, **options)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


# --- requests -----------------------------------------------------------------------------------------------


def sent(program: Program, requests: Sequence[Asked]) -> list[Any]:
    """The bodies of requests with everything that differs from run to run named instead. What a request
    repeats from the first one is said once."""
    found: list[Any] = []
    for one in requests:
        body = json.loads(program.normal(json.dumps(one.json, ensure_ascii=False)))
        for name in ("tools", "system", "instructions", "systemInstruction", "system_instruction"):
            if found and name in body and body[name] == found[0]["body"].get(name):
                body[name] = "as in the first request"
        messages = body.get("messages")
        first = found[0]["body"].get("messages") if found else None
        if messages and first and messages[0] == first[0] and messages[0]["role"] in ("system", "developer"):
            messages[0] = "as in the first request"
        found.append({"path": one.path, "body": body})
    return found


def check_golden(name: str, found: Any) -> None:
    """Compare with the golden file of this name, text or JSON; UPDATE_GOLDEN=1 writes it."""
    path = GOLDEN / name
    text = found if isinstance(found, str) else json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    golden = path.read_text()
    assert text == golden, "\n".join(
        difflib.unified_diff(golden.split("\n"), text.split("\n"), name, "found", lineterm="")
    )


_SESSION = re.compile(r"\b[0-9a-f]{4}(?:-[0-9a-f]{4}){3}\b")
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_SECONDS = re.compile(r"\b\d+\.\d+ ?s\b")
_NUMBERS = re.compile(r'("duration(?:_api)?_ms": ?)\d+|("seconds": ?)[\d.e-]+|("delay_s": ?)[\d.e-]+')


def normal(text: str, places: Mapping[str, str]) -> str:
    """A text with places, ids, durations and the machine named instead."""
    for place, name in places.items():
        text = text.replace(place, name)
    text = text.replace(f"{os.uname().sysname} {os.uname().machine}", "{platform}")
    text = text.replace(sys.executable, "{python}").replace(f"(buddy {__version__})", "(buddy {version})")
    text = _SECONDS.sub("{seconds} s", text)
    text = _NUMBERS.sub(lambda found: (found[1] or found[2] or found[3]) + "0", text)
    text = _UUID.sub("{uuid}", text)
    text = _SESSION.sub("{session}", text)
    ids: dict[str, str] = {}
    return _ID.sub(lambda found: ids.setdefault(found[0], f"{{id {len(ids) + 1}}}"), text)
