"""Closed Markdown as rows. Imported late: markdown-it costs 60 ms.

Every token is cleaned after parsing as well as before, because the parser decodes entities (`&#x202E;`): a
core rule of the parser does it, so that no element meets a token that was not.
HTML is text; links are written out as `label (url)`; no image is ever fetched.
"""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from buddy.repl.render.code import highlight
from buddy.repl.render.console import Canvas, Row
from buddy.repl.render.diff import fence_rows
from buddy.repl.render.style import Line
from buddy.repl.render.table import Align, number_columns, table_rows
from buddy.repl.render.text import plain
from buddy.repl.view.blocks import Fence, Markdown
from buddy.safety.sanitise import clean, visible

_HEADINGS = {"h1": "heading.1", "h2": "heading.2", "h3": "heading.3"}
_ALIGNS: dict[str, Align] = {
    "text-align:left": "left",
    "text-align:center": "center",
    "text-align:right": "right",
}
_MARKS = {"strong": "bold", "em": "italic", "s": "strike", "link": "link"}
DIFF_LANGUAGES = ("diff", "patch", "udiff")
_LEAST = 8
"""However deep lists are nested, their text has so many cells."""


class MarkdownPainter:
    """Draws closed Markdown. Holds the parser, which is costly to make."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
        # A block is drawn alone, so `[label][1]` can't find what says where 1 goes; parsed, that line would
        # show nothing at all. As text both are there.
        self._parser = parser.disable("reference")
        self._parser.core.ruler.push("clean", clean_tokens)

    def rows(self, block: Markdown, width: int) -> list[Row]:
        """Return the rows of a block, each at most `width` cells."""
        fence = block.fence
        if fence is not None:
            named = fence.edge in ("whole", "first") and not fence.context
            return code_rows(self._canvas, fence, width, named=named)
        walk = _BlockWalk(self._parser.parse(block.text), self._canvas)
        return walk.blocks(width, until="", tight=False)


def clean_tokens(state: StateCore) -> None:
    """Clean every token: its text, its language, where it leads."""
    for token in state.tokens:
        _clean_token(token)
        for child in token.children or ():
            _clean_token(child)


def _clean_token(token: Token) -> None:
    if token.content and not _is_clean(token.content):
        token.content = "\n".join(map(clean, token.content.split("\n")))
    if token.info and not _is_clean(token.info):
        token.info = clean(token.info)
    for name, value in token.attrs.items():
        if isinstance(value, str) and name in ("href", "src"):
            token.attrs[name] = visible(value)


def _is_clean(text: str) -> bool:
    return text.isascii() and text.isprintable()


def code_rows(canvas: Canvas, fence: Fence, width: int, *, named: bool) -> list[Row]:
    """Code behind a bar, wrapped (never cut) where it is too wide; `named`: below the word for its
    language."""
    language = fence.language.split(" ")[0].split("{")[0]
    if language.lower() in DIFF_LANGUAGES:
        rows = fence_rows(canvas, fence, width - 2)
    else:
        lines = highlight(fence.code, language.lower(), fence.context)
        rows = [row for line in lines for row in canvas.wrap_code(line, width - 2)]
    bar: Line = [("gutter", canvas.look.glyphs.quote), ("", " ")]
    rows = canvas.behind(bar, bar, rows)
    if named and language:
        bar = [("muted", canvas.look.glyphs.quote + " ")]  # as the word: one colour fewer on every block
        rows = [*canvas.behind(bar, bar, canvas.wrap([("muted", clean(language))], width - 2)), *rows]
    return rows


class _BlockWalk:
    """One pass over the tokens of a block."""

    def __init__(self, tokens: Sequence[Token], canvas: Canvas) -> None:
        self._tokens = tokens
        self._at = 0
        self._canvas = canvas
        self._glyphs = canvas.look.glyphs

    def blocks(self, width: int, *, until: str, tight: bool) -> list[Row]:
        """Return rows of all blocks up to the closing token `until` ("" for the end), blank ones between them
        unless `tight`."""
        rows: list[Row] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == until:
                break
            drawn = self._block(token, max(width, _LEAST))
            if rows and drawn and not (tight or token.hidden):
                rows.append([])
            rows += drawn
        return rows

    def _block(self, token: Token, width: int) -> list[Row]:
        match token.type:
            case "paragraph_open":
                return self._text(width, "")
            case "heading_open":
                return self._text(width, _HEADINGS.get(token.tag, "heading"))
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, width)
            case "blockquote_open":
                bar: Line = [("gutter", self._glyphs.quote + " ")]
                return self._canvas.behind(
                    bar, bar, self.blocks(width - 2, until="blockquote_close", tight=False)
                )
            case "fence" | "code_block":
                fence = Fence(token.info, token.content.removesuffix("\n"), "", "whole")
                return code_rows(self._canvas, fence, width, named=True)
            case "hr":
                return self._canvas.wrap([("rule", self._glyphs.rule * min(width, 40))], width)
            case "table_open":
                return self._table(width)
            case _:  # closing tokens of markdown-it, and kinds a plug-in might add
                return self._canvas.wrap([("", token.content)], width) if token.content else []

    def _text(self, width: int, style: str) -> list[Row]:
        """Return the inline token that is next, and its closing token."""
        inline = self._tokens[self._at]
        self._at += 2
        return self._canvas.wrap_all(inline_lines(inline, style), width)

    def _list(self, opening: Token, width: int) -> list[Row]:
        rows: list[Row] = []
        number = int(opening.attrs.get("start", 1))
        ordered = opening.type.startswith("ordered")
        closing = opening.type.replace("open", "close")
        while self._tokens[self._at].type != closing:
            sign = f"{number}." if ordered else self._glyphs.bullet
            self._at += 1
            pad = len(sign) + 1
            item = self.blocks(width - pad, until="list_item_close", tight=True)
            rows += self._canvas.behind([("bullet", sign), ("", " ")], [("", " " * pad)], item or [[]])
            number += 1
        self._at += 1
        return rows

    def _table(self, width: int) -> list[Row]:
        cells: list[list[Line]] = []
        aligns: list[Align | None] = []
        while (token := self._tokens[self._at]).type != "table_close":
            if token.type == "tr_open":
                cells.append([])
            elif token.type == "th_open":
                aligns.append(_ALIGNS.get(str(token.attrs.get("style", ""))))
            elif token.type == "inline":
                style = "bold" if len(cells) == 1 else ""
                cells[-1].append([span for line in inline_lines(token, style) for span in line])
            self._at += 1
        self._at += 1
        numbers = number_columns([[plain(cell) for cell in row] for row in cells[1:]])
        sides: list[Align] = [
            marked or (numbers[at] if at < len(numbers) else "left") for at, marked in enumerate(aligns)
        ]
        return table_rows(self._canvas, cells, width, header=True, aligns=sides, spaced=True)


def inline_lines(inline: Token, style: str) -> list[Line]:
    """Return an inline token as unwrapped lines, one per line of the source."""
    lines: list[Line] = [[]]
    marks: list[str] = [style] if style else []
    hrefs: list[tuple[str, int, int]] = []
    for token in inline.children or ():
        kind = token.type
        if kind == "text":
            lines[-1].append((" ".join(marks), token.content))
        elif kind in ("softbreak", "hardbreak"):
            lines.append([])
        elif kind == "code_inline":
            lines[-1].append((" ".join([*marks, "code"]), token.content))
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
            target = token.attrs.get("src", "")
            lines[-1].append(("muted", f"[image: {token.content} ({target})]"))
        else:
            lines[-1].append((" ".join(marks), token.content))
    return lines


def _write_target(lines: list[Line], href: str, row: int, column: int) -> None:
    """Write a link's target after its label, unless the label is the same."""
    spans = lines[row][column:] + [span for line in lines[row + 1 :] for span in line]
    label = "".join(text for _style, text in spans)
    if href and href not in (label, f"mailto:{label}"):
        lines[-1].append(("url", f" ({href})"))
