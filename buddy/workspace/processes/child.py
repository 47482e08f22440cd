"""One running command: its output and its stderr are read, its end is noticed, its tree can be ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Protocol

import msgspec

from buddy.agent.tool import NOTHING_BLOCKED, Blocked
from buddy.workspace.processes.output import OutputLog
from buddy.workspace.processes.process_tree import Tag
from buddy.workspace.processes.termination import Ending, Tree, end_tree, to_the_end
from buddy.workspace.sandbox.network import find_ports

READ_BYTES = 16 * 1024
"""As much as is looked through for secrets at a time: what a command floods must not hold up the keys."""
DRAINED_BYTES = 1024 * 1024
SHORT_READ_BYTES = 512  # a terminal gives at most 4 kB at a time, however much there is
BREATH_S = 0.005
"""Pause after short reads that follow each other closely, so that a program writing single bytes costs 200
wake-ups a second and not 100,000."""

LINGER_S = 0.5
"""How long output is waited for after the shell ended while something else holds its pipe."""

POLL_S = 0.02

NAMESPACE_ENDS_S = 0.1
"""How long the first process of a PID namespace may take to end after the command's shell did. What still
runs then was left running."""
NAMESPACE_POLL_S = 0.0005
"""The first pause of that waiting; each further one is half as long again."""


class Exit(msgspec.Struct, frozen=True):
    """Outcome of a command's shell. `code` is None when a signal ended it (`signal` names it).
    `left_running`: processes it started still run. `stopped_for`: the reason buddy ended it, "" when it did
    not. `lost`: why nobody knows how it ended, on another machine; its local client's code is not its own."""

    code: int | None
    signal: str
    seconds: float
    left_running: bool
    stopped_for: str
    lost: str = ""


class Launched(msgspec.Struct, frozen=True):
    """A process that was just started and the descriptor its output comes from, which `Child` owns."""

    process: subprocess.Popen[bytes]
    descriptor: int
    tag: Tag


class ConfinedChild(Protocol):
    """The holder of one command: the sandbox, or the other machine it runs on."""

    def blocked_accesses(self) -> Blocked:
        """Return what the sandbox refused it so far."""
        ...

    def ports(self) -> tuple[int, ...]:
        """Return the ports it serves inside."""
        ...

    def restore_changes(self) -> None:
        """Restore the protected names it changed. Blocks."""
        ...

    def lost(self) -> str:
        """Return why nobody knows how it ended, "" when that is known; after `restore_changes`."""
        ...

    def exit_code(self, process: int | None) -> int | None:
        """Return its exit code, given that of the process of this machine; negative for a signal, None when
        nobody knows it. After `restore_changes`."""
        ...

    def finish(self) -> None:
        """Let go of what is held for it."""
        ...


