"""The application's layout: what is live, a rule, the input, the completion menu, key help, the footer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.layout import BufferControl, Dimension, Layout
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.widgets import SearchToolbar

from buddy.repl.stack import InputWindow, Stack
from buddy.repl.style import Line

MENU_ROWS = 8
INPUT_ROWS_MAX = 12


class ShowReplaceable(Processor):
    """Draw the line as selected while what is typed next takes its place."""

    def __init__(self, is_replaceable: Callable[[], bool]) -> None:
        self._is_replaceable = is_replaceable

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """One line of the input."""
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
