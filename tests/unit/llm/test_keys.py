"""Keys: where they are looked for, in which order, and that nothing ever repeats one."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from buddy.llm.keys import (
    CredentialsError,
    KeyMissingError,
    KeyResolver,
    Keyring,
    KeySource,
    read_credentials,
    save_credential,
)

NEVER = "sk-never-shown-1234567890"


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc/self").exists()


class KeySources:
    """A resolver's surroundings: its environment, its files, the warnings it gave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {"PATH": os.defpath}
        self.credentials = folder / "data" / "credentials.json"
        self.warnings: list[str] = []

    def resolver(
        self, keyring: Callable[[str], str] | None = None, timeout_s: float = 20, **source: str
    ) -> KeyResolver:
        return KeyResolver(
            KeySource(**{"provider": "openai", "default_env": "OPENAI_API_KEY", **source}),
            environment=self.environment,
            credentials=self.credentials,
            warn=self.warnings.append,
            keyring=keyring,
            timeout_s=timeout_s,
        )

    def file(self, content: str, mode: int = 0o600) -> Path:
        path = self.folder / "key"
        path.write_text(content)
        path.chmod(mode)
        return path


@pytest.fixture
def sources(tmp_path: Path) -> KeySources:
    return KeySources(tmp_path)


async def test_the_profile_goes_before_the_environment_and_that_before_what_was_saved(
    sources: KeySources,
) -> None:
    save_credential(sources.credentials, "openai", "sk-saved")
    assert await sources.resolver()() == "sk-saved"
    sources.environment["OPENAI_API_KEY"] = " sk-usual\n"
    assert await sources.resolver()() == "sk-usual"
    sources.environment["MY_KEY"] = "sk-named"
    assert await sources.resolver(env="MY_KEY")() == "sk-named"
    file = str(sources.file("sk-file\n"))
    assert await sources.resolver(env="MY_KEY", file=file)() == "sk-file"
    command = python("print('sk-command')")
    assert await sources.resolver(file=file, command=command)() == "sk-command"
    assert await sources.resolver(command=command, literal="sk-literal")() == "sk-literal"
    assert sources.warnings == []


async def test_the_place_a_key_came_from_is_known(sources: KeySources) -> None:
    resolver = sources.resolver(keyring=lambda provider: "sk-ring")
    await resolver()
    assert resolver.place == "the key of openai in the keyring"
    save_credential(sources.credentials, "openai", "sk-saved")
    await resolver()
    assert resolver.place == "the saved key of openai"
    sources.environment["OPENAI_API_KEY"] = "sk-usual"
    await resolver()
    assert resolver.place == "the environment variable OPENAI_API_KEY"


async def test_a_missing_key_says_what_to_set(sources: KeySources) -> None:
    with pytest.raises(KeyMissingError) as missing:
        await sources.resolver()()
    assert str(missing.value) == (
        "no key for openai: set OPENAI_API_KEY in the environment, run `buddy login openai`, "
        "or name api_key_file or api_key_command in the profile"
    )


async def test_a_server_that_needs_no_key_gets_none(sources: KeySources) -> None:
    assert await sources.resolver(provider="ollama", default_env="")() == ""


async def test_a_key_file_others_can_read_is_used_with_one_warning(sources: KeySources) -> None:
    resolver = sources.resolver(file=str(sources.file("sk-open", 0o644)))
    assert [await resolver(), await resolver()] == ["sk-open", "sk-open"]
    assert len(sources.warnings) == 1
    assert "mode 644" in sources.warnings[0]
    assert "chmod 600" in sources.warnings[0]


async def test_a_file_that_changes_is_read_again(sources: KeySources) -> None:
    resolver = sources.resolver(file=str(sources.file("sk-old")))
    assert await resolver() == "sk-old"
    sources.file("sk-new")
    assert await resolver() == "sk-new"


@pytest.mark.parametrize("content", ["", " \n", "two words", "line\nbreak", "sk-\u00e9", "sk-\x00"])
async def test_what_cannot_be_a_key_is_refused(sources: KeySources, content: str) -> None:
    with pytest.raises(KeyMissingError, match=r"the key file .*key") as refused:
        await sources.resolver(file=str(sources.file(content)))()
    assert content.strip() == "" or content not in str(refused.value)


async def test_a_missing_file_is_named(sources: KeySources) -> None:
    with pytest.raises(KeyMissingError, match=r"nowhere could not be read \(No such file or directory\)"):
        await sources.resolver(file=str(sources.folder / "nowhere"))()


