"""A request as the fake server received it, and what can be read from it whatever protocol it came in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["chat", "responses", "anthropic", "gemini", "models", "images", "other"]
Outcome = Literal["pending", "completed", "aborted", "broken"]
"""`aborted`: the client left before the reply was over. `broken`: the script's own fault ended it."""

MARKER = re.compile(r"\[\[script:([\w.-]+)\]\]")


@dataclass
class Asked:
    """One request; `outcome` changes while it is answered, all else stays. `at` is the loop's clock."""

    number: int
    method: str
    path: str
    query: str
    headers: dict[str, str]
    raw: bytes
    at: float
    outcome: Outcome = "pending"
    ended_at: float = 0
    json: Any = field(default=None)

    @property
    def api(self) -> Api:
        """Return the protocol of the path."""
        return api_of(self.path)

    @property
    def model(self) -> str:
        """The model asked for."""
        if self.api == "gemini":
            return self.path.rpartition("/models/")[2].partition(":")[0]
        return str((self.json or {}).get("model", ""))

    @property
    def streams(self) -> bool:
        """Tell whether the client wants a stream."""
        if self.api == "gemini":
            return "streamGenerateContent" in self.path
        return bool((self.json or {}).get("stream"))

    @property
    def turns(self) -> list[tuple[str, str]]:
        """(role, text) of each item in order; roles are system, user, assistant, tool."""
        return list(_turns(self.api, self.json or {}))

    @property
    def last_user_text(self) -> str:
        """The newest thing the person said."""
        return next((text for role, text in reversed(self.turns) if role == "user"), "")

    @property
    def tool_results(self) -> list[str]:
        """The texts of all tool results, oldest first."""
        return [text for role, text in self.turns if role == "tool"]

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools offered."""
        return _tool_names(self.api, self.json or {})

    @property
    def marker(self) -> tuple[str, int]:
        """(script name, assistant messages after it); ("", 0) when no user message names one."""
        turns = self.turns
        for position in range(len(turns) - 1, -1, -1):
            role, text = turns[position]
            found = MARKER.findall(text) if role == "user" else []
            if found:
                return found[-1], _replies(turn_role for turn_role, _ in turns[position + 1 :])
        return "", 0

    def summary(self) -> dict[str, Any]:
        """The request as JSON data, for a process's log."""
        return {
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "outcome": self.outcome,
            "seconds": round(self.ended_at - self.at, 4) if self.ended_at else None,
            "json": self.json,
        }


def api_of(path: str) -> Api:
    """The protocol a path belongs to; any prefix may stand before it."""
    if path.endswith("/chat/completions"):
        return "chat"
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/messages"):
        return "anthropic"
    if "enerateContent" in path:
        return "gemini"
    if path.endswith("/models"):
        return "models"
    if path.endswith(("/images/generations", "/images/edits")):
        return "images"
    return "other"


def decode(raw: bytes) -> Any:
    """The JSON of a body, None when it has none."""
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None


def _replies(roles: Any) -> int:
    """Assistant messages, counting neighbouring items of one reply (responses) once."""
    count, before = 0, ""
    for role in roles:
        count += role == "assistant" and before != "assistant"
        before = role
    return count


def _flat(content: Any) -> str:
    """The text in a message's content, whichever of the usual shapes it has."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    return "".join(str(part.get("text", "")) for part in content or [] if isinstance(part, dict))


def _turns(api: Api, body: dict[str, Any]) -> Any:
    if api == "chat":
        for message in body.get("messages", []):
            role = "system" if message["role"] == "developer" else message["role"]
            yield role, _flat(message.get("content"))
    elif api == "responses":
        yield from _responses_turns(body)
    elif api == "anthropic":
        yield "system", _flat(body.get("system"))
        for message in body.get("messages", []):
            yield from _anthropic_turns(message)
    elif api == "gemini":
        yield (
            "system",
            _flat((body.get("system_instruction") or body.get("systemInstruction") or {}).get("parts")),
        )
        for content in body.get("contents", []):
            yield from _gemini_turns(content)


def _responses_turns(body: dict[str, Any]) -> Any:
    yield "system", str(body.get("instructions") or "")
    items = body.get("input", [])
    if isinstance(items, str):
        yield "user", items
        return
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            yield item["role"], _flat(item.get("content"))
        elif kind == "function_call_output":
            yield "tool", _flat(item.get("output"))
        else:
            yield "assistant", ""


def _anthropic_turns(message: dict[str, Any]) -> Any:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        yield "tool", _flat(block.get("content"))
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    if rest:
        yield message["role"], _flat(rest)


def _gemini_turns(content: dict[str, Any]) -> Any:
    parts = content.get("parts", [])
    for part in parts:
        answer = part.get("functionResponse") or part.get("function_response")
        if answer:
            yield "tool", json.dumps(answer.get("response"), ensure_ascii=False)
    rest = [part for part in parts if "functionResponse" not in part and "function_response" not in part]
    if rest:
        yield ("assistant" if content.get("role") == "model" else "user"), _flat(rest)


def _tool_names(api: Api, body: dict[str, Any]) -> list[str]:
    tools = body.get("tools") or []
    if api == "chat":
        return [tool["function"]["name"] for tool in tools]
    if api == "gemini":
        return [
            declaration["name"]
            for tool in tools
            for declaration in tool.get("functionDeclarations", tool.get("function_declarations", []))
        ]
    return [tool["name"] for tool in tools]
