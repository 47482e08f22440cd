"""One shared connection: every command and every file goes through it. Blocks; call it in a thread."""

from __future__ import annotations

import posixpath
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO

from buddy.safety.sanitise import visible
from buddy.workspace.targets.bounded_reader import BoundedReader
from buddy.workspace.targets.supervisor import ScriptReport, hello_script, read_report
from buddy.workspace.targets.transport import (
    ConnectionState,
    Destination,
    FindProgram,
    FinishedScript,
    HostFacts,
    TargetError,
)
from buddy.workspace.temporary import TemporaryFolder

GREETING_LIMIT_S = 30.0
"""More than ssh's own limit for a connection: its reason is better than ours."""
CLOSE_LIMIT_S = 2.0
ENDING_S = 1.0
MAX_LINE_BYTES = 16_384
MAX_GREETING_LINES = 1_000
"""Lines before the answer to the greeting: start-up files over there may print some."""


class TargetConnection:
    """The connection to a destination, opened on first use and again after a loss. `environment` is that of
    the local client; `find` finds its program; the other side has to answer first within `greeting_limit_s`
    seconds."""

    def __init__(
        self,
        destination: Destination,
        environment: Callable[[], Mapping[str, str]],
        find: FindProgram,
        *,
        greeting_limit_s: float = GREETING_LIMIT_S,
    ) -> None:
        self.destination = destination
        self._greeting_limit_s = greeting_limit_s
        self._environment = environment
        self._find = find
        self._lock = threading.RLock()
        self._temporary: TemporaryFolder | None = None
        self._folder = ""
        self._master: subprocess.Popen[bytes] | None = None
        self._stderr: BoundedReader | None = None
        self._facts: HostFacts | None = None
        self._others: list[subprocess.Popen[bytes]] = []
        self.reason = ""
        """Why the connection was lost or could not be opened, "" when it was not."""

    @property
    def state(self) -> ConnectionState:
        """Return the state, without asking the other side."""
        if self._master is None:
            return "lost" if self.reason else "closed"
        return "open" if self._master.poll() is None else "lost"

    def environment(self) -> Mapping[str, str]:
        """Return the environment of the local client."""
        return self._environment()

    def ensure(self) -> HostFacts:
        """Open the connection unless it is open. Raises `TargetError` with the reason."""
        with self._lock:
            if self._facts is not None and self.state == "open":
                return self._facts
            self._drop(self.explain_loss())
            try:
                self._facts = self._open()
            except TargetError as error:
                self._drop(str(error))
                raise
            self.reason = ""
            return self._facts

    def is_ending(self) -> bool:
        """Tell whether the connection is lost, or ends within `ENDING_S`: its channels end before it does."""
        master = self._master
        if master is not None:
            with suppress(subprocess.TimeoutExpired):
                master.wait(ENDING_S)
        return self.state != "open"

    def lost(self) -> TargetError:
        """Return the error for a call that the loss of the connection ended."""
        reason = self._explain() or ("" if self.state == "open" else self.destination.ended)
        because = f" ({reason})" if reason else ""
        return TargetError(
            f"the connection to {self.destination.name} was lost{because}; the next call connects again"
        )

    def explain_loss(self) -> str:
        """Return why the connection was lost or could not be opened, "" when it was not."""
        if self.state != "lost":
            return ""
        return self._explain() or self.reason or self.destination.ended

    def channel_argv(self) -> tuple[str, ...]:
        """Return the command that runs `sh` over there, through the open connection."""
        return self.destination.channel_argv(self._program(), self._folder)

    def terminal_argv(self, tag: str, lead: str) -> tuple[str, ...]:
        """Return the command that runs `sh` on a terminal over there, through the open connection. `lead` is
        its script, `tag` what its processes carry in BUDDY_JOB."""
        return self.destination.terminal_argv(self._program(), self._folder, tag, lead)

    def start_files(self) -> subprocess.Popen[bytes]:
        """Start a channel for files on the open connection; this connection ends it."""
        return self._start_other(
            self.destination.files_argv(self._program(), self._folder), subprocess.PIPE, subprocess.DEVNULL
        )

    def start_shell(self, output: int) -> subprocess.Popen[bytes]:
        """Start a `sh` over there that writes to a descriptor; this connection ends it."""
        return self._start_other(self.channel_argv(), output, subprocess.STDOUT)

    def _start_other(self, argv: tuple[str, ...], output: int, errors: int) -> subprocess.Popen[bytes]:
        with self._lock:
            process = self._start(argv, errors, output)
            self._others = [other for other in self._others if other.poll() is None] + [process]
        return process

    def run_script(self, script: bytes, *, limit_s: float) -> FinishedScript:
        """Run a script over there and return what it wrote."""
        output = BoundedReader()
        try:
            process = self._start(self.channel_argv(), subprocess.STDOUT, output.writing)
            output.close_writing()
            try:
                process.communicate(script, timeout=limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return FinishedScript(output.last_words(), None)
            return FinishedScript(output.last_words(), process.returncode)
        finally:
            output.close()

    def close(self) -> None:
        """Close the connection and everything that goes through it."""
        with self._lock:
            self._drop("")

    # -- internals

    def _program(self) -> str:
        return self.destination.locate_program(self._find)

    def _start(
        self, argv: tuple[str, ...], errors: int, output: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                env=dict(self._environment()),
                cwd="/",
                start_new_session=True,  # Ctrl+C in buddy is no signal for it
            )
        except OSError as error:
            raise TargetError(f"{argv[0]} could not be started: {error.strerror}") from error

    def _open(self) -> HostFacts:
        name, folder = self.destination.name, self.destination.folder
        # Short: the path of a socket in it has 104 characters at most. Only this user can enter the folder.
        self._temporary = TemporaryFolder("to")
        self._folder = self._temporary.path
        argv = self.destination.master_argv(self._program(), self._folder)
        stderr = self._stderr = BoundedReader()
        master = self._master = self._start(argv, stderr.writing)
        stderr.close_writing()
        tag = secrets.token_hex(8)
        report = self._greet(master, hello_script(tag, folder, self.destination.needs), tag)
        if report.get("no-folder") is not None:
            raise TargetError(f"there is no folder {visible(folder)} on {name}; nothing was done")
        if lacks := report.get("lacks"):
            raise TargetError(f"{name} has no program {visible(lacks[:100])}, which work there needs")
        home, real = report.get("home"), report.get("folder")
        if report.get("ready") is None or home is None or real is None:
            silent = (
                f"it did not answer within {self._greeting_limit_s:g} s; if it can be reached, a start-up "
                "file of the shell there may wait for something"
            )
            raise TargetError(f"{name} can't be reached: {self._explain() or silent}")
        if not real.startswith("/") or real != posixpath.normpath(real):
            found = visible(real[:200])
            raise TargetError(f"{name} names {found!r} as its folder: expected an absolute path")
        home = home if home.startswith("/") else "/"
        return HostFacts(home, real, report.get("system") or "", report.get("bash") is not None)

    def _greet(self, master: subprocess.Popen[bytes], script: bytes, tag: str) -> ScriptReport:
        """Send the greeting and read the answer; a server that says nothing is given up on."""
        if master.stdin is None or master.stdout is None:
            return ScriptReport({})
        timer = threading.Timer(self._greeting_limit_s, master.kill)
        timer.start()
        lines: list[str] = []
        try:
            with suppress(OSError):  # it ended at once: its last words say why
                master.stdin.write(script)
                master.stdin.flush()
            for line in iter(lambda: _read_line(master.stdout), b""):
                lines.append(line.decode("utf-8", "surrogateescape"))
                if line.rstrip() == f"buddy:{tag} ready".encode():
                    break
                if len(lines) > MAX_GREETING_LINES:
                    master.kill()
                    break
            else:
                master.wait()
        finally:
            timer.cancel()
        return read_report("".join(lines), tag)

    def _explain(self) -> str:
        """Return the last words of the client, for people; "" when it said nothing."""
        stderr = self._stderr
        return self.reason if stderr is None else self.destination.explain(stderr.last_words())

    def _drop(self, reason: str) -> None:
        master, others = self._master, self._others
        self._master, self._others, self._facts = None, [], None
        self.reason = reason
        ours = [*others, *([master] if master is not None else [])]
        for process in others:
            process.kill()
        for process in ours:
            _close(process.stdin)
        deadline = time.monotonic() + CLOSE_LIMIT_S
        for process in ours:
            try:
                process.wait(max(0.05, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for process in ours:
            _close(process.stdout)  # last: a thread that waits for an answer must see its end first
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None
        if self._temporary is not None:
            self._temporary.close()
            self._temporary, self._folder = None, ""


def _read_line(stream: IO[bytes] | None) -> bytes:
    return b"" if stream is None else stream.readline(MAX_LINE_BYTES)


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with suppress(OSError):
            stream.close()
