"""Export of a session as Markdown, HTML or JSON. Every text passes the `redact` argument, because an export
may leave the machine.

HTML holds the source of each text, not rich's drawing of it: a drawing joins what markup and entities keep
apart, after secrets were looked for, and its rows have a fixed width that no small window can show.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import msgspec

from buddy.agent.messages import (
    AssistantMessage,
    AssistantPart,
    Attachment,
    Call,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    UserPart,
)
from buddy.safety.sanitise import clean
from buddy.sessions.replay import SessionState, TaskRecord

ExportFormat = Literal["markdown", "html", "json"]
Redact = Callable[[str], str]

_STYLE = (
    "body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 system-ui,sans-serif}"
    "pre{background:#8881;padding:.7rem;border-radius:.4rem;overflow:auto;white-space:pre-wrap}"
    "h3{margin-bottom:.2rem;font-size:1rem;opacity:.7}"
)


class _ExportBlock(msgspec.Struct, frozen=True):
    """One paragraph of an export. `title` is "" when it goes on with the block before; `code`: keep it as it
    is, line for line."""

    title: str
    text: str
    code: bool


def export_session(state: SessionState, form: ExportFormat, redact: Redact) -> str:
    """Return the whole session as text of this format."""
    match form:
        case "json":
            plain = _redact_all(msgspec.to_builtins(state), redact)
            return json.dumps(plain, ensure_ascii=True, indent=2) + "\n"
        case "markdown":
            return _markdown(state, redact)
        case "html":
            return _html(state, redact)


def _redact_all(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {redact(key): _redact_all(inner, redact) for key, inner in items}
    if isinstance(value, list | tuple):
        return [_redact_all(inner, redact) for inner in cast(Sequence[Any], value)]
    return value


def _title(state: SessionState) -> str:
    return state.name or state.title or "A session"


def _heading(task: TaskRecord) -> str:
    return f"Task {task.task_id}" + (f": {task.task.title}" if task.task.title else "")


def _blocks(message: Message) -> list[_ExportBlock]:
    match message:
        case UserMessage():
            who = "You" if message.origin != "note" else "Note"
            return _with_title(who, [_part(part) for part in message.parts])
        case AssistantMessage():
            return _with_title(message.model, [_part(part) for part in message.parts])
        case ToolMessage():
            return [_ExportBlock(f"Result of {message.name} ({message.status})", message.text, code=True)]


def _with_title(title: str, blocks: list[_ExportBlock]) -> list[_ExportBlock]:
    """Give the first block a title, so that it does not seem to belong to the block before."""
    return [
        msgspec.structs.replace(block, title=title)
        if not block.title and (at == 0 or blocks[at - 1].title)
        else block
        for at, block in enumerate(blocks)
    ]


def _part(part: UserPart | AssistantPart) -> _ExportBlock:
    match part:
        case Text() | Attachment():
            return _ExportBlock("", part.text, code=False)
        case Image():
            return _ExportBlock("", f"[picture, {part.media_type}]", code=False)
        case Thinking():
            return _ExportBlock("Thinking", part.text, code=True)
        case Call():
            return _ExportBlock(f"Calls {part.name}", part.arguments, code=True)
        case ServerItem():
            return _ExportBlock("Done by the provider", json.dumps(part.data, indent=1), code=True)


def _markdown(state: SessionState, redact: Redact) -> str:
    def safe(text: str) -> str:
        # Redacted again, as in HTML. Tabs stay: they are part of code.
        return redact("\t".join(clean(piece, blank_lines=0) for piece in redact(text).split("\t")))

    lines = [f"# {_line(safe(_title(state)))}", ""]
    for task in state.tasks:
        lines += [f"## {_line(safe(_heading(task)))}", ""]
        for message in task.history:
            for block in _blocks(message):
                lines += _markdown_block(block, safe)
    return "\n".join(lines).encode("utf-8", "replace").decode("utf-8")


def _markdown_block(block: _ExportBlock, safe: Callable[[str], str]) -> list[str]:
    text = safe(block.text)
    title = [f"### {_line(safe(block.title))}", ""] if block.title else []
    if not block.code:
        return [*title, text, ""]
    fence = "```"
    while fence in text:
        fence += "`"
    return [*title, fence, text, fence, ""]


def _line(text: str) -> str:
    return " ".join(text.split())


def _html(state: SessionState, redact: Redact) -> str:
    def safe(text: str) -> str:
        # Redacted again: an escape sequence inside a key hides it until it is gone.
        return html.escape(redact(clean(redact(text), blank_lines=0)))

    parts = [f"<h1>{safe(_title(state))}</h1>"]
    for task in state.tasks:
        parts.append(f"<h2>{safe(_heading(task))}</h2>")
        for block in (block for message in task.history for block in _blocks(message)):
            if block.title:
                parts.append(f"<h3>{safe(block.title)}</h3>")
            parts.append(f"<pre>{safe(block.text)}</pre>")
    page = (
        '<!doctype html><html><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{safe(_title(state))}</title><style>{_STYLE}</style></head><body>"
    )
    return (page + "\n".join(parts) + "</body></html>\n").encode("utf-8", "replace").decode("utf-8")
