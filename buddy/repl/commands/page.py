"""The command that shows the session in a browser."""

from __future__ import annotations

from buddy.agent.formatting import whole_number
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock


@command(family="session", usage="[PORT|off]", choices=("off",))
async def serve(context: Context, argument: str) -> None:
    """Show this session as a page in a browser of this machine; /serve off ends it"""
    if argument == "off":
        was_served = await context.page.stop()
        context.screen.print(NoteBlock("info", "The page is closed." if was_served else "There is no page."))
        return
    port = whole_number(argument) if argument else 0
    if port is None or not 0 <= port < 65_536:
        raise CommandError(f"expected /serve, /serve PORT or /serve off, found {argument!r}")
    address = await context.page.start(port)
    ending = "Who has this address can do what you can; /serve off closes the page."
    context.screen.print(NoteBlock("info", f"{address}\n{ending}"))
