"""One command on a terminal of another machine or of a container: a local client on a terminal of its own,
and a second channel whose end is the end of everything over there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from contextlib import suppress

from buddy.agent.tool import NOTHING_BLOCKED, Blocked, ToolError
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.processes.process_tree import new_tag
from buddy.workspace.targets.bounded_reader import BoundedReader
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.pane_reader import CommandOutput, RawText
from buddy.workspace.targets.remote_command import VERIFY_LIMIT_S, RemoteEnd, exit_code_of
from buddy.workspace.targets.supervisor import ScriptReport, read_report, verify_script
from buddy.workspace.targets.terminal_script import terminal_lead, terminal_script, watch_script
from buddy.workspace.targets.transport import TargetError

WATCH_LIMIT_S = 15.0
READY_LIMIT_S = 20.0
POLL_S = 0.01
MAX_PREFACE_BYTES = 16_384


class TerminalStream:
    """The output of a terminal over there. What comes before the command's own goes into `preface`: the
    reports of its shell, and the last words of a client that fails."""

    def __init__(self, mark: str) -> None:
        self._output = CommandOutput(mark, RawText())
        self._preface: bytes = b""

    @property
    def pid(self) -> int | None:
        """Return the id of the terminal's shell over there, None before the command begins."""
        return self._output.pid

    @property
    def code(self) -> int | None:
        """Return the command's exit code, None until it ended."""
        return self._output.code

    @property
    def preface(self) -> str:
        """Return what came before the command began."""
        return self._preface.decode("utf-8", "replace")

    def feed(self, data: bytes) -> bytes:
        """Return what the command wrote in the next piece."""
        if self.pid is None:
            self._preface = (self._preface + data)[-MAX_PREFACE_BYTES:]
        return self._output.feed(data)


