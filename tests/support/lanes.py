"""Helpers for tests of model lanes: a request, a lane of each kind, and reading a stream to its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from buddy.agent.events import TextDelta, ThinkingDelta, ToolCallDelta
from buddy.agent.messages import AssistantMessage, Message, Text, UserMessage
from buddy.agent.provider import ModelDelta, ModelRequest, Provider, ProviderError, ToolDefinition
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.direct.anthropic import Anthropic
from buddy.llm.direct.lane import Endpoint, HttpClient
from buddy.llm.direct.openai import OpenAIChat
from buddy.llm.http.client import EngineClient


def connect(endpoint: Endpoint) -> HttpClient:
    """The HTTP client of a lane to a server of this machine."""
    return EngineClient(endpoint.connect_s)


READ_FILE = ToolDefinition(
    "read_file",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def lane(name: str, url: str, *, key: str = "sk-test-key") -> OpenAIChat | Anthropic:
    """A direct lane ("chat" or "anthropic") to a fake server."""
    if name == "chat":
        return OpenAIChat(Endpoint(url + "/v1", lambda: key, connect_s=5), connect)
    return Anthropic(Endpoint(url, lambda: key, connect_s=5), connect)


def ask(text: str, id: str = "u1") -> UserMessage:
    """A user message."""
    return UserMessage(id, (Text(text),), "prompt")


def request(
    *history: Message,
    tools: Sequence[ToolDefinition] = (),
    system: str = "Be brief.",
    model: str = "fake-model",
) -> ModelRequest:
    """A request with this history."""
    return ModelRequest(model, system, history or (ask("Hello?"),), tuple(tools))


async def pieces_of(
    stream: AsyncGenerator[ModelDelta, None],
) -> tuple[list[ModelDelta], ProviderError | None]:
    """Every piece, and the error it ended with."""
    found: list[ModelDelta] = []
    async with aclosing(stream):
        try:
            async for delta in stream:
                found.append(delta)
        except ProviderError as error:
            return found, error
    return found, None


async def reply_of(
    provider: Provider, asked: ModelRequest
) -> tuple[AssistantMessage, list[TextDelta | ThinkingDelta | ToolCallDelta]]:
    """The assembled reply and its events. Raises `ProviderError`."""
    assembler = ReplyAssembler("r1", asked.model, provider.lane)
    events: list[TextDelta | ThinkingDelta | ToolCallDelta] = []
    async with aclosing(provider.stream(asked)) as stream:
        async for delta in stream:
            event = assembler.feed(delta)
            if event is not None:
                events.append(event)
    return assembler.finish(), events
