"""Colours and glyphs by what the environment says; what may be imported before the first frame."""

from __future__ import annotations

import subprocess
import sys

import pytest

from buddy.repl.log_stream import streams_to
from buddy.repl.resize import reflowed_cursor_row, reflowed_rows
from buddy.repl.style import ASCII, THEMES, UNICODE, Look, choose_look
from buddy.repl.width import cells, fit, split_at, to_ansi, wrap


@pytest.mark.parametrize(
    ("environ", "color", "is_terminal", "theme", "ansi"),
    [
        ({"TERM": "xterm"}, "auto", True, "default", True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "auto", True, "mono", True),
        ({"TERM": "xterm", "NO_COLOR": ""}, "auto", True, "default", True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "always", True, "default", True),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", True, "mono", True),
        ({"TERM": "xterm"}, "never", True, "mono", True),
        ({"TERM": "dumb"}, "auto", True, "mono", False),
        ({"TERM": "vt100"}, "auto", True, "mono", True),
        ({"TERM": "vt220", "FORCE_COLOR": "1"}, "auto", True, "default", True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, "auto", True, "default", True),
        ({}, "auto", True, "mono", False),
        ({"TERM": "xterm"}, "auto", False, "mono", False),
        ({"TERM": "xterm", "CLICOLOR_FORCE": "1"}, "auto", False, "default", True),
        ({"TERM": "xterm", "FORCE_COLOR": "0"}, "auto", False, "mono", False),
    ],
)
def test_who_decides_about_colours(
    environ: dict[str, str], color: str, is_terminal: bool, theme: str, ansi: bool
) -> None:
    look = choose_look(
        environ=environ, color=color, theme="default", encoding="utf-8", is_terminal=is_terminal
    )
    assert look == Look(theme, UNICODE, ansi)


def test_REL_063_without_utf_8_the_glyphs_are_ascii() -> None:
    look = choose_look(
        environ={"TERM": "xterm"}, color="auto", theme="?", encoding="ANSI_X3.4-1968", is_terminal=True
    )
    assert look == Look("default", ASCII, ansi=True)
    assert all(getattr(ASCII, name).isascii() for name in ASCII.__struct_fields__)


def test_themes_know_the_same_styles_and_only_the_terminals_palette() -> None:
    assert set(THEMES["dark"]) == set(THEMES["light"]) == set(THEMES["default"])
    for theme in THEMES.values():
        for sgr, _rule in theme.values():
            assert all(int(part) < 10 or int(part) // 10 in (3, 9) for part in sgr.split(";") if part)


def test_on_a_light_background_nothing_is_yellow_cyan_or_bright_and_on_a_dark_one_nothing_is_blue() -> None:
    def numbers(theme: str) -> set[int]:
        return {int(part) for sgr, _rule in THEMES[theme].values() for part in sgr.split(";") if part}

    assert numbers("light") & {33, 36, 37, *range(90, 98)} == set()
    assert numbers("dark") & {30, 34} == set()
    assert numbers("default") & {30, 37, *range(90, 98)} == set()
    assert numbers("mono") <= set(range(10))


@pytest.mark.parametrize(
    ("wanted", "background", "theme"),
    [
        ("auto", "", "default"),
        ("auto", "0;15", "light"),
        ("auto", "0;default;7", "light"),
        ("auto", "15;0", "dark"),
        ("auto", "15;default;0", "dark"),
        ("auto", "12;8", "dark"),
        ("auto", "default;default", "default"),
        ("dark", "0;15", "dark"),
        ("light", "15;0", "light"),
        ("plain", "15;0", "mono"),
    ],
)
def test_the_theme_of_the_settings_counts_then_what_the_terminal_says_of_its_background(
    wanted: str, background: str, theme: str
) -> None:
    environ = {"TERM": "xterm", "COLORFGBG": background}
    look = choose_look(environ=environ, color="auto", theme=wanted, encoding="utf-8", is_terminal=True)
    assert look.theme == theme


def test_no_colour_still_has_attributes() -> None:
    assert (
        to_ansi([[("heading", "x"), ("", " y")]], Look("mono", UNICODE, ansi=True)) == "\x1b[1mx\x1b[0m y\n"
    )
    assert to_ansi([[("heading", "x"), ("", " y  ")]], Look("mono", UNICODE, ansi=False)) == "x y\n"


def test_widths_are_cells() -> None:
    assert cells("漢字a") == 5
    assert split_at("漢字a", 3) == ("漢", "字a")
    assert split_at("漢字", 1) == ("漢", "字")
    assert fit("漢字かな", 5) == "漢字…"
    assert fit("abc", 3) == "abc"
    assert ["".join(t for _s, t in line).rstrip() for line in wrap([("", "aa bbb cccc")], 6)] == [
        "aa bbb",
        "cccc",
    ]
    assert ["".join(t for _s, t in line) for line in wrap([("", "漢字かな交")], 5)] == ["漢字", "かな", "交"]


def test_rows_after_the_terminal_wrapped_lines_again() -> None:
    assert reflowed_rows([80, 0, 40, 41], 40) == 2 + 1 + 1 + 2
    assert reflowed_cursor_row([79, 79, 20], 2, 5, 40) == 4
    assert reflowed_cursor_row([79, 79, 60], 2, 50, 40) == 5
    assert reflowed_rows([10], 0) == 10


def test_prints_become_log_lines() -> None:
    lines: list[str] = []
    with streams_to(lines.append):
        print("one")
        print("two", end="")
        print(" three", file=sys.stderr)
        print("tail", end="")
    assert lines == ["one", "two three", "tail"]


def test_nothing_heavy_is_imported_before_the_first_frame() -> None:
    heavy = [
        "rich",
        "pygments",
        "markdown_it",
        "litellm",
        "pydantic",
        "mcp",
        "httpx",
        "jinja2",
        "tree_sitter",
        "markdownify",
    ]
    code = f"import sys, buddy.repl.start; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
