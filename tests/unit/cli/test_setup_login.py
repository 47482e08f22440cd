"""`buddy login`: where a key goes, who uses it afterwards, and every way not to give one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

KEYRING = """
import json, os, time
KEPT = os.environ["KEYRING_FILE"]
def _all(): return json.load(open(KEPT)) if os.path.exists(KEPT) else {}
def get_password(service, user):
    if os.environ.get("KEYRING_HANGS"): time.sleep(600)
    return _all().get(f"{service}/{user}")
def set_password(service, user, key):
    if os.environ.get("KEYRING_LOCKED"): raise OSError("locked")
    json.dump({**_all(), f"{service}/{user}": key}, open(KEPT, "w"))
"""


def program_of(folder: Path, url: str = "http://127.0.0.1:9", **environment: str) -> Program:
    """A program without a key in its environment."""
    return Program(folder, url, environment={"FAKE_LLM_KEY": "\0", **environment})


def with_keyring(folder: Path, url: str, **environment: str) -> Program:
    """A program with a keyring that is a file."""
    packages = folder / "packages"
    packages.mkdir()
    (packages / "keyring.py").write_text(KEYRING)
    path = f"{packages}:{Path(__file__).resolve().parents[3]}"
    return program_of(folder, url, PYTHONPATH=path, KEYRING_FILE=str(folder / "ring"), **environment)


def file_of(program: Program) -> Path:
    return program.home / ".local/share/buddy/credentials.json"


async def key_used(program: Program, server: FakeLLM) -> str:
    """The key of the next request."""
    ran = await program.run("exec", "hi")
    assert ran.code == 0, ran.err
    return server.requests[-1].headers["authorization"]


async def test_without_a_keyring_the_key_is_in_a_file_of_its_owner_and_is_used(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello")) as server:
        program = program_of(tmp_path, server.url)
        ran = await program.run("login", stdin=b"sk-first\n")
        path = file_of(program)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == f"saved the key of openai in {path} (readable by you alone)\n"
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert await key_used(program, server) == "Bearer sk-first"
        await program.run("login", "openai", stdin=b"sk-second\n")
        assert await key_used(program, server) == "Bearer sk-second"


async def test_with_a_keyring_the_key_is_there_and_the_file_names_only_its_provider(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello")) as server:
        program = with_keyring(tmp_path, server.url)
        ran = await program.run("login", stdin=b"sk-ring\n")
        assert (ran.code, ran.out, ran.err) == (0, "saved the key of openai in the keyring\n", "")
        assert json.loads((tmp_path / "ring").read_text()) == {"buddy/openai": "sk-ring"}
        assert json.loads(file_of(program).read_text()) == {"openai": ""}
        assert await key_used(program, server) == "Bearer sk-ring"


async def test_a_keyring_that_does_not_answer_keeps_nobody_from_commands_nor_from_leaving(
    tmp_path: Path,
) -> None:
    program = with_keyring(tmp_path, "http://127.0.0.1:9", KEYRING_HANGS="1")
    async with on_terminal(program) as terminal:
        await terminal.line("/keys")
        await terminal.shows("Ctrl+T")
        begun = time.monotonic()
        terminal.keys("\x04")
        assert await terminal.exit_code() == 0
        assert time.monotonic() - begun < 15, "30 s is what the keyring is given, 600 s what it takes"
        assert terminal.is_restored()


async def test_a_new_key_in_the_keyring_is_not_hidden_by_an_old_one_in_the_file(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("Hello")) as server:
        program = with_keyring(tmp_path, server.url)
        locked = {**program.variables(), "KEYRING_LOCKED": "1"}
        ran = await program.run("login", stdin=b"sk-old\n", env=locked)
        assert ran.out == f"saved the key of openai in {file_of(program)} (readable by you alone)\n"
        assert await key_used(program, server) == "Bearer sk-old"
        await program.run("login", stdin=b"sk-new\n")
        assert await key_used(program, server) == "Bearer sk-new"
        assert json.loads(file_of(program).read_text()) == {"openai": ""}


async def test_RU_A5_a_key_in_the_keyring_chooses_the_first_model_as_one_in_the_environment_does(
    tmp_path: Path,
) -> None:
    program = with_keyring(tmp_path, "http://127.0.0.1:9")
    assert (await program.run("login", "anthropic", stdin=b"sk-ring\n")).code == 0
    (program.config / "buddy.toml").unlink()
    found = await program.run("doctor")
    assert "model: anthropic/claude-sonnet-5-5 " in found.out, found.out


async def test_a_key_in_the_environment_that_goes_before_the_saved_one_is_told(tmp_path: Path) -> None:
    program = program_of(tmp_path, FAKE_LLM_KEY="sk-other")
    ran = await program.run("login", stdin=b"sk-saved\n")
    assert ran.err == "buddy: FAKE_LLM_KEY is set in the environment and takes precedence\n"
    assert (ran.code, "sk-" in ran.out) == (0, False)


async def test_the_key_of_another_provider_has_its_own_variable(tmp_path: Path) -> None:
    program = program_of(tmp_path, FAKE_LLM_KEY="sk-other", ANTHROPIC_API_KEY="sk-ant-other")
    ran = await program.run("login", "anthropic", stdin=b"sk-saved\n")
    assert ran.told() == ["ANTHROPIC_API_KEY is set in the environment and takes precedence"]
    assert json.loads(file_of(program).read_text()) == {"anthropic": "sk-saved"}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (b"", "what was typed is empty: expected a key"),
        (b" \n", "what was typed is empty: expected a key"),
        (
            b"two words\n",
            "what was typed holds blanks, line ends or characters that no key has: expected one key",
        ),
    ],
)
async def test_what_is_no_key_is_not_saved(tmp_path: Path, typed: bytes, told: str) -> None:
    program = program_of(tmp_path)
    ran = await program.run("login", "openai", stdin=typed)
    assert (ran.code, ran.out, ran.told()) == (4, "", [told])
    assert not file_of(program).exists()


async def test_a_provider_nobody_knows_is_named_before_a_key_is_asked_for(tmp_path: Path) -> None:
    program = program_of(tmp_path)
    ran = await program.run("login", "antropic", stdin=b"sk-saved\n")
    expected = "expected openai, anthropic or another provider's name, or that of a profile"
    said = f"unknown provider 'antropic': {expected}; did you mean anthropic?"
    assert (ran.code, ran.out, ran.told()) == (4, "", [said])
    assert not file_of(program).exists()


async def test_on_a_terminal_the_key_is_not_shown(tmp_path: Path) -> None:
    program = program_of(tmp_path)
    async with on_terminal(program, "login", ready="not shown") as terminal:
        terminal.keys("sk-hidden\r")
        assert await terminal.exit_code() == 0
        assert (b"hidden" in terminal.output, terminal.is_restored()) == (False, True)
    assert json.loads(file_of(program).read_text()) == {"openai": "sk-hidden"}


@pytest.mark.parametrize(
    ("key", "code", "told"),
    [("\x03", 130, ""), ("\x04", 4, "what was typed is empty"), ("\r", 4, "what was typed is empty")],
)
async def test_somebody_who_thinks_better_of_it_leaves_nothing(
    tmp_path: Path, key: str, code: int, told: str
) -> None:
    program = program_of(tmp_path)
    async with on_terminal(program, "login", ready="not shown") as terminal:
        terminal.keys(key)
        assert await terminal.exit_code() == code
        assert (b"Traceback" in terminal.output, terminal.is_restored()) == (False, True)
        assert told.encode() in terminal.output
    assert not file_of(program).exists()
