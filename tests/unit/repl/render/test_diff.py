"""Differences of files as a person sees them: numbers, signs, tints, marked words, and nothing left out."""

from __future__ import annotations

import pytest

from buddy.agent.display import Diff, FileDiff
from buddy.agent.messages import Call
from buddy.repl.render.diff import diff_lines, differing_words
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import ASCII, UNICODE, Depth, Look
from buddy.repl.view.blocks import ApprovalAsked, Expanded, Fence, Markdown, ToolCall

PLAIN = Look("mono", UNICODE, ansi=False)
KEYWORD = {"dark": "38;5;219", "light": "38;5;90"}
TWO_HUNKS = """@@ -4,3 +4,3 @@ def average(values):
     total = 0.0

-    return total / 3
+    return total / len(values)
@@ -18,2 +18,3 @@
 def largest(values):
+    # one line more
     return max(values)
"""


def change(diff: str, path: str = "main.py") -> ToolCall:
    shown = Diff((FileDiff(path, "update", diff, 2, 1),))
    return ToolCall(
        Call("c", "edit_file", "{}"), "edit_file", "medium", "ok", "", shown, 0, cached=False, task_id=0
    )


def drawn(diff: str, look: Look = PLAIN, columns: int = 60, path: str = "main.py") -> list[str]:
    return Painter(look).ansi(Expanded(change(diff, path)), columns).split("\n")[2:-1]


def test_lines_have_numbers_and_between_hunks_stands_how_much_is_left_out() -> None:
    assert drawn(TWO_HUNKS) == [
        "│  4      total = 0.0",
        "│  5",
        "│  6 −    return total / 3",
        "│  6 +    return total / len(values)",
        "│  ⋯ 11 lines",
        "│ 18  def largest(values):",
        "│ 19 +    # one line more",
        "│ 20      return max(values)",
    ]


def test_blank_lines_are_as_they_are() -> None:
    assert drawn("@@ -1,3 +1,3 @@\n a\n-\n+\n+\n \n") == ["│ 1  a", "│ 2 −", "│ 2 +", "│ 3 +", "│ 4"]


def test_without_unicode_the_signs_are_ascii() -> None:
    look = Look("mono", ASCII, ansi=False)
    assert all(line.isascii() for line in drawn(TWO_HUNKS, look))
    assert "|  ~ 11 lines" in drawn(TWO_HUNKS, look)


@pytest.mark.parametrize(
    "look", [Look(theme, UNICODE, ansi=True) for theme in ("default", "dark", "light", "mono")]
)
def test_in_sixteen_colours_nothing_has_a_ground_and_the_words_that_differ_are_underlined(look: Look) -> None:
    text = "\n".join(drawn(TWO_HUNKS, look))
    assert "\x1b[4" not in text.replace("\x1b[4m", "")
    assert "48;" not in text
    assert "\x1b[K" not in text
    assert "4" in text.split("len(values)")[0].rpartition("\x1b[")[2].partition("m")[0].split(";")


