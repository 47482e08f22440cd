"""Finding quoted text: five steps, the first with a match decides, nothing fuzzier."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.tool import ToolError
from buddy.tools.files.edit import Edit, apply_edits
from buddy.tools.files.matching import TYPOGRAPHY
from buddy.workspace.files.content import decode, from_text


def applied(text: str, old: str, new: str, *, everywhere: bool = False) -> tuple[str, str]:
    """The text after one edit, and the step that found it; or ("", the refusal)."""
    try:
        outcome = apply_edits(from_text(text), [Edit(old, new, everywhere)], "f.txt")
    except ToolError as error:
        return "", str(error)
    return outcome.content.raw, outcome.steps[0]


def test_exact_text_is_replaced_where_it_stands_once() -> None:
    assert applied("one\ntwo\nthree\n", "two", "2") == ("one\n2\nthree\n", "exact")


def test_replacement_text_is_taken_literally() -> None:
    assert applied("a = 1\n", "1", r"\g<0> $& \1")[0] == "a = \\g<0> $& \\1\n"


def test_two_places_are_an_error_that_lists_both_lines() -> None:
    text, refusal = applied("x = 1\ny = 2\nx = 1\n", "x = 1", "x = 3")
    assert text == ""
    assert "2 places" in refusal
    assert "lines 1, 3" in refusal


def test_places_that_overlap_are_two_places() -> None:
    assert "2 places" in applied("ababa", "aba", "x")[1]


def test_all_replaces_every_place_from_left_to_right() -> None:
    assert applied("aaaaa", "aa", "b", everywhere=True)[0] == "bba"


def test_blanks_at_line_ends_may_differ_on_whole_lines() -> None:
    text = "if a:   \n    b()\t\nrest\n"
    assert applied(text, "if a:\n    b()\n", "if c:\n    b()\n") == (
        "if c:\n    b()\t\nrest\n",
        "trailing blanks",
    )


def test_the_blanks_of_a_removed_line_do_not_get_before_the_next_one() -> None:
    text = "a\n    \n    \nb()\nnext()\n"
    assert applied(text, "\n\nb()\n", "c()\n") == ("a\nc()\nnext()\n", "trailing blanks")
    assert applied(text, "\n\nb()\n", "") == ("a\nnext()\n", "trailing blanks")
    assert applied(text, "a\n\n\nb()", "a\n") == ("a\n\nnext()\n", "trailing blanks")


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a\nb\n\na\nb", "\n\na\nb\n", "\n\na\nB\n"),
        ("a\nb\n\na\nb", "\n\n\na\nb\n\n", "\nA\n"),
        ("“a”\nb\n\n“a”\nb", '"a"\nb\n', '"A"\nb\n'),
        ("e\u0301\nb\n\ne\u0301\nb", "\u00e9\nb\n", "x\n"),
        ("a  \nb\n\na  \nb", "a\nb\n", "c\n"),
        ("  a\n  b\n\n  a\n  b", "a\nb\n", "c\n"),
        ("a\nb\nc\na\nb", "1\ta\n2\tb\n", "c\n"),
        ("a\n" + "xa\n" * 300 + "a\n", "\n\na\n", "\n\nb\n"),
    ],
)
def test_RU_E1_an_equal_block_at_the_end_of_a_file_is_a_second_place(text: str, old: str, new: str) -> None:
    after, refusal = applied(text, old, new)
    assert (after, "2 places" in refusal) == ("", True)


def test_RU_E1_all_changes_the_block_at_the_end_too() -> None:
    assert applied("a\nb\n\na\nb", "\n\na\nb\n", "\n\nA\n", everywhere=True) == (
        "A\n\nA",
        "blank lines around it",
    )
    assert applied("“a”\nb\n\n“a”\nb", '"a"\nb\n', '"A"\nb\n', everywhere=True) == (
        "“A”\nb\n\n“A”\nb",
        "typography",
    )


def test_RU_E1_a_block_that_stands_only_at_the_end_is_found_there() -> None:
    assert applied("c\n“a”\nb", '"a"\nb\n', '"A"\nb\n') == ("c\n“A”\nb", "typography")
    assert applied("“a”\nb\n\n“a”\nb", '\n\n"a"\nb\n', '\n\n"A"\nb\n')[0] == "“a”\nb\n\n“A”\nb"
    assert applied("c\na\nb", "\na\nb\n\n", "\nA\nb\n\n") == ("c\nA\nb", "blank lines around it")


_LINES = st.lists(st.sampled_from(["a", "“a”", "a ", " a", "b", "xa", ""]), min_size=1, max_size=8)


@given(_LINES, _LINES, st.booleans(), st.booleans())
def test_RU_E1_no_tolerant_step_edits_one_of_two_equal_blocks(
    lines: list[str], quoted: list[str], closed: bool, ended: bool
) -> None:
    text = "\n".join(lines) + "\n" * closed
    old = "\n".join(quoted) + "\n" * ended
    after, step = applied(text, old, "Z" + "\n" * ended)
    if not after or step == "exact":
        return
    same = {"trailing blanks": _without_ends, "indentation": _without_indent}.get(step, str)
    if step == "typography":
        plain = text.translate(TYPOGRAPHY) + "\n" * (old.endswith("\n") and not closed)
        parts = len(re.findall(f"(?={re.escape(old.translate(TYPOGRAPHY))})", plain))
        assert parts == 1 or (parts == 0 and _whole_places(text, old.strip("\n"), _plainly) == 1)
    else:
        places = _whole_places(text, old.removesuffix("\n"), same)
        assert places == 1 or (places == 0 and _whole_places(text, old.strip("\n"), same) == 1)


def _plainly(block: str) -> str:
    return block.translate(TYPOGRAPHY)


def _without_ends(block: str) -> str:
    return "\n".join(line.rstrip() for line in block.split("\n"))


def _without_indent(block: str) -> str:
    return textwrap.dedent(_without_ends(block))


def _whole_places(text: str, block: str, same: Callable[[str], str]) -> int:
    lines, count = text.removesuffix("\n").split("\n"), block.count("\n") + 1
    starts = range(len(lines) - count + 1)
    return sum(same("\n".join(lines[at : at + count])) == same(block) for at in starts)


def test_blanks_at_line_ends_may_not_differ_in_the_middle_of_a_line() -> None:
    assert applied("call(one   \n  two)\n", "one\n", "1\n")[0] == ""


def test_the_last_line_without_newline_stays_without() -> None:
    assert applied("a\nlast", "last\n", "end\n") == ("a\nend", "trailing blanks")


def test_an_empty_line_that_is_not_there_is_not_found_at_the_end() -> None:
    assert applied("x  \na\n", "a\n\n", "b")[0] == ""


def test_line_ends_of_two_kinds_stay_two_line_ends() -> None:
    text, _ = applied("one\rtwo-\nthree\r\nfour\r", "two-", "\n")
    assert from_text(text).text == "one\n\n\nthree\nfour\n"
    text, _ = applied("one\r  \ntwo", "\n  ", "\n\n")
    assert from_text(text).text == "one\n\n\ntwo"


def test_typography_may_differ_and_the_files_own_stays_where_nothing_changed() -> None:
    text = "say(“hello”) — it’s\u00a0fine\n"
    old = 'say("hello") - it\'s fine'
    assert applied(text, old, 'say("bye") - it\'s fine') == ("say(“bye”) — it’s\u00a0fine\n", "typography")


def test_one_uniform_indentation_may_differ_and_new_text_moves_with_it() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    assert applied(
        text, "def f(self):\n    return 1", "def f(self):\n    if x:\n        return 2\n    return 1"
    ) == (
        "class A:\n    def f(self):\n        if x:\n            return 2\n        return 1\n",
        "indentation",
    )


def test_text_quoted_with_too_much_indentation_moves_back() -> None:
    assert applied("a:\n  b\n", "    a:\n      b", "    a:\n      c")[0] == "a:\n  c\n"


def test_a_tab_for_blanks_is_one_uniform_indentation() -> None:
    assert applied("if x:\n\tgo()\n", "    go()", "    stop()")[0] == "if x:\n\tstop()\n"


GO = "func f() {\n\tif a {\n\t\tb()\n\t}\n\treturn p\n}\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        (
            GO,
            "    if a {\n        b()\n    }",
            "    if a {\n        c(\n            1)\n    }",
            GO.replace("b()", "c(\n\t\t\t1)"),
        ),
        (GO, "if a {\n  b()\n}", "if a {\n  c()\n}", GO.replace("b()", "c()")),
        (
            GO,
            "    return p\n",
            "    if q {\n        return p\n    }\n",
            GO.replace("\treturn p", "\tif q {\n\t\treturn p\n\t}"),
        ),
        (
            "a:\n    b\n        c\n",
            "\tb\n\t\tc",
            "\tb\n\t\tc\n\t\t\td",
            "a:\n    b\n        c\n            d\n",
        ),
        (
            "\t/**\n\t * x\n\t */\n",
            "    /**\n     * x\n     */",
            "    /**\n     * y\n     */",
            "\t/**\n\t * y\n\t */\n",
        ),
        (
            "a:\n  b:\n    c\n",
            "a:\n    b:\n        c\n",
            "a:\n    b:\n        d\n",
            "a:\n  b:\n    d\n",
        ),
        ("all:\n\tcc a\n", "all:\n    cc a\n", "all:\n    cc a b\n", "all:\n\tcc a b\n"),
        ("\tb\n\tc\n", "b\nc", "b\nc\n   d\n      e", "\tb\n\tc\n\t\td\n\t\t\te\n"),
        (
            "a:\n    b:\n        c\n",
            "a:\n   b:\n      c\n",
            "a:\n   b:\n      d\n",
            "a:\n    b:\n        d\n",
        ),
    ],
    ids=[
        "spaces for tabs",
        "set in less",
        "one level",
        "tabs for spaces",
        "comment stars",
        "wider steps",
        "makefile",
        "steps of three for tabs",
        "steps of three",
    ],
)
def test_tabs_for_spaces_are_one_difference_on_every_level(text: str, old: str, new: str, after: str) -> None:
    assert applied(text, old, new) == (after, "indentation")


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("a\n\tb\n\t\tc\n", "a\n    b\n  c"),
        ("\tif a:\n\t\tb()\n\tc()\n", "    if a:\n        b()\n        c()"),
        ("        b\n", "\tb\n"),
        ("a:\n    b\n", "a:\n      b\n"),
    ],
    ids=[
        "other levels",
        "a line inside instead of after",
        "how wide a tab is stays unknown",
        "two levels only",
    ],
)
def test_what_would_be_nested_in_another_way_is_refused(text: str, old: str) -> None:
    assert applied(text, old, "\tx\n\t\ty")[0] == ""


def test_letters_may_be_composed_in_another_way() -> None:
    assert applied("cafe\u0301 = 1\nz\n", "caf\u00e9 = 1", "caf\u00e9 = 2") == (
        "cafe\u0301 = 2\nz\n",
        "typography",
    )
    assert applied("caf\u00e9 = 1\nz\n", "cafe\u0301 = 1", "cafe\u0301 = 2")[0] == "caf\u00e9 = 2\nz\n"
    assert applied("\ufb01le = 1\n", "file = 1", "x")[0] == ""


def test_blank_lines_around_a_quote_may_be_missing_in_the_file() -> None:
    text = "max = 1\nx = 1\ny = 2\n"
    assert applied(text, "\n\nx = 1\n", "\n\nx = 2\n") == (
        text.replace("\nx = 1", "\nx = 2"),
        "blank lines around it",
    )
    assert applied(text, "x = 1\ny = 2\n\n", "x = 3\n\n")[0] == "max = 1\nx = 3\n"
    assert applied(text, "\n\nx = 1\n", "")[0] == "max = 1\ny = 2\n"
    assert applied("max = 1\n", "\n\nx = 1\n", "\n\nx = 2\n")[0] == ""
    assert applied(text, "\n\nx = 1\n", "x = 2")[0] == "", "two lines would become one"


def test_an_empty_file_is_filled_also_where_a_blank_one_is_quoted() -> None:
    assert applied("", "\n", "new\n")[0] == "new\n"


def test_indentation_that_differs_unevenly_is_refused() -> None:
    assert applied("  a\n    b\n", "a\nb", "c\nd")[0] == ""


def test_new_text_that_starts_at_another_indentation_is_refused_with_the_reason() -> None:
    text, refusal = applied("    go()\n", "go()\nx", "y")
    assert text == ""
    text, refusal = applied("if a:\n    go(1)\n    go(2)\n", "go(1)\ngo(2)", "    go(3)")
    assert (text, "different indentations" in refusal) == ("", True)


def test_line_numbers_copied_from_the_output_are_dropped() -> None:
    text = "def f():\n    return 1\n"
    assert applied(
        text, "     1\tdef f():\n     2\t    return 1", "     1\tdef f():\n     2\t    return 2"
    ) == (
        "def f():\n    return 2\n",
        "line numbers",
    )


def test_one_line_number_has_to_be_the_right_one() -> None:
    text = "1\n2\nname\n"
    assert applied(text, "     3\tname", "other")[0] == "1\n2\nother\n"
    assert applied(text, "     7\tname", "other")[0] == ""


def test_numbers_on_some_new_lines_only_are_refused() -> None:
    text, refusal = applied("a\nb\n", "     1\ta\n     2\tb", "     1\ta\nnew\n     2\tb")
    assert (text, "some of its lines" in refusal) == ("", True)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("Function Foo() {}\n", "function foo()"),
        ("const x = compute(items)\n", "const x = compute(item)"),
        ("start\nmiddle one\nend\n", "start\nmiddle two\nend"),
        ("a  =  1\n", "a = 1"),
        ("a = 'x'\n", 'a = "x"'),
    ],
    ids=["letter case", "one letter", "only the ends fit", "blanks inside", "another quote"],
)
def test_nothing_fuzzier_is_ever_written(text: str, old: str) -> None:
    assert applied(text, old, "changed")[0] == ""


def test_a_refusal_shows_the_nearest_real_text_with_numbers_and_visible_blanks() -> None:
    text = "import os\n\n\ndef total(items):\n\tresult = sum(items)  \n\treturn result\n"
    refusal = applied(text, "def total(items):\n    result = sum(item)\n    return result", "x")[1]
    assert "     4  def total(items):\n     5  →result = sum(items)··\n     6  →return result" in refusal
    assert "First difference, line 5" in refusal


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        (
            "\tif a:\n\t\tb()\n\t\tc()\n",
            "    if a:\n        b()\n        c()\n",
            "    if a:\n        b()\n        \n        c()\n",
            "\tif a:\n\t\tb()\n\t\t\n\t\tc()\n",
        ),
        (
            "\t\ta()\n\t\tb()\n",
            "        a()\n        b()\n",
            "        a()\n    \n\n        b()\n",
            "\t\ta()\n\n\n\t\tb()\n",
        ),
        ("a()\nb()\n", "    a()\n    b()\n", "    a()\n  \n    b()\n", "a()\n\nb()\n"),
    ],
)
def test_RU_small_a_new_line_of_blanks_takes_the_indentation_of_the_file(
    text: str, old: str, new: str, after: str
) -> None:
    assert applied(text, old, new) == (after, "indentation")


@pytest.mark.parametrize("place", [0, 200, 295, 301, 2500, 90_000, 99_990])
@pytest.mark.parametrize("lines", [1, 12])
def test_RU_E2_the_first_difference_of_a_long_line_is_shown(place: int, lines: int) -> None:
    line = "".join(f"word{number} " for number in range(12_500))[:100_000].rstrip()
    text = "".join(f"before {number}\n" for number in range(lines - 1)) + line + "\n"
    there, written = f"{line[:place]}RIGHT{line[place:]}", f"{line[:place]}WRONG{line[place:]}"
    refusal = applied(text.replace(line, there), text.replace(line, written), "x")[1]
    shown, _, quoted = refusal.partition("First difference, line ")
    assert "RIGHT" in shown
    assert "WRONG" in quoted
    assert len(refusal) < 6000
    assert (f", character {place + 1}:" in quoted) == (place > 240)


def test_of_equally_near_lines_the_most_alike_is_shown() -> None:
    text = "<li>a &amp; b</li>\n<li>5 &lt; 6</li>\n<li>q</li>\n"
    assert "     2  <li>5 &lt; 6</li>" in applied(text, "<li>5 &gt; 6</li>", "x")[1]


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("def f():\n    return 1\n", "def f():\\n    return 1", "escaped twice"),
        ('print("a")\n', 'print(\\"a\\")', "backslashes before quotes"),
        ('print("a\\n")\n', 'print("a\\\\n")', "one backslash for every two"),
        ("if (a < b && c)\n", "if (a &lt; b &amp;&amp; c)", "&lt;"),
        ("return 1\n", "```python\nreturn 1\n```\n", "without the ``` lines around it"),
        ("return 1\n", "-return 1\n+return 2\n", "without the signs of a diff"),
    ],
)
def test_escapes_that_are_not_in_the_file_are_named_and_never_undone(text: str, old: str, said: str) -> None:
    after, refusal = applied(text, old, "x")
    assert (after, said in refusal) == ("", True)
    assert text.split("\n")[0] in refusal


def test_a_refusal_without_anything_near_shows_how_the_file_begins() -> None:
    assert "     1  alpha\n     4  beta" in applied("alpha\n\n\nbeta\n", "xyz", "q")[1]


def test_a_refusal_shows_the_lines_a_quote_left_out() -> None:
    text = "def total():\n    result = 0\n    for item in stock:\n        result += item\n    return result\n"
    refusal = applied(text, "def total():\n    ...\n    return result\n", "x")[1]
    assert refusal.endswith(
        "     1  def total():\n     2  ····result = 0\n     3  ····for item in stock:\n"
        "     4  ········result += item\n     5  ····return result\n"
        "First difference, line 2: you wrote\n        ····..."
    )
    refusal = applied(text, "    result = 0\n        result += item\n", "x")[1]
    assert refusal.endswith(
        ":\n     2  ····result = 0\n     3  ····for item in stock:\n     4  ········result += item\n"
        "First difference, line 3: you wrote\n        ········result += item"
    )


def test_text_that_is_already_there_is_said_so() -> None:
    assert (
        "already there (line 2)" in applied("a\nreturn total(1)\n", "return total(0)", "return total(1)")[1]
    )


def test_an_edit_that_changes_nothing_is_refused() -> None:
    assert "the same" in applied("a\n", "a", "a")[1]
    assert "old is empty" in applied("a\n", "", "b")[1]


def test_long_runs_and_repetitions_end_in_time() -> None:
    started = time.process_time()
    applied(" " * 200_000 + "x", "y" + " " * 2000, "z")
    applied("a" * 400_000, "a" * 2000 + "b", "z")
    applied("a" * 400_000, "a" * 1000, "z")
    applied("ab\n" * 100_000, " ab\n" * 500 + "c", "z")
    applied("a" * 300_000, "a", "bb", everywhere=True)
    same, mixed = "    x\n" * 16_000, "    x\n\tx\n" * 8_000
    assert "places or more" in applied(same, "x\n" * 2_000, "y")[1]
    assert "too many places" in applied(mixed, "  x\n    x\n" * 1_000, "  y")[1]
    assert time.process_time() - started < 10


LINES = st.lists(st.sampled_from(["a", "b", "  a", "\tb", "“q”", "x  ", "-"]), max_size=8)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(LINES, LINES, LINES, st.lists(ENDS, min_size=30, max_size=30), st.text(alphabet="zy\n", max_size=6))
def test_bytes_outside_the_edit_never_change(
    before: list[str], quoted: list[str], after: list[str], ends: list[str], new: str
) -> None:
    lines = [*before, "START", *quoted, "STOP", *after]
    raw = "".join(line + end for line, end in zip(lines, ends, strict=False))
    start, stop = raw.index("START"), raw.index("STOP") + 4
    old = "\n".join(["START", *quoted, "STOP"])
    result = apply_edits(from_text(raw), [Edit(old, f"Q{new}Q")], "f").content.raw
    assert result.startswith(raw[:start] + "Q")
    assert result.endswith("Q" + raw[stop:])


@given(st.binary(max_size=60), st.sampled_from(["utf-8", "utf-16", "latin-1", "utf-8-sig"]))
def test_decoding_and_encoding_gives_the_same_bytes(noise: bytes, encoding: str) -> None:
    for data in (noise, "grüße, “quotes”\r\nend\n".encode(encoding, "replace")):
        content = decode(data)
        if content is not None:
            assert content.encode(content.raw) == data


def test_blanks_at_line_ends_may_differ_where_indentation_or_numbers_do_too() -> None:
    assert applied("  a  \n    b\n", "a\n  b\n", "a\n  c\n") == ("  a  \n    c\n", "indentation")
    assert applied("aa \nbb\n", "1\taa\n2\tbb\n", "1\taa\n2\tcc\n") == ("aa \ncc\n", "line numbers")


def test_what_a_search_or_a_refusal_printed_is_taken_back_to_the_files_text() -> None:
    text = "def f():\n    a()\n\tb()  \n"
    assert applied(text, "1:def f():\n2:    a()", "def g():\n    a()")[0] == text.replace("f()", "g()")
    assert applied(text, "     2  ····a()\n     3  →b()··", "     2  ····c()\n     3  →b()··")[
        0
    ] == text.replace("a()", "c()")
    assert applied(text, "····a()", "····c()") == (text.replace("a()", "c()"), "line numbers")


def test_a_file_that_holds_such_signs_itself_is_edited_exactly() -> None:
    assert applied("→ next\n· point\n", "→ next", "→ last") == ("→ last\n· point\n", "exact")


def test_a_byte_order_mark_quoted_from_the_start_of_a_file_is_not_text() -> None:
    outcome = apply_edits(
        from_text("a\nb\n", "utf-8", b"\xef\xbb\xbf"), [Edit("\ufeffa\n", "\ufeffx\n")], "f.txt"
    )
    assert outcome.content.encode(outcome.content.raw) == b"\xef\xbb\xbfx\nb\n"


def test_edits_that_cancel_each_other_out_are_refused() -> None:
    with pytest.raises(ToolError, match="cancel each other out"):
        apply_edits(from_text("alpha\n"), [Edit("alpha", "beta"), Edit("beta", "alpha")], "f.txt")
