"""The direct lane to OpenAI-compatible servers: chat completions, streamed. Imports nothing heavy; the HTTP
client is made when the first request needs it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from buddy.agent.json_codec import dumps
from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Image,
    Message,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    calls_of,
    text_of,
    thinking_of,
)
from buddy.agent.provider import ModelDelta, ModelRequest, ToolDefinition
from buddy.llm.direct.lane import Endpoint, HttpClient, OneClient, Post, host_of, stream_reply
from buddy.llm.direct.openai_decoder import ChatDecoder
from buddy.llm.direct.request_cache import (
    NO_OUTPUT,
    NOTHING_SAID,
    EncodedMessages,
    SettledHistories,
    alnum9,
    is_at_home,
    says_something,
    sendable,
    wire_arguments,
)
from buddy.llm.quirks import ChatQuirks, chat_quirks

LANE = "chat"
BRIDGE = dumps({"role": "assistant", "content": "Understood."})
CACHE_MARK = {"type": "ephemeral"}
MAX_PICTURES = 16
"""Messages with pictures that are kept for the next request: each may hold megabytes."""
PICTURES_FOLLOW = "Pictures of the tool results above:"
"""Stands before pictures of tool results, which go into a user message: a tool message holds only text."""


class OpenAIChat:
    """A `Provider`. `client` makes the HTTP client; `quirks` says what a server wants for a model."""

    lane = LANE

    def __init__(
        self,
        endpoint: Endpoint,
        client: Callable[[Endpoint], HttpClient],
        quirks: Callable[[str, str], ChatQuirks] = chat_quirks,
    ) -> None:
        self._endpoint = endpoint
        self._client = OneClient(endpoint, client)
        self._host = host_of(endpoint.base_url)
        self._url = chat_url(endpoint.base_url)
        self._quirks = quirks
        self._wire = cache(self._new_wire)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the reply in pieces."""
        return stream_reply(self._client.get, lambda: self._post(request), ChatDecoder(self._host))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _post(self, request: ModelRequest) -> Post:
        key = self._endpoint.key()
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        headers.update(self._endpoint.headers)
        return Post(self._url, headers, self._wire(request.model).body(request), self._host, key)

    def _new_wire(self, model: str) -> ChatWire:
        return ChatWire(self._quirks(self._host, model), model)


def chat_url(base_url: str) -> str:
    """Return the URL of the chat completions endpoint."""
    base = base_url.rstrip("/")
    return base if base.endswith("/chat/completions") else base + "/chat/completions"


