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
    "info": ("34", "ansiblue"),
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

THEMES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "default": _DEFAULT,
    "bright": {
        **_DEFAULT,
        "heading": ("1;96", "bold ansibrightcyan"),
        "code": ("96", "ansibrightcyan"),
        "ok": ("92", "ansibrightgreen"),
        "error": ("91", "ansibrightred"),
        "warning": ("93", "ansibrightyellow"),
        "added": ("92", "ansibrightgreen"),
        "removed": ("91", "ansibrightred"),
        "phase": ("95", "ansibrightmagenta"),
        "syntax.keyword": ("95", "ansibrightmagenta"),
        "syntax.string": ("92", "ansibrightgreen"),
        "syntax.function": ("94", "ansibrightblue"),
    },
    "mono": {**_PLAIN, **{name: _PLAIN[plain] for name, plain in _ATTRIBUTES_ONLY.items()}},
}
"""Themes by name. "mono" is what NO_COLOR gets: attributes, no colours."""


@lru_cache(maxsize=512)
def _sgr(theme: str, style: str) -> str:
    table = THEMES[theme]
    return ";".join(table[name][0] for name in style.split() if name in table)


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

    def toolkit_rules(self) -> dict[str, str]:
        """The theme as style rules for prompt_toolkit."""
        return {name: rule for name, (_sgr, rule) in THEMES[self.theme].items()}


DUMB = ("dumb", "unknown", "")
"""What TERM says where a terminal can do nothing but print lines."""

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
            colored = not environ.get("NO_COLOR") and (forced or (is_terminal and not dumb))
    unicode = encoding.lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig")
    named = theme if theme in THEMES else "default"
    ansi = colored or (is_terminal and not dumb)
    return Look(theme=named if colored else "mono", glyphs=UNICODE if unicode else ASCII, ansi=ansi)
