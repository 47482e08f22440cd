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