class Child:
    """A command from its start until nothing of it is left. Made on the event loop's thread. `select` returns
    the part of what it writes that is its output; without it that is all."""

    def __init__(
        self,
        launched: Launched,
        log: OutputLog,
        *,
        grace_s: float,
        confined: ConfinedChild | None = None,
        select: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.log = log
        self._select = select
        self.listeners: list[Callable[[bytes], None]] = []
        self.tree = Tree(launched.process.pid, launched.tag)
        self._process = launched.process
        self._descriptor = launched.descriptor
        self._grace_s = grace_s
        self._begin = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._seconds = 0.0
        self._ended_at = 0.0
        self._closed_at = 0.0
        self._last_read = 0.0
        self._stopped_for = ""
        self._is_settling = False
        self._namespace_poll_s = NAMESPACE_POLL_S
        self._ending: asyncio.Task[Ending] | None = None
        self._settled: asyncio.Future[Exit] = self._loop.create_future()
        self.is_closed = False
        self._confined = confined
        self._restoring: asyncio.Task[None] | None = None
        self._pidfd = -1
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._descriptor, self._readable)
        self._watch_exit()

    @property
    def pid(self) -> int:
        """Return the shell's process id; also the id of its group and session."""
        return self._process.pid

    @property
    def exit(self) -> Exit | None:
        """Outcome of the shell; None while it runs or its last output is still being read."""
        return self._settled.result() if self._settled.done() else None

    @property
    def seconds(self) -> float:
        """Return the running time of the shell, final once it ended."""
        return self._seconds or time.monotonic() - self._begin

    @property
    def age_s(self) -> float:
        """Return the seconds since the start, up to the end of the command's last process."""
        return (self._closed_at or time.monotonic()) - self._begin

    @property
    def blocked_accesses(self) -> Blocked:
        """Return the accesses the sandbox has refused so far; none for a command outside it."""
        return self._confined.blocked_accesses() if self._confined else NOTHING_BLOCKED

    @property
    def ports_inside(self) -> tuple[int, ...]:
        """Return the ports it serves that only sandboxed commands can reach."""
        return self._confined.ports() if self._confined and not self.is_closed else ()

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports it serves, wherever that is. Walks over all processes."""
        if self.is_closed:
            return ()
        if self._confined is not None:
            return self._confined.ports()
        return find_ports(os.getpid(), self.tree.tag.number)

    def duplicate_descriptor(self) -> int:
        """Return another descriptor of what the output comes from, for typing into a terminal; the caller's
        to close. -1 when the output has ended."""
        return os.dup(self._descriptor) if self._descriptor >= 0 else -1

    async def wait(self) -> Exit:
        """Return the shell's end, at most half a second after it ended. Cancelling only ends the waiting."""
        return await asyncio.shield(self._settled)

    async def wait_all(self) -> None:
        """Wait until the shell and everything it left running has ended and the output is closed."""
        await self.wait()
        while self.tree.left_running() or self.tree.living():  # noqa: ASYNC110 - nothing announces their end
            await asyncio.sleep(0.25)
        await self._read_rest()
        await self._restore_changes()
        self.close()

    def stop(self, why: str) -> asyncio.Task[Ending]:
        """Begin to end the whole tree, once; the task is done when nothing of it is left."""
        if self._ending is None:
            self._stopped_for = why
            self._ending = self._loop.create_task(self._end())
        return self._ending

    async def end(self, why: str) -> Ending:
        """End the whole tree and everything held for it. Runs to its end even if the caller is cancelled."""
        return await to_the_end(self.stop(why))

    async def _end(self) -> Ending:
        ending = await end_tree(self.tree, grace_s=self._grace_s)
        self._note_shell_end()
        await self._read_rest()
        await self._restore_changes()
        self.close()
        self._settle()
        return ending

    async def _read_rest(self) -> None:
        """Read what a tree that ended left in its pipe: its end can be noticed before the loop looked at the
        pipe again."""
        self._drain()
        while self.log.catch_up():  # noqa: ASYNC110 - a slice of work each time, not a wait
            await asyncio.sleep(0)

    async def _restore_changes(self) -> None:
        """Have the sandbox look at what the command left behind; again, when something of it ran on."""
        if self._confined is not None and not self.is_closed:
            self._restoring = self._loop.create_task(asyncio.to_thread(self._confined.restore_changes))
            await self._restoring

    # The end of the shell

    def _watch_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (OSError, AttributeError):  # not Linux, or no descriptors left: ask again and again
            self._loop.call_later(POLL_S, self._poll_exit)
            return
        self._loop.add_reader(self._pidfd, self._note_shell_end)

    def _poll_exit(self) -> None:
        if self._process.poll() is None:
            self._loop.call_later(POLL_S, self._poll_exit)
        else:
            self._note_shell_end()

    def _note_shell_end(self) -> None:
        if self._process.poll() is None or self.tree.leader_reaped:
            return
        self.tree.leader_reaped = True
        self._ended_at = time.monotonic()
        self._seconds = self._ended_at - self._begin
        self._drop_pidfd()
        self._drain()
        if self._descriptor < 0:
            self._settle()
        else:
            self._timer = self._loop.call_later(LINGER_S, self._settle)

    def _drop_pidfd(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _settle(self, *, again: bool = False) -> None:
        if self._settled.done() or (self._is_settling and not again):
            return
        if self.log.catch_up():  # the result says where the whole is: it is there by then
            self._is_settling = True
            self._loop.call_soon(partial(self._settle, again=True))
            return
        code = self._process.returncode  # None: not even KILL ended it, the system holds it
        left = self._ending is None and (self.tree.left_running() or self._descriptor >= 0)
        if left and self._confined is not None and time.monotonic() < self._ended_at + NAMESPACE_ENDS_S:
            self._is_settling = True
            self._loop.call_later(self._namespace_poll_s, partial(self._settle, again=True))
            self._namespace_poll_s *= 1.5
            return
        if self._confined is not None and (self._restoring is None or not self._restoring.done()):
            self._is_settling = True
            if self._restoring is None:
                self._restoring = self._loop.create_task(asyncio.to_thread(self._confined.restore_changes))
            self._restoring.add_done_callback(lambda _done: self._settle(again=True))
            return
        lost = ""
        if self._confined is not None:
            code = self._confined.exit_code(code)
            lost = self._confined.lost() if not self._stopped_for else ""
        if lost:
            code = None
        self._settled.set_result(
            Exit(
                code=code if code is not None and code >= 0 else None,
                signal=_signal_name(-code) if code is not None and code < 0 else "",
                seconds=self.seconds,
                left_running=left,
                stopped_for=self._stopped_for,
                lost=lost,
            )
        )
        if not left:
            self.close()

    # Its output

    def _readable(self) -> None:
        if self.log.catch_up():  # a command that is quicker than the disk, or than the search, waits
            return
        count = self._read_once()
        now = time.monotonic()
        if 0 < count < SHORT_READ_BYTES and now - self._last_read < BREATH_S and self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._loop.call_later(BREATH_S, self._breathe_in)
        self._last_read = now

    def _breathe_in(self) -> None:
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._readable)

    def _drain(self) -> None:
        """Read what is there now; bounded, since a grandchild may go on writing."""
        for _ in range(DRAINED_BYTES // READ_BYTES):
            if self._descriptor < 0 or self._read_once() <= 0:
                return

    def _read_once(self) -> int:
        """Return bytes read: 0 at the end, -1 when there is nothing now."""
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError:  # a terminal whose last user is gone answers EIO
            data = b""
        if not data:
            self._drop_descriptor()
            if self.tree.leader_reaped:
                self._settle()
            return 0
        count = len(data)
        if self._select is not None:
            data = self._select(data)
        if data:
            self.log.add(data)
            for listener in self.listeners:
                listener(data)
        if self.log.over_cap and self._ending is None:
            self.stop("output limit")
        return count

    def _drop_descriptor(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        """Let go of everything held for the command."""
        self._drop_descriptor()
        self._drop_pidfd()
        if self._timer is not None:
            self._timer.cancel()
        if self.tree.leader_reaped:
            self._settle()
        self.log.close()
        if self._confined is not None and not self.is_closed:
            self._confined.finish()
        self.is_closed = True
        self._closed_at = self._closed_at or time.monotonic()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


REMARK_READ_BYTES = 64 * 1024
KEPT_BYTES = 16 * 1024
"""The beginning is kept; the rest is read, so that the program never waits, and forgotten."""


class Remarks:
    """A pipe to give to a program as its stderr. Used as `with`, around the program's whole life, on the
    event loop's thread."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._read)

    def __enter__(self) -> Remarks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_writer()
        self._stop()

    def close_writer(self) -> None:
        """Close our end of the pipe after the program got its own, so that the pipe ends with the program."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def text(self) -> str:
        """Return the stderr text captured so far."""
        self._read()
        return self._kept.decode("utf-8", "replace")

    def _read(self) -> None:
        if self._reading < 0:
            return
        try:
            data = os.read(self._reading, REMARK_READ_BYTES)
        except BlockingIOError:
            return
        self._kept += data[: KEPT_BYTES - len(self._kept)]
        if not data:
            self._stop()

    def _stop(self) -> None:
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
