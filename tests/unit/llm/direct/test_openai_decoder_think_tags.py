"""Reasoning that a local model writes between tags is told apart from its answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.provider import TextPiece, ThinkingPiece
from buddy.llm.direct.openai_decoder import ThinkTags


def split(*texts: str) -> tuple[str, str]:
    tags = ThinkTags()
    pieces = [piece for text in texts for piece in tags.feed(text)] + list(tags.end())
    thinking = "".join(piece.text for piece in pieces if isinstance(piece, ThinkingPiece))
    return thinking, "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("<think>hm</think>Hi", "hm", "Hi"),
        ("\n <think>\nhm\n</think>\n\nHi", "\nhm\n", "Hi"),
        ("<thinking>hm</thinking>Hi", "hm", "Hi"),
        ("<think>never closed", "never closed", ""),
        ("<think></think>Hi", "", "Hi"),
        ("Use <think>x</think> tags", "", "Use <think>x</think> tags"),
        ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
        ("<thin", "", "<thin"),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("<html>", "", "<html>"),
        ("  plain", "", "  plain"),
        ("", "", ""),
    ],
)
def test_tags_at_the_start_of_a_reply_are_split_however_they_are_cut(text, thinking, answer):
    assert split(text) == (thinking, answer)
    assert split(*text) == (thinking, answer)


@given(st.text("<think>/ a\n", max_size=40), st.lists(st.integers(1, 4), min_size=1, max_size=40))
def test_any_fragmentation_gives_the_same_split(text, sizes):
    chunks, at = [], 0
    while at < len(text):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(text[at : at + size])
        at += size
    assert split(*chunks) == split(text)


def test_text_that_is_no_tag_is_not_held_back():
    tags = ThinkTags()
    assert tags.feed("Hello") == [TextPiece("Hello")]
    assert tags.is_plain
