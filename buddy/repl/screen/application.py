"""The inline application: prompt_toolkit's, at the bottom of the terminal, never full screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.cursor_shapes import CursorShapeConfig
from prompt_toolkit.data_structures import Point
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output.color_depth import ColorDepth

from buddy.repl.input.editor import Editor
from buddy.repl.input.keys import SEQUENCE_S, teach_shift_enter
from buddy.repl.render.style import Line, Look
from buddy.repl.render.text import teach_flags
from buddy.repl.screen.layout import build_layout, color_depth, toolkit_style
from buddy.repl.screen.output import FrameOutput
from buddy.repl.screen.scrollback import reflowed_cursor_row


class InlineApplication(Application[None]):
    """prompt_toolkit's application with the hooks the screen needs."""

    on_resize: Callable[[], None] | None = None
    may_draw: Callable[[], bool] | None = None
    depth = ColorDepth.DEPTH_1_BIT
    _tallest = 0

    def restyle(self, look: Look) -> None:
        """Use the colours of this look from the next frame on."""
        self.style, self.depth = toolkit_style(look), color_depth(look)

    def draw(self) -> None:
        """Draw now."""
        self._redraw()

    def erase(self) -> None:
        """Erase the application; the cursor returns to where it began."""
        self.renderer.erase()

    def interrupt(self) -> None:
        """Handle an interrupt signal like its key. prompt_toolkit's own handler does not look whether the
        application has ended, and outside of one every condition of every key costs 25 ms."""
        if self.is_running and not self.is_done and self.context is not None:
            self.context.copy().run(self.key_processor.send_sigint)

    @property
    def is_away(self) -> bool:
        """Tell whether another program has the terminal."""
        return self._running_in_terminal

    def take_tallest(self) -> int:
        """Return the rows it has taken at most since this was asked last."""
        tallest, self._tallest = self._tallest, self._rows_on_screen()
        return max(tallest, self._tallest)

    def _rows_on_screen(self) -> int:
        screen = self.renderer.last_rendered_screen
        return screen.height if screen is not None else 0

    def wanted_height(self) -> int:
        """Return the rows the application is about to take."""
        size = self.output.get_size()
        return max(self.layout.container.preferred_height(size.columns, size.rows).preferred, 1)

    def drawn_widths(self) -> list[int]:
        """Return the width of each row that is on the screen."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return []
        rows = (screen.data_buffer[y] for y in range(screen.height))
        return [
            max((x + cell.width for x, cell in row.items() if cell.char != " "), default=0) for row in rows
        ]

    def correct_for_reflow(self, columns: int) -> None:
        """Find the cursor's row before erasing: the narrower terminal wrapped our rows again."""
        at = self.renderer._cursor_pos  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no public way
        row = reflowed_cursor_row(self.drawn_widths(), at.y, at.x, columns)
        self.renderer._cursor_pos = Point(at.x, row)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above

    def _redraw(self, render_as_done: bool = False) -> None:
        if render_as_done or self.may_draw is None or self.may_draw():
            super()._redraw(render_as_done)
            self._tallest = max(self._tallest, self._rows_on_screen())

    def _on_resize(self) -> None:
        if self.on_resize is not None:
            self.on_resize()


def build_application(
    editor: Editor,
    keys: KeyBindings,
    *,
    top: Callable[[], Sequence[Line]],
    below: Callable[[], Sequence[Line]],
    look: Look,
    vi: bool,
    cursor: CursorShapeConfig | None,
    escape_s: float,
    keyboard: Input,
    output: FrameOutput,
) -> InlineApplication:
    """Return the application around an editor. Keys redraw at once; nothing polls."""
    teach_shift_enter()
    teach_flags()
    app = InlineApplication(
        layout=build_layout(
            editor.buffer,
            is_replaceable=lambda: editor.is_replaceable,
            top=top,
            sign=look.glyphs.prompt,
            below=below,
            input_rows=lambda: output.get_size().rows // 2,
        ),
        include_default_pygments_style=False,
        key_bindings=keys,
        editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
        cursor=cursor,
        color_depth=lambda: app.depth,
        erase_when_done=True,
        max_render_postpone_time=None,
        terminal_size_polling_interval=None,
        input=keyboard,
        output=output,
    )
    app.restyle(look)
    app.ttimeoutlen, app.timeoutlen = escape_s, SEQUENCE_S
    return app
