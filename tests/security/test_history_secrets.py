"""The file of what was typed: nothing in it that looks like a key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buddy.repl.input.history import open_history
from tests.support.secrets_for_tests import SHAPED
from tests.support.secrets_published import WHOLE


@pytest.mark.parametrize("secret", [*SHAPED.values(), *WHOLE.values()], ids=[*SHAPED, *WHOLE])
def test_SEC_088_a_key_that_was_typed_is_not_kept(tmp_path: Path, secret: str) -> None:
    path = tmp_path / "history.jsonl"
    history = open_history(str(path), lambda said: pytest.fail(said), str)
    history.append_string(f"use {secret} here")
    assert list(history.get_strings())[-1] == f"use {secret} here"  # as long as the program runs

    (entry,) = map(json.loads, path.read_text().splitlines())
    assert entry.startswith("use ")
    assert "redacted: " in entry
    assert not any(line in entry for line in secret.split("\n") if len(line) > 15)


def test_ordinary_words_are_kept_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = open_history(str(path), lambda said: pytest.fail(said), str)
    for text in ("fix the bug in a.py", "two\nlines", "ünï"):
        history.append_string(text)
    assert list(map(json.loads, path.read_text().splitlines())) == [
        "fix the bug in a.py",
        "two\nlines",
        "ünï",
    ]
