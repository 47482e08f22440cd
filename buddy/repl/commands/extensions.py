"""Lists of skills, command files, subagent files and hooks, with why one is not active."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.agent.formatting import format_count
from buddy.extend.definitions import ExtensionFile
from buddy.extend.search_folders import Kind, hook_files, search_folders
from buddy.repl.commands.registry import command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, PlainText, TableBlock
from buddy.safety.sanitise import clean, one_line

ABOUT_CHARS = 80
COMMAND_CHARS = 60


@command(family="setup")
async def skills(context: Context, argument: str) -> None:
    """List the skills, and why one is not active"""
    await _show_files(context, "skill", "skills", sign="/")


@command(family="setup")
async def commands(context: Context, argument: str) -> None:
    """List the command files, and why one is not active"""
    await _show_files(context, "command", "command files", sign="/")


@command(family="setup")
async def agents(context: Context, argument: str) -> None:
    """List the subagent files, and why one is not active"""
    await _show_files(context, "agent", "subagent files", sign="")


@command(family="setup")
async def hooks(context: Context, argument: str) -> None:
    """List the hooks, and why one is not active"""
    extensions = context.session.extensions
    await extensions.refresh()
    rows = [
        (
            one_line(entry.label, 40),
            one_line(entry.title, COMMAND_CHARS),
            entry.source,
            entry.reason and f"not active: {entry.reason}",
        )
        for entry in extensions.catalogue.hooks
    ]
    rows += [
        (one_line(f"{hook.event} {hook.matcher}".strip(), 40), "callback", hook.source, "")
        for hook in extensions.hooks.all()
        if hook.scope == "callback"
    ]
    if rows:
        context.screen.print(TableBlock(("event", "command", "from", "note"), tuple(rows)))
        return
    _say_none(context, "hooks", [file.label for file in hook_files(extensions.places)])


async def _show_files(context: Context, kind: Kind, words: str, *, sign: str) -> None:
    extensions = context.session.extensions
    await extensions.refresh()
    found = extensions.catalogue.of_kind(kind)
    if not found:
        _say_none(
            context,
            words,
            [folder.label for folder in search_folders(extensions.places) if folder.kind == kind],
        )
        return
    rows = tuple(_row(one, sign) for one in found)
    context.screen.print(TableBlock(("name", "what for", "from", "note"), rows))
    inactive = sum(one.state != "active" for one in found)
    if inactive:
        context.screen.print(
            NoteBlock("info", f"{format_count(inactive, 'of them is', 'of them are')} not active")
        )


def _row(one: ExtensionFile, sign: str) -> tuple[str, str, str, str]:
    own = f"with the MCP servers {', '.join(one.own_servers)} of its own: /mcp" if one.own_servers else ""
    note = "; ".join(filter(None, (one.warning, clean(own))))
    if one.state != "active":
        note = f"{one.state}: {one.reason}"
    elif not one.for_user:
        note = "; ".join(filter(None, ("for the model only", note)))
    elif not one.for_model:
        note = "; ".join(filter(None, ("not for the model", note)))
    name = f"{sign if one.for_user else ''}{one.name}{' ' + one.hint if one.hint else ''}"
    return one_line(name, 60), one_line(one.description, ABOUT_CHARS), one.label, note


def _say_none(context: Context, words: str, labels: Sequence[str]) -> None:
    context.screen.print(NoteBlock("info", f"no {words}; they are looked for in:"))
    context.screen.print(PlainText("\n".join(f"  {label}" for label in dict.fromkeys(labels))))
