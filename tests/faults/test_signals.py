"""Signals at random moments of the whole program: a sample; `tests/bench/signal_rounds.py` plays 200."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.signal_round import Round, one, rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", rounds(200, 7)[:12], ids=lambda what: f"{what.signals}-{what.scene}-{what.at_s}"
)
async def test_REL_056_signals_at_random_times_leave_a_whole_journal_and_terminal(
    tmp_path: Path, what: Round
) -> None:
    await one(tmp_path, what)


@pytest.mark.slow
@pytest.mark.parametrize("at_s", [0.7, 1.2, 1.8])
async def test_REL_056_interrupts_that_come_after_the_screen_was_left_do_not_hold_it_up(
    tmp_path: Path, at_s: float
) -> None:
    await one(tmp_path, Round(0, "INT x100", "stream", at_s))
