"""Odd names of files through every file tool, on every kind of machine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from buddy.safety.sanitise import visible
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import find_files, list_files
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.tools.grep import grep
from tests.capabilities import requires
from tests.support.machines import Machine
from tests.support.remote_tools import call, session_on

pytestmark = requires("linux")

NAMES = (
    *(
        "-rf",
        "--",
        "-",
        "- n",
        "a b",
        " lead",
        "tail ",
        "it's",
        'say "hi"',
        "back\\slash",
        "\\n",
        "$(touch made)",
    ),
    *("`id`", "$HOME", "a;b", "a&b", "a|b", "*", "?", "[a]", "{a,b}", "!x", "#x", "~", "~root", "%s", "=x"),
    *(
        "new\nline",
        "\nfirst",
        "last\n",
        "two\n\nlines",
        "tab\there",
        "cr\r",
        "esc\x1b[31m",
        "bell\x07",
        "del\x7f",
    ),
    *(
        "ü€",
        "e\u0301",
        "👩\u200d💻",
        "\u202etxt.exe",
        "\u200b",
        "日本語",
        "x" * 255,
        "é" * 127,
        "...",
        "..a",
        ".hidden",
    ),
    *("\n/81a4 5 1 0 0 1 .", "a ./b", "File exists", "C:\\x", "b.txt."),
)


async def test_every_file_tool_takes_a_name_as_a_name(machine: Machine, tmp_path: Path) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        for name in NAMES:
            path = f"./{name}"
            await call(session, write_file, {"path": path, "content": "one needle\n"})
            assert "one needle" in (await call(session, read_file, {"path": path})).text, name
            await call(session, edit_file, {"path": path, "old": "one", "new": "two"})
            assert (machine.folder / name).read_text() == "two needle\n", name
            assert "two needle" in (await call(session, grep, {"pattern": "needle", "path": path})).text, name
        assert sorted(files_of(machine.folder)) == sorted(NAMES)
        listing = (await call(session, list_files, {"path": "."})).text
        found = (await call(session, find_files, {"pattern": "*", "limit": 1000})).text
        hits = (await call(session, grep, {"pattern": "two needle", "path": ".", "limit": 1000})).text
        for name in NAMES:
            assert f"\n{visible(name.partition('/')[0])}" in listing, name
            assert f"\n{visible(name)}\n" in f"\n{found}", name
            assert f"\n{visible(name)}\n1:two needle" in f"\n{hits}", name
        log, locks = session.session.undo_of(1), session.session.locks
        for name in reversed(NAMES):
            await asyncio.to_thread(log.undo, locks)
            assert (machine.folder / name).read_text() == "one needle\n", name
            await asyncio.to_thread(log.undo, locks)
            assert not (machine.folder / name).exists(), name
        assert files_of(machine.folder) == []


async def test_a_patch_takes_a_name_as_a_name(machine: Machine, tmp_path: Path) -> None:
    names = [
        name for name in NAMES if name == name.strip() and name.isprintable() and not set("/`~") & set(name)
    ]
    async with session_on(machine.settings, tmp_path / "here") as session:
        for name in names:
            add = f"*** Begin Patch\n*** Add File: {name}\n+one\n+two\n*** End Patch\n"
            await call(session, apply_patch, {"patch": add})
            update = f"*** Begin Patch\n*** Update File: {name}\n@@\n-one\n+three\n*** End Patch\n"
            await call(session, apply_patch, {"patch": update})
            assert (machine.folder / name).read_text() == "three\ntwo\n"
            delete = f"*** Begin Patch\n*** Delete File: {name}\n*** End Patch\n"
            await call(session, apply_patch, {"patch": delete})
            assert files_of(machine.folder) == []


async def test_names_that_are_no_text_hide_no_other_file(machine: Machine, tmp_path: Path) -> None:
    folder = os.fsencode(machine.folder)
    os.mkdir(folder + b"/sub\xff")
    for name in (b"\xff\xfe", b"latin-\xe9", b"sub\xff/inner", b"plain"):
        Path(os.fsdecode(folder + b"/" + name)).write_text("needle\n")
    async with session_on(machine.settings, tmp_path / "here") as session:
        listing = (await call(session, list_files, {"path": "."})).text
        found = (await call(session, find_files, {"pattern": "*"})).text
        hits = (await call(session, grep, {"pattern": "needle", "path": "."})).text
        for text in (listing, found, hits):
            text.encode()  # what goes to a model must be text
            assert "latin-" in text
            assert "plain" in text
        assert "inner" in found
        assert hits.count("1:needle") == 4
        await call(session, edit_file, {"path": "plain", "old": "needle", "new": "thread"})
    assert (machine.folder / "plain").read_text() == "thread\n"


def files_of(folder: Path) -> list[str]:
    """Return the files in and below a folder, by their paths in it."""
    return [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
