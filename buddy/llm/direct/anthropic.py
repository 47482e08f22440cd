"""The direct lane to Anthropic and compatible servers: messages, streamed. Imports nothing heavy; the HTTP
client is made when the first request needs it.

A message is encoded as its content blocks, joined by commas; messages of one role are neighbours' blocks
joined again, because the format insists on alternation. A cache mark is spliced into a block's bytes, so that
moving the marks every turn encodes nothing again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from buddy.agent.json_codec import dumps, loads
from buddy.agent.messages import (
    AssistantMessage,
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
from buddy.agent.provider import ModelDelta, ModelRequest, ToolDefinition
from buddy.llm.direct.anthropic_decoder import AnthropicDecoder
from buddy.llm.direct.lane import Endpoint, HttpClient, OneClient, Post, host_of, stream_reply
from buddy.llm.direct.request_cache import (
    NO_OUTPUT,
    NOTHING_SAID,
    OPEN_EXCHANGES,
    EncodedMessages,
    SettledHistories,
    is_at_home,
    says_something,
    sendable,
    wire_arguments,
    wire_id,
)
from buddy.llm.quirks import AnthropicQuirks, anthropic_quirks

VERSION = "2023-06-01"
LANE = "anthropic"
DEFAULT_MAX_TOKENS = 8_192
MARK = b',"cache_control":{"type":"ephemeral"}}'
MARKED_MESSAGES = OPEN_EXCHANGES
"""Of the four marks a request may have, one is on the system prompt and one on the tools."""

_Group = tuple[bytes, list[bytes]]
"""A role and the blocks of its messages."""

CONTINUED = dumps({"type": "text", "text": "(The conversation continues.)"})
BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 65_536}
LEAST_BUDGET = 1_024
ROOM_FOR_ANSWER = 2_048


class Anthropic:
    """A `Provider`. `client` makes the HTTP client; `quirks` says what a server wants for a model."""

    lane = LANE

    def __init__(
        self,
        endpoint: Endpoint,
        client: Callable[[Endpoint], HttpClient],
        quirks: Callable[[str, str], AnthropicQuirks] = anthropic_quirks,
    ) -> None:
        self._endpoint = endpoint
        self._client = OneClient(endpoint, client)
        self._quirks = quirks
        self._host = host_of(endpoint.base_url)
        self._url = messages_url(endpoint.base_url)
        self._wire = cache(self._new_wire)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces."""
        return stream_reply(self._client.get, lambda: self._post(request), AnthropicDecoder(self._host))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _post(self, request: ModelRequest) -> Post:
        key = self._endpoint.key()
        quirks = self._quirks(self._host, request.model)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": VERSION,
            **quirks.headers,
        }
        if key:
            is_bearer = quirks.auth == "authorization"
            headers[quirks.auth] = f"Bearer {key}" if is_bearer else key
        headers.update(self._endpoint.headers)
        return Post(self._url, headers, self._wire(request.model).body(request), self._host, key)

    def _new_wire(self, model: str) -> AnthropicWire:
        return AnthropicWire(self._quirks(self._host, model), model, self._endpoint.max_output_tokens)


def messages_url(base_url: str) -> str:
    """Return the URL of the messages endpoint; the base may end in `/v1` or not."""
    base = base_url.rstrip("/")
    if base.endswith("/messages"):
        return base
    return base + ("/messages" if base.endswith("/v1") else "/v1/messages")


