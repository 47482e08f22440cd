"""Our theme as prompt_toolkit's style."""

from __future__ import annotations

from functools import lru_cache

from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import Style

from buddy.repl.style import Look


@lru_cache(maxsize=256)
def style_class(style: str) -> str:
    """Our style as prompt_toolkit names it; a colour (`fg:ansired`) is one for it already."""
    return " ".join(name if ":" in name else f"class:{name}" for name in style.split())


def toolkit_style(look: Look) -> Style:
    """The theme for what prompt_toolkit draws: our styles, and its menus and search line."""
    rules = look.rules()
    rules |= {
        "completion-menu": "nobold noreverse",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "bg:default fg:default noreverse bold",
        "completion-menu.meta.completion": "bg:default fg:default dim",
        "completion-menu.meta.completion.current": "bg:default fg:default bold",
        "completion-menu.multi-column-meta": "bg:default fg:default",
        "search": "",
        "search.current": "reverse",
        "incsearch": "",
        "incsearch.current": "reverse",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default",
    }
    return Style.from_dict(rules)


def color_depth(look: Look) -> ColorDepth:
    """256 colours where the theme has some of its own; else those of the palette, or none."""
    if look.theme == "mono":
        return ColorDepth.DEPTH_1_BIT
    return ColorDepth.DEPTH_8_BIT if look.has_grounds else ColorDepth.DEPTH_4_BIT
