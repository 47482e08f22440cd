"""The terminal's background: asked for once with OSC 11, so that the colours can be read on it.

Nothing waits for the answer. It comes in between the keys and is taken out there; a terminal that does not
know the question says nothing.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Mapping

from buddy.agent.lazy_regex import pattern
from buddy.repl.render.style import Ground

QUESTION = "\x1b]11;?\x1b\\"
ANSWER_WITHIN_S = 2.0
"""A later answer changes nothing: colours that change while somebody reads are worse than plain ones."""
LEAVE_WITHIN_S = 0.1
"""A program that leaves at once waits so long for the answer: it would be typed into the shell."""
_BEGIN = "\x1b]1"
_NOT_ASKED = ("linux", "vt1", "vt2", "vt3", "vt4", "vt5", "ansi")
_ANSWER = pattern(
    r"\x1b\]11;rgba?:(?P<red>[0-9a-fA-F]{1,4})/(?P<green>[0-9a-fA-F]{1,4})/(?P<blue>[0-9a-fA-F]{1,4})"
    r"(?:/[0-9a-fA-F]{1,4})?(?:\x07|\x1b\\)"
)
_BEGUN = pattern(r"\x1b\]1(?:1(?:;(?:r(?:g(?:b(?:a?(?::[0-9a-fA-F/]{0,19}\x1b?)?)?)?)?)?)?)?\Z")


def may_be_asked(environ: Mapping[str, str]) -> bool:
    """Tell whether the terminal can be asked for its background: it understands or ignores the question, and
    COLORFGBG does not already answer it. GNU screen mixes the answer up with keys."""
    return not (
        environ.get("COLORFGBG") or environ.get("STY") or environ.get("TERM", "").startswith(_NOT_ASKED)
    )


def question(*, inside_tmux: bool) -> str:
    """Return the sequence that asks. tmux answers itself where it knows; where it does not, the terminal
    around it is asked through it."""
    through = "\x1bPtmux;" + QUESTION.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return QUESTION + through if inside_tmux else QUESTION


def ground_of(answer: re.Match[str]) -> Ground:
    """Return light or dark, by the perceived brightness of the colour."""
    red, green, blue = (
        int(answer[name], 16) / (16 ** len(answer[name]) - 1) for name in ("red", "green", "blue")
    )
    return "light" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else "dark"


class GroundQuestion:
    """The question and its answer. `answered` is called once, if the answer comes in time."""

    def __init__(
        self,
        write: Callable[[str], None],
        answered: Callable[[Ground], object],
        *,
        inside_tmux: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._answered = answered
        self._inside_tmux = inside_tmux
        self._clock = clock
        self._asked_at: float | None = None
        self._begun = ""

    def ask(self) -> None:
        """Ask now."""
        self._asked_at = self._clock()
        self._write(question(inside_tmux=self._inside_tmux))

    @property
    def is_open(self) -> bool:
        """Tell whether an answer would still be accepted."""
        return self._asked_at is not None and self._clock() - self._asked_at < ANSWER_WITHIN_S

    def keys_of(self, data: str) -> str:
        """Return the keyboard's input without the answer. An incomplete answer is held back."""
        data, self._begun = self._begun + data, ""
        if _BEGIN not in data:
            return data
        keys = _ANSWER().sub(self._take, data)
        begun = _BEGUN().search(keys) if self.is_open else None
        if begun is None:
            return keys
        self._begun = begun[0]
        return keys[: begun.start()]

    def _take(self, answer: re.Match[str]) -> str:
        if self.is_open:
            self._asked_at = None
            self._answered(ground_of(answer))
        return ""

    def wait(self, fd: int, read: Callable[[], object]) -> None:
        """Take an answer that is on its way, before the terminal is given back."""
        if self._asked_at is None or self._clock() - self._asked_at > LEAVE_WITHIN_S:
            return
        self._asked_at = None
        if select.select([fd], [], [], LEAVE_WITHIN_S)[0]:
            read()
