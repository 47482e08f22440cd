"""How it looks: every colour, glyph and width, in one place.

Styles are names; a theme says what they are in the terminal's own sixteen colours, so that a person's palette
decides and light and dark both work. Text on its way to the screen is a list of lines of (style, text).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

Span = tuple[str, str]
"""A style name (several separated by blanks, "" for none) and text without control characters."""

Line = list[Span]

FRAMES_PER_S = 30
LIVE_ROWS_PART = 2
"""The live region takes half of the terminal at most."""
TASK_LINES = 3
PREVIEW_LINES = 6
FOLD_LINES = 6
DIFF_FOLD_LINES = 60
APPROVAL_LINES = 6
PROMPT_LINES = 24
QUEUE_ROWS = 4
TITLE_CELLS = 60
QUIET_AFTER_S = 5.0

_PLAIN: Mapping[str, tuple[str, str]] = {
    "bold": ("1", "bold"),
    "dim": ("2", "dim"),
    "italic": ("3", "italic"),
    "underline": ("4", "underline"),
    "strike": ("9", "strike"),
    "reverse": ("7", "reverse"),
}
"""Attributes: kept without colour. Each is (SGR parameters, prompt_toolkit style)."""

_ATTRIBUTES_ONLY: Mapping[str, str] = {
    "heading": "bold",
    "task.0": "bold",
    "task.1": "bold",
    "task.2": "bold",
    "heading.1": "bold underline",
    "heading.2": "bold",
    "heading.3": "bold italic",
    "link": "underline",
    "muted": "dim",
    "gutter": "dim",
    "quote": "italic",
    "prompt": "bold",
    "marked": "reverse",
    "error": "bold",
    "warning": "bold",
    "key": "bold",
    "menu.current": "reverse",
}

TASK_COLOURS = 3
_TASKS = {
    "task.0": ("1;35", "bold ansimagenta"),
    "task.1": ("1;32", "bold ansigreen"),
    "task.2": ("1;31", "bold ansired"),
}
"""The headings of tasks, by their numbers."""

_DARK: Mapping[str, tuple[str, str]] = {
    **_PLAIN,
    "heading": ("1", "bold"),
    "heading.1": ("1;4", "bold underline"),
    "heading.2": ("1", "bold"),
    "heading.3": ("1;3", "bold italic"),
    "link": ("4", "underline"),
    "url": ("2", "dim"),
    "code": ("36", "ansicyan"),
    "muted": ("2", "dim"),
    "gutter": ("2", "dim"),
    "quote": ("3", "italic"),
    "bullet": ("36", "ansicyan"),
    "rule": ("2", "dim"),
    "prompt": ("1;32", "bold ansigreen"),
    "user": ("1", "bold"),
    "tool": ("1", "bold"),
    "ok": ("32", "ansigreen"),
    "error": ("31", "ansired"),
    "warning": ("33", "ansiyellow"),
    "info": ("", ""),
    "added": ("32", "ansigreen"),
    "removed": ("31", "ansired"),
    "hunk": ("36", "ansicyan"),
    "phase": ("35", "ansimagenta"),
    "marked": ("1;33", "bold ansiyellow"),
    "key": ("1", "bold"),
    "risk.low": ("32", "ansigreen"),
    "risk.medium": ("33", "ansiyellow"),
    "risk.high": ("1;31", "bold ansired"),
    "menu.current": ("7", "reverse"),
    **_TASKS,
    "syntax.keyword": ("35", "ansimagenta"),
    "syntax.string": ("32", "ansigreen"),
    "syntax.number": ("36", "ansicyan"),
    "syntax.comment": ("2;3", "dim italic"),
    "syntax.function": ("94", "ansibrightblue"),
    "syntax.class": ("1;94", "bold ansibrightblue"),
    "syntax.builtin": ("36", "ansicyan"),
    "syntax.error": ("31", "ansired"),
}


def _attributes(names: str) -> tuple[str, str]:
    plain = [_PLAIN[name] for name in names.split()]
    return ";".join(sgr for sgr, _rule in plain), " ".join(rule for _sgr, rule in plain)


_ON_BOTH = {
    "code": ("35", "ansimagenta"),
    "bullet": ("1", "bold"),
    "hunk": ("35", "ansimagenta"),
    "prompt": ("32", "ansigreen"),
    "warning": ("35", "ansimagenta"),
    "marked": ("1;35", "bold ansimagenta"),
    "risk.medium": ("35", "ansimagenta"),
    "task.1": ("32", "ansigreen"),
    "syntax.number": ("", ""),
    "syntax.function": ("1", "bold"),
    "syntax.class": ("1", "bold"),
    "syntax.builtin": ("", ""),
}
"""Red, green and magenta are what palettes make readable on black and on white; yellow and cyan vanish on
white, blue on black."""

THEMES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "default": {**_DARK, **_ON_BOTH},
    "dark": _DARK,
    "light": {
        **_DARK,
        "prompt": ("1;34", "bold ansiblue"),
        "code": ("34", "ansiblue"),
        "bullet": ("34", "ansiblue"),
        "hunk": ("34", "ansiblue"),
        "syntax.function": ("34", "ansiblue"),
        "syntax.class": ("1;34", "bold ansiblue"),
        "warning": ("35", "ansimagenta"),
        "marked": ("1;35", "bold ansimagenta"),
        "phase": ("34", "ansiblue"),
        "risk.medium": ("35", "ansimagenta"),
        "task.1": ("1;34", "bold ansiblue"),
        "syntax.number": ("31", "ansired"),
        "syntax.builtin": ("34", "ansiblue"),
    },
    "mono": {**_PLAIN, **{name: _attributes(names) for name, names in _ATTRIBUTES_ONLY.items()}},
}
"""Themes by name. "default" is for terminals that do not tell their background; "light" leaves out yellow and
cyan, which no palette makes readable on white; "mono" is what NO_COLOR gets: attributes, no colours."""


@lru_cache(maxsize=512)
def _sgr(theme: str, style: str, *, italics: bool) -> str:
    table = THEMES[theme]
    codes = [table[name][0] for name in style.split() if name in table]
    return ";".join(filter(None, codes if italics else (_upright(code, ";", "3") for code in codes)))


def _upright(attributes: str, separator: str, italic: str) -> str:
    """Attributes without the one for italics."""
    return separator.join(one for one in attributes.split(separator) if one != italic)


class Glyphs(msgspec.Struct, frozen=True):
    """The signs that are drawn; every one is a single cell."""

    prompt: str
    bar: str
    bullet: str
    gutter: str
    rule: str
    marked: str
    running: str
    done: str
    failed: str
    arrow: str
    ellipsis: str
    dot: str
    box_open: str
    box_active: str
    box_done: str
    box_dropped: str
    quote: str
    column: str
    cross: str


UNICODE = Glyphs(
    prompt="❯", bar="▌", bullet="•", gutter="│", rule="─", marked="▸", running="●", done="✓", failed="✗",
    arrow="→", ellipsis="…", dot="·", box_open="☐", box_active="◐", box_done="☑", box_dropped="☒", quote="▎",
    column="│", cross="┼",
)  # fmt: skip
ASCII = Glyphs(
    prompt=">", bar=">", bullet="*", gutter="|", rule="-", marked="!", running="*", done="+", failed="x",
    arrow=">", ellipsis="~", dot="-", box_open="o", box_active="*", box_done="x", box_dropped="-", quote="|",
    column="|", cross="+",
)  # fmt: skip


_IN_ASCII = str.maketrans(
    {"▸": ">", "❯": ">", "·": "-", "•": "*", "…": "...", "→": "->", "–": "-", "—": "-", "✓": "+", "✗": "x"}
)


class Look(msgspec.Struct, frozen=True):
    """What this terminal can show, and what the person wants to see of it. `ansi` False: no escape sequence
    at all (a dumb terminal, a pipe). `fold_lines`: visible lines of a tool's output, `unfold`: the key or
    command that shows the others; `thoughts` and `numbers`: whether reasoning, and tokens and cost, are
    shown; `italics`: whether the terminal has them (GNU screen draws them in reverse video)."""

    theme: str
    glyphs: Glyphs
    ansi: bool
    fold_lines: int = FOLD_LINES
    unfold: str = "Ctrl+O"
    thoughts: bool = True
    numbers: bool = True
    italics: bool = True

    def sgr(self, style: str) -> str:
        """The SGR parameters of style names, "" when they change nothing."""
        return _sgr(self.theme, style, italics=self.italics) if self.ansi and style else ""

    def said(self, text: str) -> str:
        """Words of buddy's own with the signs that are drawn here."""
        return text.translate(_IN_ASCII) if self.glyphs == ASCII and not text.isascii() else text

    def toolkit_rules(self) -> dict[str, str]:
        """The theme as style rules for prompt_toolkit."""
        rules = {name: rule for name, (_sgr, rule) in THEMES[self.theme].items()}
        return (
            rules if self.italics else {name: _upright(rule, " ", "italic") for name, rule in rules.items()}
        )


