"""Small phrases that are the same wherever they are shown."""

from __future__ import annotations

import pytest

from buddy.repl.render import numbers as words


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