class ChatWire:
    """Requests of one model on one server. Keeps what does not change between turns. `encode` writes a
    message as JSON."""

    def __init__(self, quirks: ChatQuirks, model: str, encode: Callable[[Any], bytes] = dumps) -> None:
        self._quirks = quirks
        self._model = model
        self._dumps = encode
        self._messages = EncodedMessages(self._encode)
        self._settled = SettledHistories(
            lambda run, is_first, system: b",".join(
                self._encode_all(self._messages_to_send(run, system if is_first else ""))
            ),
            says_something,
        )
        self._pictures: dict[str, UserMessage] = {}
        self._tools: tuple[tuple[ToolDefinition, ...], bytes] = ((), b"")
        self._system: tuple[str, bytes] = ("", b"")

    def body(self, request: ModelRequest) -> bytes:
        """Return the request as JSON."""
        fields: dict[str, Any] = {"model": request.model}
        head = dumps(fields)[:-1]
        messages = b",".join(self._all_messages(request))
        tools = self._tool_bytes(request.tools)
        rest = dumps(self._settings(request))[1:]
        return b"".join([head, b',"messages":[', messages, b"]", tools, b",", rest])

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        quirks = self._quirks
        fields: dict[str, Any] = {"stream": True}
        if quirks.stream_options:
            fields["stream_options"] = {"include_usage": True}
        if request.max_tokens is not None:
            fields[quirks.max_tokens_field] = request.max_tokens
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.top_p is not None:
            fields["top_p"] = request.top_p
        if request.effort is not None:
            fields.update(_effort(quirks, request.effort))
        if request.tools and not quirks.parallel_calls:
            fields["parallel_tool_calls"] = False
        return {**fields, **quirks.extra}

    def _all_messages(self, request: ModelRequest) -> list[bytes | bytearray]:
        """Return the messages, those that settled as one piece."""
        is_said = self._quirks.system_as == "user"
        self._messages.forget_others(request.history)
        settled, rest = self._settled.split(request.history, request.system if is_said else "")
        self._forget_pictures(rest)
        out: list[bytes | bytearray] = []
        if request.system and not is_said:
            out.append(self._system_bytes(request.system))
        if settled:
            out.append(settled)
        sent = self._messages_to_send(rest, request.system if is_said and not settled else "")
        out.extend(self._encode_all(sent))
        if self._quirks.cache_marks and sent:
            out[-1] = self._encode_with_mark(sent[-1]) or out[-1]
        return out

    def _messages_to_send(self, messages: Sequence[Message], system: str) -> list[Message]:
        """Return the messages to send; a non-empty `system` becomes the first one, as a user message."""
        sent = self._with_pictures(sendable(messages))
        return [UserMessage("", (Text(system),), "instructions"), *sent] if system else sent

    def _encode_all(self, sent: Sequence[Message]) -> list[bytes]:
        if self._quirks.merge or self._quirks.system_as == "user":
            return self._merge_neighbours(sent)
        return self._one_by_one(sent)

    def _encode_with_mark(self, message: Message) -> bytes:
        """Return the last message with a cache mark: everything before it is then cached. b"" where none can
        stand."""
        match message:
            case UserMessage():
                content = _user_content(message.parts)
                parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
                return self._dumps({"role": "user", "content": _with_mark(parts)})
            case ToolMessage():
                return self._dumps(
                    self._result(message, _with_mark([{"type": "text", "text": _tool_text(message)}]))
                )
            case AssistantMessage():
                return b""

    def _result(self, message: ToolMessage, content: str | list[dict[str, Any]]) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": self._id(message.call_id), "content": content}

    def _with_pictures(self, history: Sequence[Message]) -> list[Message]:
        """Move pictures of tool results into a user message after the last result: a tool message holds only
        text."""
        out: list[Message] = []
        last: ToolMessage | None = None
        pictures: list[Image] = []
        for message in history:
            if isinstance(message, ToolMessage):
                last = message
                pictures.extend(message.images)
            elif pictures and last is not None:
                out.append(self._picture_message(last.id, pictures))
                pictures = []
            out.append(message)
        if pictures and last is not None:
            out.append(self._picture_message(last.id, pictures))
        return out

    def _picture_message(self, after: str, pictures: Sequence[Image]) -> UserMessage:
        """Return the same record every turn, so that its encoded bytes can be reused."""
        known = self._pictures.get(after)
        if known is None or len(known.parts) != len(pictures) + 1:
            known = UserMessage(f"pictures-{after}", (Text(PICTURES_FOLLOW), *pictures), "note")
            self._pictures[after] = known
        return known

    def _forget_pictures(self, rest: Sequence[Message]) -> None:
        """Drop those of what settled, whose bytes are kept, once there are many. Those of other tasks are
        encoded again at their next turn."""
        if len(self._pictures) > MAX_PICTURES:
            needed = {message.id for message in rest}
            self._pictures = {after: kept for after, kept in self._pictures.items() if after in needed}

    def _one_by_one(self, history: Sequence[Message]) -> list[bytes]:
        out: list[bytes] = []
        after_tool = False
        for message in history:
            if after_tool and self._quirks.bridge and isinstance(message, UserMessage):
                out.append(BRIDGE)
            out.append(self._messages.bytes_of(message))
            after_tool = isinstance(message, ToolMessage)
        return out

    def _merge_neighbours(self, history: Sequence[Message]) -> list[bytes]:
        """Merge neighbouring messages of one role, for templates that require alternation."""
        out: list[bytes] = []
        for role, group in groupby(history, key=type):
            messages = list(group)
            if role is ToolMessage or len(messages) == 1:
                out.extend(self._one_by_one(messages))
            elif role is UserMessage:
                users = [message for message in messages if isinstance(message, UserMessage)]
                parts = tuple(part for message in users for part in message.parts)
                out.append(self._dumps({"role": "user", "content": _user_content(parts)}))
            else:
                replies = [message for message in messages if isinstance(message, AssistantMessage)]
                out.append(self._dumps(self._replies(replies)))
        return out

    def _encode(self, message: Message) -> bytes:
        match message:
            case UserMessage():
                return self._dumps({"role": "user", "content": _user_content(message.parts)})
            case AssistantMessage():
                return self._dumps(self._replies([message]))
            case ToolMessage():
                return self._dumps(self._result(message, _tool_text(message)))

    def _replies(self, replies: Sequence[AssistantMessage]) -> dict[str, Any]:
        """Return one assistant message of one reply (or of neighbouring ones)."""
        calls = [(reply, call) for reply in replies if reply.finish != "cut" for call in calls_of(reply)]
        text = "\n\n".join(filter(None, map(text_of, replies)))
        content = text if text or not calls else self._quirks.empty_content
        out: dict[str, Any] = {"role": "assistant", "content": content}
        field = self._quirks.reasoning_back
        if field and (calls or any(map(thinking_of, replies))):
            out[field] = "".join(map(thinking_of, replies))
        for reply in replies:
            if reply.finish != "cut" and is_at_home(reply, LANE, self._model):
                out.update(reply.opaque)
                blocks = _thinking_blocks(reply)
                if blocks:
                    out["thinking_blocks"] = [*out.get("thinking_blocks", ()), *blocks]
        if calls:
            out["tool_calls"] = [self._call(reply, call) for reply, call in calls]
        return out

    def _call(self, reply: AssistantMessage, call: Call) -> dict[str, Any]:
        function = {"name": call.name, "arguments": wire_arguments(call.arguments)}
        out: dict[str, Any] = {"id": self._id(call.id), "type": "function", "function": function}
        if is_at_home(reply, LANE, self._model):
            out.update(call.opaque)
        return out

    def _id(self, call_id: str) -> str:
        return alnum9(call_id) if self._quirks.tool_ids == "alnum9" else call_id

    def _tool_bytes(self, tools: tuple[ToolDefinition, ...]) -> bytes:
        if not tools:
            return b""
        if self._tools[0] is not tools and self._tools[0] != tools:
            encoded = dumps([{"type": "function", "function": _definition(tool)} for tool in tools])
            self._tools = (tools, b',"tools":' + encoded)
        return self._tools[1]

    def _system_bytes(self, system: str) -> bytes:
        if self._system[0] != system:
            content: Any = system
            if self._quirks.cache_marks:
                content = [{"type": "text", "text": system, "cache_control": CACHE_MARK}]
            self._system = (system, dumps({"role": "system", "content": content}))
        return self._system[1]


