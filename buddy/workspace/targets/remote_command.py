"""One command on another machine: a local client whose end is also the end of everything over there."""

from __future__ import annotations

import os
import select
import threading
import time

import msgspec

from buddy.agent.tool import NOTHING_BLOCKED, Blocked, ToolError
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.processes.process_tree import new_tag
from buddy.workspace.targets.bounded_reader import BoundedReader
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.supervisor import ScriptReport, read_report, run_script, verify_script

VERIFY_LIMIT_S = 12.0
SEND_LIMIT_S = 15.0
POLL_MS = 200.0


class RemoteEnd(msgspec.Struct, frozen=True):
    """The end of a remote command, as far as it is known. `is_lost`: its client ended before it said how.
    `code` is the exit code it said. `is_clean`: nothing of it is left over there all the same.
    `ended_others`: processes it left running were ended. `survivors`: process ids over there that could not
    be ended. `shell` ran it. `has_no_folder`: nothing ran, because the folder to start in does not exist."""

    is_lost: bool
    code: int | None = None
    is_clean: bool = False
    ended_others: bool = False
    survivors: str = ""
    shell: str = "bash"
    has_no_folder: bool = False


def exit_code_of(end: RemoteEnd, client: int | None) -> int | None:
    """Return the exit code of a remote command, given that of its local client. A client that is stopped may
    end with 0 as well (podman's does)."""
    if end.code is not None or end.has_no_folder:
        return end.code if end.code is not None else client
    return client if client is not None and client < 0 else None


class RemoteCommand:
    """The other side of one command, as its `Child` sees it: when the local client has ended, nothing of the
    command may be left over there."""

    def __init__(self, connection: TargetConnection, folder: str, command: str) -> None:
        self._connection = connection
        self._tag = new_tag().text
        self._script = run_script(self._tag, folder, command)
        self._stderr = BoundedReader(f"buddy:{self._tag} ")
        self._verified = ""
        self._writing = -1
        self._lock = threading.RLock()
        self._end: RemoteEnd | None = None
        self._is_verified = False

    def start(self, children: ChildProcesses, task_id: int) -> Child:
        """Start its client; `send` has to follow. Raises `ToolError`."""
        reading, self._writing = os.pipe()
        try:
            os.set_blocking(self._writing, False)
            request = CommandRequest(
                self._connection.channel_argv(),
                "/",
                task_id,
                env=dict(self._connection.environment()),
                limited=False,
                stdin=reading,
            )
            return children.start(request, errors=self._stderr.writing, remote=self)
        except (ToolError, OSError):
            self.finish()
            raise
        finally:
            os.close(reading)
            self._stderr.close_writing()

    def send(self) -> None:
        """Send the script. Raises `ToolError` when not all of it was taken: then nothing was run, because a
        shell runs no part of a compound command. Blocks; a pipe may hold less than the script."""
        rest = memoryview(self._script)
        deadline = time.monotonic() + SEND_LIMIT_S
        while rest and time.monotonic() < deadline:
            poll = select.poll()
            poll.register(max(self._writing, 0), select.POLLOUT)
            poll.poll(POLL_MS)
            with self._lock:
                if self._writing < 0:
                    break
                try:
                    rest = rest[os.write(self._writing, rest) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    break
        if rest:
            reason = self._connection.destination.explain(self._stderr.last_words()) or "it was not taken"
            name = self._connection.destination.name
            raise ToolError(f"the command could not be sent to {name}: {reason}; nothing was run")

    def has_begun(self) -> bool:
        """Tell whether the other side said in which session it runs. Before that nobody can tell that it will
        not begin later."""
        return self._report().get("pid") is not None

    def end(self) -> RemoteEnd:
        """Return what is known after the local client ended."""
        return self._end or self._read_end()

    # -- what a `Child` asks of whoever confines it

    def lost(self) -> str:
        """Return why nobody knows how the command ended, "" when that is known."""
        if not self.end().is_lost:
            return ""
        return f"the connection to {self._connection.destination.name} was lost"

    def exit_code(self, process: int | None) -> int | None:
        """Return what the other side said, as far as it did."""
        return exit_code_of(self.end(), process)

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
            self._stderr.close()
            self._end = self._end or self._read_end()
            self._close_input()

    def _verify(self, report: ScriptReport) -> None:
        """Wait over there for the end of its processes, and end what goes on."""
        script = verify_script(self._tag, report.get("pid") or "")
        try:
            done = self._connection.run_script(script, limit_s=VERIFY_LIMIT_S)
        except ToolError:
            return  # no connection: its watcher over there ends the command
        self._verified = f"\n{done.text}"

    def _read_end(self) -> RemoteEnd:
        report = self._report()
        is_clean = report.get("clean") is not None
        has_no_folder = report.get("no-folder") is not None
        return RemoteEnd(
            is_lost=report.get("code") is None and not has_no_folder,
            code=_number(report.get("code")),
            is_clean=is_clean,
            has_no_folder=has_no_folder,
            ended_others=report.get("left") == "1",
            survivors=(report.get("survivors") or "").strip(),
            shell=report.get("shell") or "bash",
        )

    def _report(self) -> ScriptReport:
        return read_report(self._stderr.reports() + self._verified, self._tag)

    def _close_input(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


def _number(word: str | None) -> int | None:
    return int(word) if word is not None and word.isascii() and word.isdigit() else None
