"""Models as rows of a table. Apart from `numbers`, which the first frame imports: the catalogue is not."""

from __future__ import annotations

from buddy.llm.catalog import ModelInfo
from buddy.repl.render.numbers import context_size

MODEL_HEAD = ("model", "ctx", "in/M", "out/M", "can")
_ABILITIES = {"reasoning": "thinking", "vision": "vision", "pdf": "pdf"}
"""Abilities that tell models apart, as a table calls them. Every model of the catalogue has tools; how a
prefix is cached is nothing to choose by."""


def model_row(info: ModelInfo) -> tuple[str, str, str, str, str]:
    """Return a model as a row below `MODEL_HEAD`, short enough for one line of 80 columns unless its name is
    long."""
    able = [word for name, word in _ABILITIES.items() if name in info.capabilities]
    if "tools" not in info.capabilities:
        able.insert(0, "no tools")
    price_in, price_out = (
        "" if price is None else f"${price:g}" for price in (info.prices.input, info.prices.output)
    )
    return info.id, context_size(info.context), price_in, price_out, " ".join(able)
