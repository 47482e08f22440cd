"""The part of a running turn that the saved conversation may not have yet: what a page that opens now needs
besides the messages."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from buddy.agent.events import (
    AgentUiEvent,
    ApprovalRequested,
    ApprovalResolved,
    ContextCompacted,
    LibraryLoading,
    Notice,
    ReplyFinished,
    ReplyStarted,
    RetryScheduled,
    SteeringAccepted,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from buddy.tools.streaming_arguments import ArgumentsSoFar

MAX_PROGRESS_CHARS = 20_000
"""Output of one running call that is kept for pages that open later."""
PREVIEW_CHARS = 2_000


class Preview(msgspec.Struct, frozen=True):
    """A call whose arguments still arrive: the file it is about ("" while unknown), the lines and characters
    so far, and the end of the text."""

    task_id: int
    call_id: str
    name: str
    path: str
    lines: int
    chars: int
    end: str


class _Progress:
    """The end of a call's output."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.chars = 0

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.chars += len(text)
        if self.chars > 2 * MAX_PROGRESS_CHARS:
            kept = "".join(self.pieces)[-MAX_PROGRESS_CHARS:]
            self.pieces, self.chars = [kept], len(kept)


class RunningTurn:
    """The events of one task's turn since its last request, with the deltas of a block as one."""

    def __init__(self, task_id: int) -> None:
        self._task_id = task_id
        self._turn: list[AgentUiEvent] = []
        self._clear_reply()

    def _clear_reply(self) -> None:
        self._events: list[AgentUiEvent] = []
        self._blocks: dict[TextDelta | ThinkingDelta, list[str]] = {}
        self._progress: dict[str, _Progress] = {}
        self._arriving: dict[str, tuple[str, ArgumentsSoFar]] = {}
        self._changed: set[str] = set()

    def add(self, event: AgentUiEvent) -> None:
        """Take the next event of the task."""
        match event:
            case TurnStarted():
                self._clear_reply()
                self._turn = [event]
            case TurnFinished():
                self._clear_reply()
                self._turn = []
            case ReplyStarted():
                self._clear_reply()
                self._turn = []  # what came before the request is part of the conversation
                self._events.append(event)
            case TextDelta() | ThinkingDelta():
                block = msgspec.structs.replace(event, text="")
                self._blocks.setdefault(block, []).append(event.text)
            case ToolCallDelta():
                if event.call_id not in self._arriving:
                    self._arriving[event.call_id] = (event.name, ArgumentsSoFar())
                self._arriving[event.call_id][1].feed(event.arguments)
                self._changed.add(event.call_id)
            case ReplyFinished():
                self._blocks.clear()
                self._arriving.clear()
                self._changed.clear()
                self._events.append(event)
            case ToolProgress():
                self._progress.setdefault(event.call_id, _Progress()).add(event.text)
            case ToolFinished():
                self._progress.pop(event.call_id, None)
                self._events.append(event)
            case ToolStarted() | SteeringAccepted() | RetryScheduled():
                self._events.append(event)
            case ApprovalRequested() | ApprovalResolved():
                pass  # the inbox knows the open ones
            case TokenUsage() | ContextCompacted() | LibraryLoading() | Notice():
                pass  # told once; the task's costs are among its facts

    def events(self) -> tuple[AgentUiEvent, ...]:
        """Return the events that bring a page with the saved messages up to now."""
        blocks = (
            msgspec.structs.replace(block, text="".join(pieces)) for block, pieces in self._blocks.items()
        )
        progress = (
            ToolProgress(call_id, "".join(output.pieces)[-MAX_PROGRESS_CHARS:])
            for call_id, output in self._progress.items()
        )
        return (*self._turn, *self._events, *blocks, *progress)

    def previews(self) -> tuple[Preview, ...]:
        """Return every call whose arguments still arrive."""
        return tuple(self._preview(call_id) for call_id in self._arriving)

    def changed_previews(self) -> Iterator[Preview]:
        """Yield the calls that grew since the last time."""
        changed, self._changed = self._changed, set()
        for call_id in changed:
            yield self._preview(call_id)

    def _preview(self, call_id: str) -> Preview:
        name, arguments = self._arriving[call_id]
        return Preview(
            task_id=self._task_id,
            call_id=call_id,
            name=name,
            path=arguments.path,
            lines=arguments.lines(),
            chars=arguments.chars,
            end=arguments.end()[-PREVIEW_CHARS:],
        )
