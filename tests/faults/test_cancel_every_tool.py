"""Cancelling in the middle of every tool: no survivor process, no partial file, a legal history."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from buddy.tools.builtin import BUILTIN_TOOLS
from tests.faults.cancel_rounds import SCENARIOS, cancel_session, rounds

ROUNDS = int(os.environ.get("BUDDY_CANCELS", "4"))


NO_SCENARIO = {
    "search_tools": "it is offered only where some tools are not",
    "generate_image": "tests/unit/tools/test_pictures.py cancels an order in the middle",
    "remove_background": "the same order",
    "retrieve_variant": "it is offered only to variants, and only reads",
}


def test_every_tool_has_a_scenario() -> None:
    names = {tool.name for tool in BUILTIN_TOOLS}
    listed = {*SCENARIOS, *NO_SCENARIO}
    assert not names - listed, f"add a call to SCENARIOS in faults/cancel_rounds.py: {names - listed}"
    assert not listed - names, f"no tool any more, remove: {listed - names}"
    assert not {*SCENARIOS} & {*NO_SCENARIO}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
async def test_a_tool_cancelled_at_any_moment_leaves_nothing_half_done(tmp_path: Path, name: str) -> None:
    async with cancel_session(tmp_path) as session:
        problems, _cancelled = await rounds(session, name, ROUNDS, random.Random(name))

    assert problems == []