class AnthropicWire:
    """Requests of one model on one server. Keeps what does not change between turns. `max_output_tokens`
    stands in for a limit nobody set (0: 8,192)."""

    def __init__(
        self,
        quirks: AnthropicQuirks,
        model: str,
        max_output_tokens: int = 0,
        encode: Callable[[Any], bytes] = dumps,
    ) -> None:
        self._quirks = quirks
        self._model = model
        self._max_output = max_output_tokens or DEFAULT_MAX_TOKENS
        self._dumps = encode
        self._messages = EncodedMessages(self._encode)
        self._settled = SettledHistories(
            lambda run, is_first, _key: b",".join(self._encode_groups(self._groups(run, is_first=is_first))),
            lambda reply: says_something(reply) and self._messages.bytes_of(reply) != b"",
        )
        self._tools: tuple[tuple[ToolDefinition, ...], bytes] = ((), b"")
        self._system: tuple[str, bytes] = ("", b"")

    def body(self, request: ModelRequest) -> bytes:
        """Return the request as JSON."""
        self._messages.forget_others(request.history)
        settled, rest = self._settled.split(request.history)
        groups = self._groups(rest, is_first=not settled)
        self._mark(groups)
        return b"".join(
            [
                dumps(self._settings(request, sendable(rest)))[:-1],
                self._system_bytes(request.system),
                self._tool_bytes(request.tools),
                b',"messages":[',
                b",".join(
                    [settled, *self._encode_groups(groups)] if settled else self._encode_groups(groups)
                ),
                b"]}",
            ]
        )

    def _settings(self, request: ModelRequest, history: Sequence[Message]) -> dict[str, Any]:
        limit = self._max_output if request.max_tokens is None else request.max_tokens
        fields: dict[str, Any] = {"model": request.model, "max_tokens": limit, "stream": True}
        thinking = self._thinking(request.effort, limit, history)
        fields.update(thinking)
        if thinking:
            return fields  # the format refuses sampling fields beside thinking
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.top_p is not None:
            fields["top_p"] = request.top_p
        return fields

    def _thinking(self, effort: str | None, limit: int, history: Sequence[Message]) -> dict[str, Any]:
        if effort is None or effort == "none":
            return {}
        match self._quirks.effort:
            case "adaptive":
                return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
            case "none":
                return {}
            case "budget":
                budget = min(BUDGETS.get(effort, BUDGETS["medium"]), limit - ROOM_FOR_ANSWER)
                if budget < LEAST_BUDGET or not self._may_think(history):
                    return {}
                return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def _may_think(self, history: Sequence[Message]) -> bool:
        """Between tool calls thinking can't be switched on: the reply that made the calls has to begin with
        its own (it does not when another model wrote it)."""
        if not (history and isinstance(history[-1], ToolMessage)):
            return True
        reply = next(
            (message for message in reversed(history) if isinstance(message, AssistantMessage)), None
        )
        first = reply.parts[0] if reply and reply.parts else None
        return (
            reply is not None
            and isinstance(first, Thinking)
            and bool(_thinking_block(first))
            and is_at_home(reply, LANE, self._model)
        )

    def _groups(self, messages: Sequence[Message], *, is_first: bool) -> list[_Group]:
        """Return the messages to send, with neighbours of one role merged; a conversation always begins with
        a user message."""
        groups: list[_Group] = []
        for message in sendable(messages):
            role = b"assistant" if isinstance(message, AssistantMessage) else b"user"
            blocks = self._messages.bytes_of(message)
            if not blocks:
                continue
            if groups and groups[-1][0] == role:
                groups[-1][1].append(blocks)
            else:
                groups.append((role, [blocks]))
        if is_first and groups and groups[0][0] == b"assistant":
            groups.insert(0, (b"user", [CONTINUED]))
        return groups

    def _mark(self, groups: Sequence[_Group]) -> None:
        marks = MARKED_MESSAGES if self._quirks.cache_marks else 0
        for role, blocks in reversed(groups):
            if role == b"user" and marks:
                blocks[-1] = blocks[-1][:-1] + MARK
                marks -= 1

    def _encode_groups(self, groups: Sequence[_Group]) -> list[bytes]:
        return [b'{"role":"%s","content":[%s]}' % (role, b",".join(blocks)) for role, blocks in groups]

    def _encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                blocks = [
                    _user_block(part)
                    for part in message.parts
                    if isinstance(part, Image) or part.text.strip()
                ]
                return self._join_blocks(blocks or [{"type": "text", "text": NOTHING_SAID}])
            case AssistantMessage():
                at_home = is_at_home(message, LANE, self._model)
                return self._join_blocks(
                    [block for part in message.parts if (block := _block(part, message, at_home))]
                )
            case ToolMessage():
                return self._join_blocks([_result_block(message)])

    def _join_blocks(self, blocks: Sequence[dict[str, Any]]) -> bytes:
        return b",".join(map(self._dumps, blocks))

    def _system_bytes(self, system: str) -> bytes:
        if system and self._system[0] != system:
            block = dumps({"type": "text", "text": system})
            marked = block[:-1] + MARK if self._quirks.cache_marks else block
            self._system = (system, b',"system":[' + marked + b"]")
        return self._system[1] if system else b""

    def _tool_bytes(self, tools: tuple[ToolDefinition, ...]) -> bytes:
        if not tools:
            return b""
        if self._tools[0] is not tools and self._tools[0] != tools:
            encoded = [
                dumps({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
                for tool in tools
            ]
            if self._quirks.cache_marks:
                encoded[-1] = encoded[-1][:-1] + MARK
            self._tools = (tools, b',"tools":[' + b",".join(encoded) + b"]")
        return self._tools[1]


def _user_block(part: UserPart) -> dict[str, Any]:
    match part:
        case Text() | Attachment():
            return {"type": "text", "text": part.text}
        case Image():
            return _picture(part)


def _picture(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _result_block(message: ToolMessage) -> dict[str, Any]:
    text = message.text if message.text.strip() else NO_OUTPUT
    content: Any = text
    if message.images:
        content = [{"type": "text", "text": text}, *map(_picture, message.images)]
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": wire_id(message.call_id),
        "content": content,
    }
    if message.status != "ok":
        block["is_error"] = True
    return block


def _block(
    part: Text | Thinking | Call | ServerItem, reply: AssistantMessage, at_home: bool
) -> dict[str, Any] | None:
    """Return one part of a reply, None when it can't go back: calls of a cut reply, thinking without a
    signature or of another model, items of another provider."""
    match part:
        case Text():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case Thinking():
            return _thinking_block(part) if at_home else None
        case Call():
            return _call_block(part) if reply.finish != "cut" else None
        case ServerItem():
            return part.data if at_home and reply.finish != "cut" else None


def _thinking_block(part: Thinking) -> dict[str, Any] | None:
    if part.opaque.get("type") == "redacted_thinking":
        return part.opaque
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def _call_block(call: Call) -> dict[str, Any]:
    text = wire_arguments(call.arguments)
    try:
        written: Any = msgspec.Raw(msgspec.json.format(text.encode(), indent=-1))
    except (ValueError, UnicodeError):
        written = loads(text.encode("utf-8", "surrogatepass"))
    return {"type": "tool_use", "id": wire_id(call.id), "name": call.name, "input": written}
