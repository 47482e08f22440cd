"""The logins to MCP servers with an address: tokens, and what is needed to renew them, in one file of the
data folder that only its owner can read or write."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.paths import hold_file_lock, read_regular, replace_file

FILE_NAME = "mcp-credentials.json"
MAX_FILE_BYTES = 5_000_000


class LoginsError(Exception):
    """The file cannot be read or written: one sentence."""


class Login(msgspec.Struct, frozen=True):
    """A login: the answers of the authorization server, as it gave them. `expires_at` is in seconds since
    1970, 0 where that is not known; `wanted_scope` are rights the server wanted beyond those."""

    url: str
    tokens: dict[str, Any]
    client: dict[str, Any]
    server: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    expires_at: float = 0
    wanted_scope: str = ""

    def scopes(self) -> tuple[str, ...]:
        """Return the rights it has and those it should have."""
        granted = self.tokens.get("scope")
        words = f"{granted if isinstance(granted, str) else ''} {self.wanted_scope}".split()
        return tuple(dict.fromkeys(words))

    def __repr__(self) -> str:
        return f"Login({self.url})"


class _StoredLogins(msgspec.Struct, frozen=True):
    version: int
    logins: dict[str, Login]


class Logins:
    """The saved logins by server name and address: another address never gets the token of this one.
    Everything here blocks and raises `LoginsError`."""

    def __init__(self, data_folder: str) -> None:
        self._path = os.path.join(data_folder, FILE_NAME)

    def find(self, name: str, url: str) -> Login | None:
        """Return the login to a server, None where there is none."""
        login = self._read().get(_key(name, url))
        return login if login is not None and login.url == url else None

    def save(self, name: str, login: Login) -> None:
        """Remember a login in place of the one before."""
        with self._lock():
            self._write({**self._read(), _key(name, login.url): login})

    def update(self, name: str, url: str, change: Callable[[Login], Login]) -> Login | None:
        """Change a login as it is now and return it. Nothing is done where there is none: the person logged
        out."""
        with self._lock():
            login = self.find(name, url)
            if login is None:
                return None
            changed = change(login)
            if changed != login:
                self._write({**self._read(), _key(name, url): changed})
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
        if self.find(name, url) is None:
            return False
        with self._lock():
            logins = self._read()
            logins.pop(_key(name, url), None)
            self._write(logins)
        return True

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


def _key(name: str, url: str) -> str:
    return f"{name} {hashlib.sha256(url.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
