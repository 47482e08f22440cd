"""Blocks: everything printed above the prompt, kept as sources so that it can be redrawn at any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Literal

import msgspec
from msgspec.structs import replace

from buddy.agent.display import Diff, Display, FileDiff, FileList, Plain
from buddy.agent.events import ApprovalAnswer, RiskName, TurnOutcome
from buddy.agent.formatting import format_count
from buddy.agent.messages import Call, Origin, ResultStatus
from buddy.agent.receipt import Receipt
from buddy.repl.render.style import DIFF_FOLD_LINES
from buddy.safety.sanitise import one_line

FenceEdge = Literal["whole", "first", "middle", "last"]


class Fence(msgspec.Struct, frozen=True):
    """The visible lines of a fenced code block or of a slice of it. `context` are lines before the slice, for
    the highlighter only."""

    language: str
    code: str
    context: str
    edge: FenceEdge


class Markdown(msgspec.Struct, frozen=True, tag="markdown"):
    """Closed Markdown. `text` is the exact source; `continues` means that it follows the previous block
    without a blank line (the next list item, the next slice of a fence)."""

    text: str
    continues: bool = False
    fence: Fence | None = None


class UserPrompt(msgspec.Struct, frozen=True, tag="user"):
    """A prompt the user sent. `task_id` is 0 where the task needs no naming; `along` names the notes and
    files sent with it."""

    text: str
    origin: Origin
    pictures: int
    task_id: int
    along: tuple[str, ...] = ()


class CommandEcho(msgspec.Struct, frozen=True, tag="command"):
    """A slash command as it was entered."""

    line: str


class Thought(msgspec.Struct, frozen=True, tag="thought"):
    """Finished reasoning, folded to one line until it is expanded."""

    text: str
    seconds: float


class ToolCall(msgspec.Struct, frozen=True, tag="tool"):
    """A finished call and its display. `already_shown` means that its approval showed the same a few lines
    above; expanding shows it again."""

    call: Call
    title: str
    risk: RiskName
    status: ResultStatus
    text: str
    display: Display
    seconds: float
    cached: bool
    task_id: int
    already_shown: bool = False
    is_own: bool = False
    """The user ran it (`!command`) and wants to see all of it."""


class Lookups(msgspec.Struct, frozen=True, tag="lookups"):
    """Several calls of one reply that looked at the same kind of thing, in one line."""

    calls: tuple[ToolCall, ...]


class ApprovalAsked(msgspec.Struct, frozen=True, tag="asked"):
    """A request for approval in full: its preview is printed into the scrollback."""

    request_id: str
    number: int
    task_id: int
    title: str
    risk: RiskName
    reason: str
    preview: Display


def request_name(number: int, task_id: int) -> str:
    """Return the name of a request: its number, which answers it, and its task."""
    return f"request {number} (task {task_id})"


class QuestionAsked(msgspec.Struct, frozen=True, tag="question"):
    """A model's question and how to answer it."""

    task_id: int
    text: str
    how: str


class ApprovalAnswered(msgspec.Struct, frozen=True, tag="answered"):
    """The outcome of a request."""

    title: str
    task_id: int
    answer: ApprovalAnswer
    by: str


class NoteBlock(msgspec.Struct, frozen=True, tag="note"):
    """A few lines from buddy itself."""

    level: Literal["info", "warning", "error", "hint"]
    text: str


class TurnSummary(msgspec.Struct, frozen=True, tag="turn"):
    """The end of a turn. `name` is set for a background task; `refused` and `failed` count the calls that did
    not succeed."""

    outcome: TurnOutcome
    reason: str
    replies: int
    calls: int
    seconds: float
    output_tokens: int
    task_id: int
    name: str
    refused: int = 0
    failed: int = 0


class ReceiptBlock(msgspec.Struct, frozen=True, tag="receipt"):
    """The receipt of a turn's changes and checks."""

    receipt: Receipt


class TaskHeading(msgspec.Struct, frozen=True, tag="heading"):
    """The name of the task that the following blocks belong to."""

    task_id: int
    text: str


class TableBlock(msgspec.Struct, frozen=True, tag="table"):
    """The rows of a command's output. The first cells name the row; `marks` are the styles of the first
    cells."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...] = ()


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The first screen of a session: version, folder, model and mode; `facts` tells about the
    folder."""

    version: str
    folder: str
    branch: str
    model: str
    mode: str
    facts: tuple[str, ...]


class PlainText(msgspec.Struct, frozen=True, tag="plain_text"):
    """Text a command prints unchanged."""

    text: str


