"""Slow and lost ssh connections: files stay whole and jobs are told as lost."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from buddy.config.settings import TargetSettings
from buddy.tools.files.edit import edit_file
from buddy.tools.jobs import read_job
from buddy.tools.shell import run_shell
from buddy.workspace.targets.file_channels import FileChannels
from buddy.workspace.targets.remote_files import RemoteFiles
from buddy.workspace.targets.transport import TargetError
from tests.capabilities import requires
from tests.support.processes import sleepers
from tests.support.remote_tools import call, session_on, until
from tests.support.ssh_server import SshServer, ssh_server

pytestmark = requires("sshd", "linux")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "machine") as running:
        yield running


async def test_a_slow_transfer_does_not_hold_up_other_files(server: SshServer) -> None:
    os.mkfifo(server.folder / "pipe")
    (server.folder / "a.txt").write_text("hello\n")
    connection = server.connection()
    channels = FileChannels(connection, lambda _client: None, TargetError)
    try:
        with channels.borrow() as slow:
            late = asyncio.ensure_future(asyncio.to_thread(slow.read, f"{server.folder}/pipe", 100, 1))
            with channels.borrow() as other:
                assert await asyncio.to_thread(other.read, f"{server.folder}/a.txt", 100, 1) == b"hello\n"
            assert not late.done()
            await asyncio.to_thread((server.folder / "pipe").write_bytes, b"late")
            with suppress(OSError):  # not every server reads a pipe
                await late
    finally:
        await asyncio.to_thread(connection.close)


async def test_more_callers_than_channels_take_turns(server: SshServer) -> None:
    (server.folder / "a.txt").write_text("hello\n")
    connection = server.connection()
    channels = FileChannels(connection, lambda _client: None, TargetError)

    def read() -> bytes:
        with channels.borrow() as client:
            return client.read(f"{server.folder}/a.txt", 100, 6)

    try:
        assert await asyncio.gather(*(asyncio.to_thread(read) for _ in range(12))) == [b"hello\n"] * 12
    finally:
        await asyncio.to_thread(connection.close)


def test_a_start_up_file_that_waits_over_there_is_suspected(server: SshServer) -> None:
    server.kill()
    server.extra = "ForceCommand sleep 10\n"
    server.start()
    server.greeting_limit_s = 1.0
    connection = server.connection()
    reason = r"did not answer within 1 s.* a start-up file of the shell there may wait"
    try:
        with pytest.raises(TargetError, match=reason):
            connection.ensure()
    finally:
        connection.close()


async def test_a_lost_job_does_not_have_the_exit_code_of_ssh(server: SshServer, tmp_path: Path) -> None:
    mark = f"9{os.getpid()}.25"
    settings = TargetSettings(host="machine", folder=str(server.folder), config=str(server.config))
    async with session_on(settings, tmp_path / "here") as session:
        await call(session, run_shell, {"command": f"echo begin; sleep {mark}", "background": True})
        await until(lambda: len(sleepers(mark)) == 1)
        server.kill()
        jobs = session.session.jobs
        await until(lambda: jobs.get(1).status().state == "ended")
        text = (await call(session, read_job, {"job": 1})).text
        assert "job 1: the connection to box was lost: how it ended is not known" in text
        assert "255" not in text
        await until(lambda: sleepers(mark) == [])


@requires("root")
async def test_the_owner_of_a_replaced_file_stays(server: SshServer, tmp_path: Path) -> None:
    file = server.folder / "a.txt"
    file.write_text("old\n")
    file.chmod(0o640)
    os.chown(file, 1000, 1001)
    settings = TargetSettings(host="machine", folder=str(server.folder), config=str(server.config))
    async with session_on(settings, tmp_path / "here") as session:
        await call(session, edit_file, {"path": "a.txt", "old": "old", "new": "new"})
    status = file.stat()
    assert (file.read_text(), status.st_uid, status.st_gid) == ("new\n", 1000, 1001)
    assert status.st_mode & 0o777 == 0o640


DRIPPING = """
import os, struct, sys, time

def take(size):
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or sys.exit()
    return data

def text(data):
    return struct.pack(">I", len(data)) + data

while True:
    request = take(struct.unpack(">I", take(4))[0])
    kind, number = request[0], request[1:5]
    attributes = struct.pack(">IQI", 5, 10_000_000, 0o040755)
    if kind == 1:
        answer = bytes((2,)) + struct.pack(">I", 3)
    elif kind == 12:
        time.sleep(0.2)
        answer = bytes((104,)) + number + struct.pack(">I", 1) + text(b"n") + text(b"") + attributes
    elif kind == 11:
        answer = bytes((102,)) + number + text(b"h")
    elif kind == 4:
        answer = bytes((101,)) + number + struct.pack(">I", 0) + text(b"") + text(b"")
    else:
        answer = bytes((105,)) + number + attributes
    os.write(1, text(answer))
"""


def test_ATTACK10_a_cancelled_call_leaves_a_server_that_answers_in_drops(tmp_path: Path) -> None:
    script = tmp_path / "dripping.py"
    script.write_text(DRIPPING)
    with ssh_server(tmp_path / "machine", sftp=f"{sys.executable} -I {script}") as server:
        connection = server.connection()
        files = RemoteFiles(connection).for_call(lambda: True)
        began = time.monotonic()
        try:
            with pytest.raises(TargetError, match="the call was cancelled"):
                files.entries("/srv")
            assert time.monotonic() - began < 60  # 100,000 drops take five hours
        finally:
            connection.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("lacks=\x1b[2J\x1b]0;t\x07", r"has no program ⟨U\+001B⟩\[2J"),
        ("folder=../../x", r"names '\.\./\.\./x' as its folder"),
        ("folder=/a/../b", r"names '/a/\.\./b' as its folder"),
    ],
)
def test_ATTACK10_a_greeting_that_lies_is_refused(
    server: SshServer, tmp_path: Path, answer: str, reason: str
) -> None:
    script = tmp_path / "greeting.py"
    script.write_text(
        "import os, re\n"
        "tag = re.search(rb\"tag='([^']*)'\", os.read(0, 100_000))[1].decode()\n"
        f"for words in ('home=/', 'folder=/tmp', {answer!r}, 'ready'):\n"
        "    os.write(1, f'buddy:{tag} {words}\\n'.encode())\n"
        "os.read(0, 1)\n"
    )
    server.kill()
    server.extra = f"ForceCommand {sys.executable} -I {script}\n"
    server.start()
    connection = server.connection()
    try:
        with pytest.raises(TargetError, match=reason):
            connection.ensure()
    finally:
        connection.close()
