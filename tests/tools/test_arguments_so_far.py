"""What is shown of a call while its arguments arrive."""

from __future__ import annotations

import json
import time

from hypothesis import given
from hypothesis import strategies as st

from buddy.tools.arguments_so_far import SoFar, arguments_so_far

WHOLE = json.dumps({"path": "src/a.py", "content": 'print("hi")\n\tx = "\\\\" # ü\n'})


def test_the_path_is_shown_first_and_the_text_as_it_grows() -> None:
    assert arguments_so_far("write_file", "") is None
    assert arguments_so_far("write_file", '{"path": "src/a.py"') == SoFar("src/a.py", "", "")
    assert arguments_so_far("write_file", '{"path": "a", "content": "line 1\\nlin') == SoFar(
        "a", "", "line 1\nlin"
    )
    assert arguments_so_far("edit_file", '{"file_path":"a","old_string":"x","new_string":"y') == SoFar(
        "a", "x", "y"
    )


def test_the_last_of_several_edits_is_shown() -> None:
    text = '{"path":"a","edits":[{"old":"x","new":"y"},{"old":"p","new":"q'
    assert arguments_so_far("edit_file", text) == SoFar("a", "p", "q")


def test_every_prefix_shows_a_prefix_of_the_text() -> None:
    whole = json.loads(WHOLE)["content"]
    shown = [arguments_so_far("write_file", WHOLE[:length]) for length in range(len(WHOLE) + 1)]
    texts = [found.new for found in shown if found is not None]
    assert all(whole.startswith(text) for text in texts)
    assert [len(text) for text in texts] == sorted(len(text) for text in texts)
    assert texts[-1] == whole


def test_malformed_text_is_repaired_as_far_as_it_goes() -> None:
    assert arguments_so_far("write_file", "{'path': 'a', 'content': 'x") == SoFar("a", "", "x")


def test_other_tools_and_very_long_texts_show_nothing() -> None:
    assert arguments_so_far("run_shell", '{"command": "ls') is None
    started = time.perf_counter()
    assert arguments_so_far("write_file", '{"path":"a","content":"' + "x" * 300_000) is None
    assert arguments_so_far("write_file", '{"path":"a","content":"' + "\\\\" * 90_000) is not None
    assert arguments_so_far("write_file", '{"path":"a","content":"' + "[" * 90_000) is not None
    arguments_so_far("write_file", "[" * 190_000)
    arguments_so_far("write_file", "'" * 190_000)
    assert time.perf_counter() - started < 5


@given(st.text(alphabet='{}[]",:\\abn u0', max_size=60))
def test_nothing_a_model_sends_makes_it_fail(text: str) -> None:
    found = arguments_so_far("edit_file", text)
    assert found is None or isinstance(found, SoFar)
