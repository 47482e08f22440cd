"""A conversation of another program, put together from its parts as a history that buddy continues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from buddy.agent.messages import (
    INTERRUPTED_TEXT,
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
    calls_of,
)
from buddy.extend.imports.findings import Table
from buddy.safety.sanitise import new_id


class ImportedHistory:
    """Messages in the order providers want them: replies of one model in a row are one message, and the
    results of its calls follow it in the order of the calls, before any prompt that came between."""

    def __init__(self) -> None:
        self._messages: list[UserMessage | AssistantMessage] = []
        self._open: dict[str, tuple[int, str]] = {}
        self._results: dict[tuple[int, str], ToolMessage] = {}
        self._is_answered = False

    def ask(self, parts: list[UserPart]) -> None:
        """Add a prompt, unless it is empty."""
        if any(not isinstance(part, Text) or part.text.strip() for part in parts):
            self._messages.append(UserMessage(new_id(), tuple(parts), "prompt"))

    def answer(self, model: str, parts: list[AssistantPart]) -> None:
        """Add a reply, or what follows in the same one."""
        if not parts:
            return
        last = self._messages[-1] if self._messages else None
        if isinstance(last, AssistantMessage) and not self._is_answered:
            self._messages.pop()
            parts = [*last.parts, *parts]
        calls = {part.id: part.name for part in parts if isinstance(part, Call)}
        self._open.update((call_id, (len(self._messages), name)) for call_id, name in calls.items())
        finish = "calls" if calls else "stop"
        self._messages.append(AssistantMessage(new_id(), tuple(parts), model, "chat", finish, NO_USAGE))
        self._is_answered = False

    def result(self, call_id: str, text: str, images: tuple[Image, ...], *, failed: bool) -> None:
        """Add the result of a call; one without its call is left out."""
        place, name = self._open.pop(call_id, (-1, ""))
        if name:
            status = "error" if failed else "ok"
            self._results[place, call_id] = ToolMessage(new_id(), call_id, name, text, status, images)
            self._is_answered = True

    def rewind(self, count: int) -> None:
        """Take the last prompts back, with everything after the first of them."""
        prompts = [at for at, message in enumerate(self._messages) if isinstance(message, UserMessage)]
        end = prompts[-min(count, len(prompts))] if count > 0 and prompts else len(self._messages)
        del self._messages[end:]
        self._open = {call_id: place for call_id, place in self._open.items() if place[0] < end}
        self._results = {place: message for place, message in self._results.items() if place[0] < end}
        self._is_answered = True

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the history: every call has a result."""
        history: list[Message] = []
        for at, message in enumerate(self._messages):
            history.append(message)
            for call in calls_of(message) if isinstance(message, AssistantMessage) else ():
                missing = ToolMessage(new_id(), call.id, call.name, INTERRUPTED_TEXT, "cancelled")
                history.append(self._results.get((at, call.id), missing))
        return tuple(history)


def images_of(source: Mapping[str, object]) -> list[Image]:
    """Return the picture of a source with `media_type` and `data`, none where it is no picture."""
    media_type, data = str(source.get("media_type", "")), source.get("data")
    return [Image(media_type, data)] if media_type.startswith("image/") and isinstance(data, str) else []


def blocks_of(content: object) -> list[Table]:
    """Return the blocks of a message: {} for each that is no table, none where the content is no list."""
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    return [cast(Table, block) if isinstance(block, dict) else {} for block in blocks]
