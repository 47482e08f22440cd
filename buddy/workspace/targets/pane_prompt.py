"""Typing a line at the prompt of a shell that a person types at, too. Blocks; call it in a thread.

Nothing is typed unless the shell waits for a line and that line is empty."""

from __future__ import annotations

import os
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import one_line, visible
from buddy.workspace.processes.process_info import ProcessInfo
from buddy.workspace.processes.process_tree import all_processes, read_process
from buddy.workspace.targets.pane_connection import PaneConnection
from buddy.workspace.targets.pane_script import SHELLS
from buddy.workspace.targets.tmux import PaneState, PaneView

BUSY_LIMIT_S = 2.0
"""The time a program in front may take to end: the one before may just draw its prompt."""
START_LIMIT_S = 20.0
"""The time the shell of a new pane may take to its first prompt."""
LINE_LIMIT_S = 10.0
"""The time a person gets to send or clear a line."""
ECHO_LIMIT_S = 5.0
MOVE_LIMIT_S = 0.25
POLL_S = 0.02
LEFT, RIGHT, ERASE, CLEAR_SCREEN = "\x1b[D", "\x1b[C", "\x7f", "\x0c"
_EDITORS = frozenset({"bash", "zsh", "fish", "ksh", "ksh93", "mksh"})
"""Shells that edit the line themselves: while they do, and only then, the terminal collects no lines."""
_WITH_FILE = frozenset({"--rcfile", "--init-file", "-o", "+o", "-O", "+O"})
_SIGNS = ("$", "#", "%", ">")
_CONTINUED = pattern(
    r"(?:(?:then|else|elif|for|foreach|while|until|if|do|case|select|repeat|function|quote|dquote|bquote"
    r"|heredocd?|cmdsubst|mathsubst|subsh|cursh|braceparam|array|always|pipe|cmdand|cmdor|math|cond) ?)*>"
)
"""The prompt before the rest of a command, as it is in every shell unless a person set another."""


_SEARCH = pattern(
    r"\((?:failed )?(?:reverse-)?i-search\)`|(?:failing |invalid )?(?:bck|fwd)-i-search:|search: "
)
"""The line of a search in the history (C-r), in bash, zsh and fish."""


class StoppedTypingError(Exception):
    """The call was cancelled before the line was sent."""