async def test_a_command_is_asked_once_and_again_when_its_key_was_refused(sources: KeySources) -> None:
    count = sources.folder / "count"
    code = f"open({str(count)!r}, 'a').write('x'); print(len(open({str(count)!r}).read()))"
    resolver = sources.resolver(command=python(code))
    assert await asyncio.gather(resolver(), resolver(), resolver()) == ["1", "1", "1"]
    resolver.forget("another key")
    assert await resolver() == "1"
    resolver.forget("1")
    assert await resolver() == "2"


async def test_a_command_that_nobody_waits_for_any_more_is_asked_again(sources: KeySources) -> None:
    begun, may_end = sources.folder / "begun", sources.folder / "may_end"
    code = (
        f"import os, time; open({str(begun)!r}, 'a').write('x')\n"
        f"while not os.path.exists({str(may_end)!r}): time.sleep(0.01)\nprint('sk-1')"
    )
    resolver = sources.resolver(command=python(code))
    first = asyncio.create_task(resolver())
    deadline = time.monotonic() + 50
    while not begun.exists():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    second = asyncio.create_task(resolver())
    first.cancel()
    may_end.touch()
    assert await second == "sk-1"
    assert begun.read_text() == "xx"


async def test_a_command_sees_the_environment_it_was_given_and_no_input(sources: KeySources) -> None:
    sources.environment["SECRET_OF_THE_DAY"] = "sk-env"
    code = "import os, sys; print(os.environ['SECRET_OF_THE_DAY'] + sys.stdin.read())"
    assert await sources.resolver(command=python(code))() == "sk-env"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (python(f"print('{NEVER}'); raise SystemExit(3)"), "ended with exit code 3"),
        (python(f"print('{NEVER}'); print('more')"), "holds blanks, line ends"),
        (python(f"import sys; print('{NEVER}', file=sys.stderr)"), "is empty"),
        ("/no/such/program", "could not be started (No such file or directory)"),
        ("'unclosed", "is not a command line"),
        (" ", "is empty: expected a program"),
    ],
)
async def test_a_failing_command_is_told_without_its_output(
    sources: KeySources, command: str, told: str
) -> None:
    with pytest.raises(KeyMissingError) as failed:
        await sources.resolver(command=command)()
    assert told in str(failed.value)
    assert NEVER not in str(failed.value)


async def test_a_command_that_takes_too_long_is_ended_with_its_children(sources: KeySources) -> None:
    pid_file = sources.folder / "pid"
    code = (
        "import subprocess, time; child = subprocess.Popen(['sleep', '600']);"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid)); time.sleep(600)"
    )
    for limit_s in (1, 5, 20):  # until the command comes as far as to have a child
        with pytest.raises(KeyMissingError, match=f"took longer than {limit_s} s"):
            await sources.resolver(command=python(code), timeout_s=limit_s)()
        if pid_file.exists() and pid_file.read_text():
            break
    deadline = time.monotonic() + 50
    while is_running(int(pid_file.read_text())):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_the_keyring_is_asked_last(sources: KeySources) -> None:
    asked: list[str] = []

    def keyring(provider: str) -> str:
        asked.append(provider)
        return "sk-ring"

    assert await sources.resolver(keyring)() == "sk-ring"
    save_credential(sources.credentials, "openai", "sk-saved")
    assert await sources.resolver(keyring)() == "sk-saved"
    assert asked == ["openai"]


async def test_an_answer_of_the_keyring_that_nobody_waits_for_any_more_is_no_error(
    sources: KeySources,
) -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)  # so that now and then the request is over before its thread has begun
    try:
        for _ in range(2000):
            with pytest.raises(KeyMissingError, match="did not answer"):
                await sources.resolver(lambda _provider: "sk-late", timeout_s=-1)()
    finally:
        sys.setswitchinterval(usual)


async def test_a_keyring_that_does_not_answer_holds_up_neither_a_request_nor_the_way_out(
    sources: KeySources,
) -> None:
    asked: list[threading.Thread] = []
    answer = threading.Event()

    def keyring(_provider: str) -> str:
        asked.append(threading.current_thread())
        answer.wait(60)
        return "sk-late"

    try:
        for limit_s in (0.05, 1, 20):  # until it is asked at all: nobody asks it for a request that is over
            expected = f"the keyring did not answer within {limit_s:g} s: unlock it, or set OPENAI_API_KEY"
            with pytest.raises(KeyMissingError, match=expected):
                await sources.resolver(keyring, timeout_s=limit_s)()
            if asked:
                break
        assert [thread.daemon for thread in asked] == [True]
    finally:
        answer.set()


