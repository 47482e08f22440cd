"""Sessions of Claude Code and Codex: found by folder, read as messages of buddy.

Claude Code keeps one JSONL file a session below `projects/FOLDER`, Codex one below `sessions/YEAR/MONTH/DAY`.
Reasoning is left out: it is signed or encrypted for its provider.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, cast

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Message, Text, UserMessage
from buddy.agent.tool import ToolError
from buddy.extend.imports import claude_session, codex_rollout
from buddy.extend.imports.claude_session import talk_of
from buddy.extend.imports.codex_rollout import is_bare, is_of_subagent, is_rollout, request_of, wrap_bare
from buddy.extend.imports.findings import Table, home_folder, section
from buddy.extend.imports.imported_history import ImportedHistory
from buddy.safety.paths import is_beneath, open_regular
from buddy.safety.sanitise import one_line, visible
from buddy.safety.secrets.redact import redact, redact_message

Program = Literal["claude", "codex"]
MAX_LINE_BYTES = 20_000_000
MAX_FILE_BYTES = 500_000_000
TITLE_CHARS = 80
NAME_CHARS = 8
_UUID_AT_END = pattern(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")
_NO_NAME = pattern(r"[^A-Za-z0-9-]")
_NOT_LETTERS = pattern(r"[^A-Za-z0-9]")


class TranscriptError(Exception):
    """A session of another program that cannot be read."""


class Transcript(msgspec.Struct, frozen=True):
    """A session of another program. `id` is from the name of its file; times are in seconds since 1970."""

    program: Program
    id: str
    path: str
    title: str
    created_at: float
    messages: tuple[Message, ...]

    def name(self, length: int = NAME_CHARS) -> str:
        """Return the name the session has in buddy: importing it again is noticed by it."""
        part = self.id[:length] if self.program == "claude" else self.id[-length:]
        return f"{self.program}-{part.strip('-')}"


def name_transcripts(transcripts: Iterable[Transcript]) -> dict[str, Transcript]:
    """Return sessions by name, the oldest first; a name that an older one has is lengthened."""
    names: dict[str, Transcript] = {}
    for transcript in sorted(transcripts, key=lambda one: (one.created_at, one.path)):
        lengths = range(NAME_CHARS, max(NAME_CHARS, len(transcript.id)) + 1)
        longest = transcript.name(len(transcript.id))
        candidates = itertools.chain(
            map(transcript.name, lengths), (f"{longest}-{count}" for count in itertools.count(2))
        )
        names[next(name for name in candidates if name not in names)] = transcript
    return names


def find_transcripts(environment: Mapping[str, str], root: str) -> Iterator[str]:
    """Yield the files of both programs that may belong to a folder. Blocks."""
    claude = home_folder(environment, "CLAUDE_CONFIG_DIR", ".claude")
    folder = os.path.join(claude, "projects", _NOT_LETTERS().sub("-", root))
    with contextlib.suppress(OSError):
        yield from sorted(
            os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jsonl")
        )
    sessions = os.path.join(home_folder(environment, "CODEX_HOME", ".codex"), "sessions")
    for above, _folders, names in os.walk(sessions):
        yield from sorted(
            os.path.join(above, name)
            for name in names
            if name.startswith("rollout-") and name.endswith(".jsonl")
        )


def read_transcript(path: str, root: str) -> Transcript | None:
    """Return the session of a file, None where it belongs to another folder or says nothing. Raises
    `TranscriptError`."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                raise TranscriptError(f"{visible(path)}: more than {MAX_FILE_BYTES:,} bytes")
            first = _parse(file.readline(MAX_LINE_BYTES))
            if is_rollout(first):
                return _read_codex(path, first, map(_parse, file), root)
            return _read_claude(path, [first, *map(_parse, file)], root)
    except (OSError, ToolError) as error:
        raise TranscriptError(
            f"{visible(path)}: can't be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _parse(line: bytes) -> Table:
    """Return the object of a line, {} for anything else: a torn last line loses nothing before it."""
    with contextlib.suppress(ValueError, RecursionError):
        value: object = json.loads(line) if len(line) < MAX_LINE_BYTES else {}
        if isinstance(value, dict):
            return cast(Table, value)
    return {}


def _read_claude(path: str, lines: list[Table], root: str) -> Transcript | None:
    talk = talk_of(lines)
    if not talk or not any(is_beneath(str(node.get("cwd", "")), root) for node in talk):
        return None
    conversation, titles = claude_session.read_lines(lines)
    return _transcript("claude", path, titles, talk[0], conversation)


def _read_codex(path: str, first: Table, lines: Iterator[Table], root: str) -> Transcript | None:
    meta = first if is_bare(first) else section(first, "payload")
    if is_of_subagent(meta):
        return None
    folder, records = wrap_bare(lines) if is_bare(first) else (str(meta.get("cwd", "")), lines)
    if not is_beneath(folder, root):
        return None
    conversation, titles = codex_rollout.read_lines(records, str(meta.get("model_provider", "")))
    return _transcript("codex", path, titles, meta, conversation)


def _transcript(
    program: Program, path: str, titles: list[str], first: Table, conversation: ImportedHistory
) -> Transcript | None:
    messages = tuple(map(redact_message, conversation.messages))
    prompts = [
        part.text
        for message in messages
        if isinstance(message, UserMessage)
        for part in message.parts
        if isinstance(part, Text)
    ]
    session_id = _id_of(path)
    if not prompts or not session_id:
        return None
    title = one_line(redact(titles[-1]) if titles else request_of(prompts[0]), TITLE_CHARS)
    return Transcript(program, session_id, path, title, _seconds(first.get("timestamp"), path), messages)


def _id_of(path: str) -> str:
    """Return the id in the name of a file. The one inside may be that of the session it continues."""
    stem = os.path.basename(path).removesuffix(".jsonl")
    found = _UUID_AT_END().search(stem)
    return found[0] if found else _NO_NAME().sub("", stem.removeprefix("rollout-")).strip("-")


def _seconds(stamp: object, path: str) -> float:
    """Return an ISO time in seconds, the file's own time where there is none."""
    with contextlib.suppress(ValueError):
        return datetime.datetime.fromisoformat(str(stamp)).timestamp()
    return os.stat(path).st_mtime
