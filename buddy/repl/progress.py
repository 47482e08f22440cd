"""The terminal's own mark of work going on (`OSC 9;4`): in its tab, its dock icon or its task bar.

Terminals that do not know it take it for a notification, one for every repetition: it is sent only to those
known to take it. It stays until it is ended, so it is ended on every way out and while the shell or an editor
has the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

AGAIN_S = 5.0
"""Ghostty takes the mark away when it has heard nothing for 15 s: https://ghostty.org/docs/install/release-notes/1-2-0"""
VTE_SINCE = 8000
GHOSTTY_SINCE = (1, 2)
PTYXIS_SINCE = (48,)

Work = Literal["none", "running", "waiting"]
"""Nothing runs; something runs; something waits for the person."""

_CODES: Mapping[Work, str] = {"none": "0", "running": "3", "waiting": "4;100"}


def progress_taken(wanted: str, environ: Mapping[str, str]) -> bool:
    """Tell whether to send this terminal the progress mark. `auto`: only when it is known to support it.
    iTerm2 reports support in TERM_FEATURES from 3.6.6 on; older versions show a notification. The terminal
    behind tmux, screen or an empty name is unknown."""
    if wanted != "auto":
        return wanted == "on"
    if environ.get("STY") or environ.get("TMUX"):
        return False
    program, version = environ.get("TERM_PROGRAM", ""), _version(environ.get("TERM_PROGRAM_VERSION", ""))
    return (
        program == "WezTerm"
        or (program == "ghostty" and version >= GHOSTTY_SINCE)
        or "P" in _features(environ.get("TERM_FEATURES", ""))
        or "WT_SESSION" in environ
        or environ.get("ConEmuANSI") == "ON"
        or _version(environ.get("PTYXIS_VERSION", "")) >= PTYXIS_SINCE
        or _version(environ.get("VTE_VERSION", "")) >= (VTE_SINCE,)
    )


def _version(text: str) -> tuple[int, ...]:
    """1.2.3-x as (1, 2, 3); () for what is not a version."""
    numbers: list[int] = []
    for part in text.split("-", 1)[0].split("."):
        if not (part.isascii() and part.isdigit()):
            break
        numbers.append(int(part))
    return tuple(numbers)


def _features(text: str) -> list[str]:
    """The features a terminal names, each a capital letter and what follows it: "T3LrP" has T3, Lr and P."""
    found: list[str] = []
    for char in text:
        if char.isupper() or not found:
            found.append(char)
        else:
            found[-1] += char
    return found


def progress_sequence(work: Work, *, inside_tmux: bool) -> str:
    """The sequence that shows the mark, or takes it away."""
    sequence = f"\x1b]9;4;{_CODES[work]}\x07"
    return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\" if inside_tmux else sequence


class TerminalProgress:
    """The mark as it stands in the terminal. `write` is None where it is not to be sent."""

    def __init__(
        self, write: Callable[[str], None] | None, clock: Callable[[], float], *, inside_tmux: bool
    ) -> None:
        self._write = write
        self._clock = clock
        self._inside_tmux = inside_tmux
        self._shown: Work = "none"
        self._said_at = 0.0

    def show(self, work: Work) -> None:
        """Show how things stand; repeated now and then while something runs."""
        due = work != "none" and self._clock() - self._said_at >= AGAIN_S
        if self._write is None or (work == self._shown and not due):
            return
        self._shown, self._said_at = work, self._clock()
        self._write(progress_sequence(work, inside_tmux=self._inside_tmux))
