"""Changes of modes, times, owners and attributes whose path leads elsewhere after buddy looked at it.

Landlock does not judge these calls. A second thread exchanges the target of a link, a folder for a link, the
bytes of the path, or the file behind a descriptor, as fast as it can.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.support.sandbox_machine import landlock_only, sandbox_machine

ATTACK = r"""
import ctypes, os, sys, threading, time
outside, way, call = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("real", exist_ok=True)
name = os.path.basename(outside)
inside = os.path.abspath("real/" + name)
open(inside, "w").close()
os.setxattr(inside, "user.kept", b"")
path = ctypes.create_string_buffer(4096)
spare = os.open(inside, os.O_RDONLY)
ours, theirs, used = os.open(inside, os.O_RDONLY), os.open(outside, os.O_RDONLY), os.dup(spare)
if way == "link":
    path.value = os.fsencode(os.path.abspath("link"))
    os.symlink(inside, "link")
elif way == "folder":
    path.value = os.fsencode(os.path.abspath("moving/" + name))
    os.rename("real", "moving")
elif way == "argument":
    path.value = os.fsencode(inside)
words = (inside.encode(), outside.encode())
AT_FDCWD, NOFOLLOW = -100, 0x100
times = (ctypes.c_long * 4)(1, 0, 1, 0)
by_path = {
    "chmod": lambda: libc.chmod(path, 0o777),
    "fchmodat": lambda: libc.fchmodat(AT_FDCWD, path, 0o777, 0),
    "chown": lambda: libc.chown(path, -1, os.getgid()),
    "utimensat": lambda: libc.utimensat(AT_FDCWD, path, times, 0),
    "utimes": lambda: libc.utimes(path, times),
    "setxattr": lambda: libc.setxattr(path, b"user.planted", b"x", 1, 0),
    "lsetxattr": lambda: libc.lsetxattr(path, b"user.planted", b"x", 1, 0),
    "removexattr": lambda: libc.removexattr(path, b"user.kept") + libc.setxattr(path, b"user.kept", b"", 0, 0)
}
by_descriptor = {
    "chmod": lambda: libc.fchmod(used, 0o777),
    "chown": lambda: libc.fchown(used, -1, os.getgid()),
    "utimensat": lambda: libc.futimens(used, times),
    "setxattr": lambda: libc.fsetxattr(used, b"user.planted", b"x", 1, 0),
}
done = False
def swap():
    turn = 0
    while not done:
        turn += 1
        if way == "link":
            os.symlink((inside, outside)[turn % 2], "fresh")
            os.rename("fresh", "link")
        elif way == "folder":
            os.rename("moving", "away")
            os.symlink(os.path.dirname(outside), "moving")
            os.unlink("moving")
            os.rename("away", "moving")
        elif way == "argument":
            ctypes.memmove(path, words[turn % 2] + b"\0", len(words[turn % 2]) + 1)
        else:
            os.dup2((ours, theirs)[turn % 2], used)
sys.setswitchinterval(0.00002)
thread = threading.Thread(target=swap)
thread.start()
change = (by_descriptor if way == "descriptor" else by_path)[call]
worked, begin = 0, time.monotonic()
while time.monotonic() < begin + (1 if worked else 10):
    worked += change() == 0
done = True
thread.join()
print("worked" if worked else "never")
"""

WAYS = [
    *((way, call) for way in ("link", "argument") for call in ("chmod", "utimensat", "setxattr")),
    ("link", "fchmodat"),
    ("link", "chown"),
    ("link", "utimes"),
    ("link", "removexattr"),
    ("folder", "chmod"),
    ("folder", "lsetxattr"),
    *(("descriptor", call) for call in ("chmod", "utimensat", "chown", "setxattr")),
]


def _state(path: Path) -> tuple[int, int, int, int, int, list[str]]:
    found = path.stat()
    names = os.listxattr(path)
    return (found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, found.st_ctime_ns, names)


@requires("landlock", "extended attributes")
@pytest.mark.parametrize(("way", "call"), WAYS)
async def test_metadata_outside_never_changes(way: str, call: str) -> None:
    async with sandbox_machine(look=landlock_only) as machine:
        victim = machine.outside / "file"
        victim.chmod(0o600)
        if call == "removexattr":
            os.setxattr(victim, "user.kept", b"x")
        (machine.work / "attack.py").write_text(ATTACK)
        before = _state(victim)
        done = await machine.run(
            f"/usr/bin/python3 attack.py {victim} {way} {call}", machine.confinement(), limit_s=120
        )
        assert "worked" in done.text, done.text  # otherwise this tests nothing
        assert _state(victim) == before


EVERYDAY = r"""
import os, sys
def state(path, follow=True):
    found = os.stat(path, follow_symlinks=follow)
    return oct(found.st_mode), found.st_atime_ns, found.st_mtime_ns
