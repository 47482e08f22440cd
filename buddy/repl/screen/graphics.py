"""The terminal's way to show pictures: asked for once, when the first picture is painted.

The question is kitty's own query and the terminal's attributes (DA1), which every terminal answers: sixels
are attribute 4. The thread that paints waits for the answer, half a second at most; the screen never does.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping

from buddy.agent.lazy_regex import pattern
from buddy.repl.input.keys import is_far
from buddy.repl.render.style import Look, PictureMode, PictureSetting

QUESTION = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c"
WAIT_S = 0.5
_BEGINNINGS = ("\x1b_", "\x1b[")
_NOT_ASKED = ("linux", "vt1", "vt2", "vt3", "vt4", "vt5", "ansi", "screen", "tmux")
_ANSWER = pattern(r"\x1b_G(?P<kitty>[^\x1b]{0,200})\x1b\\|\x1b\[\?(?P<attributes>[0-9;]{1,60})c")
_BEGUN = pattern(r"\x1b(?:_(?:G[^\x1b]{0,200}\x1b?)?|\[(?:\?[0-9;]{0,60})?)\Z")


def picture_mode(setting: PictureSetting, environ: Mapping[str, str], look: Look) -> PictureMode:
    """Return the mode that a setting means before the terminal was asked. Pictures take room and bytes: over
    a network they are shown only on request."""
    if setting != "auto":
        return setting
    is_plain = not look.ansi or look.theme == "mono" or look.depth == "16"
    return "off" if is_plain or is_far(environ) else "blocks"


def may_be_asked(setting: PictureSetting, environ: Mapping[str, str], look: Look) -> bool:
    """Tell whether the terminal may be asked for its graphics: it understands or ignores the question, and
    pictures are wanted. One of 16 colours has no half blocks worth looking at, and may have graphics.
    Multiplexers would have to hand pictures on, and Terminal of macOS prints kitty's query."""
    return (
        setting == "auto"
        and look.ansi
        and look.theme != "mono"
        and not is_far(environ)
        and not (environ.get("TMUX") or environ.get("STY") or environ.get("ZELLIJ"))
        and environ.get("TERM_PROGRAM") != "Apple_Terminal"
        and not environ.get("TERM", "").startswith(_NOT_ASKED)
    )


class GraphicsQuestion:
    """The question and its answer. `write` is called on the loop's thread; `mode` is the way to show pictures
    without graphics."""

    def __init__(
        self, write: Callable[[str], None], mode: PictureMode = "blocks", *, wait_s: float = WAIT_S
    ) -> None:
        self._write = write
        self._wait_s = wait_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._lock = threading.Lock()
        self._is_asked = False
        self._answered = threading.Event()
        self._mode: PictureMode = mode
        self._begun = ""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this loop, on whose thread it is called."""
        self._loop, self._loop_thread = loop, threading.get_ident()

    def mode(self) -> PictureMode:
        """Return the best way to show a picture. Asks the first time; on any thread but the loop's it waits
        for the answer."""
        if self._loop is None:
            return self._mode
        with self._lock:
            is_first, self._is_asked = not self._is_asked, True
        if is_first:
            self._loop.call_soon_threadsafe(self._write, QUESTION)
        if threading.get_ident() != self._loop_thread and not self._answered.is_set():
            self._answered.wait(self._wait_s)
            self._answered.set()  # a later answer changes nothing: pictures before it stay as they are
        return self._mode

    def keys_of(self, data: str) -> str:
        """Return the keyboard's input without the answer. An incomplete one is held back."""
        if not self._is_asked:
            return data
        held, self._begun = self._begun, ""
        data = held + data
        if not any(beginning in data for beginning in _BEGINNINGS):
            return data
        keys = _ANSWER().sub(self._take, data)
        begun = _BEGUN().search(keys)
        if begun is None:
            return keys
        # A late answer may come in two pieces, too; no key begins like one. Nothing is held back twice then.
        if self._answered.is_set() and (held or begun[0] in _BEGINNINGS):
            return keys
        self._begun = begun[0]
        return keys[: begun.start()]

    def _take(self, answer: re.Match[str]) -> str:
        if self._answered.is_set():
            return ""
        if (kitty := answer["kitty"]) is not None:
            if kitty.endswith(";OK"):
                self._mode = "kitty"
            return ""
        if self._mode != "kitty" and "4" in answer["attributes"].split(";")[1:]:
            self._mode = "sixel"
        self._answered.set()  # the attributes come last
        return ""
