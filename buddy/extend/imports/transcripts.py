"""Sessions of Claude Code and Codex: found by folder, read as messages of buddy.

Claude Code keeps one JSONL file a session below `projects/FOLDER`, whose lines form a tree; the branch that
ends last is the conversation. Codex keeps one JSONL file a session below `sessions/YEAR/MONTH/DAY`. Reasoning
is left out: it is signed or encrypted for its provider.
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
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    AssistantPart,
    Call,
    Image,
    Message,
    Text,
    ToolMessage,
    UserMessage,
    UserPart,
)
from buddy.agent.tool import ToolError
from buddy.extend.imports.findings import Table, home_folder, section
from buddy.extend.tool_names import buddy_call
from buddy.safety.paths import is_beneath, open_regular
from buddy.safety.sanitise import new_id, one_line, visible
from buddy.safety.secrets.redact import redact_message

Program = Literal["claude", "codex"]
MAX_LINE_BYTES = 20_000_000
MAX_FILE_BYTES = 500_000_000
TITLE_CHARS = 80
NAME_CHARS = 8
_UUID_AT_END = pattern(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$")
_NO_NAME = pattern(r"[^A-Za-z0-9-]")
_NOT_LETTERS = pattern(r"[^A-Za-z0-9]")
_CODEX_CONTEXT = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions")
_CLAUDE_CONTEXT = ("<local-command", "<command-name>", "<command-message>", "Caveat: The messages below")


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
            if first.get("type") == "session_meta":
                meta = section(first, "payload")
                is_here = is_beneath(str(meta.get("cwd", "")), root)
                return _read_codex(path, meta, map(_parse, file)) if is_here else None
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
    """Return the conversation: the branch of the tree that ends last."""
    nodes = {str(line["uuid"]): line for line in lines if line.get("uuid") and not line.get("isSidechain")}
    talk = [node for node in nodes.values() if node.get("type") in ("user", "assistant")]
    if not talk or not any(is_beneath(str(node.get("cwd", "")), root) for node in talk):
        return None
    branch: list[Table] = []
    node: Table | None = talk[-1]
    while node is not None and len(branch) <= len(nodes):
        branch.append(node)
        node = nodes.get(str(node.get("parentUuid")))
    history = _History()
    for line in reversed(branch):
        if line.get("type") in ("user", "assistant") and not line.get("isMeta"):
            _add_claude(history, section(line, "message"))
    titles = [str(line["summary"]) for line in lines if line.get("type") == "summary" and line.get("summary")]
    return _transcript("claude", path, titles, talk[0], history)


def _add_claude(history: _History, message: Table) -> None:
    content = message.get("content")
    plain: list[object] = [{"type": "text", "text": content}]
    blocks = cast("list[object]", content) if isinstance(content, list) else plain
    if message.get("role") == "assistant":
        history.answer(str(message.get("model", "")), _claude_parts(blocks))
        return
    parts: list[UserPart] = []
    for block in map(_table, blocks):
        match block.get("type"):
            case "tool_result":
                inner = block.get("content")
                text, images = _result(inner)
                history.result(
                    str(block.get("tool_use_id", "")), text, images, failed=bool(block.get("is_error"))
                )
            case "text" if not str(block.get("text", "")).startswith(_CLAUDE_CONTEXT):
                parts.append(Text(str(block.get("text") or "")))
            case "image":
                parts += _image(section(block, "source"))
            case _:
                pass
    history.ask(parts)


def _claude_parts(blocks: list[object]) -> list[AssistantPart]:
    parts: list[AssistantPart] = []
    for block in map(_table, blocks):
        match block.get("type"):
            case "text" if block.get("text"):
                parts.append(Text(str(block["text"])))
            case "tool_use":
                tool, arguments = buddy_call(str(block.get("name", "")), section(block, "input"))
                parts.append(Call(str(block.get("id", "")), tool, json.dumps(arguments)))
            case _:
                pass
    return parts


def _result(content: object) -> tuple[str, tuple[Image, ...]]:
    """Return the text and the pictures of a tool's result."""
    if not isinstance(content, list):
        return str(content or ""), ()
    blocks = [_table(block) for block in cast("list[object]", content)]
    text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    images = [
        image
        for block in blocks
        if block.get("type") == "image"
        for image in _image(section(block, "source"))
    ]
    return text, tuple(images)


def _image(source: Table) -> list[Image]:
    media_type, data = str(source.get("media_type", "")), source.get("data")
    return [Image(media_type, data)] if media_type.startswith("image/") and isinstance(data, str) else []


