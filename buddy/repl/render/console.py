"""The rich console of one look: styled text as rows of segments, rows as text for the terminal.

Imported late, in the painter's thread: rich costs 60 ms. Nothing is ever given to rich as markup, and every
text has been cleaned before it comes here: rich lets control characters through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from io import StringIO

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from buddy.repl.render.style import GROUNDS, NO_PICTURES, Line, Look, PictureWay

Row = list[Segment]
"""One line of the terminal."""

_SYSTEMS = {"16": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "true": ColorSystem.TRUECOLOR}
_NARROWEST = 2
"""The narrowest row: a wide character has to fit."""
_MARK = "x"
_TO_THE_EDGE = "\x1b[K"
"""Erases the rest of the line in the colour of the ground: a segment with a ground and no text is drawn so.
Blanks would be wrapped when the terminal gets narrower, and would be copied along with the text."""


class Canvas:
    """Lays out text and renderables for one look. Used by two threads: it holds nothing that changes but what
    it remembers of styles. `pictures` returns the way to show them; it may wait for the terminal."""

    def __init__(self, look: Look, pictures: Callable[[], PictureWay] = lambda: NO_PICTURES) -> None:
        self.look = look
        self.pictures = pictures
        self._theme = rich_theme(look)
        self.console = Console(
            file=StringIO(), force_terminal=True, color_system="truecolor", theme=self._theme, markup=False,
            highlight=False, emoji=False, legacy_windows=False, no_color=False, width=80, height=25,
        )  # fmt: skip
        self._styles: dict[str, Style] = {}
        self._codes = lru_cache(512)(self._codes_of)

    def style(self, names: str) -> Style:
        """Return the style of several names; names that the theme does not have change nothing."""
        style = self._styles.get(names)
        if style is None:
            known = self._theme.styles
            style = Style.combine([Style.null(), *(known[name] for name in names.split() if name in known)])
            self._styles[names] = style
        return style

    def text(self, line: Line) -> Text:
        """Return a line for rich to lay out."""
        spans = [(part, self.style(names)) for names, part in line]
        return Text.assemble(*spans, end="", overflow="fold")

    def wrap(self, line: Line, width: int) -> list[Row]:
        """Return a line as rows of at most `width` cells, broken at blanks where possible."""
        if sum(cell_len(part) for _names, part in line) <= width:
            return [[Segment(part, self.style(names)) for names, part in line]]
        return self.wrap_text(self.text(line), width)

    def wrap_text(self, text: Text, width: int) -> list[Row]:
        """Return a text as rows of at most `width` cells, broken at blanks where possible."""
        width = max(width, _NARROWEST)
        parts = [text] if text.cell_len <= width else text.wrap(self.console, width, overflow="fold")
        return [list(part.render(self.console)) for part in parts]

    def wrap_all(self, lines: Iterable[Line], width: int) -> list[Row]:
        """Wrap several lines, one below the other."""
        return [row for line in lines for row in self.wrap(line, width)]

    def wrap_code(self, line: Line, width: int) -> list[Row]:
        """Return a line of code: what does not fit goes on below its first word, as far as that leaves
        room."""
        if sum(cell_len(part) for _names, part in line) <= width:
            return self.wrap(line, width)
        text = self.text(line)
        blanks = len(text.plain) - len(text.plain.lstrip(" "))
        margin = min(blanks, width // 2)
        indent: Line = [("", " " * margin)]
        return self.behind(indent, indent, self.wrap_text(text[blanks:], width - margin))

    def render(self, renderable: RenderableType, width: int) -> list[Row]:
        """Render anything rich can draw, at most `width` cells wide."""
        options = self.console.options.update(width=max(width, _NARROWEST), height=None)
        return self.console.render_lines(renderable, options, pad=False)

    def behind(self, first: Line, rest: Line, rows: Iterable[Row]) -> list[Row]:
        """Return rows behind a prefix: one for the first row, another for all that follow."""
        prefixes = [[Segment(text, self.style(names)) for names, text in line] for line in (first, rest)]
        return [prefixes[index > 0] + row for index, row in enumerate(rows)]

    def ansi(self, rows: Iterable[Row]) -> str:
        """Return rows as text for the terminal, each ended by a newline, without blanks at their ends."""
        return "".join(self._ansi(row) + "\n" for row in rows)

    def _ansi(self, row: Row) -> str:
        parts: list[str] = []
        current = ""
        for text, style, _control in _without_end(row):
            if not text and (style is None or style.bgcolor is None):
                continue
            codes = self._codes(style) if style is not None else ""
            if codes != current and not (_is_blank(text) and _shows_text_only(codes, current)):
                parts.append(sgr_change(current, codes))
                current = codes
            parts.append(text or _TO_THE_EDGE)
        if current:
            parts.append("\x1b[m")
        return "".join(parts)

    def _codes_of(self, style: Style) -> str:
        """Return the SGR parameters of a style, "" when it changes nothing."""
        if not self.look.ansi:
            return ""
        before = style.render(_MARK, color_system=ColorSystem.TRUECOLOR).partition(_MARK)[0]
        return before.removeprefix("\x1b[").removesuffix("m")


def _is_blank(text: str) -> bool:
    return text != "" and not text.strip(" ")


@lru_cache(512)
def _shows_text_only(*styles: str) -> bool:
    """Tell whether none of these styles can be seen on a blank, so that one is as good as another there."""
    return all(_sgr_parts(codes).keys() <= {"1", "2", "3", "39"} for codes in styles)


@lru_cache(512)
def sgr_change(before: str, after: str) -> str:
    """Return the shortest sequence from one style to another, both as SGR parameters, "" for none."""
    whole = f"0;{after}" if before and after else after
    old, new = _sgr_parts(before), _sgr_parts(after)
    ends = {_SGR_ENDS.get(key, key) for key in old.keys() - new.keys()}
    begins = [code for key, code in new.items() if old.get(key) != code or _SGR_ENDS.get(key) in ends]
    change = ";".join([*sorted(ends), *begins])
    return f"\x1b[{min(whole, change, key=len)}m"


_SGR_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""By attribute, the parameter that ends it. Colours are keyed by theirs."""