DUMB = ("dumb", "unknown", "")
"""What TERM says where a terminal can do nothing but print lines."""
_DARK_ALWAYS = ("linux",)
"""What TERM says where the background is black: the console of Linux."""
_COLOURLESS = ("vt1", "vt2", "vt3", "vt4", "vt5")
"""How TERM begins where a terminal knows attributes and no colours."""
_LIGHT = ("7", "9", "10", "11", "12", "13", "14", "15")
"""The palette's colours that are a light background."""

ColorChoice = Literal["auto", "always", "never"]
Ground = Literal["dark", "light"]
"""The background, as the terminal answered when it was asked."""


def choose_look(
    *,
    environ: Mapping[str, str],
    color: ColorChoice,
    theme: str,
    encoding: str,
    is_terminal: bool,
    ground: Ground | None = None,
) -> Look:
    """Colours and glyphs from what the person, the environment and the terminal's background say. The option
    wins, then a non-empty NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE, then what the terminal is."""
    dumb = environ.get("TERM", "") in DUMB
    forced = any(environ.get(name, "") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    match color:
        case "always":
            colored = True
        case "never":
            colored = False
        case "auto":
            colorless = dumb or environ.get("TERM", "").startswith(_COLOURLESS)
            colored = not environ.get("NO_COLOR") and (forced or (is_terminal and not colorless))
    unicode = encoding.lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig")
    ansi = colored or (is_terminal and not dumb)
    named = _theme(theme, environ, ground) if colored else "mono"
    upright = environ.get("TERM", "").startswith("screen") or bool(environ.get("STY"))
    glyphs = UNICODE if unicode else ASCII
    return Look(theme=named, glyphs=glyphs, ansi=ansi, italics=not upright)


def _theme(wanted: str, environ: Mapping[str, str], ground: Ground | None) -> str:
    """The theme for a name of the settings. By itself it follows the background: as the terminal answered,
    or as it says in COLORFGBG (foreground;background)."""
    if wanted in ("dark", "light"):
        return wanted
    if wanted == "plain":
        return "mono"
    if ground is not None:
        return ground
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    if background.isdecimal():
        return "light" if background in _LIGHT else "dark"
    return "dark" if environ.get("TERM", "") in _DARK_ALWAYS else "default"
