"""One command typed into a pane, as its `Child` sees it: a local reader stands for it, whose end is also the
end of the command in the pane."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO

from buddy.agent.tool import NOTHING_BLOCKED, Blocked, ToolError
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.processes.process_info import ProcessInfo
from buddy.workspace.processes.process_tree import Tag, is_same, new_tag, owner_runs
from buddy.workspace.processes.termination import Tree
from buddy.workspace.targets.pane_connection import PaneConnection
from buddy.workspace.targets.pane_prompt import (
    BUSY_LIMIT_S,
    START_LIMIT_S,
    PaneTypist,
    StoppedTypingError,
    has_screen_left,
    waiting_shell,
)
from buddy.workspace.targets.pane_script import command_files, command_scripts, typed_line
from buddy.workspace.targets.supervisor import ScriptReport, quote, read_report
from buddy.workspace.targets.tmux import TmuxError, plain_format

READER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pane_reader.py")
INTERRUPT_S = 1.0
"""The time a command has to end after C-c."""
SETTLE_S = 0.05
TERMINATE_S = 0.5
KILL_S = 3.0
READY_LIMIT_S = 10.0
FREE_PIPE_S = 1.0
POLL_S = 0.01
MAX_SAID_BYTES = 16_384
_OWNER = "@buddy-pipe"
"""The option of a pane that holds the tag of the command its pipe is for."""


class PaneCommand:
    """A command in a pane. `own_window`: the pane is there for it alone and is closed with it; `scratch` is
    the folder for its private files; `variables` are set for it."""

    def __init__(
        self,
        connection: PaneConnection,
        pane: str,
        *,
        own_window: bool,
        scratch: str,
        variables: Mapping[str, str],
    ) -> None:
        self._connection, self._tmux, self._pane = connection, connection.tmux, pane
        self._own_window = own_window
        self._scratch, self._variables = scratch, variables
        self._tag: Tag = new_tag()
        # The command knows its tag; with that of the marks it could end before its end.
        self._mark_tag = new_tag().text
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until `finish`
        self._folder = ""
        self._lock = threading.RLock()
        self._report = ScriptReport({})
        self._has_pipe = self._is_sent = self._is_settled = False
        self._is_abandoned = threading.Event()
        self._tree: Tree | None = None
        self._loss = ""
        self.shell = ""
        self.survivors: tuple[int, ...] = ()

    def start(self, children: ChildProcesses, task_id: int) -> Child:
        """Start the reader; nothing is typed yet. Raises `ToolError`."""
        try:
            # Only this user can enter the folder.
            self._folder = tempfile.mkdtemp(prefix="buddy-", dir=self._scratch)
            pipe = os.path.join(self._folder, "out")
            os.mkfifo(pipe, 0o600)
            argv = (sys.executable, "-I", "-S", READER, pipe)
            with tempfile.TemporaryFile() as tag:  # an argument could be read by the command
                tag.write(self._mark_tag.encode())
                tag.seek(0)
                request = CommandRequest(argv, "/", task_id, limited=False, stdin=tag.fileno())
                return children.start(request, errors=self._said.fileno(), remote=self)
        except OSError as error:
            self.finish()
            raise ToolError(f"the files of the command can't be made: {error.strerror}") from error
        except ToolError:
            self.finish()
            raise

    def send(self, command: str, folder: str, is_cancelled: Callable[[], bool]) -> None:
        """Type the command into the pane when its shell waits for one. Blocks; raises `ToolError` when
        nothing was typed, `StoppedTypingError` when it was cancelled before."""

        def is_stopped() -> bool:
            return self._is_abandoned.is_set() or is_cancelled()

        while not self._connection.typing.acquire(timeout=0.1):
            if is_stopped():
                raise StoppedTypingError
        try:
            self._send(command, folder, is_stopped)
        finally:
            self._connection.typing.release()

    def _send(self, command: str, folder: str, is_stopped: Callable[[], bool]) -> None:
        typist = PaneTypist(self._connection, self._pane, is_stopped)
        self.shell = typist.await_shell(
            START_LIMIT_S if self._connection.is_new(self._pane) else BUSY_LIMIT_S
        )
        self._await_free_pipe(is_stopped)
        files = command_files(self._folder)
        _write(files.command, f"{command}\n")
        scripts = command_scripts(
            self.shell,
            files,
            tag=self._mark_tag,
            title=command,
            folder=folder,
            variables={**self._variables, "BUDDY_JOB": self._tag.text},
        )
        for path, text in scripts.items():
            _write(path, text)
        self._await("reading", is_stopped)
        self._has_pipe = True
        to_reader = plain_format(f"exec cat > {quote(self._folder + '/out')}").replace("%", "%%")
        self._tmux.run(
            *("set-option", "-p", "-t", self._pane, _OWNER, self._tag.text, ";"),
            *("pipe-pane", "-O", "-t", self._pane, to_reader),
        )
        with self._lock:
            if is_stopped():
                raise StoppedTypingError
            self._is_sent = True  # from here on somebody may have to end it
        try:
            typist.send_line(typed_line(self.shell, files.run))
        except (ToolError, StoppedTypingError):
            self._is_sent = False
            raise
        self._await("pid", is_stopped)
        self._tree = Tree(int(self.end_words.get("pid") or 0), self._tag)  # knows when its leader was born

    def abandon(self) -> None:
        """Have `send` stop before it sends the line, if it has not yet."""
        self._is_abandoned.set()

    @property
    def end_words(self) -> ScriptReport:
        """Return what the reader said."""
        with self._lock:
            if not self._said.closed:
                data = os.pread(self._said.fileno(), MAX_SAID_BYTES, 0)
                self._report = read_report(data.decode("utf-8", "replace"), self._mark_tag)
            return self._report

    # -- what a `Child` asks of whoever confines it

    def blocked_accesses(self) -> Blocked:
        """Return nothing: no sandbox confines it."""
        return NOTHING_BLOCKED

    def ports(self) -> tuple[int, ...]:
        """Return nothing: whatever it serves, it serves to everybody."""
        return ()

    def restore_changes(self) -> None:
        """Make sure that nothing of a command that did not end by itself runs. Blocks."""
        with self._lock:
            if self._is_settled:
                return
            self._is_settled = True
            words = self.end_words
            with suppress(TmuxError):
                if self._is_sent and words.get("end") is None and words.get("interrupted") is None:
                    self._interrupt(has_pipe=words.get("gone") is None)
            with suppress(TmuxError):
                if self._has_pipe and words.get("gone") is None:
                    owner = ("set-option", "-p", "-u", "-t", self._pane, _OWNER)
                    self._tmux.run("pipe-pane", "-t", self._pane, ";", *owner)
            if words.get("gone") is not None and words.get("end") is None:
                name = self._connection.address.name
                is_there = self._connection.is_there(self._pane)
                self._loss = f"the {'pipe of the ' if is_there else ''}pane of {name} was closed"
            if self._own_window:
                self._connection.close_window(self._pane)

    def lost(self) -> str:
        """Return why nobody knows how the command ended, "" when that is known; after `restore_changes`."""
        return self._loss

    def exit_code(self, process: int | None) -> int | None:
        """Return that of the reader, which ends as the command did."""
        return process

    def finish(self) -> None:
        """Let go of what is held for it."""
        with self._lock:
            _ = self.end_words
            self._said.close()
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
            if self._own_window and not self._is_settled:
                self._connection.close_window(self._pane)

    # -- internals

    def _await_free_pipe(self, is_stopped: Callable[[], bool]) -> None:
        """Wait a moment for the pipe of a command that just ended, and end that of a buddy that was killed;
        leave the pipe of anybody else alone."""
        deadline = time.monotonic() + FREE_PIPE_S
        while self._tmux.look(self._pane).state.is_piped:
            owner = self._tmux.run("show-options", "-p", "-q", "-v", "-t", self._pane, _OWNER).strip()
            if owner and not owner_runs(owner):
                self._tmux.run("pipe-pane", "-t", self._pane)
            if is_stopped():
                raise StoppedTypingError
            if time.monotonic() >= deadline:
                raise ToolError(
                    "the output of the pane already goes to another program (pipe-pane), perhaps another "
                    "buddy; nothing was typed. It ends with: tmux pipe-pane"
                )
            time.sleep(POLL_S)

    def _await(self, word: str, is_stopped: Callable[[], bool]) -> None:
        """Wait until the reader says a word. Raises `ToolError`."""
        deadline = time.monotonic() + READY_LIMIT_S
        while self.end_words.get(word) is None:
            if is_stopped():
                raise StoppedTypingError
            if time.monotonic() >= deadline or self.end_words.get("gone") is not None:
                raise ToolError(
                    f"pane {self._pane} did not begin with the command; capture_pane shows what it does"
                )
            time.sleep(POLL_S)

    def _interrupt(self, *, has_pipe: bool) -> None:
        """End the command: C-c, then TERM and KILL to everything it started; the shell stays."""
        is_there = self._connection.is_there(self._pane)
        if is_there and not has_pipe:
            return  # somebody ended the pipe of the pane, which says nothing about the command
        # Cancelled before its shell was known: then what it started is known by the tag alone.
        tree = self._tree or Tree(0, self._tag)
        if is_there:
            self._tmux.paste(self._pane, "\x03")
        if not (is_there and self._is_over(tree, INTERRUPT_S)):
            self._end_all(tree)
        if is_there:
            with suppress(ToolError):  # a killed editor leaves its screen behind
                PaneTypist(self._connection, self._pane, lambda: False).await_shell(TERMINATE_S)

    def _end_all(self, tree: Tree) -> None:
        """Send TERM, then KILL to everything the command started."""
        if not _signal(tree, tree.terminate) and _is_quiet(tree, SETTLE_S):
            return
        if not _is_quiet(tree, TERMINATE_S):
            deadline = time.monotonic() + KILL_S
            while _signal(tree, tree.kill) and time.monotonic() < deadline:
                time.sleep(POLL_S)
            self.survivors = tuple(process.pid for process in tree.living())

    def _is_over(self, tree: Tree, limit_s: float) -> bool:
        """Wait until nothing of the command runs and the shell waits again, at two looks: what was born just
        before the first carries the tag at the second."""
        deadline = time.monotonic() + limit_s
        quiet_looks = 0
        while quiet_looks < 2:
            if time.monotonic() >= deadline:
                return False
            time.sleep(SETTLE_S)
            tree.living()
            view = self._tmux.look(self._pane)
            is_quiet = tree.is_quiet and (bool(waiting_shell(view)) or has_screen_left(view))
            quiet_looks = quiet_looks + 1 if is_quiet else 0
        return True


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _signal(tree: Tree, send: Callable[[], list[ProcessInfo]]) -> list[ProcessInfo]:
    """Send signals to a command. Its shell is no child of buddy: once it has ended, its number can be that of
    another group."""
    if tree.leader is None or is_same(tree.leader) is None:
        tree.leader_reaped = True
    return send()


def _is_quiet(tree: Tree, limit_s: float) -> bool:
    """Wait until nothing of a command runs; tell whether that came true in time."""
    deadline = time.monotonic() + limit_s
    while True:
        tree.living()
        if tree.is_quiet:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