def _table(value: object) -> Table:
    return cast(Table, value) if isinstance(value, dict) else {}


def _read_codex(path: str, meta: Table, lines: Iterator[Table]) -> Transcript | None:
    history = _History()
    model = str(meta.get("model_provider", ""))
    for line in lines:
        payload = section(line, "payload")
        match line.get("type"), payload.get("type"):
            case "turn_context", _:
                model = str(payload.get("model") or model)
            case "compacted", _:
                history = _History()
                history.ask([Text(str(payload.get("message", "")))])
            case "response_item", "message":
                _add_codex_message(history, payload, model)
            case "response_item", "function_call" | "custom_tool_call" | "local_shell_call":
                history.answer(model, [_codex_call(payload)])
            case "response_item", "function_call_output" | "custom_tool_call_output":
                output = payload.get("output")
                text = output if isinstance(output, str) else json.dumps(output)
                history.result(str(payload.get("call_id", "")), text, (), failed=False)
            case _:
                pass
    return _transcript("codex", path, [], meta, history)


def _add_codex_message(history: _History, payload: Table, model: str) -> None:
    content = payload.get("content")
    blocks = [_table(block) for block in cast("list[object]", content)] if isinstance(content, list) else []
    texts = [
        str(block.get("text", "")) for block in blocks if block.get("type") in ("input_text", "output_text")
    ]
    if payload.get("role") == "assistant":
        history.answer(model, [Text(text) for text in texts if text])
    elif payload.get("role") == "user":
        parts: list[UserPart] = [Text(text) for text in texts if text and not text.startswith(_CODEX_CONTEXT)]
        for block in blocks:
            kind, _, data = str(block.get("image_url", "")).partition(";base64,")
            parts += _image({"media_type": kind.removeprefix("data:"), "data": data or None})
        history.ask(parts)


def _codex_call(payload: Table) -> Call:
    """Return a call; Codex's shell takes a list of words, often of a shell and its script."""
    name, call_id = str(payload.get("name") or "shell"), str(payload.get("call_id", ""))
    if payload.get("type") == "custom_tool_call":
        return Call(call_id, name, json.dumps({"patch": payload.get("input", "")}))
    text = payload.get("arguments")
    arguments = _parse(text.encode()) if isinstance(text, str) else section(payload, "action")
    command = arguments.get("command") or arguments.get("cmd")
    if name not in ("shell", "shell_command", "exec_command", "container.exec") or not command:
        return Call(call_id, name, json.dumps(arguments))
    words = (
        [str(word) for word in cast("list[object]", command)] if isinstance(command, list) else [str(command)]
    )
    script = words[-1] if len(words) == 1 or words[:-1][-1] in ("-c", "-lc") else " ".join(words)
    return Call(call_id, "run_shell", json.dumps({"command": script}))


class _History:
    """Messages in the order buddy wants them: replies of one model in a row are one message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._names: dict[str, str] = {}

    def ask(self, parts: list[UserPart]) -> None:
        """Add a prompt, unless it is empty."""
        if any(not isinstance(part, Text) or part.text.strip() for part in parts):
            self.messages.append(UserMessage(new_id(), tuple(parts), "prompt"))

    def answer(self, model: str, parts: list[AssistantPart]) -> None:
        """Add a reply, or what follows in the same one."""
        if not parts:
            return
        self._names.update((part.id, part.name) for part in parts if isinstance(part, Call))
        last = self.messages[-1] if self.messages else None
        if isinstance(last, AssistantMessage):
            self.messages.pop()
            parts = [*last.parts, *parts]
        finish = "calls" if any(isinstance(part, Call) for part in parts) else "stop"
        self.messages.append(AssistantMessage(new_id(), tuple(parts), model, "chat", finish, NO_USAGE))

    def result(self, call_id: str, text: str, images: tuple[Image, ...], *, failed: bool) -> None:
        """Add the result of a call; one without its call is left out."""
        name = self._names.pop(call_id, "")
        if name:
            status = "error" if failed else "ok"
            self.messages.append(ToolMessage(new_id(), call_id, name, text, status, images))


def _transcript(
    program: Program, path: str, titles: list[str], first: Table, history: _History
) -> Transcript | None:
    prompts = [
        part.text
        for message in history.messages
        if isinstance(message, UserMessage)
        for part in message.parts
        if isinstance(part, Text)
    ]
    session_id = _id_of(path)
    if not prompts or not session_id:
        return None
    title = one_line(titles[-1] if titles else prompts[0], TITLE_CHARS)
    messages = tuple(map(redact_message, history.messages))
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
