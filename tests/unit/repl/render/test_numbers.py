"""Small phrases that are the same wherever they are shown."""

from __future__ import annotations

import msgspec
import pytest

from buddy.app.providers import load_catalogue
from buddy.llm.catalog import Prices
from buddy.repl.render import numbers as words
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.blocks import TableBlock


@pytest.mark.parametrize(
    ("name", "has_worked", "word"),
    [
        ("finished", True, "done"),
        ("completed", True, "done"),
        ("idle", True, "done"),
        ("idle", False, "new"),
        ("limit", True, "paused"),
        ("cancelled", True, "cancelled"),
        ("failed", True, "failed"),
        ("waiting", True, "waiting"),
    ],
)
def test_a_state_has_one_word(name: str, has_worked: bool, word: str) -> None:
    assert words.state(name, has_worked=has_worked) == word


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, "?"),
        (500, "500"),
        (8_192, "8.2k"),
        (32_768, "33k"),
        (262_144, "262k"),
        (999_499, "999k"),
        (999_999, "1M"),
        (1_048_576, "1M"),
        (1_100_000, "1.1M"),
        (10_485_760, "10M"),
    ],
)
def test_a_context_takes_few_cells(tokens: int, text: str) -> None:
    assert words.context_size(tokens) == text


def test_a_model_takes_one_line_of_80_columns_unless_its_name_is_long() -> None:
    models = [info for info in load_catalogue().models.values() if len(info.id) <= 31]
    assert len(models) > 200
    table = TableBlock(words.MODEL_HEAD, tuple(map(words.model_row, models)))
    lines = Painter(Look("mono", UNICODE, ansi=False)).ansi(table, 80).splitlines()
    assert len(lines) == 2 + len(models)
    assert max(map(len, lines)) < 80


def test_a_model_says_what_tells_it_apart() -> None:
    known = load_catalogue().models["anthropic/claude-sonnet-4-5"]
    assert words.model_row(known) == (known.id, "200k", "$3", "$15", "thinking vision pdf")
    poor = msgspec.structs.replace(
        known, capabilities=frozenset({"cache"}), prices=Prices(None, None, None, None)
    )
    assert words.model_row(poor) == (known.id, "200k", "", "", "no tools")
