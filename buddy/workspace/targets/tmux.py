"""One tmux server: its commands, and the state of its panes. Blocks; call it in a thread."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import one_line

COMMAND_LIMIT_S = 5.0
CLEANS_PASTES = (3, 7)
"""From this version on tmux replaces control characters in what is pasted, unless it is told not to."""
MAX_OUTPUT_BYTES = 4_000_000
_VERSION = pattern(r"(\d+)\.(\d+)")

_FORMAT = "|".join(
    f"#{{{name}}}"
    for name in (
        *("pane_id", "pane_pid", "pane_tty", "pane_dead", "pane_in_mode", "pane_pipe", "pane_synchronized"),
        *("cursor_x", "cursor_y", "pane_width", "pane_height", "alternate_on", "session_attached"),
        "pane_current_command",  # last: it may hold anything
    )
)


class TmuxError(ToolError):
    """tmux is missing, does not answer, or refused a command."""


class PaneState(msgspec.Struct, frozen=True):
    """A pane at one moment. `pid` is its first process; `mode`: a person scrolls or chooses something in it;
    `is_piped`: its output goes to a program; `is_shared_input`: what is typed goes to other panes, too;
    `is_full_screen`: a program shows a screen of its own; `attached` counts the terminals that show its
    session; `program` is its foreground program."""

    id: str
    pid: int
    tty: str
    is_dead: bool
    has_mode: bool
    is_piped: bool
    is_shared_input: bool
    column: int
    row: int
    width: int
    height: int
    is_full_screen: bool
    attached: int
    program: str


class PaneView(msgspec.Struct, frozen=True):
    """A pane's state, and the lines of its screen at the same moment."""

    state: PaneState
    lines: tuple[str, ...]

    @property
    def cursor_line(self) -> str:
        """Return the line the cursor is in."""
        return self.lines[self.state.row] if self.state.row < len(self.lines) else ""

    def left_of_cursor(self) -> str:
        """Return the text of the cursor's line up to the cursor."""
        # Cells are characters as long as they are ASCII; anything else only makes texts differ.
        return self.cursor_line[: self.state.column].ljust(self.state.column)


class Tmux:
    """A client of one server. `environment` is that of the client, and of a server it starts."""

    def __init__(
        self,
        server: tuple[str, ...],
        program: Callable[[], str | None],
        environment: Callable[[], Mapping[str, str]],
    ) -> None:
        self._server, self._find_program, self._environment = server, program, environment
        self._pasting = ""

    def run(self, *words: str) -> str:
        """Run a command of tmux and return what it prints. Raises `TmuxError`."""
        program = self._find_program()
        if program is None:
            raise TmuxError("expected the program tmux on PATH outside of the workspace; install tmux")
        try:
            done = subprocess.run(
                (program, *self._server, *words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=dict(self._environment()),
                cwd="/",
                timeout=COMMAND_LIMIT_S,
                check=False,
                start_new_session=True,  # Ctrl+C in buddy must not end a server that it starts
            )
        except subprocess.TimeoutExpired as error:
            raise TmuxError(f"tmux did not answer for {COMMAND_LIMIT_S:.0f} seconds") from error
        except OSError as error:
            raise TmuxError(f"tmux could not be started: {error.strerror}") from error
        if done.returncode != 0:
            said = one_line(done.stderr.decode("utf-8", "replace"))
            raise TmuxError(f"tmux: {said or f'exit code {done.returncode}'}")
        return done.stdout[-MAX_OUTPUT_BYTES:].decode("utf-8", "replace")

    def answers(self, *words: str) -> bool:
        """Tell whether a command of tmux works."""
        try:
            self.run(*words)
        except TmuxError:
            return False
        return True

    def look(self, pane: str) -> PaneView:
        """Return a pane with its screen. Raises `TmuxError` when there is none."""
        text = self.run("display-message", "-p", "-t", pane, _FORMAT, ";", "capture-pane", "-p", "-t", pane)
        first, _, screen = text.partition("\n")
        return PaneView(_state_of(first), tuple(screen.split("\n")))

    def version(self) -> tuple[int, int]:
        """Return the version of the program, (0, 0) for one that can't be read. Raises `TmuxError`."""
        found = _VERSION().search(self.run("-V"))
        return (int(found[1]), int(found[2])) if found is not None else (0, 0)

    def paste(self, pane: str, text: str) -> None:
        """Type text as it is, in one piece. Unlike keys it reaches the program also while a person scrolls
        back in the pane."""
        if not text:
            return
        if not self._pasting:
            self._pasting = "-drS" if self.version() >= CLEANS_PASTES else "-dr"
        word = f"{text[:-1]}\\;" if text.endswith(";") else text  # a last `;` would end the command
        self.run(
            *("set-buffer", "-b", "buddy", "--", word, ";"),
            *("paste-buffer", self._pasting, "-b", "buddy", "-t", pane),
        )


def plain_format(text: str) -> str:
    """Return text that tmux takes for a format, as one that means just this text: `#(…)` in the name of a
    folder would run as a command."""
    return text.replace("#", "##")


def _state_of(line: str) -> PaneState:
    words = line.split("|", 13)
    if len(words) < 14 or not words[1].isdigit():
        raise TmuxError("there is no such pane")
    numbers = [int(word) if word.isdigit() else 0 for word in words]
    return PaneState(
        id=words[0],
        pid=numbers[1],
        tty=words[2],
        is_dead=numbers[3] > 0,
        has_mode=numbers[4] > 0,
        is_piped=numbers[5] > 0,
        is_shared_input=numbers[6] > 0,
        column=numbers[7],
        row=numbers[8],
        width=numbers[9],
        height=numbers[10],
        is_full_screen=numbers[11] > 0,
        attached=numbers[12],
        program=words[13].removeprefix("-"),
    )
