"""The remembered answers about MCP servers: which definitions of a project may run, and which descriptions of
tools were accepted. Kept outside of every project, by the folder's identity, as trust is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import Literal

import msgspec

from buddy.agent.tool import ToolError
from buddy.extend.mcp.definitions import OF_OTHERS, ServerDefinition
from buddy.safety.paths import hold_file_lock, read_regular, replace_file
from buddy.safety.trust import folder_of

FILE_NAME = "mcp.json"
MAX_STORE_BYTES = 20_000_000
Standing = Literal["waiting", "untrusted", "disabled"]
"""The state a server begins in: it may be connected, it waits for an approval, its definition disables it."""


class Approval(msgspec.Struct, frozen=True):
    """An answer: the definition it was given for, whether the server may start, and what was accepted since:
    the digests of tools by name, and of the server's instructions, None where none were ever heard."""

    definition: str
    trusted: bool
    tools: dict[str, str] = {}
    at: float = 0
    instructions: str | None = None


def standing(
    definition: ServerDefinition,
    digest: str,
    approval: Approval | None,
    accepted: Collection[str],
    *,
    trust_all: bool,
) -> Standing:
    """Return the state a server begins in. `digest` is the definition's as it is now; `accepted` are those of
    servers as they were when the person added their plug-in; `trust_all`: the project's are trusted for this
    run."""
    if definition.disabled:
        return "disabled"
    if definition.scope not in OF_OTHERS or (definition.scope == "project" and trust_all):
        return "waiting"
    if approval is not None and approval.definition == digest:  # an answer since then counts more
        return "waiting" if approval.trusted else "untrusted"
    return "waiting" if digest in accepted else "untrusted"


class _StoredAnswers(msgspec.Struct, frozen=True):
    version: int
    servers: dict[str, Approval]


class ServerApprovals:
    """The answers in one file that only its owner can read or write; other programs of the same person write
    it
    too. Everything here blocks."""

    def __init__(self, state_folder: str, root: str, now: Callable[[], float] = time.time) -> None:
        self._path = os.path.join(state_folder, FILE_NAME)
        folder = folder_of(root)
        self._project = f"{folder.root}\0{folder.identity}"
        self._now = now

    def find(self, definition: ServerDefinition) -> Approval | None:
        """Return the answer about a server, None where there is none."""
        return self._read().get(self._key(definition))

    def save(
        self,
        definition: ServerDefinition,
        digest: str,
        *,
        trusted: bool,
        tools: Mapping[str, str],
        instructions: str | None = None,
    ) -> str:
        """Remember an answer. Returns "" or the reason why it holds for this run only."""
        try:
            with hold_file_lock(f"{self._path}.lock"):
                servers = self._read()
                servers[self._key(definition)] = Approval(
                    digest, trusted, dict(tools), self._now(), instructions
                )
                data = msgspec.json.encode(_StoredAnswers(1, servers))
                replace_file(self._path, msgspec.json.format(data, indent=1))
        except OSError as error:
            return f"{self._path} cannot be written: {error.strerror}"
        return ""

    def _key(self, definition: ServerDefinition) -> str:
        place = self._project if definition.scope == "project" else ""
        return f"{definition.scope}\0{place}\0{definition.name}"

    def _read(self) -> dict[str, Approval]:
        """Return the answers; none where the file is not what buddy wrote there: everything is asked
        again."""
        try:
            data = read_regular(self._path, MAX_STORE_BYTES)
            found = os.stat(self._path)
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                return {}
            return msgspec.json.decode(data, type=_StoredAnswers).servers
        except (OSError, ToolError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
