"""The terminal's own mark of work going on: to which terminals, when, and that none of it stays behind."""

from __future__ import annotations

import time

import pytest

from buddy.agent.events import ApprovalResolved
from buddy.repl.screen.terminal_status import AGAIN_S, progress_sequence, supports_progress
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import Stage, running_repl


@pytest.mark.parametrize(
    ("environ", "taken"),
    [
        ({"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "1.2.0"}, True),
        ({"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "1.10.1-main+ab"}, True),
        ({"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "1.1.9"}, False),
        ({"TERM_PROGRAM": "ghostty"}, False),
        ({"TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM_PROGRAM": "iTerm.app", "TERM_FEATURES": "T3CwLrMSc7UUw9Ts3BFGsSyHNoSxP"}, True),
        ({"TERM_PROGRAM": "iTerm.app", "TERM_FEATURES": "T3CwLrMSc7UPaw9Ts3BFGsSyHNoSx"}, False),
        ({"TERM_PROGRAM": "iTerm.app"}, False),
        ({"WT_SESSION": "a-b"}, True),
        ({"ConEmuANSI": "ON"}, True),
        ({"ConEmuANSI": "OFF"}, False),
        ({"VTE_VERSION": "8000"}, True),
        ({"VTE_VERSION": "7600"}, False),
        ({"VTE_VERSION": "new"}, False),
        ({"PTYXIS_VERSION": "48.1", "VTE_VERSION": "7900"}, True),
        ({"TERM": "xterm-kitty"}, False),
        ({"TERM": "xterm-256color"}, False),
        ({}, False),
        ({"WT_SESSION": "a-b", "TMUX": "/tmp/x"}, False),
        ({"VTE_VERSION": "8000", "STY": "1.pts"}, False),
    ],
)
def test_only_a_terminal_known_to_take_the_mark_is_sent_it(environ: dict[str, str], taken: bool) -> None:
    assert supports_progress("auto", environ) == taken
    assert supports_progress("on", environ)
    assert not supports_progress("off", environ)


def test_tmux_is_asked_to_pass_the_sequence_on() -> None:
    assert progress_sequence("running", inside_tmux=False) == "\x1b]9;4;3\x07"
    assert progress_sequence("waiting", inside_tmux=False) == "\x1b]9;4;4;100\x07"
    assert progress_sequence("none", inside_tmux=True) == "\x1bPtmux;\x1b\x1b]9;4;0\x07\x1b\\"


def marks(stage: Stage) -> list[str]:
    written = b"".join(stage.terminal.written).decode()
    return [part.partition("\x07")[0] for part in written.split("\x1b]9;4;")[1:]]


async def test_the_mark_says_what_runs_and_what_waits_and_goes_with_it() -> None:
    ahead = 0.0
    async with running_repl(progress=True, clock=lambda: time.monotonic() + ahead) as stage:
        tape = Tape(at=None)
        assert marks(stage) == []
        stage.send(tape.turn(), tape.reply())
        await stage.until(lambda: marks(stage) == ["3"])
        ahead += AGAIN_S
        await stage.until(lambda: marks(stage) == ["3", "3"])
        stage.send(tape.tool(), tape.asked())
        await stage.until(lambda: marks(stage)[2:] == ["4;100"])
        stage.send(tape.event(ApprovalResolved("q1", "once", "you")), tape.tool_done())
        await stage.until(lambda: marks(stage)[3:] == ["3"])
        stage.send(tape.done())
        await stage.until(lambda: marks(stage)[4:] == ["0"])
    assert marks(stage)[5:] == ["0"]


async def test_nothing_is_sent_where_it_is_not_taken() -> None:
    async with running_repl() as stage:
        tape = Tape(at=None)
        stage.send(tape.turn(), tape.tool(), tape.asked())
        await stage.shows("y yes")
    assert marks(stage) == []


async def test_an_editor_gets_the_terminal_without_the_mark() -> None:
    async with running_repl(progress=True, environ={"EDITOR": "true"}) as stage:
        tape = Tape(at=None)
        stage.send(tape.turn(), tape.reply())
        await stage.until(lambda: marks(stage) == ["3"])
        stage.repl.edit()
        await stage.until(lambda: marks(stage) == ["3", "0", "3"])
