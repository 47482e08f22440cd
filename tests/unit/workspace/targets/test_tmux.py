"""The arguments a client of tmux is started with, by its version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.workspace.targets.tmux import Tmux


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("tmux 3.3a", "-dr"),
        ("tmux 3.6b", "-dr"),  # has no such option yet, and would refuse it
        ("tmux 3.7", "-drS"),
        ("tmux next-3.8", "-drS"),
        ("tmux 4.0", "-drS"),
        ("tmux openbsd", "-dr"),
    ],
)
def test_a_paste_is_passed_on_as_it_is_by_every_version(tmp_path: Path, version: str, flags: str) -> None:
    program, arguments = tmp_path / "tmux", tmp_path / "arguments"
    program.write_text(
        f"#!/bin/sh\n[ \"$3\" = -V ] && echo '{version}' && exit\nprintf '%s\\n' \"$@\" >{arguments}\n"
    )
    program.chmod(0o755)
    tmux = Tmux(("-L", "test"), lambda: str(program), lambda: {"PATH": os.environ["PATH"]})
    tmux.paste("%1", "\x1b[D;")
    assert arguments.read_text().splitlines() == [
        *("-L", "test", "set-buffer", "-b", "buddy", "--", "\x1b[D\\;", ";"),
        *("paste-buffer", flags, "-b", "buddy", "-t", "%1"),
    ]
