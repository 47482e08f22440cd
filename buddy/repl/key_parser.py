"""Bytes of the keyboard into keys, where prompt_toolkit's own parser is slow or can be stuck: pastes.

Its parser looks for the end of a paste in all that has come, with every kilobyte: minutes for a few
megabytes. And a paste whose end never comes (a connection that lost it, a program that wrote half of one)
takes every key from then on, Ctrl+C too. A paste without brackets is found by `bursts`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from buddy.repl.bursts import Bursts, Piece

_BEGIN = "\x1b[200~"
_END = "\x1b[201~"
_WAYS_OUT = ("\x03", "\x04")
"""Ctrl+C and Ctrl+D: no text that is pasted holds one by itself."""
UNFINISHED_S = 0.5
"""A paste that has been quiet for so long may be ended by a key."""


class KeyParser(Vt100Parser):
    """Calls back with each key. `keys_of` takes out what the terminal answers. A paste without an end is
    ended by Ctrl+C or Ctrl+D; what had come of it is then pasted, and the key does nothing else."""

    def __init__(
        self,
        feed_key_callback: Callable[[KeyPress], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        brackets: bool = True,
    ) -> None:
        self._clock = clock
        self._bursts = Bursts(clock, brackets=brackets)
        self._begun = ""
        self.keys_of: Callable[[str], str] = lambda data: data
        self._pieces: list[str] = []
        self._tail = ""
        self._heard_at = 0.0
        super().__init__(feed_key_callback)

    def feed(self, data: str) -> None:
        """Take what has come."""
        now = self._clock()
        if not self._in_bracketed_paste:
            self._feed_keys(data if _BEGIN in data else self.keys_of(data))
            if not self._pieces:
                self._heard_at = now
        elif data in _WAYS_OUT and now - self._heard_at >= UNFINISHED_S:
            self._finish("".join(self._pieces), "")
        else:
            self._heard_at = now
            self._gather(data)

    @property
    def is_waiting(self) -> bool:
        """Tell whether keys are held back until the input pauses."""
        return self._bursts.is_waiting

    def quiet(self) -> None:
        """Nothing has come for a while."""
        self._press(self._bursts.release())

    def _feed_keys(self, data: str) -> None:
        """Keys up to the beginning of a paste in brackets, which may itself come in pieces."""
        whole = self._begun + data
        at = whole.find(_BEGIN)
        if at >= 0:
            keys, rest = whole[len(self._begun) : at], whole[max(at, len(self._begun)) :]
            self._begun = ""
            if keys:
                self._press(self._bursts.feed(keys))
            self.quiet()
            super().feed(rest)
            return
        self._begun = next(
            (whole[-length:] for length in range(len(_BEGIN) - 1, 0, -1) if whole.endswith(_BEGIN[:length])),
            "",
        )
        if data:
            self._press(self._bursts.feed(data))

    def _press(self, pieces: list[Piece]) -> None:
        for kind, text in pieces:
            match kind:
                case "keys":
                    super().feed(text)
                case "paste":
                    self.feed_key_callback(KeyPress(Keys.BracketedPaste, text))
                case "enter":
                    self.feed_key_callback(KeyPress(Keys.ControlM, "\r" + text))

    def reset(self, request: bool = False) -> None:
        """Forget what was begun."""
        super().reset(request)
        self._begun = ""
        self._pieces.clear()
        self._tail = ""

    def _gather(self, data: str) -> None:
        self._pieces.append(data)
        looked_at = self._tail + data
        at = looked_at.find(_END)
        self._tail = looked_at[1 - len(_END) :]
        if at >= 0:
            text = "".join(self._pieces)
            end = len(text) - len(looked_at) + at
            self._finish(text[:end], text[end + len(_END) :])

    def _finish(self, pasted: str, rest: str) -> None:
        self._pieces.clear()
        self._tail = ""
        self._in_bracketed_paste = False
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, pasted))
        self.feed(rest)
