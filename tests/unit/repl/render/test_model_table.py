"""Models in a table."""

from __future__ import annotations

import msgspec

from buddy.app.providers import load_catalogue
from buddy.llm.catalog import Prices
from buddy.repl.render.model_table import MODEL_HEAD, model_row
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.blocks import TableBlock


def test_a_model_takes_one_line_of_80_columns_unless_its_name_is_long() -> None:
    models = [info for info in load_catalogue().models.values() if len(info.id) <= 31]
    assert len(models) > 200
    table = TableBlock(MODEL_HEAD, tuple(map(model_row, models)))
    lines = Painter(Look("mono", UNICODE, ansi=False)).ansi(table, 80).splitlines()
    assert len(lines) == 2 + len(models)
    assert max(map(len, lines)) < 80


def test_a_model_says_what_tells_it_apart() -> None:
    known = load_catalogue().models["anthropic/claude-sonnet-4-5"]
    assert model_row(known) == (known.id, "200k", "$3", "$15", "thinking vision pdf")
    poor = msgspec.structs.replace(
        known, capabilities=frozenset({"cache"}), prices=Prices(None, None, None, None)
    )
    assert model_row(poor) == (known.id, "200k", "", "", "no tools")
