"""Colours and glyphs by what the environment says; what may be imported before the first frame."""

from __future__ import annotations

import subprocess
import sys

import pytest
from prompt_toolkit.output.color_depth import ColorDepth
from rich.color import Color, ColorSystem, ColorType
from rich.segment import Segment

from buddy.repl.render.console import Canvas, live_line, rich_theme
from buddy.repl.render.style import ASCII, READABLE, THEMES, UNICODE, Depth, Look, choose_look
from buddy.repl.render.text import cells, fit, split_at, wrap
from buddy.repl.screen.layout import color_depth, toolkit_style
from buddy.repl.screen.output import streams_to
from buddy.repl.screen.scrollback import reflowed_cursor_row, reflowed_rows


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
    attributes = {"bold", "dim", "italic", "underline", "strike", "reverse"}
    for theme in THEMES.values():
        words = {word for rule in theme.values() for word in rule.split()}
        assert all(word.startswith("ansi") for word in words - attributes)


@pytest.mark.parametrize("depth", ["16", "256", "true"])
@pytest.mark.parametrize("theme", ["default", "dark", "light", "mono"])
def test_a_ground_stands_only_where_the_theme_is_known_and_the_colours_are_there(
    theme: str, depth: Depth
) -> None:
    look = Look(theme, UNICODE, ansi=True, depth=depth)
    grounds = any(style.bgcolor for style in rich_theme(look).styles.values())
    assert grounds == look.has_grounds == (depth != "16" and theme in ("dark", "light"))


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "xterm-kitty"}, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "true"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "true"),
        ({"TERM": "linux", "COLORTERM": "yes"}, "16"),
    ],
)
def test_the_terminal_says_how_many_colours_it_has(environ: dict[str, str], depth: str) -> None:
    look = choose_look(environ=environ, color="auto", theme="dark", encoding="utf-8", is_terminal=True)
    assert look.depth == depth


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("name", ["added.line", "removed.line", "added.word", "removed.word"])
def test_a_ground_is_the_same_tint_in_256_colours(theme: str, name: str) -> None:
    """The nearest of 256 colours has the same strongest part, and differs from the terminal's own ground."""
    look = Look(theme, UNICODE, ansi=True, depth="256")
    color = rich_theme(look).styles[name].bgcolor
    assert color is not None
    red, green, blue = color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
    assert (red > max(green, blue)) if name.startswith("removed") else (green > max(red, blue))


BACKGROUNDS = {
    "dark": ("#000000", "#1e1e1e", "#171421"),
    "light": ("#ffffff", "#fafafa", "#fdf6e3"),
}
PALETTES = {
    # xterm, VS Code, GNOME Terminal, Tango, Terminal of macOS
    "dark": {
        "green": ("#00cd00", "#0dbc79", "#26a269", "#4e9a06", "#00a600"),
        "cyan": ("#00cdcd", "#11a8cd", "#2aa1b3", "#06989a", "#00a6b2"),
        "white": ("#e5e5e5", "#e5e5e5", "#d0cfcc", "#d3d7cf", "#bfbfbf"),
    },
    "light": {
        "blue": ("#0000ee", "#0451a5", "#12488b", "#3465a4", "#0000b2"),
        "bright_black": ("#7f7f7f", "#666666", "#5e5c64", "#555753", "#666666"),
    },
}
"""The colours of common palettes that themes still take from the palette where they have others."""
LINES = ("gutter", "rule")
"""Roles of lines that are drawn: they need less contrast than text."""


