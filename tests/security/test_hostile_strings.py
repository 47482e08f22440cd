# ruff: noqa: E501 - markup is easier to compare in one line
"""Hundreds of hostile strings at every sink of a running REPL: nothing arrives but what buddy itself
writes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from buddy.agent import events as ev
from buddy.agent.display import Checklist, ChecklistItem, Command, Diff, FileDiff, FileList, Plain
from buddy.agent.messages import Call
from buddy.repl.view.state import OwnRow, QueueRow, SessionFacts
from buddy.workspace.sandbox.status import SandboxStatus
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import Stage, running_repl
from tests.support.terminal_bytes import EVERYTHING, foreign, sequences, text_forms

BENIGN = (
    "plain words",
    "~~gone~~ plain ~~gone~~ plain",
    "# head\n\n## two\n\n### three\n\n**bold** *italic* ~~gone~~ `code` [label](http://e.example/x) ![p](http://e/i)",
    "> quote `code` **b** *i* [l](http://e)\n\n- item\n  1. one\n\n---\n\n| a | b |\n|---|---|\n| `c` | **d** |\n",
    "```\nbare\n```\n\n```python\ndef f(x: int = 1) -> str:\n    '''doc'''\n    return f'{x}'  # note\n```\n\n    indented\n",
    "[l](http://evil.example) <http://e.example> http://e.example ***both*** **`c`** *`c`* ~~`c`~~ ~~**b**~~ > x",
    "- [ ] todo\n- [x] done\n\n# `code` in *head* **b**\n\n> # head\n> - item\n\n<b>x</b> &amp;",
)


def shown_at_every_sink(text: str, number: int) -> list[ev.TaskEvent]:
    """Tool output, file name, branch name, tool name, model text, error text, title: as the board sends
    them."""
    tape = Tape(number + 1, at=None)
    call = Call(f"c{number}", text, text)
    diff = Diff((FileDiff(text, "update", f"@@ -1 +1 @@\n-{text}\n+{text}\n", 1, 1, text),))
    lists = (Checklist((ChecklistItem(text, "active"),)), FileList(text, (text,), 1), Plain(text, text))
    send = tape.event
    return [
        tape.turn(text),
        tape.reply(),
        tape.thinking(text),
        tape.text(f"{text}\n\n"),
        send(ev.ToolCallDelta("r1", "x", text, text)),
        send(ev.ToolStarted(call, "high", text, begun=True)),
        send(ev.ApprovalRequested(f"q{number}", call, "high", text, diff, text, f"d{number}")),
        send(ev.ApprovalResolved(f"q{number}", "denied", text)),
        send(ev.ToolProgress(call.id, f"{text}\n")),
        send(ev.ToolFinished(call.id, "error", text, Command(text, text, 1, text, 1.0), 1.0, cached=False)),
        *(
            one
            for at, display in enumerate((diff, *lists))
            for one in (
                send(ev.ToolStarted(Call(f"d{at}", text, text), "low", text, begun=True)),
                send(ev.ToolFinished(f"d{at}", "ok", text, display, 1.0, cached=False)),
            )
        ),
        send(ev.RetryScheduled(1, 2, 0.0, "overloaded", text)),
        send(ev.Notice("error", text)),
        send(ev.SteeringAccepted(tape.turn(text).event.prompts[0])),
        tape.reply_done(text),
        tape.done("failed", text),
    ]


def facts(text: str, focus: int) -> SessionFacts:
    """Facts that do not arrive as events: branch, session and task titles, what waits, what runs beside."""
    rows = (QueueRow("queue", focus, text), QueueRow("note", focus, text), QueueRow("steer", focus, text))
    return SessionFacts(
        focus, text, text, SandboxStatus(0, text), rows, {focus: text}, (text,), (OwnRow(text, 0.0, text),)
    )


async def settled(stage: Stage) -> None:
    """Everything sent was folded, and a frame drawn after it."""
    await stage.until(stage.queue.empty)
    before = len(stage.terminal.written)
    stage.repl.hint(f"frame {before}")
    await stage.until(lambda: len(stage.terminal.written) > before)


async def show(stage: Stage, texts: Sequence[str]) -> None:
    for number, text in enumerate(texts):
        stage.facts = facts(text, number + 1)
        events = shown_at_every_sink(text, number)
        middle = len(events) // 3
        stage.send(*events[:middle])
        await settled(stage)
        stage.output.set_title(text)
        stage.send(*events[middle:])
        await settled(stage)


@asynccontextmanager
async def prepared() -> AsyncGenerator[tuple[Stage, set[str]]]:
    """A REPL that has shown everything once with harmless words, and the sequences it wrote for that."""
    async with running_repl(rows=40, columns=100) as stage:
        await show(stage, BENIGN)
        own = {one for one in sequences(b"".join(stage.terminal.written)) if not one.startswith("\x1b]")}
        stage.terminal.written.clear()
        yield stage, own


def fresh(stage: Stage, own: set[str]) -> list[str]:
    """Return new output that is neither inert text nor the REPL's own sequences."""
    written = b"".join(stage.terminal.written)
    stage.terminal.written.clear()
    titles = {one for one in sequences(written) if one.startswith("\x1b]2;") and one.endswith("\x07")}
    long_titles = [one for one in titles if len(one) >= 90]
    return foreign(written, own | titles) + long_titles


async def test_SEC_079_hostile_strings_are_inert_at_every_sink() -> None:
    """Every fortieth of them; `python -m tests.bench.hostile_screen` takes all."""
    texts = [form for data in EVERYTHING[::40] for form in text_forms(data)]
    async with prepared() as (stage, own):
        await show(stage, texts)
        assert fresh(stage, own) == []


MARKS = "\u0301" * 8


@pytest.mark.parametrize(
    "text",
    [
        f"a{MARKS}**{MARKS}b{MARKS}**{MARKS}",
        f"a{MARKS}`{MARKS}x`{MARKS}",
        f"[a{MARKS}]({MARKS}http://x){MARKS}",
        f"a{MARKS}\\*{MARKS}\\_{MARKS}<b>{MARKS}</b>{MARKS}",
        "a" + "&#769;" * 20 + "&#27;[31mX&#x202e;Y&#x9b;2J",
        *(f"{'x' * 97}{wide}{MARKS}yy" for wide in ("a", "\u754c")),
    ],
)
async def test_marks_do_not_gather_where_markup_or_the_edge_of_the_screen_parts_them(text: str) -> None:
    async with prepared() as (stage, own):
        await show(stage, [text])
        assert fresh(stage, own) == []
