"""Closed Markdown as lines. Imported late: markdown-it costs 60 ms.

Every text is cleaned after parsing as well as before, because the parser decodes
entities (`&#x202E;`).
HTML is text; links are written out as `label (url)`; no image is ever fetched.
"""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from buddy.repl.blocks import Fence, Markdown
from buddy.repl.highlight import highlighted
from buddy.repl.style import Line, Look
from buddy.repl.table import Align, table_lines
from buddy.repl.width import indented, wrap
from buddy.safety.sanitise import clean, visible

_HEADINGS = {"h1": "heading.1", "h2": "heading.2", "h3": "heading.3"}
_ALIGNS: dict[str, Align] = {"text-align:center": "center", "text-align:right": "right"}
_MARKS = {"strong": "bold", "em": "italic", "s": "strike", "link": "link"}


class MarkdownPainter:
    """Draws closed Markdown. Holds the parser, which is costly to make."""

    def __init__(self, look: Look) -> None:
        self._look = look
        parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
        # A block is drawn alone, so `[label][1]` can't find what says where 1 goes; parsed, that line would
        # show nothing at all. As text both are there.
        self._parser = parser.disable("reference")

    def lines(self, block: Markdown, width: int) -> list[Line]:
        """The lines of a block, each at most `width` cells."""
        if block.fence is not None:
            return self._fence(block.fence, width)
        walk = _Walk(self._parser.parse(block.text), self._look)
        return walk.blocks(width, until="", tight=False)

    def _fence(self, fence: Fence, width: int) -> list[Line]:
        return code_lines(fence.code, fence.language, fence.context, width)


def code_lines(code: str, language: str, context: str, width: int) -> list[Line]:
    """Code, indented by two, wrapped (never cut) where it is too wide."""
    shown: list[Line] = []
    for line in highlighted(code, language.split(" ")[0].split("{")[0].lower(), context):
        shown += indented(wrap(line, width - 2), [("", "  ")], [("", "  ")])
    return shown


def _safe(text: str) -> str:
    return text if text.isascii() and text.isprintable() else clean(text)


class _Walk:
    """One pass over the tokens of a block."""

    def __init__(self, tokens: Sequence[Token], look: Look) -> None:
        self._tokens = tokens
        self._at = 0
        self._glyphs = look.glyphs

    def blocks(self, width: int, *, until: str, tight: bool) -> list[Line]:
        """Lines of all blocks up to the closing token `until` ("" for the end), blank lines between them
        unless `tight`."""
        lines: list[Line] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == until:
                break
            drawn = self._block(token, max(width, 8))
            if lines and drawn and not (tight or token.hidden):
                lines.append([])
            lines += drawn
        return lines

    def _block(self, token: Token, width: int) -> list[Line]:
        match token.type:
            case "paragraph_open":
                return self._text(width, "")
            case "heading_open":
                return self._text(width, _HEADINGS.get(token.tag, "heading"))
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, width)
            case "blockquote_open":
                bar: Line = [("gutter", self._glyphs.quote + " ")]
                return indented(self.blocks(width - 2, until="blockquote_close", tight=False), bar, bar)
            case "fence" | "code_block":
                return code_lines(_code(token.content), _safe(token.info), "", width)
            case "hr":
                return [[("rule", self._glyphs.rule * min(width, 40))]]
            case "table_open":
                return self._table(width)
            case _:  # closing tokens of markdown-it, and kinds a plug-in might add
                return [[("", _safe(token.content))]] if token.content else []

    def _text(self, width: int, style: str) -> list[Line]:
        """The inline token that is next, and its closing token."""
        inline = self._tokens[self._at]
        self._at += 2
        return [part for line in inline_lines(inline, style) for part in wrap(line, width)]

    def _list(self, opening: Token, width: int) -> list[Line]:
        lines: list[Line] = []
        number = int(opening.attrs.get("start", 1))
        ordered = opening.type.startswith("ordered")
        closing = opening.type.replace("open", "close")
        while self._tokens[self._at].type != closing:
            sign = f"{number}." if ordered else self._glyphs.bullet
            self._at += 1
            pad = len(sign) + 1
            item = self.blocks(width - pad, until="list_item_close", tight=True)
            lines += indented(item or [[]], [("bullet", sign), ("", " ")], [("", " " * pad)])
            number += 1
        self._at += 1
        return lines

    def _table(self, width: int) -> list[Line]:
        rows: list[list[Line]] = []
        aligns: list[Align] = []
        while (token := self._tokens[self._at]).type != "table_close":
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                aligns.append(_ALIGNS.get(str(token.attrs.get("style", "")), "left"))
            elif token.type == "inline":
                style = "bold" if len(rows) == 1 else ""
                rows[-1].append([span for line in inline_lines(token, style) for span in line])
            self._at += 1
        self._at += 1
        return table_lines(rows, width, self._glyphs, header=True, aligns=aligns)


def _code(content: str) -> str:
    return "\n".join(_safe(line) for line in content.removesuffix("\n").split("\n"))


def inline_lines(inline: Token, style: str) -> list[Line]:
    """An inline token as unwrapped lines, one per line of the source."""
    lines: list[Line] = [[]]
    marks: list[str] = [style] if style else []
    hrefs: list[tuple[str, int, int]] = []
    for token in inline.children or ():
        kind = token.type
        if kind == "text":
            lines[-1].append((" ".join(marks), _safe(token.content)))
        elif kind in ("softbreak", "hardbreak"):
            lines.append([])
        elif kind == "code_inline":
            lines[-1].append((" ".join([*marks, "code"]), _safe(token.content)))
        elif kind == "link_open":
            hrefs.append((str(token.attrs.get("href", "")), len(lines) - 1, len(lines[-1])))
            marks.append("link")
        elif kind == "link_close":
            marks.pop()
            _write_target(lines, *hrefs.pop())
        elif kind.endswith("_open"):
            marks.append(_MARKS.get(kind.removesuffix("_open"), ""))
        elif kind.endswith("_close"):
            marks.pop()
        elif kind == "image":
            target = visible(str(token.attrs.get("src", "")))
            lines[-1].append(("muted", f"[image: {_safe(token.content)} ({target})]"))
        else:
            lines[-1].append((" ".join(marks), _safe(token.content)))
    return lines


def _write_target(lines: list[Line], href: str, row: int, column: int) -> None:
    """A link's target behind its label, unless the label says the same."""
    spans = lines[row][column:] + [span for line in lines[row + 1 :] for span in line]
    label = "".join(text for _style, text in spans)
    target = visible(href)
    if target and target not in (label, f"mailto:{label}"):
        lines[-1].append(("url", f" ({target})"))
