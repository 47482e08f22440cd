"""A resumed conversation as blocks: each message as the person wrote it, one line a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from buddy.agent.display import Plain
from buddy.agent.formatting import describe_calls, format_count
from buddy.agent.messages import (
    AssistantMessage,
    Attachment,
    Call,
    Message,
    ToolMessage,
    UserMessage,
    calls_of,
    text_of,
    typed_text,
)
from buddy.agent.receipt import Receipt
from buddy.agent.schema import ArgumentsError, parse_json
from buddy.repl.render.markdown import closed_blocks
from buddy.repl.view.blocks import Block, NoteBlock, ReceiptBlock, ToolCall, UserPrompt, merge_lookups
from buddy.safety.sanitise import one_line

TITLE_OF_ATTACHMENT_CHARS = 100


def attachment_titles(message: UserMessage) -> tuple[str, ...]:
    """Return a line for each note and file that travelled with a prompt."""
    titles = (part.title for part in message.parts if isinstance(part, Attachment))
    return tuple(one_line(title.split("\n", 1)[0], TITLE_OF_ATTACHMENT_CHARS) for title in titles)


SHOWN_MESSAGES, SHOWN_CHARS = 60, 100_000
"""Enough to find the thread again; /export writes the rest. 100,000 characters are about thirty screens and
take 0.3 s to draw in pieces; a conversation of 2 MB took six seconds."""

TITLE_CHARS = 100

SHOWN_ENDED = 3
"""Consecutive cancelled or skipped calls that are printed; further ones, perhaps a thousand, share a line."""


def blocks_of(
    history: Sequence[Message],
    task_id: int,
    receipt: Receipt | None = None,
    *,
    copied: int = 0,
    copy_of: int = 0,
) -> list[Block]:
    """Return the end of a conversation, to be printed above the prompt, with the receipt of its last turn.

    Calls are named after the task unless it is 0; those in the first `copied` messages after the task they
    were copied from.
    """
    blocks: list[Block] = []
    beyond = _beyond(history)
    left_out = _beginning(history, beyond)
    if left_out:
        blocks.append(
            NoteBlock("hint", f"not shown: {format_count(left_out, 'earlier message')}; /export writes all")
        )
    calls: dict[str, Call] = {}
    row: list[ToolCall] = []
    for at, message in enumerate(history[left_out:], left_out):
        is_last = message is history[-1]
        if not isinstance(message, ToolMessage) or beyond[at]:
            blocks += merge_lookups(row)
            row.clear()
        match message:
            case UserMessage():
                titles = attachment_titles(message)
                blocks.append(UserPrompt(typed_text(message), message.origin, 0, 0, titles))
            case AssistantMessage():
                calls.update((call.id, call) for call in calls_of(message))
                text = text_of(message)
                if text.strip():
                    blocks += closed_blocks(text.strip("\n"))
                if message.finish == "cut":
                    advice = "; /continue resumes it" if is_last else ""
                    blocks.append(NoteBlock("warning", f"this reply broke off here{advice}"))
            case ToolMessage() if beyond[at]:
                if not any(beyond[at + 1 : at + 2]):
                    blocks.append(NoteBlock("hint", describe_calls(beyond[at], message.status, more=True)))
            case ToolMessage():
                owner = copy_of if task_id and at < copied else task_id
                row.append(_tool(message, calls.get(message.call_id), owner))
    blocks += merge_lookups(row)
    return [*blocks, ReceiptBlock(receipt)] if receipt is not None else blocks


def _beyond(history: Sequence[Message]) -> list[int]:
    """Return for each message its position among the calls that share a line, 0 for others."""
    row, beyond, before = 0, list[int](), ""
    for message in history:
        ended = message.status if isinstance(message, ToolMessage) else ""
        row = row + 1 if ended == before else 1
        before = ended
        beyond.append(max(row - SHOWN_ENDED, 0) if ended in ("cancelled", "skipped") else 0)
    return beyond


def _beginning(history: Sequence[Message], beyond: Sequence[int]) -> int:
    """Return the number of messages before the first one shown."""
    at, shown, chars = len(history), 0, 0
    while at and shown < SHOWN_MESSAGES and chars < SHOWN_CHARS:
        at -= 1
        if not beyond[at]:
            shown += 1
            chars += len(text_of(history[at]))
    return at


def _tool(message: ToolMessage, call: Call | None, task_id: int) -> ToolCall:
    known = call or Call(message.call_id, message.name, "{}")
    title = f"{message.name} {_subject(known.arguments)}".rstrip()
    display = Plain("", message.text)
    return ToolCall(
        known, title, "low", message.status, message.text, display, 0.0, cached=False, task_id=task_id
    )


def _subject(arguments: str) -> str:
    """Return the first text argument of a call, which was part of its title when it ran."""
    try:
        parsed: object = parse_json(arguments)
    except ArgumentsError:
        return ""
    values = cast("dict[str, object]", parsed).values() if isinstance(parsed, dict) else ()
    text = next((value for value in values if isinstance(value, str) and value), "")
    return one_line(text, TITLE_CHARS)