class RemoteTerminal:
    """The other side of one command on a terminal, as its `Child` sees it: when the local client has ended,
    nothing of the command may be left over there."""

    def __init__(self, connection: TargetConnection, folder: str, command: str, size: TerminalSize) -> None:
        self._connection, self._size = connection, size
        self._name = connection.destination.name
        self._tag = new_tag().text
        # The command knows its tag; with that of the marks it could end before its end.
        mark = new_tag().text
        self._script = terminal_script(self._tag, mark, folder, command, size)
        self._stream = TerminalStream(mark)
        self._watcher: subprocess.Popen[bytes] | None = None
        self._reports = BoundedReader(f"buddy:{self._tag} ")
        self._verified = ""
        self._lock = threading.RLock()
        self._is_settled = self._is_over = False

    def watch(self) -> None:
        """Start the channel that watches over it. Blocks; raises `ToolError`."""
        with self._lock:
            process = self._watcher = self._connection.start_shell(self._reports.writing)
            self._reports.close_writing()
            self._tell(watch_script(self._tag), is_last=False)
        deadline = time.monotonic() + WATCH_LIMIT_S
        while self._watch_report().get("watching") is None:
            if process.poll() is not None or time.monotonic() >= deadline:
                reason = self._connection.destination.explain(self._reports.last_words())
                self.finish()
                raise TargetError(
                    f"a terminal on {self._name} can't be watched over: {reason or 'it did not answer'}; "
                    "nothing was run"
                )
            time.sleep(POLL_S)

    def start(self, children: ChildProcesses, task_id: int) -> Child:
        """Start its client; `begin` has to follow. Raises `ToolError`."""
        request = CommandRequest(
            self._connection.terminal_argv(self._tag, terminal_lead(self._tag)),
            "/",
            task_id,
            # Clients look at the name of their terminal, ssh sends it.
            env={**self._connection.environment(), "TERM": "xterm-256color"},
            limited=False,
            terminal=self._size,
            is_raw=True,
            select=self._receive,
        )
        try:
            return children.start(request, remote=self)
        except ToolError:
            self.finish()
            raise

    async def begin(self, child: Child) -> None:
        """Send the command once a shell waits for it there, and wait until it runs. Raises `ToolError`; then
        nothing was run."""
        deadline = time.monotonic() + READY_LIMIT_S
        await self._await(child, "ready", deadline)
        descriptor = child.duplicate_descriptor()
        try:
            rest = memoryview(self._script)
            while rest:
                with suppress(BlockingIOError):
                    rest = rest[os.write(descriptor, rest) :]
                    continue
                self._check(child, deadline)
                await asyncio.sleep(POLL_S)
        except OSError as error:
            raise self._not_begun() from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        while self._stream.pid is None and self._preface_report().get("no-folder") is None:
            self._check(child, deadline)
            await asyncio.sleep(POLL_S)
        if self._stream.pid is not None:
            await asyncio.to_thread(self._tell, f"{self._stream.pid}\n".encode(), is_last=False)

    def end(self) -> RemoteEnd:
        """Return what is known after the local client ended."""
        report, words = self._watch_report(), self._preface_report()
        has_no_folder = words.get("no-folder") is not None
        return RemoteEnd(
            is_lost=self._stream.code is None and not has_no_folder,
            code=self._stream.code,
            is_clean=report.get("clean") is not None,
            has_no_folder=has_no_folder,
            ended_others=report.get("left") == "1",
            survivors=(report.get("survivors") or "").strip(),
            shell=words.get("shell") or "bash",
        )

    # -- what a `Child` asks of whoever confines it

    def lost(self) -> str:
        """Return why nobody knows how the command ended, "" when that is known."""
        return f"the connection to {self._name} was lost" if self.end().is_lost else ""

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
            if self._is_settled:
                return
            self._is_settled = True
            words = [str(self._stream.pid)] if self._stream.pid is not None else []
            words += ["ended"] if self._stream.code is not None else []
            self._tell("".join(f"{word}\n" for word in words).encode(), is_last=True)
            deadline = time.monotonic() + VERIFY_LIMIT_S
            while not self._is_certain() and time.monotonic() < deadline:
                if self._watcher is None or self._watcher.poll() is not None:
                    break
                time.sleep(POLL_S)
            if not self._is_certain():
                self._verify()

    def finish(self) -> None:
        """Let go of what is held for it."""
        with self._lock:
            self._tell(b"", is_last=True)
            self._reports.close()

    # -- internals

    def _receive(self, data: bytes) -> bytes:
        output = self._stream.feed(data)
        if self._stream.code is not None and not self._is_over:
            self._is_over = True
            # What it left running may hold the terminal open, and its client with it.
            threading.Thread(target=self.restore_changes, name="end of a terminal", daemon=True).start()
        return output

    async def _await(self, child: Child, word: str, deadline: float) -> None:
        while self._preface_report().get(word) is None:
            if self._preface_report().get("no-stty") is not None:
                raise ToolError(
                    f"{self._name} gives no terminal, or has no program stty, which one needs; nothing was "
                    "run. Leave pty out"
                )
            self._check(child, deadline)
            await asyncio.sleep(POLL_S)

    def _check(self, child: Child, deadline: float) -> None:
        """Raise `ToolError` when the command will not begin any more."""
        if child.exit is not None or time.monotonic() >= deadline:
            raise self._not_begun()

    def _not_begun(self) -> ToolError:
        reason = self._connection.destination.explain(self._stream.preface) or "it did not answer"
        return ToolError(f"no terminal could be opened on {self._name}: {reason}; nothing was run")

    def _is_certain(self) -> bool:
        report = self._watch_report()
        return report.get("clean") is not None or report.get("survivors") is not None

    def _verify(self) -> None:
        """Ask another channel, when the one that watched is gone."""
        pid = self._stream.pid
        script = verify_script(self._tag, str(pid) if pid is not None else "")
        try:
            done = self._connection.run_script(script, limit_s=VERIFY_LIMIT_S)
        except ToolError:
            return  # no connection: its watcher over there ends the command
        self._verified = f"\n{done.text}"

    def _tell(self, data: bytes, *, is_last: bool) -> None:
        """Send something to the watcher; with `is_last` its input ends: the sign to end everything."""
        stream = self._watcher.stdin if self._watcher is not None else None
        if stream is None or stream.closed:
            return
        with suppress(OSError, ValueError):  # a command that ended at once has it closed
            stream.write(data)
            stream.flush()
        if is_last:
            with suppress(OSError):
                stream.close()

    def _watch_report(self) -> ScriptReport:
        return read_report(self._reports.reports() + self._verified, self._tag)

    def _preface_report(self) -> ScriptReport:
        return read_report(self._stream.preface.replace("\r", ""), self._tag)
