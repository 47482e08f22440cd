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
LIVE_ROWS_MAX = 12
LIVE_ROWS_PART = 3
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

_DEFAULT: Mapping[str, tuple[str, str]] = {
    **_PLAIN,
    "heading": ("1;36", "bold ansicyan"),
    "link": ("4;34", "underline ansiblue"),
    "url": ("34", "ansiblue"),
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
    "syntax.keyword": ("35", "ansimagenta"),
    "syntax.string": ("32", "ansigreen"),
    "syntax.number": ("36", "ansicyan"),
    "syntax.comment": ("2;3", "dim italic"),
    "syntax.function": ("34", "ansiblue"),
    "syntax.class": ("1;34", "bold ansiblue"),
    "syntax.builtin": ("36", "ansicyan"),
    "syntax.error": ("31", "ansired"),
}

_BLUE_ON_DARK = {
    "link": ("4;94", "underline ansibrightblue"),
    "url": ("94", "ansibrightblue"),
    "syntax.function": ("94", "ansibrightblue"),
    "syntax.class": ("1;94", "bold ansibrightblue"),
}
"""Blue is the colour that is hard to read on black in most palettes; what has to be read is not blue."""

THEMES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "default": _DEFAULT,
    "dark": {**_DEFAULT, **_BLUE_ON_DARK},
    "light": {
        **_DEFAULT,
        "heading": ("1;34", "bold ansiblue"),
        "code": ("34", "ansiblue"),
        "bullet": ("34", "ansiblue"),
        "hunk": ("34", "ansiblue"),
        "warning": ("35", "ansimagenta"),
        "marked": ("1;35", "bold ansimagenta"),
        "phase": ("34", "ansiblue"),
        "risk.medium": ("35", "ansimagenta"),
        "syntax.number": ("31", "ansired"),
        "syntax.builtin": ("34", "ansiblue"),
    },
    "mono": {**_PLAIN, **{name: _PLAIN[plain] for name, plain in _ATTRIBUTES_ONLY.items()}},
}
"""Themes by name. "default" is for terminals of which nobody knows whether they are dark; "light" leaves out
yellow and cyan, which no palette makes readable on white; "mono" is what NO_COLOR gets: attributes, no
colours."""


@lru_cache(maxsize=512)
def _sgr(theme: str, style: str) -> str:
    table = THEMES[theme]
    return ";".join(table[name][0] for name in style.split() if name in table and table[name][0])


class Glyphs(msgspec.Struct, frozen=True):
    """The signs that are drawn; every one is a single cell."""

    prompt: str
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
    prompt="❯", bullet="•", gutter="│", rule="─", marked="▸", running="●", done="✓", failed="✗", arrow="→",
    ellipsis="…", dot="·", box_open="☐", box_active="◐", box_done="☑", box_dropped="☒", quote="▎",
    column="│", cross="┼",
)  # fmt: skip
ASCII = Glyphs(
    prompt=">", bullet="*", gutter="|", rule="-", marked="!", running="*", done="+", failed="x", arrow=">",
    ellipsis="~", dot="-", box_open="o", box_active="*", box_done="x", box_dropped="-", quote="|",
    column="|", cross="+",
)  # fmt: skip


_IN_ASCII = str.maketrans(
    {"▸": ">", "❯": ">", "·": "-", "•": "*", "…": "...", "→": "->", "–": "-", "—": "-", "✓": "+", "✗": "x"}
)


class Look(msgspec.Struct, frozen=True):
    """What this terminal can show, and what the person wants to see of it. `ansi` False: no escape sequence
    at all (a dumb terminal, a pipe). `fold_lines`: lines of a tool's output before it is folded; `thoughts`
    and `numbers`: whether reasoning, and tokens and cost, are shown."""

    theme: str
    glyphs: Glyphs
    ansi: bool
    fold_lines: int = FOLD_LINES
    thoughts: bool = True
    numbers: bool = True

    def sgr(self, style: str) -> str:
        """The SGR parameters of style names, "" when they change nothing."""
        return _sgr(self.theme, style) if self.ansi and style else ""

    def said(self, text: str) -> str:
        """Words of buddy's own with the signs that are drawn here."""
        return text.translate(_IN_ASCII) if self.glyphs == ASCII and not text.isascii() else text

    def toolkit_rules(self) -> dict[str, str]:
        """The theme as style rules for prompt_toolkit."""
        return {name: rule for name, (_sgr, rule) in THEMES[self.theme].items()}


DUMB = ("dumb", "unknown", "")
"""What TERM says where a terminal can do nothing but print lines."""
_COLOURLESS = ("vt1", "vt2", "vt3", "vt4", "vt5")
"""How TERM begins where a terminal knows attributes and no colours."""
_LIGHT = ("7", "9", "10", "11", "12", "13", "14", "15")
"""The palette's colours that are a light background."""

ColorChoice = Literal["auto", "always", "never"]


def choose_look(
    *, environ: Mapping[str, str], color: ColorChoice, theme: str, encoding: str, is_terminal: bool
) -> Look:
    """Colours and glyphs from what the person and the environment say. The option wins, then a non-empty
    NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE, then what the terminal is."""
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
    named = _theme(theme, environ) if colored else "mono"
    return Look(theme=named, glyphs=UNICODE if unicode else ASCII, ansi=ansi)


def _theme(wanted: str, environ: Mapping[str, str]) -> str:
    """The theme a person wants by the names of the settings. By itself it follows the background where the
    terminal tells it (COLORFGBG: foreground;background)."""
    if wanted in ("dark", "light"):
        return wanted
    if wanted == "plain":
        return "mono"
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not background.isdecimal():
        return "default"
    return "light" if background in _LIGHT else "dark"