class Expanded(msgspec.Struct, frozen=True, tag="expanded"):
    """A folded block printed again in full."""

    block: UserPrompt | ToolCall | Lookups | Thought | ApprovalAsked


Block = (
    Markdown
    | UserPrompt
    | CommandEcho
    | Thought
    | ToolCall
    | Lookups
    | ApprovalAsked
    | ApprovalAnswered
    | QuestionAsked
    | NoteBlock
    | TurnSummary
    | ReceiptBlock
    | TaskHeading
    | TableBlock
    | PlainText
    | Welcome
    | Expanded
)
Foldable = UserPrompt | ToolCall | Lookups | Thought | ApprovalAsked


def gap_before(before: Block | None, block: Block) -> bool:
    """Tell whether a blank line separates two blocks: not inside a list or fence, between calls, or between a
    command and its output."""
    if before is None or (isinstance(before, CommandEcho) and not isinstance(block, CommandEcho)):
        return False
    match block:
        case Markdown():
            return not (block.continues and isinstance(before, Markdown))
        case ToolCall() | Lookups() | ApprovalAnswered():
            return not isinstance(before, (ToolCall, Lookups, ApprovalAsked, ApprovalAnswered, Thought))
        case TurnSummary() | Thought():
            return not isinstance(before, (ToolCall, Lookups, NoteBlock, ReceiptBlock))
        case NoteBlock():
            return not isinstance(before, (NoteBlock, ToolCall, Lookups))
        case (
            UserPrompt()
            | CommandEcho()
            | ApprovalAsked()
            | QuestionAsked()
            | ReceiptBlock()
            | TaskHeading()
            | TableBlock()
            | PlainText()
            | Welcome()
            | Expanded()
        ):
            return True


SUBJECT_CHARS = 400


class Kind(msgspec.Struct, frozen=True):
    """The words for a kind of lookup: its verb, and the noun for what it looked at."""

    verb: str
    noun: str


KINDS: Mapping[str, Kind] = {
    "read_file": Kind("read", "file"),
    "list_files": Kind("list", "folder"),
    "find_files": Kind("find", "pattern"),
    "grep": Kind("search", "pattern"),
    "find_definition": Kind("look up", "name"),
}
"""The tools whose output is for the model only. Every other tool shows its display."""


def kind_of(call: ToolCall) -> Kind | None:
    """Return the kind of a successful lookup, None for every other call."""
    if call.status != "ok" or not isinstance(call.display, (Plain, FileList)):
        return None
    return KINDS.get(call.call.name)


def merge_lookups(calls: Sequence[ToolCall]) -> list[Block]:
    """Merge consecutive lookups of the same kind in one reply."""
    blocks: list[Block] = []
    for kind, run in groupby(calls, kind_of):
        row = tuple(run)
        blocks += row if kind is None or len(row) == 1 else (Lookups(row),)
    return blocks


def subject_of(call: ToolCall) -> str:
    """Return what a call looked at: its title without the tool's name."""
    return one_line(call.title.removeprefix(call.call.name).strip(), SUBJECT_CHARS)


def finding_of(call: ToolCall) -> str:
    """Return the size of what a lookup found: lines of a file, else the tool's summary, "" when unknown."""
    display = call.display
    if isinstance(display, Plain) and call.call.name == "read_file" and display.summary and display.body:
        return format_count(display.body.count("\n") + 1, "line")
    summary = display.summary if isinstance(display, (Plain, FileList)) else ""
    return summary.removeprefix(f"{subject_of(call)}: ")


LEAST_FOLDED = 2
"""Folding a single line would save nothing."""


def hidden_lines(preview: Display) -> int:
    """Return the number of a preview's lines that are hidden when it is first printed."""
    if not isinstance(preview, Diff):
        return 0
    hidden = sum(len(_lines(file)) for file in preview.files) - DIFF_FOLD_LINES
    return hidden if hidden >= LEAST_FOLDED else 0


def first_part(preview: Display) -> Display:
    """Return the preview without the hidden lines; files that lose all lines keep their heading."""
    if not isinstance(preview, Diff) or not hidden_lines(preview):
        return preview
    room = DIFF_FOLD_LINES
    files: list[FileDiff] = []
    for file in preview.files:
        kept = _lines(file)[:room]
        room -= len(kept)
        files.append(replace(file, diff="\n".join(kept)))
    return Diff(tuple(files))


def _lines(file: FileDiff) -> list[str]:
    return file.diff.strip("\n").split("\n") if file.diff.strip("\n") else []
