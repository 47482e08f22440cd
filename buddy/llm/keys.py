"""Sources of API keys: the profile itself, the environment, keys saved by `buddy login`, the keyring."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shlex
import signal
import stat
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec

from buddy.agent.provider import ProviderError
from buddy.safety.paths import make_private_folders, replace_file

FILE_NAME = "credentials.json"


class KeysError(Exception):
    """A key cannot be found, read or saved: one sentence for the person. Never holds a key."""


class CredentialsError(KeysError):
    """The file of saved keys cannot be read or written."""


class KeyMissingError(KeysError):
    """No usable key: the sentence says what was looked at and what to set."""


def read_credentials(path: str | os.PathLike[str], warn: Callable[[str], None]) -> dict[str, str]:
    """Provider → key; empty when nothing was saved. Raises `CredentialsError`."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CredentialsError(f"{path} could not be read ({error.strerror})") from error
    if mode & 0o077:
        warn(f"{path} can be read by others (mode {mode:o}): chmod 600 {path}")
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CredentialsError(
            f"{path} is not what buddy wrote there: expected provider names and keys; "
            "remove it and run `buddy login` again"
        ) from error


def save_credential(path: str | os.PathLike[str], provider: str, key: str) -> None:
    """Remember a key (or forget it: ""). The file is written beside its place and moved there, so that it is
    whole at every instant and never readable by others. Raises `CredentialsError`."""
    saved = read_credentials(path, warn=lambda _: None)
    saved.pop(provider, None)
    if key:
        saved[provider] = key
    _write(path, saved)


def note_keyring(path: str | os.PathLike[str], provider: str) -> None:
    """Remember that a provider's key is in the keyring, by an empty key: a start can tell without asking a
    keyring, which may be locked. Raises `CredentialsError`."""
    saved = read_credentials(path, warn=lambda _: None)
    if saved.get(provider) != "":
        _write(path, {**saved, provider: ""})


def _write(path: str | os.PathLike[str], saved: dict[str, str]) -> None:
    try:
        make_private_folders(os.path.dirname(path))
        replace_file(path, msgspec.json.format(msgspec.json.encode(dict(sorted(saved.items()))), indent=2))
    except OSError as error:
        raise CredentialsError(f"{path} could not be written ({error.strerror})") from error


COMMAND_TIMEOUT_S = 30.0
OPTIONAL_TIMEOUT_S = 5.0
"""As long a server that may need no key waits for the keyring, which may be locked."""
MAX_KEY_BYTES = 16_384
COMMAND_PLACE = "the output of api_key_command"


class KeySource(msgspec.Struct, frozen=True):
    """A profile's settings for its key; "" for those not given. `provider` names the saved key; `default_env`
    is the provider's usual variable, "" for providers that need no key."""

    provider: str
    default_env: str = ""
    env: str = ""
    file: str = ""
    command: str = ""
    literal: str = ""

    def __repr__(self) -> str:
        return f"KeySource({self.provider}, env={self.env or self.default_env})"


class KeyResolver:
    """Gives a profile's key, anew for each call: files and variables may change while buddy runs. What a
    command or the keyring says, who may ask the person, is kept until `forget`."""

    def __init__(
        self,
        source: KeySource,
        *,
        environment: Mapping[str, str],
        credentials: str | os.PathLike[str],
        warn: Callable[[str], None],
        keyring: Callable[[str], str] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        instead: str = "",
    ) -> None:
        """`instead` is what else a person could do where there is no key, in words."""
        self._source = source
        self._environment = environment
        self._credentials = credentials
        self._warn = warn
        self._keyring = keyring
        self._timeout_s = timeout_s
        self._instead = instead
        self._kept: str | None = None
        self._asking = asyncio.Lock()
        self._warned: set[str] = set()
        self.place = ""
        """Where the key came from that was given last, in words; "" when there was none."""

    async def __call__(self) -> str:
        """Return the key; "" when the provider needs none. Raises `KeyMissingError`."""
        source = self._source
        if source.literal:
            return self._use_key(source.literal, "api_key in buddy.toml")
        if source.command:
            return self._use_key(await self._once(self._key_from_command), COMMAND_PLACE)
        if source.file:
            return self._read(os.path.expanduser(source.file))
        for name in (source.env, source.default_env):
            value = self._environment.get(name, "").strip() if name else ""
            if value:
                return self._use_key(value, f"the environment variable {name}")
        saved = await self._saved_key()
        if not saved and not self.is_optional:
            raise KeyMissingError(_missing(source, self._instead))
        return saved

    @property
    def is_optional(self) -> bool:
        """Tell whether requests may go out without a key, because no source names one."""
        source = self._source
        return not (source.literal or source.command or source.file or source.env or source.default_env)

    def forget(self, refused: str) -> None:
        """Drop a key the provider refused, so that the next call reads it again."""
        if self._kept == refused:
            self._kept = None

    async def _once(self, ask: Callable[[], Awaitable[str]]) -> str:
        """Return an answer that is kept. The start and the first prompt may both want it: one of them
        asks."""
        async with self._asking:
            if self._kept is not None:
                return self._kept
            answer = await ask()
            if answer or self.is_optional:
                self._kept = answer
            return answer

    def _use_key(self, text: str, place: str) -> str:
        self.place = place
        return check_key(text, place)

    def _read(self, path: str) -> str:
        try:
            with open(path, "rb") as file:
                self._check_mode(path, file.fileno())
                content = file.read(MAX_KEY_BYTES)
        except OSError as error:
            raise KeyMissingError(
                f"the key file {path} could not be read ({error.strerror}); check api_key_file"
            ) from error
        return self._use_key(content.decode("utf-8", "replace"), f"the key file {path}")

    def _check_mode(self, path: str, descriptor: int) -> None:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o077 and str(path) not in self._warned:
            self._warned.add(str(path))
            self._warn(f"the key file {path} can be read by others (mode {mode:o}): chmod 600 {path}")

    async def _key_from_command(self) -> str:
        output = await run_key_command(self._source.command, self._environment, self._timeout_s)
        return check_key(output, COMMAND_PLACE)

    async def _saved_key(self) -> str:
        try:
            saved = read_credentials(self._credentials, self._warn).get(self._source.provider, "")
        except CredentialsError as error:
            raise KeyMissingError(str(error)) from error
        place = f"the saved key of {self._source.provider}"
        if not saved and self._keyring is not None:
            saved = await self._once(partial(self._from_keyring, self._keyring))
            place = f"the key of {self._source.provider} in the keyring"
        if saved:
            return self._use_key(saved, place)
        self.place = ""
        return ""

    async def _from_keyring(self, keyring: Callable[[str], str]) -> str:
        """Read the keyring, which may ask the desktop and wait for the user or for a service that never
        answers."""
        within_s = min(self._timeout_s, OPTIONAL_TIMEOUT_S) if self.is_optional else self._timeout_s
        answer: Future[str] = Future()
        # A daemon, unlike the loop's own threads: who leaves does not wait for it.
        asking = threading.Thread(
            target=_ask, args=(keyring, self._source.provider, answer), name="keyring", daemon=True
        )
        asking.start()
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.wrap_future(answer)
        except TimeoutError as error:
            if self.is_optional:
                return ""
            name = self._source.env or self._source.default_env or "api_key_env"
            raise KeyMissingError(
                f"the keyring did not answer within {self._timeout_s:g} s: unlock it, or set {name}"
            ) from error