def _sgr_parts(codes: str) -> dict[str, str]:
    """SGR parameters one by one: attributes under their own number, the colour under 39, the ground under
    49."""
    found: dict[str, str] = {}
    left = codes.split(";") if codes else []
    while left:
        if left[0] in ("38", "48"):
            size = 3 if left[1] == "5" else 5
            key = left[0][0] + "9"
        else:
            size = 1
            key = left[0] if len(left[0]) == 1 else "39" if left[0][0] in "39" else "49"
        found[key] = ";".join(left[:size])
        del left[:size]
    return found


def rich_theme(look: Look) -> Theme:
    """Return the one table of styles as a theme of rich's."""
    rules = look.rules()
    if look.has_grounds:
        rules |= GROUNDS[look.theme]
    system = _SYSTEMS[look.depth]
    return Theme({name: _rich_style(rule, system) for name, rule in rules.items()}, inherit=False)


def _rich_style(rule: str, system: ColorSystem) -> Style:
    """Return a rule in prompt_toolkit's words (`bold ansibrightblue`, `bg:#0a3018`) as a style of rich's. Its
    colours are the terminal's already: rich remembers the first terminal a style was drawn for. Text has one
    of 256 colours also where there are more: the sequence takes half the bytes."""
    words = (word.removeprefix("ansi").replace("bright", "bright_") for word in rule.split())
    style = Style.parse(" ".join("on " + word[3:] if word.startswith("bg:") else word for word in words))
    text, ground = style.color, style.bgcolor
    return style + Style(
        color=text and text.downgrade(ColorSystem.EIGHT_BIT), bgcolor=ground and ground.downgrade(system)
    )


def _without_end(row: Row) -> Row:
    """Return a row without the blanks at its end that nobody sees."""
    if row and _has_ground(row[-1]):
        return row
    end = len(row)
    while end and not row[end - 1].text.strip(" "):
        end -= 1
    if not end:
        return []
    last = row[end - 1]
    return [*row[: end - 1], Segment(last.text.rstrip(" "), last.style)]


def _has_ground(segment: Segment) -> bool:
    return segment.style is not None and segment.style.bgcolor is not None


def plain_row(row: Row) -> str:
    """Return the text of a row."""
    return "".join(segment.text for segment in row)


def row_cells(row: Row) -> int:
    """Return the terminal cells a row takes."""
    return sum(segment.cell_length for segment in row)


def live_line(row: Row) -> Line:
    """Return a row as a line of the live region, whose styles are prompt_toolkit's. Grounds are left out:
    they would end with the text."""
    return [("" if style is None else _toolkit_words(style), text) for text, style, _control in row]


_ATTRIBUTES = ("bold", "dim", "italic", "underline", "strike", "reverse")


@lru_cache(512)
def _toolkit_words(style: Style) -> str:
    words = [name for name in _ATTRIBUTES if getattr(style, name)]
    if style.color is not None:
        is_fixed = style.color.name.startswith("#")
        words.append(
            "fg:" + (style.color.name if is_fixed else "ansi" + style.color.name.replace("bright_", "bright"))
        )
    return " ".join(words)