async def test_what_the_keyring_says_is_kept_until_it_is_refused(sources: KeySources) -> None:
    said = iter(["sk-old", "sk-new"])
    resolver = sources.resolver(lambda _provider: next(said))
    assert [await resolver(), await resolver()] == ["sk-old", "sk-old"]
    resolver.forget("sk-old")
    assert await resolver() == "sk-new"


async def test_a_missing_key_is_looked_for_again(sources: KeySources) -> None:
    said = iter(["", "sk-late"])
    resolver = sources.resolver(lambda _provider: next(said))
    with pytest.raises(KeyMissingError):
        await resolver()
    assert await resolver() == "sk-late"


async def test_a_server_that_may_need_no_key_goes_without_where_the_keyring_does_not_answer(
    sources: KeySources,
) -> None:
    asked: list[str] = []
    answer = threading.Event()

    def keyring(provider: str) -> str:
        asked.append(provider)
        answer.wait(60)
        return ""

    try:
        for timeout_s in (0.05, 1, 5):  # until it is asked at all: nobody asks it for a request that is over
            resolver = sources.resolver(keyring, timeout_s=timeout_s, default_env="")
            assert (resolver.is_optional, sources.resolver().is_optional) == (True, False)
            assert [await resolver(), await resolver()] == ["", ""]
            if asked:
                break
        assert asked == ["openai"]
    finally:
        answer.set()


def test_the_keyring_may_be_missing_locked_or_keep_nothing() -> None:
    kept: dict[tuple[str, str], str] = {}

    def missing(name: str) -> Any:
        raise ImportError(name)

    def locked(*_: str) -> str:
        raise RuntimeError

    def put(service: str, provider: str, key: str) -> None:
        kept[service, provider] = key

    def found(service: str, provider: str) -> str | None:
        return kept.get((service, provider))

    def keyring(**functions: Callable[..., object]) -> Keyring:
        return Keyring(lambda _: SimpleNamespace(**functions))

    for useless in (
        Keyring(missing),
        keyring(get_password=locked, set_password=locked),
        keyring(get_password=lambda *_: None, set_password=lambda *_: None),
    ):
        assert (useless.save("openai", "sk-1"), useless.read("openai")) == (False, "")
    there = keyring(get_password=found, set_password=put)
    assert (there.save("openai", "sk-2"), there.read("openai"), there.read("groq")) == (True, "sk-2", "")
    assert kept == {("buddy", "openai"): "sk-2"}


def test_a_key_source_does_not_show_its_key() -> None:
    assert NEVER not in repr(KeySource("openai", literal=NEVER))


def test_saved_keys_are_for_their_owner_alone(sources: KeySources) -> None:
    save_credential(sources.credentials, "openai", "sk-1")
    save_credential(sources.credentials, "groq", "gsk-2")
    save_credential(sources.credentials, "openai", "sk-3")
    assert read_credentials(sources.credentials, sources.warnings.append) == {
        "openai": "sk-3",
        "groq": "gsk-2",
    }
    assert sources.credentials.stat().st_mode & 0o777 == 0o600
    assert sources.credentials.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(sources.credentials.parent) == ["credentials.json"]
    save_credential(sources.credentials, "openai", "")
    assert read_credentials(sources.credentials, sources.warnings.append) == {"groq": "gsk-2"}
    sources.credentials.chmod(0o640)
    read_credentials(sources.credentials, sources.warnings.append)
    assert len(sources.warnings) == 1
    assert "mode 640" in sources.warnings[0]


async def test_a_damaged_credentials_file_is_never_overwritten(sources: KeySources) -> None:
    sources.credentials.parent.mkdir()
    sources.credentials.write_text('{"openai": ["no"]}')
    with pytest.raises(CredentialsError, match="is not what buddy wrote there"):
        save_credential(sources.credentials, "groq", "gsk")
    with pytest.raises(KeyMissingError, match="is not what buddy wrote there"):
        await sources.resolver()()
    assert sources.credentials.read_text() == '{"openai": ["no"]}'


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CredentialsError, match=r"could not be (read|written)"):
        save_credential(tmp_path / "file" / "credentials.json", "openai", "sk")