class PaneTypist:
    """Types into one pane. `is_cancelled` is asked all the time."""

    def __init__(self, connection: PaneConnection, pane: str, is_cancelled: Callable[[], bool]) -> None:
        self._connection, self._tmux, self._pane = connection, connection.tmux, pane
        self._is_cancelled = is_cancelled

    def await_shell(self, limit_s: float) -> str:
        """Wait until a shell in the pane waits for a line; return its name. Raises `ToolError` for a pane
        that runs something else."""
        deadline = time.monotonic() + limit_s
        while True:
            view = self._look()
            self._check(view)
            shell = waiting_shell(view)
            if shell:
                return shell
            if has_screen_left(view):
                self._leave_screen(view)
            if time.monotonic() >= deadline:
                raise ToolError(_busy(view))
            self._pause()

    def send_line(self, line: str) -> None:
        """Type a line at the prompt and send it. Raises `ToolError` when the prompt is not empty, or the
        shell does not take it; then nothing was run."""
        before = self._empty_prompt()
        if self._is_cancelled():
            raise StoppedTypingError
        # The line begins with a blank. In vi's command mode it inserts nothing, and harms nothing.
        typed = line[:1]
        self._tmux.paste(self._pane, typed)
        if self._awaits_cursor(before, is_there=False, limit_s=ECHO_LIMIT_S):
            self._tmux.paste(self._pane, line[1:])
            typed = line
        if typed != line or not self._shows(before, line):
            self._tmux.paste(self._pane, ERASE * len(typed))
            raise ToolError(
                f"the shell in pane {self._pane} did not take what was typed, or does not show it; nothing "
                "was run. It is in vi's command mode (the person types i, or send_keys does), or does not "
                "echo (stty sane, or reset). capture_pane shows the pane"
            )
        if self._is_cancelled():
            self._tmux.paste(self._pane, ERASE * len(line))
            raise StoppedTypingError
        self._connection.prompts[self._pane] = (before.state.column, before.cursor_line)
        self._tmux.paste(self._pane, "\r")

    def _leave_screen(self, view: PaneView) -> None:
        """Show the screen of the shell again, and its prompt, which it drew on the other one."""
        leave_alternate_screen(view.state.tty)
        deadline = time.monotonic() + ECHO_LIMIT_S
        while self._look().state.is_full_screen:
            if time.monotonic() >= deadline:
                return
            self._pause()
        self._tmux.paste(self._pane, CLEAR_SCREEN)
        while not self._look().left_of_cursor().strip() and time.monotonic() < deadline:
            self._pause()

    def _look(self) -> PaneView:
        return self._tmux.look(self._pane)

    def _pause(self) -> None:
        if self._is_cancelled():
            raise StoppedTypingError
        time.sleep(POLL_S)

    def _check(self, view: PaneView) -> None:
        state = view.state
        if state.is_dead:
            raise ToolError(f"the program in pane {self._pane} has ended; close the pane or respawn it")
        if state.is_shared_input:
            raise ToolError(
                "synchronize-panes is on: what is typed would go to other panes, too; nothing was typed"
            )

    def _empty_prompt(self) -> PaneView:
        """Wait for an empty line at the prompt."""
        deadline = time.monotonic() + LINE_LIMIT_S
        while True:
            view = self._look()
            if not waiting_shell(view):
                raise ToolError(_busy(view))
            if self._is_empty(view):
                return view
            if time.monotonic() >= deadline:
                typed = one_line(view.left_of_cursor(), 200)
                if is_searching(view):
                    raise ToolError(
                        "a person searches the shell's history in the pane; nothing was typed. Ask them, or "
                        "leave the search with send_keys C-g (Escape in fish)"
                    )
                if self._is_continued(view):
                    raise ToolError(
                        f"the pane's shell waits at {visible(typed)!r} for the rest of a command that "
                        "somebody began; nothing was run. Ask them, or drop it with send_keys C-c"
                    )
                raise ToolError(
                    f"somebody has typed at the pane's prompt and not sent it: {visible(typed)!r}; nothing "
                    "was run. Ask them, or clear the line with send_keys"
                )
            self._pause()

    def _is_empty(self, view: PaneView) -> bool:
        if (view.state.column, view.cursor_line) == self._connection.prompts.get(self._pane):
            return not is_searching(view)
        if self._is_continued(view) or is_searching(view):
            return False
        if not is_raw(view.state.tty):  # a shell without a line editor: arrows would be typed
            return view.left_of_cursor().rstrip().endswith(_SIGNS)
        # An arrow moves the cursor only over text.
        return not self._moves(view, LEFT, RIGHT) and not self._moves(view, RIGHT, LEFT)

    def _is_continued(self, view: PaneView) -> bool:
        """Tell whether the shell waits for the rest of a command. Nobody has begun one in a new pane."""
        left = view.left_of_cursor().strip()
        return _CONTINUED().fullmatch(left) is not None and not self._connection.is_new(self._pane)

    def _moves(self, view: PaneView, key: str, back: str) -> bool:
        """Tell whether a key moves the cursor, and move it back."""
        self._tmux.paste(self._pane, key)
        if not self._awaits_cursor(view, is_there=False, limit_s=MOVE_LIMIT_S):
            return False
        self._tmux.paste(self._pane, back)
        # Seen before it is back, one character left of it would look like an empty line.
        self._awaits_cursor(view, is_there=True, limit_s=ECHO_LIMIT_S)
        return True

    def _awaits_cursor(self, view: PaneView, *, is_there: bool, limit_s: float) -> bool:
        """Wait until the cursor is where it was, or is not; tell whether that came true in time."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            now = self._look().state
            if ((now.column, now.row) == (view.state.column, view.state.row)) == is_there:
                return True
            time.sleep(POLL_S)
        return False

    def _shows(self, before: PaneView, line: str) -> bool:
        """Tell whether the line came to stand on the screen, behind the prompt as it was."""
        prompt = before.left_of_cursor()
        wanted = _joined(line)
        if prompt.isascii():
            wanted = _joined(prompt) + wanted
        deadline = time.monotonic() + ECHO_LIMIT_S
        while time.monotonic() < deadline:
            view = self._look()
            if wanted in _joined("".join(view.lines[: view.state.row + 1])):
                return True
            time.sleep(POLL_S)
        return False


def _joined(text: str) -> str:
    """Return a text without its blanks: a line may be cut at any cell of the screen."""
    return "".join(text.split())


def program_of(state: PaneState) -> str:
    """Return the program in front: of a group of processes the one that was started last, because the group
    of a command is led by a shell."""
    last = max(_foreground_group(state), key=lambda process: (process.started, process.pid), default=None)
    return (_name_of(last.pid) if last is not None else "") or state.program


def _busy(view: PaneView) -> str:
    program = one_line(program_of(view.state), 60) or "a program"
    if view.state.is_full_screen and program in SHELLS:
        return (
            f"a program left its full screen behind {program} in the pane; nothing was typed. The person "
            "types tput rmcup, or send_keys does"
        )
    what = "a full-screen program, " if view.state.is_full_screen else ""
    return (
        f"the pane runs {what}{visible(program)}, and no shell waits for a command; nothing was typed. "
        "capture_pane shows it, send_keys types into it (q leaves a pager, C-c ends most programs)"
    )


def waiting_shell(view: PaneView) -> str:
    """Return the shell that waits for a line in a pane, "" when something else runs there, or a script."""
    state = view.state
    if state.is_full_screen or state.is_dead:
        return ""
    leader = foreground_of(state.pid)
    name = (_name_of(leader) if leader else "") or state.program
    name = name.removeprefix("-")
    if name not in SHELLS or (leader and not _is_interactive(leader)):
        return ""
    if name in _EDITORS and not is_raw(state.tty):
        return ""
    return name


def is_searching(view: PaneView) -> bool:
    """Tell whether a shell searches its history for somebody: bash in the line, zsh and fish below it."""
    return any(_SEARCH().match(line.strip()) for line in view.lines[view.state.row :])


def has_screen_left(view: PaneView) -> bool:
    """Tell whether a shell that edits its line waits behind a screen that a killed program left."""
    state = view.state
    if not state.is_full_screen or state.is_dead:
        return False
    # A chooser that the shell runs for a key has a screen of its own, and is in the shell's group.
    if len(_foreground_group(state)) != 1:
        return False
    return waiting_shell(replace(view, state=replace(state, is_full_screen=False))) in _EDITORS


def _foreground_group(state: PaneState) -> list[ProcessInfo]:
    """Return the processes that the keys of a pane reach, without those that ended."""
    leader = foreground_of(state.pid)
    every = all_processes().values() if leader else ()
    return [process for process in every if process.group == leader and process.alive]


def leave_alternate_screen(tty: str) -> None:
    """Write to a pane's terminal as a program that ends does. No command of tmux leaves this screen."""
    with suppress(OSError):
        descriptor = os.open(tty, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"\x1b[?1049l")
        finally:
            os.close(descriptor)


def foreground_of(pid: int) -> int:
    """Return the leader of the foreground process group of a process's terminal, 0 when it is not known."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return 0
    fields = line[line.rfind(b")") + 2 :].split()
    group = int(fields[5]) if len(fields) > 5 else 0
    return group if group > 0 and read_process(group) is not None else 0


def _name_of(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        return file.read().decode("utf-8", "replace").strip()
    return ""


def _is_interactive(pid: int) -> bool:
    """Tell whether a shell was started without a script or command."""
    if sys.platform != "linux":
        return True
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").rstrip("\0").split("\0")[1:]
    except OSError:
        return False
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif not word.startswith(("-", "+")) or (word[1:2] != "-" and "c" in word):
            return False
        is_value = word in _WITH_FILE
    return True


def is_raw(tty: str) -> bool:
    """Tell whether a terminal passes every key on at once instead of collecting a line."""
    try:
        descriptor = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not termios.tcgetattr(descriptor)[3] & termios.ICANON
    except termios.error:
        return False
    finally:
        os.close(descriptor)
