"""The known parts of a call while its arguments arrive."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jiter import from_json

from buddy.tools.files import edit, patch, write
from buddy.tools.streaming_arguments import KEPT_CHARS, NAMES, ArgumentsSoFar

CONTENT = 'print("hi")\n\tx = "\\\\" # ü 😀 漢\r\n{"not": "an argument"}\n'
WHOLE = json.dumps({"path": "src/ä.py", "content": CONTENT})

Shown = tuple[str, str | None, str, int, int]


def shown(*pieces: str) -> Shown:
    so_far = ArgumentsSoFar()
    for piece in pieces:
        so_far.feed(piece)
    return so_far.path, so_far.part, so_far.end(), so_far.lines(), so_far.chars


def test_the_path_comes_first_and_the_text_grows() -> None:
    assert shown() == ("", None, "", 0, 0)
    assert shown('{"path": "src/a.p') == ("src/a.p", None, '{"path": "src/a.p', 1, 17)
    assert shown('{"path":"a","content":"line 1\\nlin') == ("a", "content", "line 1\nlin", 2, 34)
    assert shown('{"path":"a","content":"line 1\\n')[2:4] == ("line 1\n", 1)
    assert shown('{"content":"x","path":"late.py"}')[:3] == ("late.py", "content", "x")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_fragmentation_shows_the_same(ascii_only: bool) -> None:
    text = json.dumps({"path": "src/ä.py", "content": CONTENT}, ensure_ascii=ascii_only)
    whole = shown(text)
    assert whole[:4] == ("src/ä.py", "content", CONTENT, 3)
    assert shown(*text) == whole
    for cut in range(len(text) + 1):
        assert shown(text[:cut], text[cut:]) == whole


def test_every_prefix_shows_a_prefix_of_the_text() -> None:
    so_far, ends = ArgumentsSoFar(), [""]
    for sign in WHOLE:
        so_far.feed(sign)
        if so_far.part == "content":
            ends.append(so_far.end())
    assert all(CONTENT.startswith(end) for end in ends)
    assert [len(end) for end in ends] == sorted(len(end) for end in ends)
    assert ends[-1] == CONTENT


@given(st.text(), st.text(), st.booleans(), st.lists(st.integers(0, 400), max_size=6))
def test_any_arguments_in_any_pieces(path: str, text: str, ascii_only: bool, cuts: list[int]) -> None:
    whole = json.dumps({"path": path, "content": text}, ensure_ascii=ascii_only)
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[a:b] for a, b in itertools.pairwise(places)]
    found = shown(*pieces)
    assert found[0] == path[:1000]
    assert found[2] == text[-KEPT_CHARS:]


@given(st.text(alphabet='{}[]",:\\u0d8aéx\n ', max_size=60), st.integers(0, 60))
def test_broken_text_shows_the_same_in_any_pieces_and_never_fails(text: str, cut: int) -> None:
    assert shown(text[:cut], text[cut:]) == shown(text)
    assert shown(*text) == shown(text)


def test_the_last_of_several_edits_is_shown() -> None:
    begun = '{"file_path":"a","edits":[{"old_string":"x\\ny","new_string":"z"},{"old":"p'
    assert shown(begun)[:4] == ("a", "old", "p", 1)
    assert shown(begun, '","new":"q\\nr')[:4] == ("a", "new", "q\nr", 2)


def test_a_patch_names_its_files_in_its_lines() -> None:
    text = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+*** no\n*** Add File: b/c.py\n+y"
    so_far = ArgumentsSoFar()
    paths: list[str] = []
    for sign in json.dumps({"patch": text}):
        so_far.feed(sign)
        if so_far.path not in paths:
            paths.append(so_far.path)
    assert paths == ["", "a.py", "b/c.py"]
    assert so_far.lines() == 7


def test_text_that_is_no_json_is_shown_as_it_is() -> None:
    assert shown("{'path': 'a'")[1:3] == (None, "{'path': 'a'")
    assert shown('{"pattern": "x"}')[1:3] == (None, '{"pattern": "x"}')
    for broken in ('{"content": "tab\\x', '{"content": "raw\nend', '{"content": "\\ud83d half \\ude00"'):
        assert shown(broken)[1:3] == (None, broken)


def test_names_are_those_the_tools_take() -> None:
    for tool, aliases in ((write, write.ALIASES), (edit, edit.ALIASES), (patch, patch.ALIASES)):
        for alias, name in aliases.items():
            if name != "all":
                assert NAMES[alias] == NAMES[name] == name, (tool, alias)


def test_what_arrives_is_read_once_whenever_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def read(data: bytes, **options: Any) -> Any:
        reads.append(len(data))
        return from_json(data, **options)

    monkeypatch.setattr("jiter.from_json", read)
    so_far = ArgumentsSoFar()
    so_far.feed('{"path":"a","content":"')
    for _ in range(30_000):
        so_far.feed("x = 1\\n")

    assert (so_far.lines(), so_far.path, so_far.part, len(so_far.end())) == (
        30_000,
        "a",
        "content",
        KEPT_CHARS,
    )
    assert reads == [so_far.chars]
