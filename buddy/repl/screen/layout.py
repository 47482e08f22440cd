"""The application's layout: live rows, a rule, the input, the completion menu, key help, the footer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import CursorShapeConfig, ModalCursorShapeConfig
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import BufferControl, Dimension, Layout
from prompt_toolkit.layout.containers import Container, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from buddy.repl.render.style import DUMB, Line, Look
from buddy.repl.view.status import TYPING


@lru_cache(maxsize=256)
def style_class(style: str) -> str:
    """Our style as prompt_toolkit names it; a colour (`fg:ansired`) is one for it already."""
    return " ".join(name if ":" in name else f"class:{name}" for name in style.split())


def toolkit_style(look: Look) -> Style:
    """Return the theme for what prompt_toolkit draws: our styles, and its menus and search line."""
    rules = look.rules()
    rules |= {
        "completion-menu": "nobold noreverse",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "bg:default fg:default noreverse bold",
        "completion-menu.meta.completion": "bg:default fg:default dim",
        "completion-menu.meta.completion.current": "bg:default fg:default bold",
        "completion-menu.multi-column-meta": "bg:default fg:default",
        "search": "",
        "search.current": "reverse",
        "incsearch": "",
        "incsearch.current": "reverse",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default",
    }
    return Style.from_dict(rules)


def color_depth(look: Look) -> ColorDepth:
    """256 colours where the theme has some of its own; else those of the palette, or none."""
    if look.theme == "mono":
        return ColorDepth.DEPTH_1_BIT
    return ColorDepth.DEPTH_8_BIT if look.has_grounds else ColorDepth.DEPTH_4_BIT


Row = defaultdict[int, Char]
_BLANK = Char(" ", "[transparent]")
_SECOND_CELL = Char("", "")


class InputWindow(Window):
    """A window without prompt_toolkit's style for its last row, which would touch every cell of it."""

    def _apply_style(self, new_screen: Screen, write_position: WritePosition, parent_style: str) -> None:
        """Apply no style."""


class NoMouse(MouseHandlers):
    """Registers no mouse handlers: the mouse stays the terminal's."""

    def set_mouse_handler_for_range(
        self, x_min: int, x_max: int, y_min: int, y_max: int, handler: object = None
    ) -> None:
        """Keep nothing."""


class DrawnLines:
    """Our lines as rows of cells, kept until the lines change. The rows are shared by all screens they are
    on; nobody changes them."""

    def __init__(self, source: Callable[[], Sequence[Line]]) -> None:
        self._source = source
        self._lines: list[Line] = []
        self._columns = -1
        self._rows: list[Row] = []

    def rows(self, columns: int) -> list[Row]:
        """Return the rows now."""
        lines = list(self._source())
        if columns != self._columns or lines != self._lines:
            self._rows = [row_of(line, columns) for line in lines]
            self._lines, self._columns = lines, columns
        return self._rows


def row_of(line: Line, columns: int) -> Row:
    """Return the cells of a line. A wide character takes two, a combining one goes with the one before."""
    row: Row = defaultdict(lambda: _BLANK)
    x = 0
    for style, text in line:
        name = style_class(style)
        for char in text:
            cell = Char(char, name)
            if x + cell.width > columns:
                return row
            if not cell.width:
                _combine(row, x, char)
                continue
            row[x] = cell
            for second in range(1, cell.width):
                row[x + second] = _SECOND_CELL
            x += cell.width
    return row


def _combine(row: Row, x: int, char: str) -> None:
    """Put a character without a width to the one before it."""
    at = x - 1 if x and row[x - 1].width else x - 2
    if at >= 0:
        row[at] = Char(row[at].char + char, row[at].style)


