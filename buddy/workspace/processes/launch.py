"""Starting a process: its own session, nothing to read from, one descriptor for all it writes.

`subprocess` uses vfork when no code has to run between fork and exec, so starting costs about a millisecond
however big buddy is; that happens on the event loop's thread, because a sandbox that dies with its parent
dies with the thread that started it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.tool import ToolError
from buddy.workspace.processes.child import Launched
from buddy.workspace.processes.environment import TRUSTED_PATH
from buddy.workspace.processes.limits import end_children_first, fix_limits, tag_children
from buddy.workspace.processes.pids_group import PidsGroup
from buddy.workspace.processes.process_tree import Tag

if sys.platform != "win32":
    import fcntl
    import struct
    import termios
    import tty

PIPE_BYTES = 1 << 20
"""Asked of the system for a pipe, so that fast writers cost few wake-ups; it may give less."""


class TerminalSize(msgspec.Struct, frozen=True):
    """A terminal's size in character cells."""

    columns: int = 80
    rows: int = 24


class Launch(msgspec.Struct, frozen=True):
    """Everything `exec` needs. `processes`: with so many processes of the user, it can start no more;
    `data_bytes`: the memory each process may use; `is_expendable`: the system may end it before others when
    memory runs out; `group` bounds root's processes; `stdin`: a descriptor to read from, nothing to read for
    -1."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    processes: int | None = None
    data_bytes: int | None = None
    is_expendable: bool = False
    stdin: int = -1
    group: PidsGroup | None = None


Start = Callable[[Callable[[], None]], subprocess.Popen[bytes]]
"""Starts a process, and calls a function immediately before, in the same thread."""
Starter = Callable[[Start, str], subprocess.Popen[bytes]]
"""Calls the function that starts a process: directly, or in a thread that confines itself first. The text is
the path of the command's terminal, "" for none."""


def start_directly(start: Start, _terminal: str) -> subprocess.Popen[bytes]:
    """Start a process in this thread."""
    return start(_nothing)


def _nothing() -> None:
    return


def trusted_program(name: str, path: str = "", workspace: str = "") -> str | None:
    """Return a program from the fixed trusted directories, else from `path` without anything relative or
    inside the workspace."""
    import shutil  # here: 2 ms, with the compressors it knows, that a start need not pay

    found = shutil.which(name, path=":".join(TRUSTED_PATH))
    if found or not path:
        return found
    outside = path_outside(path, workspace)
    return shutil.which(name, path=outside) if outside else None


def path_outside(path: str, workspace: str) -> str:
    """Return a PATH without anything relative or inside the workspace, where a project may have put
    programs."""
    return ":".join(
        directory
        for directory in path.split(":")
        if directory.startswith("/") and not _is_beneath(os.path.realpath(directory), workspace)
    )


def _is_beneath(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))


def bash_path() -> str:
    """Return the trusted bash. Raises `ToolError` where there is none."""
    found = trusted_program("bash")
    if found is None:
        raise ToolError(f"expected bash in {', '.join(TRUSTED_PATH)}, found none; install bash")
    return found


def shell_argv(command: str) -> tuple[str, ...]:
    """Return the one way commands are run: no profile, no start-up file, so that what was judged is what
    runs."""
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which no command line can")
    return (bash_path(), "--noprofile", "--norc", "-c", command)


def launch_with_pipe(
    launch: Launch, tag: Tag, *, errors: int = -1, starter: Starter = start_directly
) -> Launched:
    """Start a process that writes both its streams into one pipe, or stderr into the descriptor `errors`.
    Raises `ToolError`."""
    reading, writing = os.pipe()
    with on_failure(os.close, reading):
        try:
            if sys.platform == "linux":
                _enlarge(reading)
            stdin = launch.stdin if launch.stdin >= 0 else subprocess.DEVNULL
            process = _start(launch, tag, starter, stdin=stdin, out=writing, errors=errors)
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
    return Launched(process, reading, tag)


def launch_in_terminal(
    launch: Launch,
    tag: Tag,
    size: TerminalSize,
    *,
    is_raw: bool = False,
    starter: Starter = start_directly,
) -> Launched:
    """Start a process on a terminal of its own; the descriptor is the terminal's other side."""
    ours, theirs = os.openpty()
    with on_failure(os.close, ours):
        try:
            resize(ours, size)
            if is_raw:
                tty.setraw(theirs)
            terminal = os.ttyname(theirs)
            # Opening it by name makes it the controlling terminal of the session that bash leads.
            script = 'exec 0<>"$1" 1>&0 2>&0; shift; exec "$@"'
            front = (bash_path(), "--noprofile", "--norc", "-c", script, "buddy-terminal", terminal)
            wrapped = msgspec.structs.replace(launch, argv=(*front, *launch.argv))
            process = _start(wrapped, tag, starter, stdin=theirs, out=theirs, terminal=terminal)
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
    return Launched(process, ours, tag)


def resize(terminal: int, size: TerminalSize) -> None:
    """Tell a terminal, and whoever runs in it, its size."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        return  # the user's pipes are at their limit: the default size does too


def _start(
    launch: Launch,
    tag: Tag,
    starter: Starter,
    *,
    stdin: int,
    out: int,
    errors: int = -1,
    terminal: str = "",
) -> subprocess.Popen[bytes]:
    def start(confine: Callable[[], None]) -> subprocess.Popen[bytes]:
        # The limits are buddy's own meanwhile: a thread that the starter begins must not meet them.
        spared = end_children_first() if launch.is_expendable else contextlib.nullcontext()
        group = launch.group.hold_children() if launch.group is not None else contextlib.nullcontext()
        with group, tag_children(tag.number, launch.processes, launch.data_bytes), spared:
            confine()
            return subprocess.Popen(
                launch.argv,
                cwd=launch.cwd,
                env=dict(launch.env),
                stdin=stdin,
                stdout=out,
                stderr=out if errors < 0 else errors,
                close_fds=True,
                pass_fds=launch.pass_fds,
                start_new_session=True,
            )

    try:
        process = starter(start, terminal)
    except (OSError, ValueError) as error:
        raise ToolError(_why_not(launch, error)) from error
    fix_limits(process.pid, launch.data_bytes)
    return process


def _why_not(launch: Launch, error: OSError | ValueError) -> str:
    if not os.path.isdir(launch.cwd):
        return f"expected a folder to work in, found none at {launch.cwd}; give an existing one as cwd"
    if isinstance(error, OSError) and error.errno == 7:  # E2BIG
        return "the command is too long for one process; write it to a script file and run that"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"{os.path.basename(launch.argv[0])} could not be started: {reason}"
