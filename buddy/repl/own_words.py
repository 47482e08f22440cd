"""A message as the person sees it again: what they wrote themselves, and what only went along. Pure."""

from __future__ import annotations

from buddy.agent.messages import Text, UserMessage, text_of
from buddy.safety.sanitise import one_line

_ALONG = (
    "[I ran ",
    "[I took back ",
    "[I applied again ",
    "[Background task ",
    "[buddy was lost while job ",
    "\n\n[attached: ",
)
"""How the parts begin that are put to a prompt: notes before it, files after it."""
HEADING_CHARS = 100


def own_words(message: UserMessage) -> tuple[str, tuple[str, ...]]:
    """The text without attached notes and files, and the headings of those."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    own = [text for text in texts if not text.startswith(_ALONG)]
    if not own:
        return text_of(message), ()
    return "".join(own), tuple(_heading(text) for text in texts if text.startswith(_ALONG))


def _heading(text: str) -> str:
    line = text.strip().split("\n", 1)[0].removeprefix("[").removesuffix("]").rstrip(":")
    said = line.removesuffix(". Its answer").removesuffix(". What became of the job")
    return one_line(said, HEADING_CHARS)
