"""Calls that only look: one line each, and one line for several of a kind in a row. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from buddy.agent.counting import counted
from buddy.agent.display import FileList, Plain
from buddy.repl.blocks import Block, Lookups, ToolCall
from buddy.safety.sanitise import one_line

SUBJECT_CHARS = 400


class Kind(msgspec.Struct, frozen=True):
    """The words for a kind of lookup: its verb, and the noun for what several of them looked at."""

    verb: str
    noun: str


KINDS: Mapping[str, Kind] = {
    "read_file": Kind("read", "file"),
    "list_files": Kind("list", "folder"),
    "find_files": Kind("find", "pattern"),
    "grep": Kind("search", "pattern"),
    "find_definition": Kind("look up", "name"),
}
"""The tools whose output is for the model. Every other tool shows what its display holds."""


def kind_of(call: ToolCall) -> Kind | None:
    """The kind of a lookup that went well, None for every other call."""
    if call.status != "ok" or not isinstance(call.display, (Plain, FileList)):
        return None
    return KINDS.get(call.call.name)


def merge_lookups(calls: Sequence[ToolCall]) -> list[Block]:
    """The calls of one reply, with lookups of the same kind that follow each other in one block."""
    blocks: list[Block] = []
    for kind, run in groupby(calls, kind_of):
        row = tuple(run)
        blocks += row if kind is None or len(row) == 1 else (Lookups(row),)
    return blocks


def subject_of(call: ToolCall) -> str:
    """The thing a call looked at: its title without the tool's name."""
    return one_line(call.title.removeprefix(call.call.name).strip(), SUBJECT_CHARS)


def finding_of(call: ToolCall) -> str:
    """The size of what a lookup found: lines of a file, else the tool's summary; "" when nothing tells."""
    display = call.display
    if isinstance(display, Plain) and call.call.name == "read_file" and display.summary and display.body:
        return counted(display.body.count("\n") + 1, "line")
    summary = display.summary if isinstance(display, (Plain, FileList)) else ""
    return summary.removeprefix(f"{subject_of(call)}: ")
