"""The owner of a session. A repository can carry anything in `.buddyx/`; only a session this person made on
this machine, for this workspace, is resumed, and only what this person granted is granted."""

from __future__ import annotations

import contextlib
import hmac
import json
import os

import msgspec

from buddy.safety.seal import Seal
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.folder import make_private
from buddy.sessions.records import SEALED_VERSION, GrantChanged, SessionHeader

KEY_BYTES = 32


class Signer(msgspec.Struct, frozen=True):
    """Signs and verifies with the key of this person and machine."""

    key: bytes

    def sign_header(self, header: SessionHeader) -> SessionHeader:
        """Return the header with its MAC filled in."""
        return msgspec.structs.replace(header, mac=self._header_mac(header))

    def verify_header(self, header: SessionHeader | None) -> bool:
        """Tell whether the header was signed by this person on this machine."""
        return header is not None and hmac.compare_digest(
            header.mac.encode("utf-8", "replace"), self._header_mac(header).encode()
        )

    def session_seal(self, session_id: str, workspace: str) -> Seal:
        """Return the key that seals what a session keeps: its records, snapshot, undo log and checkpoints. It
        differs for each session and workspace, so that nothing can be carried from one to another."""
        return Seal(self.key).derive("session", session_id, workspace)

    def workspace_seal(self, workspace: str) -> Seal:
        """Return the key that seals what all sessions of a workspace share: the states of its worktrees."""
        return Seal(self.key).derive("workspace", workspace)

    def seal_grant(self, session_id: str, grant: GrantChanged) -> GrantChanged:
        """Return the grant with its seal filled in."""
        return msgspec.structs.replace(grant, seal=self._grant_mac(session_id, grant))

    def verify_grant(self, session_id: str, grant: GrantChanged) -> bool:
        """Tell whether the grant was given by this person in this session."""
        return hmac.compare_digest(
            grant.seal.encode("utf-8", "replace"), self._grant_mac(session_id, grant).encode()
        )

    def seal(self, kind: str, *fields: str | float) -> str:
        """Return a MAC that proves that these fields come from this person and machine."""
        return self._mac(["other", kind, *fields])

    def _header_mac(self, header: SessionHeader) -> str:
        if header.version < SEALED_VERSION:  # older versions covered no more than this
            return self._mac(["session", header.session_id, header.created_at])
        return self._mac(
            [
                "sealed session",
                header.version,
                header.session_id,
                header.created_at,
                header.workspace,
                header.parent,
                header.parent_number,
            ]
        )

    def _grant_mac(self, session_id: str, grant: GrantChanged) -> str:
        return self._mac(["grant", session_id, grant.grant_id, grant.grant])

    def _mac(self, fields: list[object]) -> str:
        text = json.dumps(fields, sort_keys=True, ensure_ascii=True)
        return hmac.digest(self.key, text.encode("ascii"), "sha256").hex()


def load_signer(state_dir: str, files: JournalFiles | None = None) -> Signer:
    """Return the key from `state_dir/session.key`, made at the first use. Raises `OSError` where it can be
    neither read nor written. Two processes that start together get the same key."""
    files = files or JournalFiles()
    path = os.path.join(state_dir, "session.key")
    make_private(state_dir)
    with contextlib.suppress(FileNotFoundError):
        return _read(path, files)
    temporary = os.path.join(state_dir, f".key-{os.urandom(6).hex()}")
    with files.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        files.write_all(descriptor, os.urandom(KEY_BYTES), 0)
        files.sync(descriptor)
    try:
        with contextlib.suppress(FileExistsError):
            files.link(temporary, path)
    finally:
        files.unlink(temporary)
    return _read(path, files)


def _read(path: str, files: JournalFiles) -> Signer:
    key = files.read_all(path)
    if len(key) != KEY_BYTES:
        raise OSError(f"expected {KEY_BYTES} bytes in {path}, found {len(key)}; delete it to make a new key")
    return Signer(key)
