"""Ends confined commands when buddy itself is gone, however it went.

A shell reads the process groups of running commands from a pipe. When the pipe closes with some left, it
kills them; with the first process of a PID namespace everything in that namespace ends.
"""

from __future__ import annotations

import contextlib
import subprocess

_SCRIPT = """
while read -r sign group; do
  case $sign in
    +) set -- "$@" "$group" ;;
    -) rest=; for one; do [ "$one" = "$group" ] || rest="$rest $one"; done; set -- $rest ;;
  esac
done
for one; do kill -9 -- "-$one"; done
"""


class Tether:
    """The shell and the pipe to it. It starts with the first command."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    def tie(self, group: int) -> None:
        """End this process group when buddy is gone."""
        if self._shell is None:
            self._shell = subprocess.Popen(
                ("/bin/sh", "-c", _SCRIPT),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        self._send(f"+ {group}\n")

    def untie(self, group: int) -> None:
        """The group has ended."""
        self._send(f"- {group}\n")

    def close(self) -> None:
        """Let the shell end. Groups that are still tied are killed."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):
                self._shell.stdin.close()
            self._shell.wait()

    def _send(self, line: str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # somebody killed the shell: commands then outlive buddy
                self._shell.stdin.write(line.encode())
                self._shell.stdin.flush()
