"""One command on another machine: a local ssh client whose end is also the end of everything over there."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import IO

import msgspec

from buddy.agent.tool import NOTHING_BLOCKED, Blocked, ToolError
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.processes.process_tree import new_tag
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.supervisor import ScriptReport, read_report, run_script, verify_script

VERIFY_LIMIT_S = 12.0
MAX_SAID_BYTES = 65_536


class RemoteEnd(msgspec.Struct, frozen=True):
    """The end of a remote command, as far as it is known. `is_lost`: the connection ended first.
    `ended_others`: processes it left running were ended. `survivors`: process ids over there that could not
    be ended. `shell` ran it. `has_no_folder`: nothing ran, because the folder to start in does not exist."""

    is_lost: bool
    ended_others: bool = False
    survivors: str = ""
    shell: str = "bash"
    has_no_folder: bool = False


class RemoteCommand:
    """The other side of one command, as its `Child` sees it: when the local client has ended, nothing of the
    command may be left over there."""

    def __init__(self, connection: TargetConnection, folder: str, command: str) -> None:
        self._connection = connection
        self._tag = new_tag().text
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until `finish`
        self._script = run_script(self._tag, folder, command)
        self._reading = self._writing = -1
        self._lock = threading.RLock()
        self._end: RemoteEnd | None = None
        self._is_verified = False

    def start(self, children: ChildProcesses, task_id: int) -> Child:
        """Start it. Raises `ToolError`."""
        self._reading, self._writing = os.pipe()
        try:
            os.write(self._writing, self._script)  # the pipe holds all of it
            request = CommandRequest(
                self._connection.channel_argv(),
                "/",
                task_id,
                env=dict(self._connection.environment()),
                limited=False,
                stdin=self._reading,
            )
            return children.start(request, errors=self._said.fileno(), remote=self)
        except (ToolError, OSError):
            self.finish()
            raise
        finally:
            if self._reading >= 0:
                os.close(self._reading)
                self._reading = -1

    def has_begun(self) -> bool:
        """Tell whether the other side said in which session it runs. Before that nobody can tell that it will
        not begin later."""
        return self._report().get("pid") is not None

    def end(self) -> RemoteEnd:
        """Return what is known after the local client ended."""
        return self._end or self._read_end()

    # -- what a `Child` asks of whoever confines it

    def blocked_accesses(self) -> Blocked:
        """Return nothing: no sandbox confines it."""
        return NOTHING_BLOCKED

    def ports(self) -> tuple[int, ...]:
        """Return nothing: its ports are on the other machine."""
        return ()

    def restore_changes(self) -> None:
        """Make sure that nothing of the command runs over there. Blocks."""
        with self._lock:  # whoever comes second waits until it is certain
            self._close_input()  # the sign to stop
            report = self._report()
            if report.get("code") is None and report.get("no-folder") is None and not self._is_verified:
                self._is_verified = True
                self._verify(report)
            self._end = self._read_end()

    def finish(self) -> None:
        """Let go of what is held for it."""
        with self._lock:
            self._end = self._end or self._read_end()
            self._close_input()
            self._said.close()

    def _verify(self, report: ScriptReport) -> None:
        """Wait over there for the end of its processes, and end what goes on."""
        script = verify_script(self._tag, report.get("pid") or "")
        try:
            done = self._connection.run_script(script, limit_s=VERIFY_LIMIT_S)
        except ToolError:
            return  # no connection: its watcher over there ends the command
        self._said.seek(0, os.SEEK_END)
        self._said.write(f"\n{done.text}".encode("utf-8", "replace"))
        self._said.flush()

    def _read_end(self) -> RemoteEnd:
        report = self._report()
        is_clean = report.get("clean") is not None
        has_no_folder = report.get("no-folder") is not None
        return RemoteEnd(
            is_lost=report.get("code") is None and not is_clean and not has_no_folder,
            has_no_folder=has_no_folder,
            ended_others=report.get("left") == "1",
            survivors=(report.get("survivors") or "").strip(),
            shell=report.get("shell") or "bash",
        )

    def _report(self) -> ScriptReport:
        if self._said.closed:
            return ScriptReport({})
        data = os.pread(self._said.fileno(), MAX_SAID_BYTES, 0)
        return read_report(data.decode("utf-8", "replace"), self._tag)

    def _close_input(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