def luminance(color: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def seen(color: Color, theme: str) -> tuple[str, ...]:
    """A colour as terminals show it: by their palettes, or as it is."""
    if color.type is ColorType.STANDARD:
        return PALETTES[theme][color.name]
    return (color.get_truecolor().hex,)


@pytest.mark.parametrize("depth", ["256", "true"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_role_is_readable_on_the_background_of_its_theme(theme: str, depth: Depth) -> None:
    styles = rich_theme(Look(theme, UNICODE, ansi=True, depth=depth)).styles
    dim = {"dim", "gutter"} if theme == "dark" else {"dim"}  # no text but what asks for it by name
    assert {name for name, style in styles.items() if style.dim} == dim
    weak = [
        (name, shown, background)
        for name, style in styles.items()
        if style.color is not None and style.bgcolor is None and not name.startswith("changed.")
        for shown in seen(style.color, theme)
        for background in BACKGROUNDS[theme]
        if contrast(shown, background) < (3 if name in LINES else 4.5)
    ]
    assert weak == []


@pytest.mark.parametrize("depth", ["256", "true"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_changed_lines_are_readable_on_their_grounds(theme: str, depth: Depth) -> None:
    styles = rich_theme(Look(theme, UNICODE, ansi=True, depth=depth)).styles
    code = [name.replace("syntax.", "changed.") for name in styles if name.startswith("syntax.")]
    for kind in ("added", "removed"):
        line, word = styles[f"{kind}.line"].bgcolor, styles[f"{kind}.word"]
        assert line
        assert word.color
        assert word.bgcolor
        assert contrast(word.color.get_truecolor().hex, word.bgcolor.get_truecolor().hex) >= 4.5
        assert line != word.bgcolor
        for name in (*code, "changed.muted", kind):
            color = styles[name].color
            assert color
            assert contrast(color.get_truecolor().hex, line.get_truecolor().hex) >= 4.5, name


@pytest.mark.parametrize("depth", ["256", "true"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_live_rows_have_the_colours_of_the_scrollback(theme: str, depth: Depth) -> None:
    look = Look(theme, UNICODE, ansi=True, depth=depth)
    styles, live = rich_theme(look).styles, toolkit_style(look)
    assert set(READABLE[theme]) < set(THEMES[theme])
    for name in READABLE[theme]:
        color = styles[name].color
        assert color
        assert color.type is ColorType.EIGHT_BIT  # half the bytes of a true colour
        assert f"#{live.get_attrs_for_style_str(f'class:{name}').color}" == color.name
        ((words, _text),) = live_line([Segment("x", styles[name])])
        assert f"fg:{color.name}" in words


@pytest.mark.parametrize(
    ("theme", "depth", "expected"),
    [
        ("mono", "true", ColorDepth.DEPTH_1_BIT),
        ("default", "true", ColorDepth.DEPTH_4_BIT),
        ("dark", "16", ColorDepth.DEPTH_4_BIT),
        ("dark", "256", ColorDepth.DEPTH_8_BIT),
        ("light", "true", ColorDepth.DEPTH_8_BIT),
    ],
)
def test_the_live_rows_have_the_colours_of_the_theme(theme: str, depth: Depth, expected: ColorDepth) -> None:
    assert color_depth(Look(theme, UNICODE, ansi=True, depth=depth)) == expected


def test_no_heading_of_a_task_is_red() -> None:
    rules = [
        table[name] for table in (*THEMES.values(), *READABLE.values()) for name in table if "task." in name
    ]
    assert not any(red in rule for rule in rules for red in ("red", "#ff5f5f", "#af0000"))


def test_the_theme_is_the_same_to_rich_as_to_prompt_toolkit() -> None:
    look = Look("dark", UNICODE, ansi=True)
    styles = rich_theme(look).styles
    assert set(styles) == set(THEMES["dark"])
    assert str(styles["syntax.class"]) == "bold bright_blue"
    assert live_line([Segment("x", styles["syntax.class"]), Segment("y")]) == [
        ("bold fg:ansibrightblue", "x"),
        ("", "y"),
    ]


def test_on_a_light_background_nothing_is_yellow_cyan_or_bright_and_on_a_dark_one_nothing_is_blue() -> None:
    def colours(theme: str) -> set[str]:
        words = {word for rule in THEMES[theme].values() for word in rule.split()}
        return {word.removeprefix("ansi") for word in words if word.startswith("ansi")}

    assert colours("light") <= {"red", "green", "magenta", "blue"}
    assert colours("dark") & {"black", "blue"} == set()
    assert colours("default") <= {"red", "green", "magenta", "blue", "cyan", "yellow"}
    assert colours("mono") == set()


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
    for ansi, shown in ((True, "\x1b[1mx\x1b[m y\n"), (False, "x y\n")):
        canvas = Canvas(Look("mono", UNICODE, ansi=ansi))
        assert canvas.ansi(canvas.wrap([("heading", "x"), ("", " y  ")], 20)) == shown


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
