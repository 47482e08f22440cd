"""A session's network namespace, and the ports its commands serve in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys

from buddy.agent.cancel import on_failure
from buddy.workspace.processes.process_tree import all_processes, tag_number

DOOR_PORT = 3128
_OPEN_WITHIN_S = 5.0
_MESSAGE_BYTES = 32


class SandboxNetwork:
    """The namespace, held by its own process until `close`, or until buddy is gone and with it the other end
    of `channel`."""

    def __init__(
        self, holder: subprocess.Popen[bytes], pid: int, listener: socket.socket, channel: socket.socket
    ) -> None:
        self._holder = holder
        self._channel = channel
        self._pid = pid
        self.listener = listener

    def enter_argv(self, nsenter: str) -> tuple[str, ...]:
        """Return the words that run a command in the namespace."""
        return (nsenter, "--preserve-credentials", f"--target={self._pid}", "--user", "--net", "--")

    def can_enter(self, nsenter: str) -> bool:
        """Try to run a program in the namespace; not every system allows it. Blocks for some milliseconds."""
        try:
            done = subprocess.run(
                (*self.enter_argv(nsenter), "true"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_OPEN_WITHIN_S,
                check=False,
                env={"PATH": "/usr/bin:/bin"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    @property
    def is_open(self) -> bool:
        """Tell whether the holder process still runs."""
        return self._holder.poll() is None

    def close(self) -> None:
        """End the holder; the namespace ends with its last process."""
        self.listener.close()
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            self._holder.send_signal(signal.SIGKILL)
        self._holder.wait()


async def open_network(bubblewrap: str) -> SandboxNetwork:
    """Make a network namespace. Raises `OSError` when the system refuses. Call it on the event loop's thread:
    the holder dies with the thread that started it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with on_failure(ours.close):
        with theirs:
            holder = subprocess.Popen(  # noqa: ASYNC220 - some milliseconds, and it must be this thread
                _holder_argv(bubblewrap, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        with on_failure(_end, holder):
            pid, listener = await asyncio.to_thread(_receive, ours)
            return SandboxNetwork(holder, pid, listener, ours)


def _holder_argv(bubblewrap: str, descriptor: int) -> tuple[str, ...]:
    door = os.path.join(os.path.dirname(__file__), "door.py")
    return (
        *(bubblewrap, "--unshare-user", "--unshare-net", "--die-with-parent"),
        # Not `--dev`: for its terminals bubblewrap makes a second user namespace inside the first one unless
        # the user is root, and from there nobody may enter the network's.
        *("--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--"),
        *(sys.executable, "-I", "-S", door, str(descriptor), str(DOOR_PORT)),
    )


def _receive(channel: socket.socket) -> tuple[int, socket.socket]:
    """Wait for the holder's message. Raises `OSError` when it ends without one."""
    channel.settimeout(_OPEN_WITHIN_S)
    message, descriptors, _flags, _from = socket.recv_fds(channel, _MESSAGE_BYTES, 1)
    if not message or not descriptors:
        raise OSError("the network namespace could not be made")
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    os.set_inheritable(listener.fileno(), False)
    return int(message), listener


def _end(holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.wait()


_LISTENS = b"0A"


def find_ports(leader: int, number: int) -> tuple[int, ...]:
    """Return the TCP ports that processes marked with `number` listen on; `leader` is one of them."""
    listening = _listening(leader)
    if not listening:
        return ()
    sockets = {socket for pid in all_processes() if tag_number(pid) == number for socket in _sockets(pid)}
    return tuple(sorted({port for socket, port in listening.items() if socket in sockets}))


def _listening(pid: int) -> dict[str, int]:
    """Return the listening sockets of a process's network namespace: ports by inode."""
    found: dict[str, int] = {}
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", "rb") as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for fields in (line.split() for line in lines):
            if len(fields) > 9 and fields[3] == _LISTENS:
                found[fields[9].decode()] = int(fields[1].rpartition(b":")[2], 16)
    return found


def _sockets(pid: int) -> set[str]:
    try:
        targets = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return set()
    return {target[8:-1] for target in targets if target.startswith("socket:[")}
