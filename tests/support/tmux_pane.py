"""A private tmux server for a test, and a person at one of its panes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LIMIT_S = 30.0


class PaneServer:
    """A server on a socket of its own; it runs when somebody makes a session."""

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "s")

    def __call__(self, *words: str, check: bool = True) -> str:
        """Run a command of tmux as the person does."""
        done = subprocess.run(
            ["tmux", "-S", self.socket, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(Path(self.socket).parent), "TERM": "xterm"},
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def open(self, *program: str, session: str = "box") -> None:
        """Open a session with a program as its shell."""
        self("new-session", "-d", "-s", session, "-x", "100", "-y", "30", "-c", "/", *program)

    def type(self, *keys: str) -> None:
        self("send-keys", "-t", "=box:", *keys)

    def ask(self, what: str) -> str:
        """Return the value of a format of tmux."""
        return self("display-message", "-p", "-t", "=box:", what).strip()

    def screen(self) -> str:
        return self("capture-pane", "-p", "-J", "-t", "=box:").rstrip()

    def until(self, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not claim():
            assert time.monotonic() < deadline, self.screen()
            time.sleep(0.02)

    def until_shows(self, *texts: str) -> None:
        """Wait until the pane shows all these texts."""
        self.until(lambda: all(text in self.screen() for text in texts))


@contextlib.contextmanager
def pane_server() -> Iterator[PaneServer]:
    """A server that is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pane-"))  # short: the path of a socket has 104 characters at most
    server = PaneServer(folder)
    try:
        yield server
    finally:
        server("kill-server", check=False)
        shutil.rmtree(folder, ignore_errors=True)
