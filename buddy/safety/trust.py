"""The store of trusted folders, kept outside of them.

A folder is identified by its real path and, for a repository, by its .git: another clone in the same place
needs a new answer, and so does a repository inside a trusted one. The trusted texts are kept, so that a
change can be shown as a diff and asked about. An unreadable store trusts no folder and reports why.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from typing import Literal

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.paths import hold_file_lock, is_beneath, read_regular, replace_file

MAX_STORE_BYTES = 20_000_000
MAX_TEXT_CHARS = 65_536
"""Only the hash of a longer text is kept: a change is noticed, but shown without a diff."""


class Folder(msgspec.Struct, frozen=True):
    """A folder to trust: `root` is real, `identity` tells one .git from another ("" without one)."""

    root: str
    identity: str


class Thing(msgspec.Struct, frozen=True):
    """A trusted setting or file, in the version that was trusted."""

    digest: str
    text: str


class TrustChange(msgspec.Struct, frozen=True):
    """A change of a trusted setting or file; `diff` is unified, "" where it cannot be shown."""

    name: str
    kind: Literal["new", "changed"]
    diff: str


class TrustStanding(msgspec.Struct, frozen=True):
    """Trust in a folder. `asked`: the user was asked and answered. `reason` says why it is not trusted;
    `problem` why the store cannot be used."""

    trusted: bool
    asked: bool
    reason: str
    problem: str = ""


class _Record(msgspec.Struct, frozen=True):
    identity: str
    trusted: bool
    at: float
    things: dict[str, Thing] = {}


class _Stored(msgspec.Struct, frozen=True):
    version: Literal[1]
    folders: dict[str, _Record]


def folder_of(path: str) -> Folder:
    """Return the folder a trust question is about: the nearest repository around a path, else the path
    itself."""
    real = os.path.realpath(path)
    current = real
    while True:
        with contextlib.suppress(OSError):
            found = os.lstat(os.path.join(current, ".git"))
            return Folder(current, f"{found.st_dev}:{found.st_ino}")
        if current == os.path.dirname(current):
            return Folder(real, "")
        current = os.path.dirname(current)


def not_storable(root: str, home: str, temporary: str) -> str:
    """Why trust in a folder is never remembered; "" when it is. All paths are real."""
    if root == "/":
        return "the whole file system is never remembered as trusted"
    if is_beneath(home, root):
        return "a home folder, or one above it, is never remembered as trusted"
    if is_beneath(temporary, root) or root in {"/tmp", "/var/tmp", "/private/tmp"}:  # noqa: S108 - named, not used
        return "the folder for temporary files is never remembered as trusted"
    return ""


class TrustStore:
    """The remembered answers, in one file that only its owner can read or write. `home` and `temporary` are
    never remembered. Every question reads the file: other programs of the same person write it too."""

    def __init__(self, path: str, *, home: str, temporary: str) -> None:
        self._path = path
        self._home = os.path.realpath(home)
        self._temporary = os.path.realpath(temporary)

    def standing(self, folder: Folder) -> TrustStanding:
        """Return the trust in a folder."""
        stored = self._read()
        if isinstance(stored, str):
            return TrustStanding(trusted=False, asked=False, reason=stored, problem=stored)
        record = stored.folders.get(folder.root)
        if record is None:
            return TrustStanding(trusted=False, asked=False, reason="the folder is new")
        if record.identity != folder.identity:
            return TrustStanding(
                trusted=False, asked=False, reason="another repository stands in the same place now"
            )
        reason = "" if record.trusted else "the person does not trust it"
        return TrustStanding(trusted=record.trusted, asked=True, reason=reason)

    def changes(self, folder: Folder, things: Mapping[str, str]) -> tuple[TrustChange, ...]:
        """Return what is new or different since the user trusted the folder, sorted by name. Everything is
        new in a folder that is not trusted."""
        known: Mapping[str, Thing] = {}
        stored = self._read()
        if isinstance(stored, _Stored) and self.standing(folder).trusted:
            known = stored.folders[folder.root].things
        return tuple(
            change for name in sorted(things) if (change := _change(name, known.get(name), things[name]))
        )

    def is_refused(self, folder: Folder, things: Mapping[str, str]) -> bool:
        """Tell whether the user refused exactly these things; the question is not repeated then."""
        stored = self._read()
        record = stored.folders.get(folder.root) if isinstance(stored, _Stored) else None
        if record is None or record.trusted or record.identity != folder.identity:
            return False
        # An older version also remembered things it did not use.
        return {name: thing.digest for name, thing in record.things.items() if name in things} == {
            name: _thing(text).digest for name, text in things.items()
        }

    def remember(self, folder: Folder, things: Mapping[str, str], *, trusted: bool, now: float) -> str:
        """Store an answer, with what it was about. Returns "" or why it holds for this session only."""
        reason = not_storable(folder.root, self._home, self._temporary) if trusted else ""
        if reason:
            return reason
        if is_beneath(os.path.realpath(self._path), folder.root):
            return f"the trust file {self._path} lies in the folder itself, so it cannot be remembered"
        record = _Record(folder.identity, trusted, now, {name: _thing(text) for name, text in things.items()})
        try:
            with hold_file_lock(f"{self._path}.lock"):
                stored = self._read()
                if isinstance(stored, str):
                    return stored
                self._write(_Stored(1, {**stored.folders, folder.root: record}))
        except OSError as error:
            return f"the trust file {self._path} cannot be written: {error.strerror}"
        return ""

    def _read(self) -> _Stored | str:
        """Return the content, or the reason why it can't be trusted."""
        try:
            found = os.lstat(self._path)
            data = read_regular(self._path, MAX_STORE_BYTES)
        except FileNotFoundError:
            return _Stored(1, {})
        except (OSError, ToolError) as error:
            return self._unbelievable(str(error))
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022 or stat.S_ISLNK(found.st_mode):
            return self._unbelievable("somebody else could have written it")
        try:
            return msgspec.json.decode(data, type=_Stored)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._unbelievable("it is not what buddy wrote there")

    def _unbelievable(self, problem: str) -> str:
        return (
            f"the trust file {self._path} cannot be used ({problem}); no folder counts as trusted. "
            "Repair or remove it."
        )

    def _write(self, stored: _Stored) -> None:
        replace_file(self._path, msgspec.json.format(msgspec.json.encode(stored), indent=1))


def _thing(text: str) -> Thing:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    kept = text.encode("utf-8", "replace").decode() if len(text) <= MAX_TEXT_CHARS else ""
    return Thing(digest, kept)


def _change(name: str, known: Thing | None, text: str) -> TrustChange | None:
    found = _thing(text)
    if known is not None and known.digest == found.digest:
        return None
    before, after = known.text if known else "", found.text
    if not after or (known and not before):
        return TrustChange(name, "changed" if known else "new", "")
    import difflib  # here: 1 ms that only changed settings need

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "trusted", "now", lineterm="")
    return TrustChange(name, "changed" if known else "new", "\n".join(lines))
