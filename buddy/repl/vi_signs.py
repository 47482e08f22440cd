"""Indicators of vi mode: a word in the footer, and the cursor's shape where the terminal has several."""

from __future__ import annotations

from collections.abc import Mapping

from prompt_toolkit.application import Application
from prompt_toolkit.cursor_shapes import CursorShapeConfig, ModalCursorShapeConfig
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.vi_state import InputMode

from buddy.repl.footer import TYPING
from buddy.repl.style import DUMB

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
    """The word for the mode the keys are in, "" outside of vi mode."""
    if app.editing_mode is not EditingMode.VI:
        return ""
    if app.current_buffer.selection_state is not None:
        return "VISUAL"
    return _SIGNS[app.vi_state.input_mode]
