"""Saved logins: in the keyring where one works, in a private file otherwise; forgotten by the name alone."""

import json
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from buddy.extend.mcp.logins import FILE_NAME, Login, Logins, LoginsError, host_of
from buddy.llm.keys import Keyring

URL, OTHER = "https://a.example/mcp", "https://b.example:8443/mcp"
LOGIN = Login(URL, {"access_token": "secret-token"}, {"client_id": "me", "client_secret": "secret-client"})


class Desktop:
    """A keyring in memory, with the functions of the package."""

    def __init__(self, *, is_locked: bool = False, forgets: bool = False) -> None:
        self.items: dict[tuple[str, str], str] = {}
        self.is_locked = is_locked
        self.forgets = forgets

    def keyring(self) -> Keyring:
        return Keyring(
            lambda _name: SimpleNamespace(
                get_password=self._get, set_password=self._set, delete_password=self._delete
            )
        )

    def _get(self, service: str, name: str) -> str | None:
        self._check()
        return self.items.get((service, name))

    def _set(self, service: str, name: str, key: str) -> None:
        self._check()
        if not self.forgets:
            self.items[service, name] = key

    def _delete(self, service: str, name: str) -> None:
        self._check()
        del self.items[service, name]

    def _check(self) -> None:
        if self.is_locked:
            raise RuntimeError("locked")


def test_tokens_are_in_the_keyring_and_the_file_only_names_the_login(tmp_path: Path) -> None:
    desktop = Desktop()
    logins = Logins(str(tmp_path), desktop.keyring())
    assert logins.save("plain", LOGIN) == "the keyring"
    text = (tmp_path / FILE_NAME).read_text()
    assert "secret" not in text
    assert URL in text
    assert logins.find("plain", URL) == LOGIN
    assert logins.has("plain", URL)
    assert logins.find("plain", OTHER) is None

    renewed = replace(LOGIN, tokens={"access_token": "secret-2"})
    assert logins.update("plain", URL, lambda _login: renewed) == renewed
    assert Logins(str(tmp_path), desktop.keyring()).find("plain", URL) == renewed
    assert "secret" not in (tmp_path / FILE_NAME).read_text()

    assert logins.forget("plain") == (URL,)
    assert desktop.items == {}
    assert logins.find("plain", URL) is None


@pytest.mark.parametrize("desktop", [Desktop(is_locked=True), Desktop(forgets=True)])
def test_a_keyring_that_takes_nothing_leaves_the_private_file(tmp_path: Path, desktop: Desktop) -> None:
    logins = Logins(str(tmp_path), desktop.keyring())
    path = tmp_path / FILE_NAME
    assert logins.save("plain", LOGIN) == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert logins.find("plain", URL) == LOGIN
    assert logins.forget("plain") == (URL,)
    assert json.loads(path.read_text())["logins"] == {}


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"tokens": 5}', '{"tokens": {}}'])
def test_a_keyring_that_gives_nothing_of_use_is_told(tmp_path: Path, content: str | None) -> None:
    desktop = Desktop()
    logins = Logins(str(tmp_path), desktop.keyring())
    logins.save("plain", LOGIN)
    desktop.items = {} if content is None else dict.fromkeys(desktop.items, content)
    with pytest.raises(LoginsError, match="unlock it, or log in again"):
        logins.find("plain", URL)
    with pytest.raises(LoginsError, match="unlock it, or log in again"):
        Logins(str(tmp_path)).find("plain", URL)  # the extra was removed
    assert logins.has("plain", URL)


def test_a_keyring_that_refuses_to_remove_is_told_and_the_login_is_forgotten(tmp_path: Path) -> None:
    desktop = Desktop()
    logins = Logins(str(tmp_path), desktop.keyring())
    logins.save("plain", LOGIN)
    broken = Keyring(lambda _name: SimpleNamespace(get_password=lambda *_: "still here"))
    with pytest.raises(LoginsError, match="remove the entry buddy / mcp plain"):
        Logins(str(tmp_path), broken).forget("plain")
    assert logins.find("plain", URL) is None


def test_a_keyring_is_never_asked_for_a_list_or_by_the_thread_that_waits(tmp_path: Path) -> None:
    desktop = Desktop()
    logins = Logins(str(tmp_path), desktop.keyring())
    logins.save("plain", LOGIN)
    asked: list[bool] = []

    def read(_service: str, _name: str) -> str:
        asked.append(threading.current_thread().daemon)
        return ""

    watched = Logins(str(tmp_path), Keyring(lambda _name: SimpleNamespace(get_password=read)))
    assert watched.has("plain", URL)
    assert asked == []
    with pytest.raises(LoginsError):
        watched.find("plain", URL)
    assert asked == [True]


def test_every_login_of_a_name_is_forgotten_and_no_other(tmp_path: Path) -> None:
    logins = Logins(str(tmp_path))
    for name, url in (("a", URL), ("a", OTHER), ("a b", URL), ("b", URL)):
        logins.save(name, replace(LOGIN, url=url))
    assert set(logins.forget("a")) == {URL, OTHER}
    assert logins.forget("a") == ()
    assert logins.has("a b", URL)
    assert logins.has("b", URL)
    assert logins.forget("") == ()


def test_the_stamp_changes_with_every_change(tmp_path: Path) -> None:
    logins = Logins(str(tmp_path), Desktop().keyring())
    stamps = [logins.stamp()]
    logins.save("plain", LOGIN)
    stamps.append(logins.stamp())
    logins.update("plain", URL, lambda login: replace(login, tokens={"access_token": "secret-tokem"}))
    stamps.append(logins.stamp())
    logins.forget("plain")
    stamps.append(logins.stamp())
    assert stamps[0] is None
    assert len(set(stamps)) == 4


def test_a_host_is_shown_without_secrets() -> None:
    assert host_of("https://me:secret@b.example:8443/mcp?token=secret") == "b.example:8443"
