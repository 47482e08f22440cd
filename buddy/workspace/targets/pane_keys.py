"""Keys for a pane: the names models and people write, as tmux names them. Pure."""

from __future__ import annotations

import re

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError

_NAMES = {
    **{name.lower(): name for name in ("Enter", "Tab", "BTab", "Escape", "Space", "BSpace")},
    **{name.lower(): name for name in ("Up", "Down", "Left", "Right", "Home", "End", "PageUp", "PageDown")},
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
    "return": "Enter",
    "esc": "Escape",
    "backspace": "BSpace",
    "delete": "DC",
    "insert": "IC",
    "dc": "DC",
    "ic": "IC",
    "pgup": "PageUp",
    "pgdn": "PageDown",
    "pgdown": "PageDown",
}
_HELD = {
    **dict.fromkeys(("c", "ctrl", "control"), "C-"),
    **dict.fromkeys(("m", "alt", "meta"), "M-"),
    **dict.fromkeys(("s", "shift"), "S-"),
}
_PREFIX = pattern(r"(c|ctrl|control|m|alt|meta|s|shift)[-+](?=.)", re.IGNORECASE)


def tmux_key(name: str) -> str:
    """Return a key as tmux names it. Raises `ToolError` for an unknown one, which tmux would type as text."""
    held, rest = "", name
    if len(rest) == 2 and rest[0] == "^":
        held, rest = "C-", rest[1]
    while found := _PREFIX().match(rest):
        held += _HELD[found[1].lower()]
        rest = rest[found.end() :]
    if len(rest) == 1 and rest.isprintable():
        key = rest.lower() if "C-" in held else rest
        return f"{held}{'Space' if key == ' ' else key}"
    known = _NAMES.get(rest.lower())
    if known is None:
        names = ", ".join(dict.fromkeys(_NAMES.values()))
        raise ToolError(
            f"expected a key ({names}, C-c, M-x) or one character, found {name[:40]!r}; "
            "longer text goes into text"
        )
    return f"{held}{known}"
