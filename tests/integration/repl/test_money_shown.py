"""Money on the screen: an amount where the price is known, and never an amount where it is not."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.script import Tokens, reply
from tests.support.repl import open_repl

PRICED = {
    "models": {
        "priced": {"model": "openai/gpt-5.2", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "HOME"}
    }
}


async def test_a_model_without_a_price_costs_no_dollars_before_and_after_its_first_answer(
    tmp_path: Path,
) -> None:
    answer = reply("Hello.", usage=Tokens(12_000, 500))
    async with open_repl(tmp_path, lambda _asked: answer, settings=PRICED) as repl:
        before = await repl.said("/ps", "no price") + await repl.said("/cost", "0 tokens, no price is known")
        await repl.turn("hi")
        after = await repl.said("/ps", "no price") + await repl.said(
            "/cost", "12.5k tokens, no price is known"
        )
        assert "$" not in before + after
        assert "no price" in await repl.said("/status", "12.5k tokens, no price")


async def test_what_was_used_without_a_price_is_not_free_with_the_next_model(tmp_path: Path) -> None:
    answer = reply("Hello.", usage=Tokens(12_000, 500))
    async with open_repl(tmp_path, lambda _asked: answer, settings=PRICED) as repl:
        await repl.turn("hi")
        repl.say("/model priced")
        await repl.hints("model: priced")
        assert "$" not in await repl.said("/ps", "no price")
        repl.say("/bg and more")  # a copy that has used nothing yet: its model has a price
        await repl.shows("task 2 started in the background")
        assert "$0.00" in await repl.said("/ps", "and more")