class Stack(Container):
    """Rows from top to bottom. Where there is no room the menu goes first, then rows of the input but one,
    then the lines below but the last, and the lines above from their first."""

    def __init__(
        self,
        *,
        top: Callable[[], Sequence[Line]],
        entry: Window,
        search: Container,
        menu: Container,
        below: Callable[[], Sequence[Line]],
    ) -> None:
        self._top = DrawnLines(top)
        self._below = DrawnLines(below)
        self._parts = (entry, search, menu)
        self._no_mouse = NoMouse()
        self._asked: tuple[int, int, list[int]] = (-1, -1, [])

    def reset(self) -> None:
        """Reset the scroll positions of the windows."""
        for part in self._parts:
            part.reset()

    def preferred_width(self, max_available_width: int) -> Dimension:
        """Take the full width."""
        return Dimension(preferred=max_available_width)

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        """Return the height of all parts together. It is cached for the frame being drawn: laying out the
        input is most of its work."""
        heights = [part.preferred_height(width, max_available_height).preferred for part in self._parts]
        self._asked = (get_app().render_counter, width, heights)
        lines = len(self._top.rows(width)) + len(self._below.rows(width))
        return Dimension(preferred=lines + sum(heights))

    def _heights(self, width: int, room: int) -> list[int]:
        if self._asked[:2] != (get_app().render_counter, width):
            self.preferred_height(width, room)
        return self._asked[2]

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        """Draw everything, the lines by sharing their rows."""
        width, height = write_position.width, write_position.height
        top, below = self._top.rows(width), self._below.rows(width)
        wanted = self._heights(width, height)
        below = below[-max(1, height - len(top) - 1) :]
        top = top[max(0, len(top) + len(below) + 1 - height) :]
        entry, search, menu = share_rows(wanted, max(1, height - len(top) - len(below)))
        y = _put(screen, top, 0)
        for part, rows in zip(self._parts, (entry, search, menu), strict=True):
            if rows:
                at = WritePosition(0, y, width, rows)
                part.write_to_screen(screen, self._no_mouse, at, parent_style, erase_bg, z_index)
            y += rows
        y = _put(screen, below, y)
        screen.width, screen.height = max(screen.width, width), max(screen.height, height)

    def get_children(self) -> list[Container]:
        """Return the windows, for the focus."""
        return list(self._parts)


def share_rows(wanted: Sequence[int], room: int) -> tuple[int, int, int]:
    """Return rows of the input, the search line and the menu: one of input and the search line in any case,
    the menu what is left."""
    entry, search, menu = wanted
    search = min(search, max(0, room - 1))
    entry = min(max(entry, 1), max(1, room - search))
    return entry, search, min(menu, max(0, room - search - entry))


def _put(screen: Screen, rows: Sequence[Row], y: int) -> int:
    for row in rows:
        screen.data_buffer[y] = row
        y += 1
    return y


MENU_ROWS = 8
INPUT_ROWS_MAX = 12


class ShowReplaceable(Processor):
    """Draw the line as selected while what is typed next takes its place."""

    def __init__(self, is_replaceable: Callable[[], bool]) -> None:
        self._is_replaceable = is_replaceable

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Transform one line of the input."""
        fragments = transformation_input.fragments
        if not self._is_replaceable():
            return Transformation(fragments)
        return Transformation([(f"{style} class:selected", text) for style, text, *_ in fragments])


def build_layout(
    buffer: Buffer,
    *,
    is_replaceable: Callable[[], bool],
    top: Callable[[], Sequence[Line]],
    sign: str,
    below: Callable[[], Sequence[Line]],
    input_rows: Callable[[], int],
) -> Layout:
    """`top` ends with the rule; `below` is a hint, key help and the footer."""
    search = SearchToolbar()
    control = BufferControl(
        buffer,
        input_processors=[ShowReplaceable(is_replaceable)],
        search_buffer_control=search.control,
        preview_search=True,
        focus_on_click=False,
    )

    def prefix(line: int, wrapped: int) -> AnyFormattedText:
        return [("class:prompt", sign + " ")] if line == 0 and wrapped == 0 else [("", "  ")]

    entry = InputWindow(
        control,
        wrap_lines=True,
        get_line_prefix=prefix,
        height=lambda: Dimension(min=1, max=max(1, min(INPUT_ROWS_MAX, input_rows()))),
    )
    menu = CompletionsMenu(max_height=MENU_ROWS, scroll_offset=1)
    stack = Stack(top=top, entry=entry, search=search.__pt_container__(), menu=menu, below=below)
    return Layout(stack, focused_element=control)


_SIGNS = {
    InputMode.INSERT: TYPING,
    InputMode.INSERT_MULTIPLE: TYPING,
    InputMode.REPLACE: "REPLACE",
    InputMode.REPLACE_SINGLE: "REPLACE",
    InputMode.NAVIGATION: "NORMAL",
}
_ONE_SHAPE = ("linux", "vt", "ansi", "cons", "sun")
"""How TERM begins where the terminal does not know the sequence: some of them would print its last letter."""


def cursor_shapes(environ: Mapping[str, str], *, vi: bool) -> CursorShapeConfig | None:
    """Return the cursor's shape for each mode; None where it must not be changed."""
    term = environ.get("TERM", "")
    return ModalCursorShapeConfig() if vi and not (term in DUMB or term.startswith(_ONE_SHAPE)) else None


def sign(app: Application[None]) -> str:
    """Return the name of the current key mode, "" outside of vi mode."""
    if app.editing_mode is not EditingMode.VI:
        return ""
    if app.current_buffer.selection_state is not None:
        return "VISUAL"
    return _SIGNS[app.vi_state.input_mode]
