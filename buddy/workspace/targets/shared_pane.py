"""The pane of a task, for tools that look at it and type into it: a service of tasks on a tmux target."""

from __future__ import annotations

import asyncio

import msgspec

from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import clean, visible
from buddy.workspace.targets.pane_connection import PaneConnection
from buddy.workspace.targets.pane_prompt import program_of
from buddy.workspace.targets.tmux import PaneState

MAX_LINES = 2_000
MAX_CHARS = 60_000
MAX_TYPED_CHARS = 4_000
MAX_KEYS = 100


class PaneScreen(msgspec.Struct, frozen=True):
    """The text of a pane, and a line about its state."""

    text: str
    state: str


class SharedPane:
    """A pane that a person may look at and type into, too."""

    def __init__(self, connection: PaneConnection) -> None:
        self._connection = connection
        self.name = connection.address.name
        self.shown = f"{self.name} ({connection.address.shown})"

    async def capture(self, lines: int) -> PaneScreen:
        """Return the screen, or with `lines` above 0 so many of the last lines. Raises `ToolError`."""
        return await asyncio.to_thread(self._capture, lines)

    async def press(self, keys: tuple[str, ...]) -> None:
        """Press keys, by their names for tmux. Raises `ToolError`."""
        await asyncio.to_thread(self._press, keys)

    async def type(self, text: str, *, enter: bool) -> None:
        """Type text, and send it with Enter. Raises `ToolError`."""
        typed = text.replace("\r\n", "\r").replace("\n", "\r") + ("\r" if enter else "")
        await asyncio.to_thread(self._type, typed)

    def _capture(self, lines: int) -> PaneScreen:
        pane = self._connection.ensure()
        state = self._connection.look().state
        start = ("-S", f"-{min(lines, MAX_LINES)}") if lines > 0 else ()
        text = self._connection.tmux.run("capture-pane", "-p", "-J", *start, "-t", pane)
        rows = [row.rstrip() for row in clean(text, blank_lines=0).rstrip().split("\n")]
        if lines > 0:
            rows = rows[-lines:]
        shown = "\n".join(rows)
        if len(shown) > MAX_CHARS:
            left_out = format_count(len(shown) - MAX_CHARS, "character")
            shown = f"[… {left_out} before this …]\n{shown[-MAX_CHARS:]}"
        return PaneScreen(shown, _words(state))

    def _press(self, keys: tuple[str, ...]) -> None:
        if len(keys) > MAX_KEYS:
            raise ToolError(f"{len(keys)} keys are too many at once; send at most {MAX_KEYS}")
        pane = self._usable()
        words = [f"{key[:-1]}\\;" if key.endswith(";") else key for key in keys]  # as in `Tmux.paste`
        self._connection.tmux.run("send-keys", "-t", pane, "--", *words)

    def _type(self, text: str) -> None:
        if len(text) > MAX_TYPED_CHARS:
            raise ToolError(
                f"{format_count(len(text), 'character')} are too many to type at once; send at most "
                f"{MAX_TYPED_CHARS}, or write a file"
            )
        self._connection.tmux.paste(self._usable(), text)

    def _usable(self) -> str:
        """Return the pane if keys reach the program in it alone. Raises `ToolError`."""
        pane = self._connection.ensure()
        state = self._connection.look().state
        if state.has_mode:
            raise ToolError(
                "a person scrolls or chooses something in the pane, and keys would go there; nothing was "
                "typed. Wait, or ask them to leave it (q)"
            )
        if state.is_shared_input:
            raise ToolError(
                "synchronize-panes is on: what is typed would go to other panes, too; nothing was typed"
            )
        return pane


def _words(state: PaneState) -> str:
    """Describe a pane in a line."""
    screen = ", full screen" if state.is_full_screen else ""
    scrolls = ", a person scrolls in it" if state.has_mode else ""
    watched = format_count(state.attached, "terminal")
    return (
        f"pane {state.id}, {state.width}×{state.height}, runs {visible(program_of(state))}{screen}{scrolls}; "
        f"cursor in column {state.column + 1} of row {state.row + 1}; shown by {watched}"
    )
