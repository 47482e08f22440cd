"""Streaming Markdown: closed blocks, and the open tail.

Lines decide when a block is closed (a blank line, a fence's end, the next list item), so that every line is
looked at once however long the message grows; what is closed is parsed once, when it is drawn. The sources of
all closed blocks and the tail always add up to the text that came, and do not depend on how it was chunked.
"""

from __future__ import annotations

import re

from buddy.agent.lazy_regex import pattern
from buddy.repl.view.blocks import Fence, FenceEdge, Markdown
from buddy.safety.sanitise import Sanitiser

SLICE_LINES = 24
CONTEXT_LINES = 50
TAB_WIDTH = 4
ABSORBED_CHARS = 8192
"""Of a line that has no end yet: all of it at once would keep a key waiting."""

_FENCE = pattern(r" {0,3}(?P<sign>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_ITEM = pattern(r"(?P<indent> *)(?P<sign>[-+*]|\d{1,9}[.)])(?P<gap> +|$)")
_ALONE = pattern(r" {0,3}#{1,6}(?: |$)")
_RULE = pattern(r" {0,3}(?:(?:\* *){3,}|(?:_ *){3,})$")
_RULE_OR_UNDERLINE = pattern(r" {0,3}(?:- *){3,}$")


def closed_blocks(text: str) -> list[Markdown]:
    """Return a message that is there as a whole, in the same blocks as one that arrived: each is drawn in
    little time, so that a key does not wait for all of them."""
    stream = MarkdownStream()
    stream.feed(text)
    return stream.finish()


class _List:
    """The list that is open: where its items begin, and whether a fence is open inside one."""

    def __init__(self, indent: int, content: int, sign: str) -> None:
        self.indent = indent
        self.content = content
        self.kind = sign[-1]
        self.fence = ""
        self.after_blank = False


class _OpenFence:
    """The fence that is open at the top level: its language, its lines so far, and how it closes."""

    def __init__(self, sign: str, language: str) -> None:
        self.sign = sign
        self.language = language
        self.context: list[str] = []
        self.lines: list[str] = []
        self.sliced = False

    def is_closed_by(self, line: str) -> bool:
        bare = line.strip(" ")
        return (
            len(bare) >= len(self.sign)
            and not bare.strip(self.sign[0])
            and len(line) - len(line.lstrip(" ")) < 4
        )


