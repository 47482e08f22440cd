"""Buddy's files on disk are private to their owner, whatever the umask and whoever made `.buddyx`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

TOOLS = ("write_file", "edit_file", "delete_file", "run_shell")
SCRIPT = (
    reply(call("write_file", path="new.txt", content="new\n")),
    reply(call("edit_file", path="a.txt", old="alpha", new="beta")),
    reply(call("delete_file", path="b.txt")),
    reply(call("run_shell", command="seq 1 60000; echo x > made.txt")),
    reply("Done."),
)


@pytest.mark.parametrize("umask", ["000", "002", "077"])
@pytest.mark.parametrize("brought", [False, True])
async def test_RU_L2_what_buddy_keeps_is_its_owners_alone(tmp_path: Path, umask: str, brought: bool) -> None:
    async with FakeLLM(list(SCRIPT)) as server:
        program = Program(
            tmp_path, server.url, tools=TOOLS, before=("sh", "-c", f'umask {umask}; exec "$@"', "sh")
        )
        program.files(a__txt="alpha\n", b__txt="beta\n")
        folder = program.repo / ".buddyx"
        if brought:
            for name in ("", "sessions", "sessions/.keep"):
                (folder / name).mkdir(mode=0o755)
                (folder / name).chmod(0o755)
        ran = await program.run("exec", *YOLO, "--debug", "work")
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    local = program.home / ".local"
    made = [path for path in (*_beneath(folder), local, *_beneath(local)) if path.name != ".keep"]
    parts = {part for path in made for part in path.parts}
    assert {"trash", "undo", "checkpoints", "output", "state", "logs"} <= parts, sorted(parts)
    others = [f"{oct(mode)} {path}" for path in made if (mode := _mode(path)) & 0o077 and not _is_moved(path)]
    assert others == []
    assert _mode(folder) == (0o755 if brought else 0o700)


def _beneath(folder: Path) -> list[Path]:
    return [Path(where, name) for where, folders, files in os.walk(folder) for name in (*folders, *files)]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _is_moved(path: Path) -> bool:
    """A file in the trash: it keeps its own mode, in a folder of its owner's."""
    return path.parent.parent.name == "trash" and path.suffix != ".json"
