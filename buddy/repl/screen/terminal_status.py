"""Signals to the terminal beside the screen: title, bell, progress mark (`OSC 9;4`), desktop
notifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from buddy.repl.screen.output import FrameOutput
from buddy.repl.view.state import ViewState
from buddy.safety.sanitise import one_line

AGAIN_S = 5.0
"""Ghostty takes the mark away when it has heard nothing for 15 s: https://ghostty.org/docs/install/release-notes/1-2-0"""
VTE_SINCE = 8000
GHOSTTY_SINCE = (1, 2)
PTYXIS_SINCE = (48,)

Work = Literal["none", "running", "waiting"]
"""Nothing runs; something runs; something waits for the person."""

_CODES: Mapping[Work, str] = {"none": "0", "running": "3", "waiting": "4;100"}


def supports_progress(wanted: str, environ: Mapping[str, str]) -> bool:
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
    """Return the features a terminal names, each a capital letter and what follows it: "T3LrP" has T3, Lr and
    P."""
    found: list[str] = []
    for char in text:
        if char.isupper() or not found:
            found.append(char)
        else:
            found[-1] += char
    return found


def progress_sequence(work: Work, *, inside_tmux: bool) -> str:
    """Return the sequence that shows the mark, or takes it away."""
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


AWAY_S = 15.0
MAX_CHARS = 80

Notifications = Literal["off", "osc9", "osc99", "osc777"]

_PROGRAMS: Mapping[str, Notifications] = {
    "iTerm.app": "osc9",
    "ghostty": "osc9",
    "WezTerm": "osc777",
    "kitty": "osc99",
}


def notifications_of(wanted: str, environ: Mapping[str, str]) -> Notifications:
    """Return the kind of notification for this terminal. What the setting names is taken; `auto` only where
    the terminal is known to take one. Inside tmux that is iTerm2, which says so through it; what else stands
    behind tmux or screen is not known."""
    match wanted:
        case "osc9" | "osc99" | "osc777":
            return wanted
        case "off":
            return "off"
        case _:
            pass
    if environ.get("STY"):
        return "off"
    if environ.get("TMUX"):
        return "osc9" if environ.get("LC_TERMINAL") == "iTerm2" else "off"
    term = environ.get("TERM", "")
    if environ.get("KITTY_WINDOW_ID") or term == "xterm-kitty":
        return "osc99"
    if term == "foot" or term.startswith("foot-"):
        return "osc777"
    return _PROGRAMS.get(environ.get("TERM_PROGRAM", ""), "off")


def notification(kind: Notifications, text: str, *, inside_tmux: bool) -> str:
    """Return the sequence for a notification, "" for none. The text is one short line without control
    characters, and can't be taken for another of the terminal's commands (`OSC 9;4` is progress)."""
    said = one_line(f"buddy: {text}", MAX_CHARS)
    match kind:
        case "off":
            return ""
        case "osc9":
            sequence = f"\x1b]9;{said}\x07"
        case "osc99":
            sequence = f"\x1b]99;i=buddy:o=unfocused;{said}\x1b\\"
        case "osc777":
            sequence = f"\x1b]777;notify;buddy;{said.replace(';', ',')}\x1b\\"
    return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\" if inside_tmux else sequence


class Announcer:
    """Announces what waits and what ended. `typed_at` is when the person last pressed a key."""

    def __init__(
        self,
        state: ViewState,
        output: FrameOutput,
        *,
        title: bool,
        bell: bool,
        kind: Notifications,
        progress: bool,
        inside_tmux: bool,
        clock: Callable[[], float],
        typed_at: Callable[[], float],
    ) -> None:
        self._state = state
        self._output = output
        self._with_title = title
        self._with_bell = bell
        self._kind: Notifications = kind
        self._inside_tmux = inside_tmux
        self._clock = clock
        self._typed_at = typed_at
        self._progress = TerminalProgress(
            output.write_raw if progress else None, clock, inside_tmux=inside_tmux
        )
        self._title = ""
        self._rung: set[str] = set()
        self._notified: set[str] = set()
        self._running: set[int] = set()

    def announce(self) -> None:
        """Write title, progress, bell and notification with the next frame."""
        waiting = self._waiting()
        self._set_title(len(waiting))
        running = bool(self._state.running() or self._state.facts.own)
        self._progress.show("waiting" if waiting else "running" if running else "none")
        if self._with_bell and waiting.keys() - self._rung:
            self._output.write_raw("\a")
        self._rung = set(waiting)
        ended = self._collect_ended()
        if self._clock() - self._typed_at() < AWAY_S:
            return
        for text in (*(waiting[key] for key in waiting if key not in self._notified), *ended):
            self._output.write_raw(notification(self._kind, text, inside_tmux=self._inside_tmux))
        self._notified = set(waiting)

    def withdraw(self) -> None:
        """Remove our mark before another program gets the terminal."""
        self._progress.show("none")

    def _waiting(self) -> dict[str, str]:
        """Return the texts for everything that waits for the user."""
        waiting = {
            f"approval {row.request_id}": f"task {row.task_id} asks: {row.title}" for row in self._state.inbox
        }
        for row in self._state.facts.queue:
            if row.kind == "question":
                asks = f"task {row.task_id} asks: {row.text}{row.answer_hint}"
                waiting[f"question {row.number} {row.text}"] = asks
        return waiting

    def _collect_ended(self) -> list[str]:
        """Return the tasks whose turn ended since the last frame."""
        running = {task.task_id for task in self._state.running()}
        ended, self._running = self._running - running, running
        return [f"task {number} has ended {self._state.name(number)}".rstrip() for number in sorted(ended)]

    def _set_title(self, waiting: int) -> None:
        running = len(self._state.running())
        title = (
            f"buddy: {waiting} waiting" if waiting else f"buddy: {running} running" if running else "buddy"
        )
        if self._with_title and title != self._title:
            self._title = title
            self._output.set_title(title)
