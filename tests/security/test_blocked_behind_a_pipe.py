"""Blocked accesses are reported even when the exit code hides them; a plain failure is not blamed on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.tool import Blocked
from buddy.safety.sandbox_openings import relevant_blocks
from buddy.workspace.sandbox.profile import SandboxProfile, is_writable
from tests.capabilities import requires
from tests.e2e.exec.test_sandboxed_commands import answers, folder

__all__ = ["folder"]


@requires("bwrap")
async def test_WALK_S3_a_refused_host_behind_a_pipe_is_told(folder: Path) -> None:
    _, (piped, plain, probed) = await answers(
        folder,
        "curl -sS -m 5 https://registry.example | head -3",
        "curl -sS -m 5 http://registry.example/ | head -3",
        "touch ~/outside 2>/dev/null; echo fine",
    )
    assert "[exit code 0" in piped
    assert "[the sandbox blocked the host registry.example; nobody is there to allow it]" in piped
    assert "[exit code 0" in plain
    assert "[the sandbox blocked the host registry.example:80; nobody is there to allow it]" in plain
    assert "[exit code 0" in probed
    assert "the sandbox blocked" not in probed


@requires("bwrap")
async def test_WALK_S2_an_allowed_host_that_cannot_be_found_is_a_plain_failure(folder: Path) -> None:
    _, (https, plain) = await answers(
        folder,
        "curl -sS -m 5 https://nobody.invalid/",
        "curl -sS -m 5 http://nobody.invalid/",
        settings={"hosts": ["nobody.invalid", "nobody.invalid:80"]},
    )
    for answer in (https, plain):
        assert "[nobody.invalid cannot be found: " in answer
        assert "the sandbox blocked" not in answer


@pytest.mark.parametrize(
    ("output", "ok", "matters"),
    [
        ("", False, True),  # a command that failed needed it
        ("", True, False),  # a probe, in silence
        ("touch: cannot touch '/home/me/other/x': Read-only file system", True, True),
        ("x: Permission denied", True, True),
        ("OSError: [Errno 30] Read-only file system: '/home/me/other/x'", True, True),
        ("wrote x", True, False),
        ("another: Read-only file system", True, False),  # about something else
        ("Read-only file system\nx", True, False),  # the name is not in the complaint
    ],
)
def test_WALK_S3_a_refused_write_matters_when_the_command_failed_or_complains(
    output: str, ok: bool, matters: bool
) -> None:
    path = "/home/me/other/x"
    assert relevant_blocks(Blocked((path,)), ok, output).paths == ((path,) if matters else ())


def test_WALK_S3_a_refused_host_always_matters_and_a_bare_connection_only_where_the_command_failed() -> None:
    blocked = Blocked(hosts=("a.example",), addresses=("1.1.1.1:53",))
    assert relevant_blocks(blocked, True, "") == Blocked(hosts=("a.example",))
    assert relevant_blocks(blocked, False, "") == blocked


def test_WALK_S4_a_home_folder_in_tmp_is_not_writable_because_tmp_is() -> None:
    profile = SandboxProfile(
        kind="workspace",
        shown=("/tmp/home", "/tmp/home/work"),
        writable=("/tmp/home/work", "/tmp/home/.cache/own"),
        protected=("/tmp/home/work/.git/config",),
        hidden=("/tmp/home/.cache", "/tmp/home/.ssh"),
        scratch="/tmp/x",
        network=False,
    )
    cases = {
        "/tmp/home": False,
        "/tmp/home/other/x": False,
        "/tmp/home/work": True,
        "/tmp/home/work/x": True,
        "/tmp/home/work/.git/config": False,
        "/tmp/home/worker": False,
        "/tmp/home/.cache/own/x": True,
        "/tmp/home/.cache/x": False,
        "/tmp/home/.ssh/x": False,
        "/tmp/homes/x": True,
        "/tmp/x": True,
        "/var/tmp/x": True,
    }
    assert {path: is_writable(profile, path) for path in cases} == cases
