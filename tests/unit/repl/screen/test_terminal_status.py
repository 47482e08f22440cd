"""Titles, bells and notifications: their moments, words and terminals."""

from __future__ import annotations

import time

import pytest

from buddy.agent.events import ApprovalResolved
from buddy.repl.intents import Cancel
from buddy.repl.screen.terminal_status import AWAY_S, Notifications, notification, notifications_of
from buddy.repl.view.state import QueueRow, SessionFacts
from buddy.workspace.sandbox.status import NO_SANDBOX
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import Stage, running_repl

HOSTILE = "a\x07b\x1b]52;c;aGk=\x07\n\x9dc\u202e; " + "long " * 60


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({"TERM_PROGRAM": "iTerm.app"}, "osc9"),
        ({"TERM_PROGRAM": "ghostty"}, "osc9"),
        ({"TERM_PROGRAM": "WezTerm"}, "osc777"),
        ({"TERM": "xterm-kitty"}, "osc99"),
        ({"KITTY_WINDOW_ID": "1"}, "osc99"),
        ({"TERM": "foot-extra"}, "osc777"),
        ({"TERM": "linux"}, "off"),
        ({"TERM": "xterm-256color"}, "off"),
        ({"TERM_PROGRAM": "Apple_Terminal"}, "off"),
        ({}, "off"),
        ({"TERM_PROGRAM": "ghostty", "STY": "1.pts"}, "off"),
        ({"TERM_PROGRAM": "tmux", "TMUX": "/tmp/x", "KITTY_WINDOW_ID": "1"}, "off"),
        ({"TERM_PROGRAM": "tmux", "TMUX": "/tmp/x", "LC_TERMINAL": "iTerm2"}, "osc9"),
    ],
)
def test_only_a_terminal_known_to_take_one_is_sent_a_notification(
    environ: dict[str, str], kind: Notifications
) -> None:
    assert notifications_of("auto", environ) == kind
    assert notifications_of("off", environ) == "off"
    assert notifications_of("osc777", environ) == "osc777"


def test_each_kind_has_its_sequence_and_tmux_passes_it_through() -> None:
    assert notification("off", "x", inside_tmux=True) == ""
    assert notification("osc9", "x", inside_tmux=False) == "\x1b]9;buddy: x\x07"
    assert notification("osc99", "x", inside_tmux=False) == "\x1b]99;i=buddy:o=unfocused;buddy: x\x1b\\"
    assert notification("osc777", "x;y", inside_tmux=False) == "\x1b]777;notify;buddy;buddy: x,y\x1b\\"
    assert notification("osc9", "x", inside_tmux=True) == "\x1bPtmux;\x1b\x1b]9;buddy: x\x07\x1b\\"


@pytest.mark.parametrize("kind", ["osc9", "osc99", "osc777"])
def test_SEC_085_a_notification_is_short_and_holds_no_control_characters(kind: Notifications) -> None:
    said = notification(kind, HOSTILE, inside_tmux=False)
    inside = said.removeprefix("\x1b]").removesuffix("\x07").removesuffix("\x1b\\")
    assert inside.isprintable()
    assert len(inside.partition("buddy: ")[2]) <= 80


class Clock:
    """The real time, and what is added to it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


def sent(stage: Stage) -> list[bytes]:
    written = b"".join(stage.terminal.written)
    return [part.partition(b"\x07")[0] for part in written.split(b"\x1b]9;")[1:]]


async def test_a_request_is_notified_once_and_only_while_nobody_types() -> None:
    clock = Clock()
    async with running_repl(notifications="osc9", bell=True, clock=clock) as stage:
        tape = Tape(at=None)
        stage.type("thinking about it")
        await stage.shows("thinking about it")
        stage.send(tape.turn(), tape.tool(title="git push\x1b]0;x\x07"), tape.asked())
        await stage.shows("y yes")
        assert sent(stage) == []
        assert b"".join(stage.terminal.written).count(b"\x07") == 1
        clock.ahead = AWAY_S + 1
        await stage.until(lambda: sent(stage) == [b"buddy: task 1 asks: git push"])
        stage.send(tape.event(ApprovalResolved("q1", "once", "you")), tape.tool_done(), tape.done())
        await stage.until(lambda: len(sent(stage)) == 2)
        assert sent(stage)[1] == b"buddy: task 1 has ended"


async def test_a_question_counts_as_waiting_in_the_title_the_bell_and_the_notification() -> None:
    async with running_repl(notifications="osc9", bell=True) as stage:
        stage.facts = SessionFacts(1, "ask", "m", NO_SANDBOX, (QueueRow("question", 2, "Which?", 1),), {})
        stage.repl.screen.touch()
        await stage.until(lambda: sent(stage) == [b"buddy: task 2 asks: Which? (/answer 1 \xe2\x80\xa6)"])
        await stage.shows("1 question waiting")
        assert b"\x07" in b"".join(stage.terminal.written).replace(b"\xa6)\x07", b"")


async def test_who_ends_a_turn_with_a_key_is_not_notified_of_it() -> None:
    async with running_repl(notifications="osc9") as stage:
        tape = Tape(at=None)
        stage.send(tape.turn(), tape.reply())
        await stage.shows("waiting for the model")
        stage.type("\x1b")
        await stage.until(lambda: stage.intents == [Cancel()])
        stage.send(tape.done("cancelled"))
        await stage.shows_not("waiting for the model")
        assert sent(stage) == []


async def test_nothing_is_sent_where_it_is_off() -> None:
    async with running_repl() as stage:
        tape = Tape(at=None)
        stage.send(tape.turn(), tape.tool(), tape.asked())
        await stage.shows("y yes")
        assert sent(stage) == []
        assert b"\x07" not in b"".join(stage.terminal.written)
