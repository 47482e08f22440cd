"""Ends confined commands when buddy itself is gone, for whatever reason.

A shell reads from a pipe which commands run. When the pipe closes, which the kernel guarantees, the shell
kills the remaining ones: every process with the command's mark in its limits (`tag_children`), which exists
from the first instant and survives `setsid`, double forks and `env -i`, and the command's process group on
systems without marks. Killing the first process of a PID namespace ends everything in it.
"""

from __future__ import annotations

import contextlib
import subprocess

from buddy.workspace.processes.limits import RTTIME_FLOOR

_SCRIPT = """
tied=
while read -r sign one; do
  case $sign in
    +) tied="$tied $one" ;;
    -) rest=; for other in $tied; do [ "$other" = "$one" ] || rest="$rest $other"; done; tied=$rest ;;
  esac
done
marks=
for one in $tied; do
  case $one in
    g*) kill -s KILL -- "-${one#g}" ;;
    m*) marks="$marks${marks:+|}${one#m}" ;;
  esac
done
seen=' '
new=$marks
while [ "$new" ]; do
  new=
  for path in $(grep -lsE "^Max realtime timeout +($marks) " /proc/[0-9]*/limits); do
    pid=${path#/proc/}
    pid=${pid%/limits}
    case $seen in *" $pid "*) continue ;; esac
    kill -s KILL "$pid"
    seen="$seen$pid "
    new=1
  done
done
for one in $tied; do
  case $one in e*) : > "$1/${one#e}.ended" ;; esac
done
"""
"""`kill -9 -- -GROUP` would be shorter, but dash refuses it. Searching until no process is found catches
those forked meanwhile."""


class Tether:
    """The shell and the pipe to it, started with the first command. `records` is the folder of records."""

    def __init__(self, records: str) -> None:
        self._records = records
        self._shell: subprocess.Popen[bytes] | None = None

    def tie(self, number: int) -> None:
        """End everything marked with `number` when buddy is gone. Call it before the command starts and
        outside of `tag_children`: the shell itself must not carry the mark."""
        if self._shell is None:
            self._shell = subprocess.Popen(
                ("/bin/sh", "-c", _SCRIPT, "tether", self._records),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
            )
        self._send(f"+ m{RTTIME_FLOOR | number}\n")

    def tie_group(self, group: int) -> None:
        """Also end this process group."""
        self._send(f"+ g{group}\n")

    def tie_record(self, name: str) -> None:
        """Create a file `NAME.ended` beside this record when buddy and the commands are gone."""
        self._send(f"+ e{name}\n")

    def untie_record(self, name: str) -> None:
        """Forget a record that was deleted."""
        self._send(f"- e{name}\n")

    def untie(self, number: int, group: int) -> None:
        """Forget a command that ended. `group` is 0 if it never started."""
        self._send(f"- m{RTTIME_FLOOR | number}\n" + (f"- g{group}\n" if group else ""))

    def close(self) -> None:
        """End the shell. Commands that are still tied are killed."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):
                self._shell.stdin.close()
            self._shell.wait()

    def _send(self, lines: str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # the shell was killed: commands may outlive buddy
                self._shell.stdin.write(lines.encode())
                self._shell.stdin.flush()
