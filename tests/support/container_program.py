"""A stand-in for docker: `exec` of a client that talks to a daemon, as docker's does, on a machine without
containers. A container is a name and a state; its programs are processes of this machine.

`serve SOCKET SHELL` is the daemon: SHELL takes the place of /bin/sh. Any other command line is the client's,
with the socket in `STAND_IN_SOCKET`. As with docker, the death of a client ends the input of what it started,
and nothing else; `stop` kills every process of the container, whatever its session.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

MARK = "STAND_IN_CONTAINER"
OUT, ERRORS, EXIT = 1, 2, 3
PIECE = 65_536
REFUSALS = {
    "none": "Error response from daemon: No such container: {}",
    "exited": "Error response from daemon: container {} is not running",
    "paused": "Error response from daemon: Container {} is paused, unpause the container before exec",
}


def main(arguments: list[str]) -> int:
    """Run the daemon or the client."""
    if arguments[:1] == ["serve"]:
        return Daemon(arguments[1], arguments[2]).serve()
    if arguments[:1] == ["on-terminal"]:  # opening it makes it the session's
        os.close(os.open(arguments[1], os.O_RDWR))
        os.execvp(arguments[2], arguments[2:])
    return Client(os.environ["STAND_IN_SOCKET"]).run(arguments)


class Daemon:
    """The one who owns the containers. Test code changes a state with the request `{"state": …}`."""

    def __init__(self, path: str, shell: str) -> None:
        self._shell = shell
        self._path = path
        self._states: dict[str, str] = {}
        self._lock = threading.Lock()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen(64)

    def serve(self) -> int:
        """Serve until it is killed."""
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = json.loads(_line(connection))
            name = request["name"]
            if "state" in request:
                with self._lock:
                    self._states[name] = request["state"]
                    if request["state"] in ("none", "exited"):
                        _kill_all(self._mark(name))
                connection.sendall(b"done\n")
                return
            with self._lock:  # nothing begins while the container is being stopped
                state = self._states.get(name, "none")
                process = self._start(name, request) if state == "running" else None
            if process is None:
                _send(connection, threading.Lock(), ERRORS, f"{REFUSALS[state].format(name)}\n".encode())
                _send(connection, threading.Lock(), EXIT, b"\x01")
                return
            _relay(connection, process)

    def _mark(self, name: str) -> str:
        """Return a value that no other daemon has."""
        return f"{name}@{self._path}"

    def _start(self, name: str, request: dict[str, Any]) -> Running:
        argv = [word.replace("/bin/sh", self._shell) for word in request["command"]]
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment |= {MARK: self._mark(name), **request["environment"]}
        if request["tty"]:
            return _start_on_terminal(argv, environment)
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
        )  # in the daemon's session, as podman starts it
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        return Running(
            process, process.stdin.fileno(), {OUT: process.stdout.fileno(), ERRORS: process.stderr.fileno()}
        )


class Running:
    """A process of a container, and this side of its streams. Those of a terminal are the same one."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: dict[int, int]) -> None:
        self.process, self.to, self.back = process, to, back

    @property
    def has_terminal(self) -> bool:
        """Tell whether it runs on a terminal."""
        return self.to == self.back[OUT]


def _start_on_terminal(argv: list[str], environment: dict[str, str]) -> Running:
    """Start a program on a terminal that it leads the session of, as docker does."""
    ours, theirs = os.openpty()
    take = [sys.executable, "-S", "-E", __file__, "on-terminal", os.ttyname(theirs)]
    process = subprocess.Popen(
        [*take, *argv],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    os.close(theirs)
    return Running(process, ours, {OUT: ours})


def _relay(connection: socket.socket, running: Running) -> None:
    lock = threading.Lock()
    readers = [
        threading.Thread(target=_forward, args=(connection, lock, kind, number), daemon=True)
        for kind, number in running.back.items()
    ]
    feeder = threading.Thread(target=_feed, args=(connection, running), daemon=True)
    for thread in (*readers, feeder):
        thread.start()
    code = running.process.wait()
    for reader in readers:
        reader.join()
    with contextlib.suppress(OSError):
        _send(connection, lock, EXIT, bytes(((128 - code) if code < 0 else code,)))
        connection.shutdown(socket.SHUT_RDWR)


def _feed(connection: socket.socket, running: Running) -> None:
    with contextlib.suppress(OSError):
        while piece := connection.recv(PIECE):
            view = memoryview(piece)
            while view:
                view = view[os.write(running.to, view) :]
    if not running.has_terminal and running.process.stdin is not None:
        with contextlib.suppress(OSError):
            running.process.stdin.close()  # a terminal stays, as docker's does


def _forward(connection: socket.socket, lock: threading.Lock, kind: int, number: int) -> None:
    is_open = True
    with contextlib.suppress(OSError):  # the end of a terminal is one
        while piece := os.read(number, PIECE):
            if is_open:
                try:
                    _send(connection, lock, kind, piece)
                except OSError:
                    is_open = False  # the client is gone; the program may go on writing


def _send(connection: socket.socket, lock: threading.Lock, kind: int, data: bytes) -> None:
    with lock:
        connection.sendall(struct.pack(">BI", kind, len(data)) + data)


def _line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = connection.recv(1)
        if not piece:
            raise OSError("it ended")
        line += piece
    return line


def _kill_all(value: str) -> None:
    """Kill every process of a container, as the end of its cgroup does."""
    mark = f"{MARK}={value}".encode()
    while pids := [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has(pid, mark)]:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _has(pid: int, mark: bytes) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return mark in file.read().split(b"\0")
    return False


class Client:
    """The program a person would call."""

    def __init__(self, path: str) -> None:
        self._path = path

    def run(self, arguments: list[str]) -> int:
        """Run `exec [--interactive] [--tty] [--detach-keys=KEYS] [--user USER] [--env=NAME=VALUE] NAME …`."""
        if arguments[:1] != ["exec"]:
            sys.stderr.write(f"unknown command {arguments[:1]}\n")
            return 125
        rest = arguments[1:]
        environment: dict[str, str] = {}
        has_terminal = False
        while rest and rest[0].startswith("-"):
            has_terminal = has_terminal or rest[0] == "--tty"
            if rest[0].startswith("--env="):
                name, _, value = rest[0][6:].partition("=")
                environment[name] = value
            rest = rest[2:] if rest[0] == "--user" else rest[1:]
        if has_terminal and not os.isatty(0):
            sys.stderr.write("the input device is not a TTY\n")
            return 1
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._path)
        except OSError:
            sys.stderr.write(f"Cannot connect to the Docker daemon at unix://{self._path}.\n")
            return 1
        connection.sendall(
            json.dumps(
                {"name": rest[0], "command": rest[1:], "tty": has_terminal, "environment": environment}
            ).encode()
            + b"\n"
        )
        threading.Thread(target=self._send_input, args=(connection,), daemon=True).start()
        return self._copy_output(connection)

    def _send_input(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(0, PIECE):
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)

    def _copy_output(self, connection: socket.socket) -> int:
        stream = connection.makefile("rb")
        while len(head := stream.read(5)) == 5:
            kind, size = struct.unpack(">BI", head)
            data = stream.read(size)
            if kind == EXIT:
                return data[0]
            with contextlib.suppress(OSError):
                view = memoryview(data)
                while view:
                    view = view[os.write(kind, view) :]
        return 137


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a thread may still wait for its input
