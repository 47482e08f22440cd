"""Visual style: every colour, glyph and width, in one place.

Styles are names; a theme says what they are in the terminal's own sixteen colours, so that a person's palette
decides and light and dark both work. Text on its way to the screen is a list of lines of (style, text).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Span = tuple[str, str]
"""A style name (several separated by blanks, "" for none) and text without control characters."""

Line = list[Span]

Depth = Literal["16", "256", "true"]
"""How many colours a terminal has."""
PictureSetting = Literal["auto", "off", "blocks", "kitty", "sixel"]
PictureMode = Literal["off", "blocks", "kitty", "sixel"]


class PictureWay(msgspec.Struct, frozen=True):
    """The way a terminal shows pictures: the mode, and width and height of a cell in pixels, None where the
    terminal does not state them."""

    mode: PictureMode = "off"
    cell: tuple[int, int] | None = None


NO_PICTURES = PictureWay()

FRAMES_PER_S = 30
LIVE_ROWS_PART = 2
"""The live region takes half of the terminal at most."""
TASK_LINES = 3
PREVIEW_LINES = 6
FOLD_LINES = 6
DIFF_FOLD_LINES = 60
APPROVAL_LINES = 6
PROMPT_LINES = 10
QUEUE_ROWS = 4
TITLE_CELLS = 60
QUIET_AFTER_S = 5.0

_PLAIN: Mapping[str, str] = {
    name: name for name in ("bold", "dim", "italic", "underline", "strike", "reverse")
}
"""Attributes: kept without colour."""

_MONO: Mapping[str, str] = {
    **_PLAIN,
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
    "added.line": "",
    "removed.line": "",
    "added.word": "bold underline",
    "removed.word": "bold underline",
}

TASK_COLOURS = 3
_TASKS = {
    "task.0": "bold ansimagenta",
    "task.1": "bold ansigreen",
    "task.2": "bold ansicyan",
}
"""The headings of tasks, by their numbers. None is red: that is for alarms."""

_DARK: Mapping[str, str] = {
    **_PLAIN,
    "heading": "bold",
    "heading.1": "bold underline",
    "heading.2": "bold",
    "heading.3": "bold italic",
    "link": "underline",
    "url": "dim",
    "code": "ansicyan",
    "muted": "dim",
    "gutter": "dim",
    "quote": "italic",
    "bullet": "ansicyan",
    "rule": "dim",
    "prompt": "bold ansigreen",
    "user": "bold",
    "tool": "bold",
    "ok": "ansigreen",
    "error": "ansired",
    "warning": "ansiyellow",
    "info": "",
    "added": "ansigreen",
    "removed": "ansired",
    "added.line": "ansigreen",
    "removed.line": "ansired",
    "added.word": "bold underline ansigreen",
    "removed.word": "bold underline ansired",
    "hunk": "ansicyan",
    "phase": "ansimagenta",
    "marked": "bold ansiyellow",
    "key": "bold",
    "risk.low": "ansigreen",
    "risk.medium": "ansiyellow",
    "risk.high": "bold ansired",
    "menu.current": "reverse",
    **_TASKS,
    "syntax.keyword": "ansimagenta",
    "syntax.string": "ansigreen",
    "syntax.number": "ansicyan",
    "syntax.comment": "dim italic",
    "syntax.function": "ansibrightblue",
    "syntax.class": "bold ansibrightblue",
    "syntax.builtin": "ansicyan",
    "syntax.error": "ansired",
}


_ON_BOTH = {
    "code": "ansimagenta",
    "bullet": "bold",
    "hunk": "ansimagenta",
    "prompt": "ansigreen",
    "warning": "ansimagenta",
    "marked": "bold ansimagenta",
    "risk.medium": "ansimagenta",
    "task.1": "ansigreen",
    "task.2": "bold",
    "syntax.number": "",
    "syntax.function": "bold",
    "syntax.class": "bold",
    "syntax.builtin": "",
}
"""Red, green and magenta are what palettes make readable on black and on white; yellow and cyan vanish on
white, blue on black."""

THEMES: Mapping[str, Mapping[str, str]] = {
    "default": {**_DARK, **_ON_BOTH},
    "dark": _DARK,
    "light": {
        **_DARK,
        "prompt": "bold ansiblue",
        "code": "ansiblue",
        "bullet": "ansiblue",
        "hunk": "ansiblue",
        "syntax.function": "ansiblue",
        "syntax.class": "bold ansiblue",
        "warning": "ansimagenta",
        "marked": "bold ansimagenta",
        "phase": "ansiblue",
        "risk.medium": "ansimagenta",
        "task.1": "bold ansiblue",
        "task.2": "bold ansigreen",
        "syntax.number": "ansired",
        "syntax.builtin": "ansiblue",
    },
    "mono": _MONO,
}
"""Themes by name. "default" is for terminals that do not tell their background; "light" leaves out yellow and
cyan, which no palette makes readable on white; "mono" is what NO_COLOR gets: attributes, no colours."""


READABLE: Mapping[str, Mapping[str, str]] = {
    "dark": {
        "muted": "#949494",
        "url": "#949494",
        "rule": "#767676",
        "error": "#ff5f5f",
        "warning": "#ffd75f",
        "marked": "bold #ffd75f",
        "risk.medium": "#ffd75f",
        "risk.high": "bold #ff5f5f",
        "phase": "#d787ff",
        "task.0": "bold #d787ff",
        "added": "#87d787",
        "removed": "#ff5f5f",
        "syntax.keyword": "#ffafff",
        "syntax.number": "#ffd787",
        "syntax.comment": "italic #949494",
        "syntax.function": "#afd7ff",
        "syntax.class": "bold #afd7ff",
        "syntax.error": "#ffafaf",
    },
    "light": {
        "muted": "#626262",
        "url": "#626262",
        "gutter": "#8a8a8a",
        "rule": "#8a8a8a",
        "prompt": "bold #0000af",
        "ok": "#005f00",
        "error": "#af0000",
        "warning": "#875f00",
        "marked": "bold #875f00",
        "risk.low": "#005f00",
        "risk.medium": "#875f00",
        "risk.high": "bold #af0000",
        "task.0": "bold #870087",
        "task.1": "bold #0000af",
        "task.2": "bold #005f00",
        "added": "#005f00",
        "removed": "#af0000",
        "syntax.keyword": "#870087",
        "syntax.string": "#005f00",
        "syntax.number": "#af0000",
        "syntax.comment": "italic #626262",
        "syntax.error": "#af0000",
    },
}
"""Colours of the 256, where the theme is known and the terminal has them: for roles whose palette colour is
unreadable on that background in a common palette. The others keep the palette's: half the bytes. On dark the
gutter stays dim: terminals draw that in grey there, and it begins most rows (4 bytes instead of 11)."""

GROUNDS: Mapping[str, Mapping[str, str]] = {
    "dark": {
        "added.line": "bg:#0a3018",
        "removed.line": "bg:#3a1216",
        "added.word": "bold #ffffff bg:#157325",
        "removed.word": "bold #ffffff bg:#7a1f26",
        "changed.muted": "#d0d0d0",
        "changed.comment": "#d0d0d0",
        "changed.keyword": "#ffafff",
        "changed.string": "#afd787",
        "changed.number": "#ffd787",
        "changed.function": "#afd7ff",
        "changed.class": "bold #afd7ff",
        "changed.builtin": "#87d7d7",
        "changed.error": "#ffafaf",
    },
    "light": {
        "added.line": "bg:#d9f7df",
        "removed.line": "bg:#fbe0e0",
        "added.word": "bold #000000 bg:#a9edb0",
        "removed.word": "bold #000000 bg:#f7b9b9",
        "changed.muted": "#585858",
        "changed.comment": "#585858",
        "changed.keyword": "#870087",
        "changed.string": "#005f00",
        "changed.number": "#af0000",
        "changed.function": "#0000af",
        "changed.class": "bold #0000af",
        "changed.builtin": "#005f87",
        "changed.error": "#af0000",
    },
}
"""Grounds of changed lines and words, and the colours of code on them, where the theme is known and the
terminal has 256 colours or more: the nearest of 256 is a tint of the same colour. Elsewhere the text itself
is coloured."""


def _upright(rule: str) -> str:
    """Return a rule without italics."""
    return " ".join(word for word in rule.split() if word != "italic")


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
    minus: str
    gap: str


UNICODE = Glyphs(
    prompt="❯", bar="▌", bullet="•", gutter="│", rule="─", marked="▸", running="●", done="✓", failed="✗",
    arrow="→", ellipsis="…", dot="·", box_open="☐", box_active="◐", box_done="☑", box_dropped="☒", quote="▎",
    column="│", cross="┼", minus="−", gap="⋯",
)  # fmt: skip
ASCII = Glyphs(
    prompt=">", bar=">", bullet="*", gutter="|", rule="-", marked="!", running="*", done="+", failed="x",
    arrow=">", ellipsis="~", dot="-", box_open="o", box_active="*", box_done="x", box_dropped="-", quote="|",
    column="|", cross="+", minus="-", gap="~",
)  # fmt: skip


_IN_ASCII = str.maketrans(
    {"▸": ">", "❯": ">", "·": "-", "•": "*", "…": "...", "→": "->", "–": "-", "—": "-", "✓": "+", "✗": "x"}
)


class Look(msgspec.Struct, frozen=True):
    """Capabilities of the terminal and the user's display settings. `ansi` False: no escape sequence at all
    (a dumb terminal, a pipe). `fold_lines`: visible lines of a tool's output, `unfold`: the key or command
    that shows the others; `thoughts` and `numbers`: whether reasoning, and tokens and cost, are shown;
    `italics`: whether the terminal has them (GNU screen draws them in reverse video); `depth`: the number of
    colours it has."""

    theme: str
    glyphs: Glyphs
    ansi: bool
    fold_lines: int = FOLD_LINES
    unfold: str = "Ctrl+O"
    thoughts: bool = True
    numbers: bool = True
    italics: bool = True
    depth: Depth = "16"

    @property
    def has_grounds(self) -> bool:
        """Tell whether changed lines get a background colour of their own."""
        return self.depth != "16" and self.theme in GROUNDS

    def with_glyphs(self, text: str) -> str:
        """Return words of buddy's own with the signs that are drawn here."""
        return text.translate(_IN_ASCII) if self.glyphs == ASCII and not text.isascii() else text

    def rules(self) -> dict[str, str]:
        """Return the theme as style rules: what a name is, in prompt_toolkit's words."""
        rules = {**THEMES[self.theme], **(READABLE[self.theme] if self.has_grounds else {})}
        return rules if self.italics else {name: _upright(rule) for name, rule in rules.items()}


