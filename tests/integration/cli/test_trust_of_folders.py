"""The content that trust in a folder covers is remembered, and a change of it is said before anything of it
holds."""

from __future__ import annotations

import os
from pathlib import Path

from buddy.app.launch import LaunchContext, find_launch
from buddy.app.options import Options
from buddy.safety.trust import TrustStore, folder_of
from buddy.safety.trusted_files import trusted_things
from tests.support.hostile_repositories.repositories import write
from tests.support.program import Program


def trusting(program: Program) -> None:
    """The person trusts the program's repository."""
    path = program.home / ".local/state/buddy/trust.json"
    store = TrustStore(str(path), home=str(program.home), temporary=str(program.folder / "tmp"))
    root = str(program.repo)
    assert store.remember(folder_of(root), trusted_things(root), trusted=True, now=1.0) == ""


async def test_SEC_048_a_changed_tool_ends_the_trust_and_is_named(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:1")
    write(program.repo, "buddy.toml", "")
    trusting(program)
    assert "trusted" in (await program.run("doctor")).out
    assert "not trusted" not in (await program.run("doctor")).out
    write(program.repo, "buddy.toml", "[agent]\n")
    for number in range(6):
        write(program.repo, f".buddyx/ext/x{number}\x1b[2J.py", "x = 1")
    ran = await program.run("exec", "hi")
    assert ran.told()[0].endswith(
        "and 2 more changed since you trusted this folder; /trust show prints the changes, "
        "/trust always trusts it again"
    )
    assert ".buddyx/ext/x0⟨U+001B⟩[2J.py, " in ran.told()[0]
    assert "\x1b" not in ran.err
    assert "not trusted" in (await program.run("doctor")).out


async def test_buddys_own_folders_are_its_own_wherever_they_were_moved(tmp_path: Path) -> None:
    program = Program(tmp_path, "http://127.0.0.1:1")
    variables = {
        "HOME": str(program.home),
        "XDG_CONFIG_HOME": str(program.repo / "c"),
        "PATH": os.environ["PATH"],
    }
    before = os.getcwd()
    os.chdir(program.repo)
    try:
        launch: LaunchContext = find_launch(Options(config=str(program.repo / "my.toml")), variables)
    finally:
        os.chdir(before)
    assert launch.boundary.own == (
        f"{program.repo}/c/buddy",
        f"{program.home}/.local/share/buddy",
        f"{program.home}/.local/state/buddy",
        f"{program.home}/.cache/buddy",
        f"{program.repo}/my.toml",
    )
