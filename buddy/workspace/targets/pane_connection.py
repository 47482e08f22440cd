"""The pane of one target: found, or made on first use, and looked at. Blocks; call it in a thread."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from buddy.agent.tool import ToolError
from buddy.workspace.targets.pane_address import PaneAddress
from buddy.workspace.targets.tmux import PaneView, Tmux, TmuxError, plain_format
from buddy.workspace.targets.transport import ConnectionState, TargetError

OLDEST = (3, 0)
_OPTION = "@buddy-target"
"""The option of a pane that names the target it serves: a later session finds the same pane again."""


class PaneConnection:
    """A target's pane. `folder` is where the shell of a new one starts."""

    def __init__(self, address: PaneAddress, tmux: Tmux, folder: str) -> None:
        self.address, self.tmux, self.folder = address, tmux, folder
        self.prompts: dict[str, tuple[int, str]] = {}
        """The cursor's column and line when something was typed into a pane last: an empty prompt."""
        self.typing = threading.Lock()
        """Held from the look at a prompt to the command's begin: two tasks must not find the same prompt."""
        self._made: set[str] = set()
        self._lock = threading.RLock()
        self._pane = ""
        self._reason = ""

    @property
    def state(self) -> ConnectionState:
        """Return the state as it was when the pane was used last."""
        if self._pane:
            return "open"
        return "lost" if self._reason else "closed"

    @property
    def reason(self) -> str:
        """Return why the pane was lost or could not be opened, "" when it was not."""
        return self._reason

    def ensure(self) -> str:
        """Return the id of the pane, found or made unless it is known and there. Raises `ToolError`."""
        with self._lock:
            if self._pane and self.is_there(self._pane):
                return self._pane
            self._pane = ""
            try:
                self._pane = self._open()
            except ToolError as error:
                self._reason = str(error)
                raise
            self._reason = ""
            return self._pane

    def is_there(self, pane: str) -> bool:
        """Tell whether a pane exists, with a living program in it."""
        try:
            return not self.tmux.look(pane).state.is_dead
        except TmuxError:
            return False

    def look(self) -> PaneView:
        """Return the pane as it is now, which must be there already. Raises `ToolError`."""
        with self._lock:
            if not self._pane:
                raise self.lost()
            try:
                return self.tmux.look(self._pane)
            except TmuxError as error:
                raise self.lost() from error

    def lost(self) -> TargetError:
        """Note that the pane is gone; return the error that says so."""
        with self._lock:
            self._pane = ""
            self._reason = "the pane was closed"
        return TargetError(f"the pane of {self.address.name} is gone; the next command opens one again")

    def check_program(self) -> None:
        """Check the program tmux. Raises `ToolError`."""
        found = self.tmux.version()
        if (0, 0) < found < OLDEST:
            raise TargetError(f"expected tmux 3.0 or newer, found {found[0]}.{found[1]}")

    def is_new(self, pane: str) -> bool:
        """Tell whether buddy made a pane and typed nothing yet: its shell may just be starting."""
        return pane in self._made and pane not in self.prompts

    def new_window(self) -> str:
        """Open a window behind the others; return the id of its pane. Raises `ToolError`."""
        target = self.address.session_target
        place = ("-t", target, "-c", plain_format(self.folder), "-n", "buddy-job")
        pane = self.tmux.run("new-window", "-d", "-P", "-F", "#{pane_id}", *place).strip()
        self._made.add(pane)
        return pane

    def close_window(self, pane: str) -> None:
        """Close a window of `new_window`, if it is still there."""
        self.prompts.pop(pane, None)
        self._made.discard(pane)
        with suppress(TmuxError):
            self.tmux.run("kill-pane", "-t", pane)

    def _open(self) -> str:
        address = self.address
        self.check_program()
        is_new = not self.tmux.answers("has-session", "-t", f"={address.session_name}")
        if is_new:
            if address.pane:
                raise TargetError(
                    f"there is no tmux session {address.session_name}, and [targets.{address.name}] names a "
                    f"pane of it: make it with {address.shown.replace(' attach -t ', ' new -s ')}"
                )
            size = [("-x", str(address.width))] if address.width else []
            size += [("-y", str(address.height))] if address.height else []
            cells = [word for pair in size for word in pair]
            place = ("-s", address.session_name, "-c", plain_format(self.folder))
            self.tmux.run("new-session", "-d", *place, *cells)
        pane = self._choose()
        if is_new:
            self._made.add(pane)
        view = self.tmux.look(pane)
        if view.state.is_dead:
            raise TargetError(f"the program in pane {pane} has ended; close the pane or respawn it")
        self.tmux.run("set-option", "-p", "-t", pane, _OPTION, address.name)
        return pane

    def _choose(self) -> str:
        """Return the pane of the settings, else the one of an earlier session, else the one in front."""
        address = self.address
        if not address.pane:
            listed = self.tmux.run(
                "list-panes", "-s", "-t", address.session_target, "-F", f"#{{pane_id}} #{{{_OPTION}}}"
            )
            for line in listed.splitlines():
                pane, _, name = line.partition(" ")
                if name == address.name:
                    return pane
        return self.tmux.run("display-message", "-p", "-t", address.pane_target, "#{pane_id}").strip()


def server_environment(variables: dict[str, str], tmux_folder: str) -> dict[str, str]:
    """Return the environment of tmux, which a server that it starts passes on to the person's shell: that of
    every child, which holds no secrets, without what tells a program that nobody sees it. `tmux_folder` is
    where tmux looks for named sockets, "" for its own choice."""
    own = ("TERM", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "AI_AGENT")
    kept = {
        name: value for name, value in variables.items() if name not in own and not name.startswith("BUDDY_")
    }
    if tmux_folder and os.path.isabs(tmux_folder):
        kept["TMUX_TMPDIR"] = tmux_folder
    return kept
