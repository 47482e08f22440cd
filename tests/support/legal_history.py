"""The rules of a legal history for every provider, written independently of the code that enforces them."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.agent.history import is_empty
from buddy.agent.messages import AssistantMessage, Message, ToolMessage, calls_of


def is_legal(history: Sequence[Message]) -> list[str]:
    """Return the reasons a provider would refuse a history, one sentence each; empty when the history is
    legal."""
    found = [f"message {message.id} is empty" for message in history if is_empty(message)]
    open_calls: list[str] = []
    previous: Message | None = None
    for message in history:
        if isinstance(message, ToolMessage):
            if [message.call_id] != open_calls[:1]:
                found.append(f"result {message.id} is not that of the next of {open_calls}")
            open_calls = open_calls[1:]
        elif open_calls:
            found.append(f"message {message.id} comes before the results of {open_calls}")
            open_calls = []
        if isinstance(message, AssistantMessage):
            if previous is None or isinstance(previous, AssistantMessage):
                found.append(f"reply {message.id} follows neither a person nor a result")
            open_calls = [call.id for call in calls_of(message)]
            if len(set(open_calls)) < len(open_calls) or (open_calls and message.finish == "cut"):
                found.append(f"reply {message.id} has calls of a cut reply, or two with one id")
        previous = message
    return found + [f"call {call} has no result" for call in open_calls]
