"""Inline `<think>…</think>` of local models, split into reasoning and answer, wherever the tags were cut.

Only where the start of the reply says so: the tag has to be the first thing in the text (blanks aside). A tag
further down is part of an answer that talks about tags.
"""

from __future__ import annotations

from collections.abc import Sequence

from buddy.agent.provider import TextPiece, ThinkingPiece

OPENING = ("<think>", "<thinking>", "<thought>", "<reasoning>")


class ThinkTags:
    """Feed it the answer text of a stream; `end` gives what was held back because it could become a tag."""

    __slots__ = ("_closing", "_held", "_state")

    def __init__(self) -> None:
        self._state = "start"
        self._held = ""
        self._closing = ""

    @property
    def is_plain(self) -> bool:
        """Tell whether the rest of the text passes through unchanged."""
        return self._state == "plain"

    def feed(self, text: str) -> Sequence[TextPiece | ThinkingPiece]:
        """The pieces this text makes, possibly none yet."""
        pieces: list[TextPiece | ThinkingPiece] = []
        text = self._held + text
        self._held = ""
        if self._state == "start":
            text = self._at_start(text)
        if self._state == "inside":
            text = self._inside(text, pieces)
        if self._state == "after":
            text = text.lstrip()
            if text:
                self._state = "plain"
        if text and self._state == "plain":
            pieces.append(TextPiece(text))
        return pieces

    def end(self) -> Sequence[TextPiece | ThinkingPiece]:
        """Return the text that is still held back."""
        held, self._held = self._held, ""
        if not held:
            return ()
        return (ThinkingPiece(held),) if self._state == "inside" else (TextPiece(held),)

    def _at_start(self, text: str) -> str:
        """Decide, or hold the text back while it may still be the beginning of a tag."""
        head = text.lstrip()
        for tag in OPENING:
            if head.startswith(tag):
                self._state = "inside"
                self._closing = "</" + tag[1:]
                return head[len(tag) :]
        if not head or any(tag.startswith(head) for tag in OPENING):
            self._held = text
            return ""
        self._state = "plain"
        return text

    def _inside(self, text: str, pieces: list[TextPiece | ThinkingPiece]) -> str:
        """Reasoning up to the closing tag; the rest of the text comes back."""
        end = text.find(self._closing)
        if end >= 0:
            self._state = "after"
            thought, rest = text[:end], text[end + len(self._closing) :]
        else:
            kept = _tail_that_may_be(self._closing, text)
            thought, self._held, rest = text[: len(text) - kept], text[len(text) - kept :], ""
        if thought:
            pieces.append(ThinkingPiece(thought))
        return rest


def _tail_that_may_be(tag: str, text: str) -> int:
    """Return the number of last characters that may be the beginning of the tag."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return size
    return 0
