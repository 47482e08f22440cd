"""Files through a shell: of this machine and of busybox, and one whose answers can't be trusted."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import cast

import pytest

from buddy.workspace.targets.shell_files import CHUNK_BYTES, ShellFileClient
from buddy.workspace.targets.transport import TargetError
from tests.capabilities import requires
from tests.support.containers import make_busybox_folder

pytestmark = requires("linux")


@pytest.fixture(params=["sh", pytest.param("busybox", marks=requires("busybox")), "bash"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ShellFileClient]:
    shell, path = shutil.which(request.param) or "", os.environ["PATH"]
    if request.param == "busybox":
        folder = make_busybox_folder(tmp_path / "busybox")
        shell, path = str(folder / "sh"), str(folder)
    with running([shell, "-s"], {"PATH": path}) as client:
        yield client


@contextmanager
def running(argv: list[str], environment: dict[str, str]) -> Iterator[ShellFileClient]:
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdin is not None
        yield ShellFileClient(process.stdin, cast(BufferedReader, process.stdout), TargetError)
        process.stdin.close()


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 17])
def test_any_bytes_come_back_as_they_were(client: ShellFileClient, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    path = str(tmp_path / "a")
    client.write_new(path, data, 0o640, None)
    assert client.read(path, size + 1, size) == data
    status = client.status(path)
    assert (status.size, stat.S_IMODE(status.mode), status.links) == (size, 0o640, 1)
    assert stat.S_ISREG(status.mode)
    assert client.read(path, 10, size) == data[:10]


def test_what_looks_like_an_answer_is_content(client: ShellFileClient, tmp_path: Path) -> None:
    data = b"\n0123456789abcdef0123456789abcdef 0\n\0\xff\r\n" * 3
    (tmp_path / "a").write_bytes(data)
    assert client.read(str(tmp_path / "a"), 10_000, len(data)) == data


def test_a_name_is_taken_only_while_it_is_free(client: ShellFileClient, tmp_path: Path) -> None:
    new, taken = str(tmp_path / "new"), tmp_path / "taken"
    client.write_new(new, b"mine", 0o644, None)
    with pytest.raises(OSError, match="File exists"):
        client.write_new(new, b"again", 0o644, None)
    taken.write_text("theirs")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("taken", "dangling"):
        with pytest.raises(OSError, match="File exists") as caught:
            client.rename(new, str(tmp_path / name))
        assert caught.value.errno == errno.EEXIST
    assert taken.read_text() == "theirs"
    client.rename(new, str(tmp_path / "free"))
    assert (tmp_path / "free").read_text() == "mine"
    assert not (tmp_path / "new").exists()


def test_a_folder_is_not_replaced_by_a_file(client: ShellFileClient, tmp_path: Path) -> None:
    new, folder = str(tmp_path / "new"), tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to("folder")
    client.write_new(new, b"x", 0o644, None)
    for name in ("folder", "link"):
        with pytest.raises(OSError, match="Is a directory"):
            client.replace(new, str(tmp_path / name))
        with pytest.raises(OSError, match="File exists"):
            client.rename(new, str(tmp_path / name))
    assert list(folder.iterdir()) == []


def test_links_are_told_and_resolved(client: ShellFileClient, tmp_path: Path) -> None:
    (tmp_path / "file\n").write_text("x")
    (tmp_path / "link").symlink_to("file\n")
    os.link(tmp_path / "file\n", tmp_path / "second")
    assert client.real_path(str(tmp_path / "link")) == str(tmp_path / "file\n")
    assert client.read_link(str(tmp_path / "link")) == "file\n"
    assert stat.S_ISLNK(client.status(str(tmp_path / "link")).mode)
    assert client.status(str(tmp_path / "second")).links == 2


@pytest.mark.parametrize("name", ["missing", "file/below", "loop", "dangling"])
def test_what_is_not_there_is_told_as_missing(client: ShellFileClient, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError):
        client.real_path(str(tmp_path / name))


def test_a_folder_is_listed_whatever_its_names_are(client: ShellFileClient, tmp_path: Path) -> None:
    names = ["a b", ".hidden", "-n", "new\nline", "\n", "$(id)", "*", "back\\slash", "q'uote", 'q"uote', "ü"]
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in names:
        (folder / name).write_text(name)
    (folder / "sub").mkdir()
    entries = dict(client.list(str(folder)))
    assert sorted(entries) == sorted([*names, "sub"])
    assert all(entries[name].size == len(name.encode()) for name in names)
    assert stat.S_ISDIR(entries["sub"].mode)
    (tmp_path / "empty").mkdir()
    assert client.list(str(tmp_path / "empty")) == []
    with pytest.raises(FileNotFoundError):
        client.list(str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError):
        client.list(str(folder / "ü"))


def test_many_entries_are_listed(client: ShellFileClient, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(5000):
        (folder / f"{'long' * 20}{number}").touch()
    assert len(client.list(str(folder))) == 5000


def test_a_file_that_was_not_renamed_goes_with_the_shell(tmp_path: Path) -> None:
    with running(["/bin/sh", "-s"], dict(os.environ)) as client:
        client.write_new(str(tmp_path / "half"), b"x", 0o644, None)
        client.write_new(str(tmp_path / "kept"), b"x", 0o644, None)
        client.rename(str(tmp_path / "kept"), str(tmp_path / "whole"))
        client.write_new(str(tmp_path / "half2"), b"x", 0o644, None)
    assert "half2" not in [entry.name for entry in tmp_path.iterdir()]
    assert (tmp_path / "whole").exists()


def test_folders_are_made_and_files_removed(client: ShellFileClient, tmp_path: Path) -> None:
    client.make_folder(str(tmp_path / "new"))
    assert (tmp_path / "new").is_dir()
    with pytest.raises(OSError, match="File exists"):
        client.make_folder(str(tmp_path / "new"))
    (tmp_path / "a").write_text("x")
    client.remove(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()
    with pytest.raises(FileNotFoundError):
        client.remove(str(tmp_path / "a"))
    assert (client.free_bytes(str(tmp_path)) or 0) > 0


# --- a shell that lies --------------------------------------------------------------------------------------

Answer = Callable[[str], bytes | None]


@contextmanager
def lying(answer: Answer, *, limit_s: float = 20) -> Iterator[ShellFileClient]:
    """Return a client of a shell that answers each request after the first with these bytes; MARK in them is
    the mark of the client. None ends the shell."""
    back, to_client = os.pipe()
    from_client, to = os.pipe()

    def serve() -> None:
        with os.fdopen(from_client, "r") as requests, os.fdopen(to_client, "wb", buffering=0) as answers:
            is_first = True
            for line in requests:
                if "printf '\\n%s %s\\n' " not in line:
                    continue
                mark = line.split("printf '\\n%s %s\\n' ")[1].split()[0]
                text = b"\nMARK 0\n" if is_first else answer(mark)
                is_first = False
                if text is None:
                    return
                try:
                    answers.write(text.replace(b"MARK", mark.encode()))
                except OSError:
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    writing = io.BufferedWriter(io.FileIO(to, "w"))
    reading = io.BufferedReader(io.FileIO(back))
    try:
        yield ShellFileClient(writing, reading, TargetError, limit_s=limit_s)
    finally:
        writing.close()
        reading.close()
        thread.join(10)


@pytest.mark.parametrize(
    "text",
    [
        b"relative\nMARK 0\n",
        b"/a/../b\nMARK 0\n",
        b"/a\0b\nMARK 0\n",
        b"\nMARK 0\n",
        b"/a\nMARK x\n",
    ],
)
def test_a_path_that_is_none_ends_the_channel(text: bytes) -> None:
    with lying(lambda _mark: text) as client:
        with pytest.raises(TargetError, match="can't be understood"):
            client.real_path("/a")
        assert not client.is_usable


@pytest.mark.parametrize(
    "text",
    [
        b"//81a4 1 1 0 0 1 ./a/b\nMARK 0\n",
        b"//81a4 1 1 0 0 1 ./\nMARK 0\n",
        b"//zz 1 1 0 0 1 ./a\nMARK 0\n",
        b"//81a4 1 1 0 0 ./a\nMARK 0\n",
        b"hello\nMARK 0\n",
        b"//81a4 99999999999999999999999 1 0 0 1 ./a\nMARK 0\n",
    ],
)
def test_an_entry_that_is_none_ends_the_channel(text: bytes) -> None:
    with lying(lambda _mark: text) as client, pytest.raises(TargetError, match="can't be understood"):
        client.list("/a")


def test_more_than_was_asked_for_is_not_taken() -> None:
    with lying(lambda _mark: b"x" * 1_000_000) as client:
        with pytest.raises(OSError, match="longer than can be handled"):
            client.read("/a", 1000, 1)
        assert not client.is_usable


def test_silence_and_the_end_are_told() -> None:
    with (
        lying(lambda _mark: b"", limit_s=0.3) as client,
        pytest.raises(TargetError, match=r"did not answer for 0\.3 s"),
    ):
        client.status("/a")
    with lying(lambda _mark: None) as client:
        with pytest.raises(TargetError):
            client.status("/a")
        assert not client.is_usable


def test_words_of_an_error_are_its_reason() -> None:
    with (
        lying(lambda _mark: b"cat: /a: Permission denied\nMARK 1\n") as client,
        pytest.raises(OSError, match="Permission denied") as caught,
    ):
        client.status("/a")
    assert caught.value.errno == errno.EACCES