@pytest.mark.parametrize("depth", ["256", "true"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_changed_lines_stand_on_a_ground_to_the_edge_in_the_colours_of_the_language(
    theme: str, depth: Depth
) -> None:
    _context, _blank, removed, added, gap, *_ = drawn(TWO_HUNKS, Look(theme, UNICODE, ansi=True, depth=depth))
    ground = "48;5;" if depth == "256" else "48;2;"
    for line in (removed, added):
        assert line.endswith("\x1b[K\x1b[m")
        assert ground in line.partition(f"\x1b[{KEYWORD[theme]}mreturn ")[0]
        assert f"\x1b[{KEYWORD[theme]}mreturn \x1b[39m" in line  # the ground goes on
    assert removed.count("48;") > 1
    assert ground not in gap
    grounds = {part.partition("m")[0].partition("48;")[2] for part in added.split("\x1b[") if "48;" in part}
    assert len(grounds) == 2  # the line's, and the one of the words that differ


def test_a_file_that_is_new_has_the_colours_of_its_language() -> None:
    lines = drawn(
        "@@ -0,0 +1,2 @@\n+def f():\n+    return 1\n", Look("dark", UNICODE, ansi=True, depth="256")
    )
    assert "38;5;251;48;5;22m1 \x1b[38;5;114m+\x1b[38;5;219mdef " in lines[0]
    assert len(lines) == 2


def test_a_string_over_several_lines_is_coloured_in_each_version() -> None:
    lines = drawn(
        "@@ -1,3 +1,3 @@\n x = '''\n-old\n+new\n '''\n", Look("dark", UNICODE, ansi=True, depth="256")
    )
    assert all("\x1b[38;5;150m" in line for line in lines[1:3])


def test_a_comment_that_changed_is_readable_on_its_ground() -> None:
    lines = drawn("@@ -1 +1,2 @@\n # as it was\n+# new\n", Look("dark", UNICODE, ansi=True, depth="256"))
    assert "38;5;246m1  \x1b[3m# as it was" in lines[0]
    assert "48;5;22m2 \x1b[38;5;114m+\x1b[38;5;251m# new" in lines[1]


def test_the_lines_of_a_file_that_goes_are_numbered() -> None:
    assert drawn("@@ -1,3 +0,0 @@\n-a\n-\n-c\n") == ["│ 1 −a", "│ 2 −", "│ 3 −c"]


def test_what_is_wrapped_goes_on_below_its_text() -> None:
    line = "+" + "word " * 12 + "7 −not a line of its own"
    assert drawn(f"@@ -1 +1 @@\n{line}\n", columns=40) == [
        "│ 1 +word word word word word word word",
        "│    word word word word word 7 −not a",
        "│    line of its own",
    ]


@pytest.mark.parametrize(
    "odd",
    [
        "no sign at all",
        "\\ No newline at end of file",
        "@@@ -1,2 -1,2 +1,3 @@@",
        "Binary files differ",
        "@@ nonsense",
    ],
)
def test_a_line_that_is_none_of_a_diff_is_shown(odd: str) -> None:
    assert any(odd.removeprefix("\\ ") in line for line in drawn(f"@@ -1 +1,2 @@\n+a\n{odd}\n+b\n"))
    assert any(odd.removeprefix("\\ ") in line for line in drawn(f"{odd}\n+b\n"))


def test_every_line_of_a_change_that_is_approved_is_shown() -> None:
    body = "@@ -1,40 +1,40 @@\n" + "".join(f"{sign}line {n}\n" for n in range(20) for sign in " -+")
    preview = Diff((FileDiff("a.py", "update", body, 20, 20),))
    asked = ApprovalAsked("q", 1, 1, "edit", "medium", "why", preview)
    text = Painter(PLAIN).ansi(Expanded(asked), 60)
    assert all(text.count(f"line {n}\n") == 3 for n in range(20))


def test_blank_lines_keep_the_numbers_of_a_change_that_is_approved() -> None:
    preview = Diff((FileDiff("a.py", "update", "@@ -1,4 +1,5 @@\n a\n \n \n \n+b\u200b\n", 1, 0),))
    lines = Painter(PLAIN).ansi(ApprovalAsked("q", 1, 1, "edit", "medium", "why", preview), 60).split("\n")
    assert lines[-3:-1] == ["│ 4", "│ 5 +b⟨U+200B⟩"]


def test_the_words_that_differ() -> None:
    lines = list(
        diff_lines(["@@ -1,2 +1,2 @@", "-return total / 3", "-x", "+return total / len(values)", "+qq"])
    )
    assert dict(differing_words(lines)) == {0: [(15, 16)], 2: [(15, 26)], 1: [], 3: []}


def test_lines_that_have_little_in_common_are_not_marked() -> None:
    lines = list(diff_lines(["@@ -1 +1 @@", "-one two three four", "+def completely(other): pass"]))
    assert all(marks == [] for _at, marks in differing_words(lines))


FENCE = """--- a/main.py
+++ b/main.py
@@ -7,2 +7,2 @@ def average():
     total = 0

-    return total / 3
+    return total / len(values)
--- a comment of SQL
\\ No newline at end of file"""


def fence_of(code: str = FENCE, context: str = "", language: str = "diff", look: Look = PLAIN) -> list[str]:
    block = Markdown("", fence=Fence(language, code, context, "whole"))
    return Painter(look).ansi(block, 60).split("\n")[:-1]


def test_a_diff_in_an_answer_is_drawn_as_one_and_nothing_of_it_is_left_out() -> None:
    assert fence_of() == [
        "▎ diff",
        "▎ --- a/main.py",
        "▎ +++ b/main.py",
        "▎ @@ -7,2 +7,2 @@ def average():",
        "▎      total = 0",
        "▎",
        "▎ −    return total / 3",
        "▎ +    return total / len(values)",
        "▎ −-- a comment of SQL",
        "▎ \\ No newline at end of file",
    ]


@pytest.mark.parametrize("language", ["diff", "Patch", "udiff", "diff title=x"])
def test_the_words_that_differ_are_marked_in_a_diff_of_an_answer(language: str) -> None:
    look = Look("default", UNICODE, ansi=True)
    removed, added = fence_of("-a = one\n+a = two", language=language, look=look)[1:]
    assert removed.endswith("\x1b[0;31m−a = \x1b[1;4mone\x1b[m")
    assert added.endswith("\x1b[0;32m+a = \x1b[1;4mtwo\x1b[m")


def test_a_slice_of_a_long_diff_keeps_the_language_of_its_file() -> None:
    look = Look("default", UNICODE, ansi=True)
    named = fence_of(" def f():", "--- a/x.py\n+++ b/x.py\n", look=look)
    assert "35mdef" in named[-1]
    assert "35mdef" not in fence_of(" def f():", "a", look=look)[-1]
