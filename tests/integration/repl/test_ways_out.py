"""Every way out on a real terminal: the line discipline and the modes are as they were before."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from buddy.repl.exit import ask_before_leaving
from buddy.repl.render.numbers import running_name

DEADLINE_S = 50.0
CHILD = Path(__file__).parents[2] / "support" / "pty_child.py"
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with open(sys.argv[1], "w") as file:
    file.write(str(pid))
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""
"""What a shell does: a session leader that runs the program as the foreground job. Without one the kernel
ignores SIGTSTP."""
ROOT = Path(__file__).parents[3]


class Child:
    """The program on a pty of ours, in a session of its own."""

    def __init__(self, mode: str, log: Path) -> None:
        self.log = log
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHELL, f"{log}.pid", str(CHILD), mode, str(log)],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "VI": "1"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    @property
    def pid(self) -> int:
        """The program's process."""
        return int(Path(f"{self.log}.pid").read_text())

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def read(self) -> None:
        while self.master >= 0 and select.select([self.master], [], [], 0.02)[0]:
            try:
                self.output += os.read(self.master, 65536)
            except OSError:
                return

    def until(self, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not claim():
            self.read()
            if time.monotonic() > deadline or (self.process.poll() is not None and not claim()):
                raise AssertionError(f"never true; output {self.output[-600:]!r}, log {self.logged()!r}")

    def logged(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def exit_code(self) -> int:
        self.until(lambda: self.process.poll() is not None)
        self.read()
        return self.process.returncode

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def assert_restored(self) -> None:
        """Modes as before; whatever was switched on was switched off last."""
        assert termios.tcgetattr(self.slave) == self.before
        for number, wanted in ((b"2004", b"l"), (b"25", b"h"), (b"7", b"h"), (b"2026", b"l")):
            switches = re.findall(rb"\x1b\[\?" + number + rb"([hl])", self.output)
            assert not switches or switches[-1] == wanted, (number, switches[-3:])
        assert self.output.rindex(b"\x1b[0m") > self.output.rindex(b"\x1b[?2026l") - 200
        assert self.progress()[-1:] == [b"0"]
        assert re.findall(rb"\x1b\[(\d) q", self.output)[-1:] == [b"0"]  # the cursor's shape
        assert self.output.count(b"\x1b[22;2t") == self.output.count(b"\x1b[23;2t") == 1

    def progress(self) -> list[bytes]:
        """The marks of work going on, in order."""
        return re.findall(rb"\x1b\]9;4;([0-9;]+)\x07", self.output)

    def close(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self.process.kill()
        self.process.wait()
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def start(tmp_path: Path) -> Generator[Callable[[str], Child], None, None]:
    started: list[Child] = []

    def run(mode: str) -> Child:
        child = Child(mode, tmp_path / f"log-{len(started)}")
        started.append(child)
        child.until(lambda: child.is_raw() and "❯".encode() in child.output)
        return child

    yield run
    for child in started:
        child.close()


def test_leaving_with_ctrl_d_restores_the_terminal(start: Callable[[str], Child]) -> None:
    child = start("quiet")
    child.type("\x04")
    assert child.exit_code() == 0
    child.assert_restored()


@pytest.mark.parametrize("mode", ["quiet", "stream"])
@pytest.mark.parametrize(
    ("number", "ending"),
    [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "hangup"), (signal.SIGQUIT, "terminated")],
    ids=["TERM", "HUP", "QUIT"],
)
def test_REL_056_a_signal_ends_it_with_the_terminal_restored(
    start: Callable[[str], Child], mode: str, number: signal.Signals, ending: str
) -> None:
    child = start(mode)
    child.signal(number)
    assert child.exit_code() == 1
    child.assert_restored()
    assert f"ended {ending}" in child.logged()


def test_REL_056_a_hundred_interrupts_end_it_restored(
    start: Callable[[str], Child],
) -> None:
    child = start("quiet")
    child.signal(signal.SIGINT)
    child.until(lambda: b"Ctrl+C again exits" in child.output)

    def interrupt() -> None:
        with contextlib.suppress(ProcessLookupError):
            child.signal(signal.SIGINT)

    for _ in range(100):
        interrupt()
    again_at = time.monotonic() + 0.5

    def gone() -> bool:
        """Signals that come together are delivered once, and on a busy machine two seconds are soon over: a
        person would press again."""
        nonlocal again_at
        if time.monotonic() > again_at:
            interrupt()
            again_at = time.monotonic() + 0.5
        return child.process.poll() is not None

    child.until(gone)
    child.exit_code()  # 0, or an interrupt after the screen was put away
    assert "ended left" in child.logged() or child.process.returncode != 0
    child.assert_restored()


@pytest.mark.parametrize("mode", ["quiet", "stream"])
def test_REL_057_suspended_the_terminal_is_the_shells_and_comes_back(
    start: Callable[[str], Child], mode: str
) -> None:
    child = start(mode)
    child.type("my draft")
    child.until(
        lambda: (
            b"t" in child.output[-400:] and b"draft" in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", child.output)
        )
    )
    child.type("\x1a")
    child.until(lambda: stopped(child.pid))
    child.read()
    assert termios.tcgetattr(child.slave)[:4] == child.before[:4]
    assert child.progress() == ([b"3", b"0"] if mode == "stream" else [])
    assert re.findall(rb"\x1b\[\?2004([hl])", child.output)[-1] == b"l"
    mark = len(child.output)
    os.killpg(child.pid, signal.SIGCONT)
    child.until(lambda: child.is_raw() and b"my draft" in child.output[mark:])
    if mode == "stream":
        child.until(lambda: child.progress()[2:] == [b"3"])
    assert re.findall(rb"\x1b\[\?2004([hl])", child.output)[-1] == b"h"
    child.signal(signal.SIGTERM)
    child.exit_code()
    child.assert_restored()


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_REL_057_a_stop_signal_from_outside_is_a_suspend(start: Callable[[str], Child]) -> None:
    child = start("stream")
    child.signal(signal.SIGTSTP)
    child.until(lambda: stopped(child.pid))
    assert termios.tcgetattr(child.slave)[:4] == child.before[:4]
    mark = len(child.output)
    child.signal(signal.SIGCONT)
    child.until(lambda: child.is_raw() and "❯".encode() in child.output[mark:])
    child.signal(signal.SIGTERM)
    child.exit_code()
    child.assert_restored()


def test_REL_057_killed_while_suspended_leaves_a_usable_terminal(start: Callable[[str], Child]) -> None:
    child = start("quiet")
    child.type("\x1a")
    child.until(lambda: stopped(child.pid))
    child.signal(signal.SIGKILL)
    child.process.wait()
    assert termios.tcgetattr(child.slave)[:4] == child.before[:4]


@pytest.mark.parametrize("mode", ["quiet", "stream"])
def test_REL_059_a_closed_terminal_ends_it_cleanly(start: Callable[[str], Child], mode: str) -> None:
    child = start(mode)
    os.close(child.slave)
    os.close(child.master)
    child.master = child.slave = -1
    child.until(lambda: child.process.poll() is not None)
    assert child.process.returncode == 1
    assert re.search(r"ended (gone|hangup)", child.logged())


@pytest.mark.parametrize(
    ("mode", "error"), [("crash", b"ZeroDivisionError"), ("crash_source", b"RuntimeError")]
)
def test_REL_060_an_uncaught_error_restores_the_terminal_and_is_raised(
    start: Callable[[str], Child], mode: str, error: bytes
) -> None:
    child = start(mode)
    if mode == "crash":
        child.type("x\r")
    assert child.exit_code() == 1
    assert error in child.output
    child.assert_restored()


def test_prints_of_anybody_go_to_the_log(start: Callable[[str], Child]) -> None:
    child = start("print")
    child.until(lambda: "an error" in child.logged())
    child.type("\x04")
    child.exit_code()
    assert "to nobody\nan error\n" in child.logged()
    assert b"to nobody" not in child.output


def test_REL_058_a_storm_of_sizes_leaves_a_whole_screen(
    start: Callable[[str], Child],
) -> None:
    child = start("stream")
    child.until(lambda: b"word300 " in child.output)
    for columns, rows in [(1, 1), (500, 200), (3, 2), (20, 5), (132, 50), (2, 40), (80, 1), (61, 17)] * 4:
        fcntl.ioctl(child.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        child.signal(signal.SIGWINCH)
        child.read()
    mark = len(child.output)
    child.until(lambda: b"\x1b[2K" in child.output[mark:])
    child.until(lambda: ("─" * 60).encode() in child.output[mark:])
    assert ("─" * 61).encode() not in child.output[mark:].rpartition(b"\x1b[2K")[2]
    child.signal(signal.SIGTERM)
    assert child.exit_code() == 1
    child.assert_restored()


@pytest.mark.parametrize(
    ("running", "question"),
    [
        (["task 1"], "Task 1 is running. Ctrl+D again within 10 s ends it and exits."),
        (
            [running_name("task 2", "write\ntests")],
            "Task 2 (write tests) is running. Ctrl+D again within 10 s ends it and exits.",
        ),
        (
            ["task 2 (a)", "job 1 (b)"],
            "Task 2 (a) and job 1 (b) are running. Ctrl+D again within 10 s ends them and exits.",
        ),
        (
            [*(f"task {n}" for n in (1, 2, 3)), "job 1 (d)", "! make"],
            "Task 1, task 2, task 3 and 2 more are running. Ctrl+D again within 10 s ends them and exits.",
        ),
    ],
)
def test_the_question_before_leaving_names_the_tasks_that_run(running: list[str], question: str) -> None:
    assert ask_before_leaving(running, "Ctrl+D") == question
