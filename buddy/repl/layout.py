"""The application's layout: what is live, a rule, the input, the completion menu, key help, the footer."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.layout import BufferControl, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.widgets import SearchToolbar

MENU_ROWS = 8
INPUT_ROWS_MAX = 12


def build_layout(
    buffer: Buffer,
    *,
    top: Callable[[], StyleAndTextTuples],
    sign: str,
    below: Callable[[], StyleAndTextTuples],
    input_rows: Callable[[], int],
) -> Layout:
    """`top` ends with the rule; `below` is a hint, key help and the footer."""
    search = SearchToolbar()
    control = BufferControl(buffer, search_buffer_control=search.control, focus_on_click=False)

    def prefix(line: int, wrapped: int) -> AnyFormattedText:
        return [("class:prompt", sign + " ")] if line == 0 and wrapped == 0 else [("", "  ")]

    text = Window(
        control,
        wrap_lines=True,
        get_line_prefix=prefix,
        dont_extend_height=True,
        height=lambda: Dimension(min=1, max=max(1, min(INPUT_ROWS_MAX, input_rows()))),
    )
    menu = CompletionsMenu(max_height=MENU_ROWS, scroll_offset=1)
    parts = [_lines(top), text, search, menu, _lines(below)]
    return Layout(HSplit(parts), focused_element=control)


def _lines(source: Callable[[], StyleAndTextTuples]) -> Window:
    return Window(FormattedTextControl(source, focusable=False), dont_extend_height=True, wrap_lines=False)
