"""Pictures of the clipboard, through stand-ins for the programs of each desktop."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from buddy.workspace.clipboard import (
    ClipboardError,
    Desktop,
    picture_on_clipboard,
    save_picture,
)
from tests.fake_llm.pictures import png

PICTURE = png()


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def desktop(folder: Path, platform: str = "linux", **environ: str) -> Desktop:
    return Desktop({"PATH": f"{folder}:/usr/bin:/bin", **environ}, platform, "/workspace")


def said(found: Desktop) -> str:
    with pytest.raises(ClipboardError) as caught:
        picture_on_clipboard(found)
    return str(caught.value)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    (tmp_path / "shot").write_bytes(PICTURE)
    return tmp_path / "bin"


def test_wayland_is_asked_for_the_best_kind_there_is(shelf: Path) -> None:
    program(
        shelf,
        "wl-paste",
        'case "$*" in --list-types) printf "text/html\\nimage/bmp\\nimage/png\\n";;'
        f' "--no-newline --type image/png") cat {shelf.parent}/shot;; *) exit 1;; esac',
    )
    assert picture_on_clipboard(desktop(shelf, WAYLAND_DISPLAY="wayland-0")) == PICTURE


def test_x11_is_asked_through_xclip(shelf: Path) -> None:
    program(
        shelf,
        "xclip",
        'case "$*" in "-selection clipboard -o -t TARGETS") printf "TARGETS\\nimage/png\\n";;'
        f' "-selection clipboard -o -t image/png") cat {shelf.parent}/shot;; *) exit 1;; esac',
    )
    assert picture_on_clipboard(desktop(shelf, DISPLAY=":0")) == PICTURE


def test_a_mac_is_asked_through_pngpaste_or_osascript(shelf: Path) -> None:
    program(shelf, "osascript", f"printf '«data PNGf{PICTURE.hex().upper()}»\\n'")
    assert picture_on_clipboard(desktop(shelf, "darwin")) == PICTURE
    program(shelf, "pngpaste", f'[ "$1" = - ] && cat {shelf.parent}/shot')
    program(shelf, "osascript", "exit 1")
    assert picture_on_clipboard(desktop(shelf, "darwin")) == PICTURE


def test_windows_is_asked_through_powershell(shelf: Path) -> None:
    program(shelf, "powershell.exe", f"printf '{base64.b64encode(PICTURE).decode()}\\r\\n'")
    assert picture_on_clipboard(desktop(shelf, WSL_DISTRO_NAME="Ubuntu")) == PICTURE


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"WAYLAND_DISPLAY": "w"}, "no program here reads pictures from the clipboard: install wl-paste"),
        ({"DISPLAY": ":0"}, "no program here reads pictures from the clipboard: install xclip"),
        (
            {"SSH_CONNECTION": "1 2 3 4"},
            "the clipboard is on your own machine: copy the picture here",
        ),
        ({}, "there is no desktop here, so no clipboard: save the picture as a file and write @FILE"),
    ],
)
def test_without_a_program_the_sentence_says_what_to_do(
    tmp_path: Path, environ: Mapping[str, str], sentence: str
) -> None:
    found = Desktop({"PATH": str(tmp_path), **environ}, "linux", "/workspace")
    assert said(found).startswith(sentence)


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "printf 'text/plain\\n'",
        'case "$1" in --list-types) echo image/png;; *) echo "no picture";; esac',
        'case "$1" in --list-types) echo image/png;; *) exit 3;; esac',
        "printf '\\377\\376\\033]0;x\\007'",
    ],
)
def test_a_clipboard_without_a_picture_says_so(shelf: Path, script: str) -> None:
    program(shelf, "wl-paste", script)
    assert said(desktop(shelf, WAYLAND_DISPLAY="w")).startswith("the clipboard holds no picture")


def test_an_endless_picture_is_not_kept(shelf: Path) -> None:
    program(shelf, "pngpaste", f"cat {shelf.parent}/shot; exec cat /dev/zero")
    assert said(desktop(shelf, "darwin")).startswith("the clipboard holds no picture")


def test_a_program_that_hangs_is_ended(shelf: Path) -> None:
    program(shelf, "pngpaste", f"echo $$ > {shelf.parent}/pid; exec sleep 600")
    hanging = msgspec.structs.replace(desktop(shelf, "darwin"), limit_s=0.5)
    assert said(hanging).startswith("the clipboard holds no picture")
    pid = int((shelf.parent / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_a_hanging_program_started_is_ended_with_it(shelf: Path) -> None:
    program(shelf, "pngpaste", f"sleep 600 & echo $! > {shelf.parent}/pid; wait")
    hanging = msgspec.structs.replace(desktop(shelf, "darwin"), limit_s=0.5)
    assert said(hanging).startswith("the clipboard holds no picture")
    status = Path(f"/proc/{(shelf.parent / 'pid').read_text().strip()}/stat")
    assert not status.exists() or status.read_text().split()[2] == "Z"


def test_no_program_of_the_workspace_is_run(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    program(project / "bin", "wl-paste", f"touch {tmp_path}/ran")
    path = f"{project}/bin:bin:.:{tmp_path}/nothing"
    found = Desktop({"PATH": path, "WAYLAND_DISPLAY": "w"}, "linux", str(project))
    assert said(found).startswith("no program here reads pictures")
    assert not (tmp_path / "ran").exists()


def test_the_program_gets_no_keys(shelf: Path) -> None:
    program(shelf, "pngpaste", f"env > {shelf.parent}/env")
    said(desktop(shelf, "darwin", OPENAI_API_KEY="sk-secret", LD_PRELOAD="/x"))
    found = (shelf.parent / "env").read_text()
    assert "sk-secret" not in found
    assert "LD_PRELOAD" not in found


def test_pictures_are_kept_privately_and_not_for_ever(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    first = save_picture(PICTURE, str(folder), 1_700_000_000.0)
    assert Path(first).read_bytes() == PICTURE
    assert Path(first).name.startswith("clip-")
    assert Path(first).suffix == ".png"
    assert (os.stat(first).st_mode & 0o777, os.stat(folder).st_mode & 0o777) == (0o600, 0o700)
    os.utime(first, (1_700_000_000, 1_700_000_000))
    second = save_picture(PICTURE, str(folder), 1_700_000_000.0 + 8 * 24 * 3600)
    assert [str(one) for one in folder.iterdir()] == [second]