open("file", "w").close()
os.mkdir("folder")
os.symlink("file", "link")
os.chmod("file", 0o4751); print(state("file")[0])
os.chmod("folder", 0o700); print(state("folder")[0])
os.chmod("link", 0o640); print(state("file")[0])
os.utime("file", ns=(5, 7)); print(state("file")[1:])
os.utime("link", ns=(11, 13), follow_symlinks=False); print(state("link", False)[1:], state("file")[1:])
os.utime("link", (17, 19)); print(state("file")[1:])
os.utime("file"); print(state("file")[2] > 10**18)
with open("file", "w") as file:
    os.fchmod(file.fileno(), 0o600); print(state("file")[0])
    os.utime(file.fileno(), ns=(23, 29)); print(state("file")[1:])
    os.fchown(file.fileno(), -1, os.getgid())
    os.unlink("file")
    os.fchmod(file.fileno(), 0o644); print(oct(os.fstat(file.fileno()).st_mode))
open("file", "w").close()
top = os.open(".", os.O_RDONLY)
os.chmod("file", 0o611, dir_fd=top); print(state("file")[0])
os.utime("file", ns=(31, 37), dir_fd=top); print(state("file")[1:])
os.chown("file", os.getuid(), -1); os.lchown("link", -1, os.getgid())
os.setxattr("file", "user.a", b"\0one\0" + bytes(500)); print(len(os.getxattr("file", "user.a")))
os.setxattr("file", "user.b", b""); os.removexattr("file", "user.b"); print(os.listxattr("file"))
def fails(call, *words, **more):
    try:
        call(*words, **more)
    except OSError as error:
        print(error.strerror)
    else:
        print("no error")
fails(os.chmod, "missing", 0)
fails(os.chmod, "file/below", 0)
fails(os.chmod, "", 0)
fails(os.chmod, "x" * 5000, 0)
fails(os.fchmod, 99, 0)
fails(os.removexattr, "file", "user.none")
fails(os.setxattr, "file", "user.a", b"", os.XATTR_CREATE)
fails(os.utime, "missing", ns=(1, 1), dir_fd=top)
fails(os.chmod, "/etc/passwd", 0o777)
reading, writing = os.pipe()
os.fchmod(reading, 0o600)
"""
"""Prints the same inside and outside, but for the last refusal."""


@requires("landlock", "extended attributes")
async def test_changes_inside_work_as_outside_of_the_sandbox() -> None:
    async with sandbox_machine(look=landlock_only) as machine:
        (machine.work / "everyday.py").write_text(EVERYDAY)
        results: list[list[str]] = []
        for confinement in (machine.confinement(), None):
            command = "rm -rf run && mkdir run && cd run && /usr/bin/python3 ../everyday.py"
            if confinement is None:
                command = command.replace("everyday.py", "everyday.py 2>&1", 1)
                script = machine.work / "everyday.py"
                script.write_text(EVERYDAY.replace('fails(os.chmod, "/etc/passwd", 0o777)\n', ""))
            done = await machine.run(command, confinement)
            assert done.code == 0, done.text
            results.append(done.text.splitlines())
        inside, outside = results
    refused = [line for line in inside if line == "Read-only file system"]
    assert refused == ["Read-only file system"]
    assert [line for line in inside if line not in refused] == outside
    assert "/etc/passwd" in done.text or stat.S_IMODE(os.stat("/etc/passwd").st_mode) == 0o644


UNREADABLE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
try:
    os.chmod(sys.argv[1], 0o777)
except OSError as error:
    print(error.strerror)
"""


@requires("landlock")
async def test_a_program_whose_memory_cannot_be_read_changes_nothing_outside() -> None:
    async with sandbox_machine(look=landlock_only) as machine:
        victim = machine.outside / "file"
        victim.chmod(0o600)
        (machine.work / "unreadable.py").write_text(UNREADABLE)
        done = await machine.run(f"/usr/bin/python3 unreadable.py {victim}", machine.confinement())
        assert done.text.strip() in ("Operation not permitted", "Read-only file system")
        assert stat.S_IMODE(victim.stat().st_mode) == 0o600
