"""Looking at a shared pane and typing into it. Imported for tasks on a tmux target alone, where these two
take the place of the tools of the same names for jobs."""

from __future__ import annotations

from typing import Any

from buddy.agent.display import Plain
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolContext, ToolError, ToolResult, any_access, no_access, tool
from buddy.safety.sanitise import visible
from buddy.tools.jobs import capture_pane, send_keys
from buddy.workspace.targets.pane_keys import tmux_key
from buddy.workspace.targets.shared_pane import SharedPane

_CONTROL = pattern("([\x00-\x1f\x7f])")
CONTROL_NAMES = {"\r": "Enter", "\n": "Enter", "\t": "Tab", "\x1b": "Escape", "\x7f": "BSpace"}


def _written_out(text: str) -> str:
    """Return text with its control characters as the names of their keys. The brackets around them are shown
    as something else where the text itself holds some."""
    return "".join(
        f"⟨{CONTROL_NAMES.get(piece) or 'C-' + chr(ord(piece) | 96)}⟩" if place % 2 else visible(piece)
        for place, piece in enumerate(_CONTROL().split(text))
    )


def _in_words(text: str, enter: bool, keys: tuple[str, ...]) -> str:
    pieces = [_written_out(text), "⟨Enter⟩" if enter else "", *(f"⟨{visible(key)}⟩" for key in keys)]
    return " ".join(piece for piece in pieces if piece)


def _preview(ctx: ToolContext, arguments: Any) -> Plain:
    if not arguments.text and not arguments.keys and not arguments.enter:
        raise ToolError("there is nothing to type; give text, keys or enter")
    for key in arguments.keys:
        tmux_key(key)
    return Plain(
        f"type into {ctx.service(SharedPane).shown}",
        _in_words(arguments.text, arguments.enter, arguments.keys),
    )


@tool(
    name=send_keys.name,
    anywhere=True,
    risk="high",
    core=True,
    category="shell",
    access=any_access,
    preview=_preview,
    effect="it types into the shared pane",
    argument_aliases={"key": "keys", "input": "text", "chars": "text", "data": "text"},
)
async def send_pane_keys(
    ctx: ToolContext, keys: tuple[str, ...] = (), text: str = "", enter: bool = False
) -> ToolResult:
    """Type into the shared pane, for a program that runs there: `text` as it is, then Enter with `enter`,
    then `keys`: names like "Enter", "Up", "C-c", "M-x", "F5", or single characters. Commands go through
    run_shell, which knows their end."""
    if not text and not keys and not enter:
        raise ToolError("there is nothing to type; give text, keys or enter")
    names = tuple(tmux_key(key) for key in keys)
    pane = ctx.service(SharedPane)
    if text or enter:
        await pane.type(text, enter=enter)
    if names:
        await pane.press(names)
    count = format_count(len(text) + enter + len(names), "key")
    return ToolResult(
        f"typed {count} into the pane; capture_pane shows what came of it",
        Plain(f"typed into {pane.name}", _in_words(text, enter, keys)),
    )


@tool(name=capture_pane.name, anywhere=True, risk="low", core=True, category="shell", access=no_access)
async def capture_shared_pane(ctx: ToolContext, lines: int = 0) -> ToolResult:
    """Show the shared pane as it is now; with `lines` so many of its last lines, also those that scrolled
    away."""
    pane = ctx.service(SharedPane)
    screen = await pane.capture(max(0, lines))
    return ToolResult(f"{screen.text}\n[{screen.state}]", Plain(f"screen of {pane.name}", screen.text))
