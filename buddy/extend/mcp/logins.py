"""The logins to MCP servers with an address: tokens, and what is needed to renew them.

They are stored where keys are: tokens in the keyring where one works, else in one file of the data folder
that only its owner can read or write. The file names every login either way.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from buddy.agent.tool import ToolError
from buddy.llm.keys import Keyring
from buddy.safety.paths import hold_file_lock, read_regular, replace_file
from buddy.safety.sanitise import visible

FILE_NAME = "mcp-credentials.json"
MAX_FILE_BYTES = 5_000_000
KEYRING_S = 20.0
"""A keyring that is locked may ask the desktop, and wait for the person."""
Stamp = tuple[int, int, int]
T = TypeVar("T")


class LoginsError(Exception):
    """The file or the keyring cannot be read or written: one sentence."""


class Login(msgspec.Struct, frozen=True):
    """A login: the answers of the authorization server, as it gave them. `expires_at` is in seconds since
    1970, 0 where that is not known; `wanted_scope` are rights the server wanted beyond those; `in_keyring`:
    in the file, tokens and client are empty, they are in the keyring."""

    url: str
    tokens: dict[str, Any]
    client: dict[str, Any]
    server: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    expires_at: float = 0
    wanted_scope: str = ""
    in_keyring: bool = False

    def scopes(self) -> tuple[str, ...]:
        """Return the rights it has and those it should have."""
        granted = self.tokens.get("scope")
        words = f"{granted if isinstance(granted, str) else ''} {self.wanted_scope}".split()
        return tuple(dict.fromkeys(words))

    def __repr__(self) -> str:
        return f"Login({self.url})"


class _Secrets(msgspec.Struct, frozen=True):
    """The part of a login that is stored in the keyring."""

    tokens: dict[str, Any]
    client: dict[str, Any]


class _StoredLogins(msgspec.Struct, frozen=True):
    version: int
    logins: dict[str, Login]


class Logins:
    """The saved logins by server name and address: another address never gets the token of this one.
    `keyring` is None where none is installed. Everything here blocks and raises `LoginsError`."""

    def __init__(self, data_folder: str, keyring: Keyring | None = None) -> None:
        self._path = os.path.join(data_folder, FILE_NAME)
        self._keyring = keyring

    def stamp(self) -> Stamp | None:
        """Return what changes whenever a login is saved, renewed or forgotten. Raises and waits for
        nothing."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def has(self, name: str, url: str) -> bool:
        """Tell whether a login to a server is saved. The keyring is not asked."""
        login = self._read().get(_key(name, url))
        return login is not None and login.url == url

    def find(self, name: str, url: str) -> Login | None:
        """Return the login to a server, None where there is none."""
        login = self._read().get(_key(name, url))
        if login is None or login.url != url:
            return None
        return self._with_secrets(_key(name, url), login) if login.in_keyring else login

    def save(self, name: str, login: Login) -> str:
        """Remember a login in place of the one before. Returns the place of its tokens, for a person."""
        with self._lock():
            return self._put(_key(name, login.url), login)

    def update(self, name: str, url: str, change: Callable[[Login], Login]) -> Login | None:
        """Change a login as it is now and return it. Nothing is done where there is none: the person logged
        out."""
        with self._lock():
            login = self.find(name, url)
            if login is None:
                return None
            changed = change(login)
            if changed != login:
                self._put(_key(name, url), changed)
            return changed

    @contextlib.contextmanager
    def renewal(self, name: str, url: str) -> Generator[bool]:
        """Hold the right to renew a login. The value is False while another holder has it."""
        place = hashlib.sha256(_key(name, url).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        with contextlib.ExitStack() as stack:
            is_held = True
            try:
                stack.enter_context(hold_file_lock(f"{self._path}.{place}.lock", wait=False))
            except BlockingIOError:
                is_held = False
            except OSError as error:
                raise LoginsError(f"{self._path} could not be locked ({error.strerror})") from error
            yield is_held

    def remove(self, name: str, url: str) -> bool:
        """Forget a login, and tell whether there was one."""
        return bool(self._forget(name, lambda login: login.url == url))

    def forget(self, name: str) -> tuple[str, ...]:
        """Forget every login saved for a server's name, and return their addresses."""
        return self._forget(name, lambda _login: True)

    def _forget(self, name: str, is_meant: Callable[[Login], bool]) -> tuple[str, ...]:
        if not self._of_name(name, is_meant):
            return ()
        with self._lock():
            logins = self._read()
            gone = self._of_name(name, is_meant)
            for key in gone:
                del logins[key]
            self._write(logins)
        for key, login in gone.items():
            # Asked for every login: one that is in the file now may have been in the keyring before.
            is_gone = self._keyring is None or self._ask_keyring(self._keyring.remove, f"mcp {key}")
            if login.in_keyring and not is_gone:
                raise LoginsError(
                    f"the login is forgotten, but the keyring did not remove its tokens: remove the entry "
                    f"buddy / mcp {key} there yourself"
                )
        return tuple(login.url for login in gone.values())

    def _of_name(self, name: str, is_meant: Callable[[Login], bool]) -> dict[str, Login]:
        return {
            key: login
            for key, login in self._read().items()
            if key == _key(name, login.url) and is_meant(login)
        }

    def _put(self, key: str, login: Login) -> str:
        """Store a login: in the keyring what is secret, if it takes it."""
        before = self._read()
        secrets = msgspec.json.encode(_Secrets(login.tokens, login.client)).decode()
        entry, place = msgspec.structs.replace(login, in_keyring=False), self._path
        keyring = self._keyring
        if keyring is not None and self._ask_keyring(keyring.save, f"mcp {key}", secrets):
            entry, place = (
                msgspec.structs.replace(login, tokens={}, client={}, in_keyring=True),
                "the keyring",
            )
        self._write({**before, key: entry})
        return place

    def _with_secrets(self, key: str, login: Login) -> Login:
        text = self._ask_keyring(self._keyring.read, f"mcp {key}") if self._keyring is not None else ""
        try:
            secrets = msgspec.json.decode(text or "", type=_Secrets)
        except msgspec.DecodeError as error:
            raise LoginsError(
                "the keyring does not give the login saved there: unlock it, or log in again"
            ) from error
        return msgspec.structs.replace(login, tokens=secrets.tokens, client=secrets.client, in_keyring=False)

    def _ask_keyring(self, ask: Callable[..., T], *words: str) -> T:
        answer: Future[T] = Future()
        # A daemon: nobody who leaves waits for a desktop that asks for a password.
        threading.Thread(target=lambda: answer.set_result(ask(*words)), name="keyring", daemon=True).start()
        try:
            return answer.result(KEYRING_S)
        except TimeoutError as error:
            raise LoginsError(f"the keyring did not answer within {KEYRING_S:g} s: unlock it") from error

    def _read(self) -> dict[str, Login]:
        try:
            data = read_regular(self._path, MAX_FILE_BYTES)
            mode = stat.S_IMODE(os.stat(self._path).st_mode)
        except FileNotFoundError:
            return {}
        except (OSError, ToolError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise LoginsError(f"{self._path} could not be read ({why})") from error
        if mode & 0o077:
            raise LoginsError(f"{self._path} can be read by others (mode {mode:o}): chmod 600 {self._path}")
        try:
            return msgspec.json.decode(data, type=_StoredLogins).logins
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LoginsError(
                f"{self._path} is not what buddy wrote there; remove it and run `buddy mcp login` again"
            ) from error

    def _write(self, logins: dict[str, Login]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_StoredLogins(1, logins)), indent=1)
        try:
            replace_file(self._path, data)
        except OSError as error:
            raise LoginsError(f"{self._path} could not be written ({error.strerror})") from error

    @contextlib.contextmanager
    def _lock(self) -> Generator[None]:
        """Wait for other programs of the same person that change the file."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(hold_file_lock(f"{self._path}.lock"))
            except OSError as error:
                raise LoginsError(f"{self._path} could not be locked ({error.strerror})") from error
            yield


def host_of(url: str) -> str:
    """Return the host of a login's address with its port, as a person is shown it: nothing else of it."""
    return visible(urlsplit(url).netloc.rpartition("@")[2])


def _key(name: str, url: str) -> str:
    return f"{name} {hashlib.sha256(url.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