DUMB = ("dumb", "unknown", "")
"""What TERM says where a terminal can do nothing but print lines."""
_DARK_ALWAYS = ("linux",)
"""What TERM says where the background is black: the console of Linux."""
_COLOURLESS = ("vt1", "vt2", "vt3", "vt4", "vt5")
"""How TERM begins where a terminal knows attributes and no colours."""
_MODERN = ("kitty", "ghostty")
"""What stands behind "xterm-" in TERM where a terminal has 256 colours and does not say so there."""
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
    """Return colours and glyphs from what the person, the environment and the terminal's background say. The
    option wins, then a non-empty NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE, then what the terminal is."""
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
    return Look(theme=named, glyphs=glyphs, ansi=ansi, italics=not upright, depth=_depth(environ))


def _depth(environ: Mapping[str, str]) -> Depth:
    """Return the colours of the terminal, as it says in COLORTERM and TERM."""
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "true"
    term = environ.get("TERM", "")
    return "256" if "256" in term or term.partition("-")[2].startswith(_MODERN) else "16"


def _theme(wanted: str, environ: Mapping[str, str], ground: Ground | None) -> str:
    """Return the theme for a name of the settings. By itself it follows the background: as the terminal
    answered, or as it says in COLORFGBG (foreground;background)."""
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
