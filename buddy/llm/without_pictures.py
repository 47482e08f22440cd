"""A provider whose model takes no pictures: sentences stand for those of the history.

A conversation may hold pictures from before a change of the model, from an editor or from a program; sent to
such a model they would fail this turn and every later one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from buddy.agent.messages import AssistantMessage, Image, Message, Text, ToolMessage, UserMessage
from buddy.agent.provider import ModelDelta, ModelRequest, Provider

LEFT_OUT = "[a picture was left out: this model takes none; tell the user if it matters]"


class WithoutPictures:
    """The inner provider, which never gets a picture."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self._known: dict[int, tuple[Message, Message]] = {}
        self.lane = inner.lane

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the inner stream."""
        if any(map(_has_picture, request.history)):
            history = tuple(self._in_words(message) for message in request.history)
            request = replace(request, history=history)
        return self._inner.stream(request)

    def _in_words(self, message: Message) -> Message:
        """Return the message without pictures, the same record each time: its encoded bytes can be reused."""
        if not _has_picture(message):
            return message
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = message, _without_pictures(message)
            self._known[id(message)] = known
        return known[1]


def _has_picture(message: Message) -> bool:
    match message:
        case ToolMessage():
            return bool(message.images)
        case UserMessage():
            return any(isinstance(part, Image) for part in message.parts)
        case AssistantMessage():
            return False


def _without_pictures(message: Message) -> Message:
    match message:
        case ToolMessage():
            return replace(message, text=f"{message.text}\n{LEFT_OUT}".lstrip(), images=())
        case UserMessage():
            parts = tuple(Text(LEFT_OUT) if isinstance(part, Image) else part for part in message.parts)
            return replace(message, parts=parts)
        case AssistantMessage():
            return message
