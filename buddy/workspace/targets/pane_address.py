"""The tmux pane of a target, as its settings name it: nothing in them can become an option of tmux, and no
socket lies in the workspace. Pure."""

from __future__ import annotations

import os

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.paths import is_beneath
from buddy.workspace.targets.transport import DestinationError

_NAME = pattern(r"(?!local$)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SESSION = pattern(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
"""No `.` and `:`, which tmux takes for a window and a pane; none of its `=`, `$`, `@`, `%` either."""
_PANE = pattern(r"[A-Za-z0-9_-]{1,64}(\.\d{1,4})?")
_UNSET = "_"
MAX_CELLS = 1000


class PaneAddress(msgspec.Struct, frozen=True):
    """A pane. `socket` is a name (`tmux -L`) or an absolute path (`tmux -S`); `pane` is WINDOW or
    WINDOW.PANE, "" for the pane buddy used before or the one in front; `width` and `height` are for a
    session that buddy makes, 0 for tmux's own size."""

    name: str
    socket: str = "buddy"
    session: str = ""
    pane: str = ""
    width: int = 0
    height: int = 0

    @property
    def session_name(self) -> str:
        """Return the name of the session: that of the target, where the settings have none."""
        return self.session or self.name.replace(".", _UNSET)

    @property
    def server_words(self) -> tuple[str, ...]:
        """Return the option of tmux that chooses the server."""
        return ("-S" if "/" in self.socket else "-L", self.socket)

    @property
    def shown(self) -> str:
        """Return the command line that attaches a person to it."""
        return " ".join(("tmux", *self.server_words, "attach", "-t", self.session_name))

    @property
    def session_target(self) -> str:
        """Return the session as tmux finds exactly it."""
        return f"={self.session_name}:"

    @property
    def pane_target(self) -> str:
        """Return the pane of the settings as tmux finds exactly it, the one in front where they name none."""
        return f"={self.session_name}:{self.pane}"

    def check(self, workspace: str) -> None:
        """Raise `DestinationError` for anything that tmux could take for something else, and for a socket
        that others reach who may write into the workspace."""
        if not _NAME().fullmatch(self.name):
            raise DestinationError(
                f"[targets.{self.name!r}]: expected a name of letters, digits, '.', '_' and '-' that begins "
                "with a letter or digit and is not local"
            )
        if "/" in self.socket:
            self._check_path(workspace)
        elif not _SESSION().fullmatch(self.socket):
            raise self._error("socket", "a name of letters, digits, '_' and '-', or a path", self.socket)
        if not _SESSION().fullmatch(self.session_name):
            raise self._error("session", "a name of letters, digits, '_' and '-'", self.session_name)
        if self.pane and not _PANE().fullmatch(self.pane):
            raise self._error("pane", "WINDOW or WINDOW.PANE", self.pane)
        for field, cells in (("width", self.width), ("height", self.height)):
            if not 0 <= cells <= MAX_CELLS:
                raise self._error(field, f"a number of cells up to {MAX_CELLS}", str(cells))

    def _check_path(self, workspace: str) -> None:
        is_plain = os.path.isabs(self.socket) and self.socket.isprintable() and " " not in self.socket
        if not is_plain:
            raise self._error("socket", "a name, or an absolute path without spaces", self.socket)
        if is_beneath(os.path.realpath(self.socket), workspace) or is_beneath(self.socket, workspace):
            raise self._error("socket", "a path outside of the workspace", self.socket)

    def _error(self, field: str, expected: str, found: str) -> DestinationError:
        return DestinationError(f"[targets.{self.name}] {field}: expected {expected}, found {found!r}")