def _thinking_blocks(reply: AssistantMessage) -> list[dict[str, Any]]:
    """Return Anthropic's signed blocks, which a LiteLLM proxy sent and needs back before a tool round."""
    out: list[dict[str, Any]] = []
    for part in reply.parts:
        if isinstance(part, Thinking) and part.opaque.get("type") == "redacted_thinking":
            out.append(dict(part.opaque))
        elif isinstance(part, Thinking) and part.signature:
            out.append({"type": "thinking", "thinking": part.text, "signature": part.signature})
    return out


def _definition(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _effort(quirks: ChatQuirks, effort: str) -> dict[str, Any]:
    match quirks.effort:
        case "reasoning_effort":
            return {"reasoning_effort": effort}
        case "reasoning":
            return {"reasoning": {"effort": effort}}
        case "thinking":
            return {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
        case "none":
            return {}


def _user_content(parts: Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return text as one string, or a list with pictures: only a list can hold them."""
    texts = [part.text for part in parts if not isinstance(part, Image) and part.text.strip()]
    pictures = [picture_part(part) for part in parts if isinstance(part, Image)]
    if not pictures:
        return "\n\n".join(texts) or NOTHING_SAID
    return [*({"type": "text", "text": text} for text in texts), *pictures]


def _with_mark(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*parts[:-1], {**parts[-1], "cache_control": CACHE_MARK}]


def _tool_text(message: ToolMessage) -> str:
    return message.text if message.text.strip() else NO_OUTPUT


def picture_part(image: Image) -> dict[str, Any]:
    """Return the content part of a picture."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}