def _ask(keyring: Callable[[str], str], provider: str, answer: Future[str]) -> None:
    """Run the key command in a thread; its late answer is dropped when nobody waits any more."""
    if answer.set_running_or_notify_cancel():  # otherwise nobody waits already
        answer.set_result(keyring(provider))


def check_key(text: str, place: str) -> str:
    """Return the key in a text. Raises `KeyMissingError` when it is empty or cannot be sent in a header."""
    key = text.strip()
    if not key:
        raise KeyMissingError(f"{place} is empty: expected a key")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise KeyMissingError(
            f"{place} holds blanks, line ends or characters that no key has: expected one key"
        )
    return key


async def run_key_command(command: str, environment: Mapping[str, str], timeout_s: float) -> str:
    """Return the output of a key command. It runs without a shell and without a terminal's input, and is
    ended with all its children when it takes too long. Raises `KeyMissingError`, without a word of its
    output."""
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise KeyMissingError(f"api_key_command is not a command line ({error})") from error
    if not arguments:
        raise KeyMissingError("api_key_command is empty: expected a program and its arguments")
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise KeyMissingError(
            f"api_key_command: {arguments[0]} could not be started ({error.strerror})"
        ) from error
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise KeyMissingError(f"api_key_command: {arguments[0]} took longer than {timeout_s:g} s") from error
    finally:
        await _end(process)
    if process.returncode:
        raise KeyMissingError(f"api_key_command: {arguments[0]} ended with exit code {process.returncode}")
    return output[:MAX_KEY_BYTES].decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _missing(source: KeySource, instead: str) -> str:
    name = source.env or source.default_env
    if instead:
        return f"no key for {source.provider}: set {name}, or run `buddy login {source.provider}`; {instead}"
    return (
        f"no key for {source.provider}: set {name} in the environment, run `buddy login {source.provider}`, "
        "or name api_key_file or api_key_command in the profile"
    )


Key = Callable[[], Awaitable[str]]
"""What a lane is given: a resolver, or anything like it."""


async def key_for_request(resolve: Key) -> str:
    """Return a key for the request at hand. Raises `ProviderError` of kind `auth` when there is none."""
    try:
        return await resolve()
    except KeyMissingError as error:
        raise ProviderError("auth", str(error)) from error


SERVICE = "buddy"


class Keyring:
    """Keys by their provider. Imported when it is first used: it loads every backend it finds. A keyring that
    is not there, is locked or fails holds nothing and takes nothing."""

    def __init__(self, importer: Callable[[str], Any] = importlib.import_module) -> None:
        self._importer = importer
        self._keyring: Any = None

    def read(self, provider: str) -> str:
        """Return the key, "" when there is none."""
        try:
            return self._load().get_password(SERVICE, provider) or ""
        except Exception:  # noqa: BLE001 - the border of an extension: backends raise what they like
            return ""

    def save(self, provider: str, key: str) -> bool:
        """Save a key and tell whether it is stored. It is read back, because some backends accept a key and
        store nothing."""
        try:
            self._load().set_password(SERVICE, provider, key)
        except Exception:  # noqa: BLE001 - the border of an extension: backends raise what they like
            return False
        return self.read(provider) == key

    def remove(self, provider: str) -> bool:
        """Remove a key and tell whether it is gone."""
        try:
            self._load().delete_password(SERVICE, provider)
        except Exception:  # noqa: BLE001 - the border of an extension: backends raise what they like
            return not self.read(provider)
        return True

    def _load(self) -> Any:
        if self._keyring is None:
            self._keyring = self._importer("keyring")
        return self._keyring
