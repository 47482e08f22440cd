"""/context: the parts are what is in use, whoever counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_llm.script import Tokens, reply
from tests.support.repl import open_repl


def cells(table: str) -> dict[str, str]:
    rows = [[cell.strip() for cell in row.split("│")] for row in table.split("\n") if "│" in row]
    return {row[0]: row[1] for row in rows[1:]}


def number(cell: str) -> float:
    return float(cell.removesuffix("k")) * (1000 if cell.endswith("k") else 1)


@pytest.mark.parametrize("counted", [15, 900, 60_000])
async def test_the_parts_add_up_to_what_the_server_counted_however_much_that_is(
    tmp_path: Path, counted: int
) -> None:
    answer = reply("an answer", usage=Tokens(counted - 5, 5))
    async with open_repl(tmp_path, lambda _asked: answer) as repl:
        estimated = cells(await repl.said("/context", "All numbers are estimates."))
        assert list(estimated) == ["system prompt and instructions", "tools", "in use", "limit"]
        await repl.turn("hello")
        shown = cells(await repl.said("/context", "the rows are estimates"))
        *parts, used, _limit = map(number, shown.values())
        assert list(shown) == [
            "system prompt and instructions",
            "tools",
            "you",
            "the model",
            "in use",
            "limit",
        ]
        assert used == counted
        assert sum(parts) == pytest.approx(counted, abs=50 * len(parts) if counted > 1000 else 0)
