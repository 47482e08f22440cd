"""The key that shows whose a session is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.identity import KEY_BYTES, Signer, load_signer
from buddy.sessions.records import VERSION, GrantChanged, SessionHeader

HEADER = SessionHeader(VERSION, "aaaa-bbbb-cccc-dddd", 5.0, "/project", "")


def test_the_key_is_made_once_and_private(tmp_path: Path):
    first = load_signer(str(tmp_path / "deep/state"))
    assert load_signer(str(tmp_path / "deep/state")) == first
    assert len(first.key) == KEY_BYTES
    assert os.listdir(tmp_path / "deep/state") == ["session.key"]
    assert os.stat(tmp_path / "deep/state").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "deep/state/session.key").st_mode & 0o777 == 0o600


def test_processes_that_start_together_get_the_same_key(tmp_path: Path):
    code = (
        "import sys\n"
        "from buddy.sessions.identity import load_signer\n"
        "print(load_signer(sys.argv[1]).key.hex())\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    keys = {child.communicate()[0].strip() for child in children}
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    assert len(keys) == 1


def test_whoever_makes_the_key_second_takes_the_first(tmp_path: Path):
    other = os.urandom(KEY_BYTES)

    def link(_old: str, new: str) -> None:
        with open(new, "wb") as file:
            file.write(other)
        raise FileExistsError(new)

    assert load_signer(str(tmp_path), msgspec.structs.replace(JournalFiles(), link=link)) == Signer(other)
    assert os.listdir(tmp_path) == ["session.key"]


def test_a_damaged_key_is_an_error_that_says_what_to_do(tmp_path: Path):
    (tmp_path / "session.key").write_bytes(b"short")
    with pytest.raises(OSError, match="found 5; delete it"):
        load_signer(str(tmp_path))


def test_a_planted_link_is_no_key(tmp_path: Path):
    (tmp_path / "theirs").write_bytes(b"k" * KEY_BYTES)
    (tmp_path / "state").mkdir()
    (tmp_path / "state/session.key").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        load_signer(str(tmp_path / "state"))


def test_a_mac_fits_one_session_of_one_person():
    mine, theirs = Signer(b"m" * KEY_BYTES), Signer(b"t" * KEY_BYTES)
    header = mine.sign_header(HEADER)
    assert mine.verify_header(header)
    assert not theirs.verify_header(header)
    assert not mine.verify_header(None)
    assert not mine.verify_header(HEADER)
    assert not mine.verify_header(msgspec.structs.replace(header, session_id="eeee-bbbb-cccc-dddd"))
    assert not mine.verify_header(msgspec.structs.replace(header, mac="é\ud800"))


def test_a_seal_fits_one_grant_of_one_session():
    signer = Signer(b"m" * KEY_BYTES)
    grant = signer.seal_grant("one", GrantChanged("g1", {"tool": "read_file"}))
    assert signer.verify_grant("one", grant)
    assert not signer.verify_grant("two", grant)
    assert not signer.verify_grant("one", msgspec.structs.replace(grant, grant={"tool": "run_shell"}))
    assert not signer.verify_grant("one", msgspec.structs.replace(grant, seal="é"))
