"""Offers and answers of servers, as records of our own: no other module sees the protocol library's."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

import msgspec

MAX_DESCRIPTION_CHARS = 2_000
MAX_SCHEMA_BYTES = 64_000


class ToolInfo(msgspec.Struct, frozen=True):
    """A tool as its server declares it. The hints are the server's own words about itself: they are shown and
    never believed."""

    name: str
    title: str
    description: str
    schema: dict[str, Any]
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None

    def digest(self) -> str:
        """Return the digest that changes with anything a model reads of the tool."""
        told = (self.name, self.title, self.description, self.schema)
        return hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()


class ResourceInfo(msgspec.Struct, frozen=True):
    """A resource as its server lists it."""

    uri: str
    name: str
    description: str = ""


class PromptArgument(msgspec.Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str
    required: bool


class PromptInfo(msgspec.Struct, frozen=True):
    """A prompt as its server lists it."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


class TextBlock(msgspec.Struct, frozen=True):
    """Text of a result."""

    text: str


class DataBlock(msgspec.Struct, frozen=True):
    """A picture, sound or file of a result, base64 encoded."""

    media_type: str
    data: str
    name: str = ""


Block = TextBlock | DataBlock


class PromptMessage(msgspec.Struct, frozen=True):
    """A message of a prompt."""

    role: Literal["user", "assistant"]
    block: Block


class CallOutcome(msgspec.Struct, frozen=True):
    """The result of a call. `is_error`: the tool reports a failure."""

    blocks: tuple[Block, ...]
    is_error: bool = False


class ServerFacts(msgspec.Struct, frozen=True):
    """A server as it introduces itself."""

    title: str
    version: str
    protocol: str
    instructions: str
    has_tools: bool
    has_resources: bool = False
    has_prompts: bool = False


class FormRequest(msgspec.Struct, frozen=True):
    """A question of a server to the person. `schema` describes the fields; `url` is a page to open
    instead."""

    message: str
    schema: dict[str, Any]
    url: str = ""


class FormAnswer(msgspec.Struct, frozen=True):
    """The person's answer."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | int | float | bool | list[str] | None] = {}


class Handlers(msgspec.Struct, frozen=True):
    """The functions a connection calls. `changed`: what it offers is no longer what it was; `ask` puts
    a question to the person; `roots` are the folders the server may ask for."""

    changed: Callable[[], None]
    ask: Callable[[FormRequest], Awaitable[FormAnswer]]
    roots: Callable[[], tuple[str, ...]]


Progress = Callable[[float, float | None, str], None]
"""Hears of progress: how much, of how much if that is known, and the server's words."""


class McpError(Exception):
    """A request to a server failed; the message is fit for a model and a person once it is sanitised.
    `is_lost`: the connection is of no use any more."""

    def __init__(self, message: str, *, is_lost: bool = False) -> None:
        super().__init__(message)
        self.is_lost = is_lost


class LoginNeededError(Exception):
    """The server wants a login first."""


class LoginFailedError(Exception):
    """A login that came to nothing: one sentence."""


class LoginPage(msgspec.Struct, frozen=True):
    """The page a person is sent to. `host` is its host, as the person is shown it."""

    url: str
    host: str


def login_words(name: str) -> str:
    """Return the advice to log in to a server."""
    return f"run buddy mcp login {name}, or /mcp login {name} inside buddy"


def first_error(error: BaseException) -> BaseException:
    """Return the first error that is no group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