class MarkdownStream:
    """One message as it arrives. Feed it, take the closed blocks, show the tail, finish it."""

    def __init__(self) -> None:
        self._clean = Sanitiser(tab_width=TAB_WIDTH)
        self._pieces: list[str] = []
        self._unabsorbed = 0
        self._open: list[str] = []
        self._line = ""
        self._blocks: list[Markdown] = []
        self._list: _List | None = None
        self._fence: _OpenFence | None = None
        self._joins = False
        self._paragraph = False

    def feed(self, text: str) -> None:
        """Add text. Cheap until a line is complete or long."""
        self._pieces.append(text)
        self._unabsorbed += len(text)
        if "\n" in text or self._unabsorbed >= ABSORBED_CHARS:
            self._absorb()

    def take(self) -> list[Markdown]:
        """Return the blocks that closed since the last time."""
        blocks, self._blocks = self._blocks, []
        return blocks

    def finish(self) -> list[Markdown]:
        """Close everything: the message is over."""
        self._absorb()
        self._split(self._clean.finish())
        if self._line:
            line, self._line = self._line, ""
            self._take_line(line)
        if self._fence is not None:
            self._close_fence("last")
        self._close()
        self._list = None
        if self._open:
            self._blocks.append(Markdown("".join(self._open), continues=True))
            self._open.clear()
        return self.take()

    @property
    def tail(self) -> str:
        """Return the source that is still open."""
        self._absorb()
        return "".join(self._open) + self._line

    def tail_end(self, chars: int) -> str:
        """Return the last part of the tail: what a live region needs of it."""
        self._absorb()
        parts: list[str] = [self._line[-chars:]]
        left = chars - len(self._line)
        for line in reversed(self._open):
            if left <= 0:
                break
            parts.append(line)
            left -= len(line)
        return "".join(reversed(parts))

    def open_block(self, chars: int) -> Markdown | None:
        """Return the block that is still being written, as it would be if it ended here; None where there is
        nothing to see of it, or more than `chars`."""
        self._absorb()
        if self.open_chars > chars:
            return None
        text = "".join(self._open) + self._line
        if not text.strip():
            return None
        fence = self._fence
        if fence is None:
            return Markdown(text, continues=self._joins)
        code = "\n".join([*fence.lines, self._line] if self._line else fence.lines)
        context = "\n".join(fence.context)
        return Markdown(text, continues=fence.sliced, fence=Fence(fence.language, code, context, "first"))

    @property
    def open_chars(self) -> int:
        """Return the length of what is still open."""
        return sum(map(len, self._open)) + len(self._line) + self._unabsorbed

    def _absorb(self) -> None:
        if not self._pieces:
            return
        text = self._clean.feed("".join(self._pieces))
        self._pieces.clear()
        self._unabsorbed = 0
        self._split(text)

    def _split(self, text: str) -> None:
        lines = (self._line + text).split("\n")
        self._line = lines.pop()
        for line in lines:
            self._take_line(line + "\n")

    def _take_line(self, whole: str) -> None:
        line = whole.rstrip("\n")
        if self._fence is not None:
            self._in_fence(self._fence, whole, line)
        elif self._list is not None and self._stays_in_list(self._list, line):
            self._open.append(whole)
        else:
            self._at_top(whole, line)

    def _at_top(self, whole: str, line: str) -> None:
        if not line.strip():
            self._open.append(whole)
            self._close()
        elif found := _FENCE().fullmatch(line):
            self._close()
            self._fence = _OpenFence(found["sign"], found["info"].strip())
            self._open.append(whole)
        elif (
            _ALONE().match(line)
            or _RULE().match(line)
            or (_RULE_OR_UNDERLINE().match(line) and not self._paragraph)
        ):
            self._close()
            self._open.append(whole)
            self._close()
        elif self._paragraph and _RULE_OR_UNDERLINE().match(line):
            self._open.append(whole)
            self._close()
        elif (item := _ITEM().match(line)) and len(item["indent"]) < 4 and self._may_interrupt(item):
            self._close()
            self._list = _List(len(item["indent"]), _content_column(item), item["sign"])
            self._open.append(whole)
        else:
            self._open.append(whole)
            self._paragraph = True

    def _may_interrupt(self, item: re.Match[str]) -> bool:
        """Tell whether an item may interrupt a paragraph: only one with a bullet or with 1."""
        if not self._paragraph:
            return True
        return bool(item["gap"]) and (item["sign"] in "-+*" or item["sign"][:-1] == "1")

    def _stays_in_list(self, open_list: _List, line: str) -> bool:
        """Tell whether a line belongs to the open list; an item that follows closes the one before."""
        if not line.strip():
            open_list.after_blank = True
            return True
        indent = len(line) - len(line.lstrip(" "))
        if indent >= open_list.content:
            self._follow_fence(open_list, line.strip(" "))
            open_list.after_blank = False
            return True
        item = _ITEM().match(line)
        is_rule = _RULE().match(line) or _RULE_OR_UNDERLINE().match(line)
        if item and item["sign"][-1] == open_list.kind and indent <= open_list.indent + 3 and not is_rule:
            self._close()
            self._joins = not open_list.after_blank
            self._list = _List(indent, _content_column(item), item["sign"])
            return True
        lazy = not open_list.after_blank and not open_list.fence and not (item or is_rule)
        if lazy and not (_FENCE().fullmatch(line) or _ALONE().match(line)):
            return True
        self._close()
        self._list = None
        return False

    def _follow_fence(self, open_list: _List, line: str) -> None:
        if open_list.fence:
            if len(line) >= len(open_list.fence) and not line.strip(open_list.fence[0]):
                open_list.fence = ""
        elif found := _FENCE().fullmatch(line):
            open_list.fence = found["sign"]

    def _in_fence(self, fence: _OpenFence, whole: str, line: str) -> None:
        self._open.append(whole)
        if fence.is_closed_by(line):
            self._close_fence("last")
            return
        fence.lines.append(line)
        if len(fence.lines) >= SLICE_LINES:
            self._slice("middle" if fence.sliced else "first", fence)

    def _slice(self, edge: FenceEdge, fence: _OpenFence) -> None:
        shown = Fence(fence.language, "\n".join(fence.lines), "\n".join(fence.context), edge)
        self._blocks.append(Markdown("".join(self._open), continues=fence.sliced, fence=shown))
        self._open.clear()
        fence.context = (fence.context + fence.lines)[-CONTEXT_LINES:]
        fence.lines = []
        fence.sliced = True

    def _close_fence(self, edge: FenceEdge) -> None:
        fence = self._fence
        if fence is not None:
            self._slice(edge if fence.sliced else "whole", fence)
        self._fence = None
        self._joins = False

    def _close(self) -> None:
        """Close everything open at the top level as a block; blank lines alone wait for the next one."""
        self._paragraph = False
        text = "".join(self._open)
        if text.strip():
            self._open.clear()
            self._blocks.append(Markdown(text, continues=self._joins))
            self._joins = False


def _content_column(item: re.Match[str]) -> int:
    """Return the column where a list item's content begins; more than four blanks after the marker are
    code."""
    gap = len(item["gap"])
    return len(item["indent"]) + len(item["sign"]) + (gap if 1 <= gap <= 4 else 1)
