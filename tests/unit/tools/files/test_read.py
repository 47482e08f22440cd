"""`read_file` and `list_files`: numbers, limits, kinds of files, and things that must never be waited for."""

from __future__ import annotations

import asyncio
import base64
import bz2
import hashlib
import json
import os
import socket
import time
from pathlib import Path

import pytest

from buddy.agent.display import Picture, PictureFile, Plain
from buddy.agent.tool import ToolContext, ToolError
from buddy.tools.files.listing import IgnoreRules, list_files
from buddy.tools.files.move import delete_file
from buddy.tools.files.read import read_file
from buddy.tools.files.read_documents import pdf_pages
from buddy.tools.files.write import write_file
from buddy.workspace.files.picture_header import picture_size
from buddy.workspace.files.read_tracking import FileViews
from tests.support.tool_project import ToolProject

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


async def test_lines_come_with_numbers_and_the_total(project: ToolProject) -> None:
    project.put("a.txt", "one\n\ttwo\nthree")
    assert await project.ask(read_file, path="a.txt") == (
        "     1\tone\n     2\t\ttwo\n     3\tthree\n[a.txt: lines 1–3 of 3]"
    )


async def test_the_next_offset_is_told(project: ToolProject) -> None:
    project.put("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    assert await project.ask(read_file, path="a.txt", offset=4, limit=2) == (
        "     4\tline 4\n     5\tline 5\n[a.txt: lines 4–5 of 10; offset=6 for more]"
    )


async def test_a_negative_offset_is_the_end_of_the_file(project: ToolProject) -> None:
    project.put("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    assert (await project.ask(read_file, path="a.txt", offset=-2)).startswith(
        "     9\tline 9\n    10\tline 10\n"
    )


async def test_empty_and_past_the_end_are_told_apart(project: ToolProject) -> None:
    project.put("empty.txt", "")
    project.put("a.txt", "one\n")
    assert await project.ask(read_file, path="empty.txt") == "empty.txt is empty"
    assert (
        await project.ask(read_file, path="a.txt", offset=9) == "a.txt has 1 line; offset 9 is past its end"
    )


async def test_at_most_two_thousand_lines_and_fifty_kilobytes(project: ToolProject) -> None:
    project.put("many.txt", "x\n" * 5000)
    text = await project.ask(read_file, path="many.txt", limit=9999)
    assert text.endswith("[many.txt: lines 1–2000 of 5,000; offset=2001 for more]")
    project.put("wide.txt", ("y" * 999 + "\n") * 200)
    text = await project.ask(read_file, path="wide.txt")
    assert len(text.encode()) < 51_000
    assert "of 200; offset=" in text


async def test_long_lines_are_cut_and_said_so(project: ToolProject) -> None:
    project.put("a.txt", "z" * 5000 + "\nshort\n")
    text = await project.ask(read_file, path="a.txt")
    assert "… (cut: the line has 5,000 characters)" in text
    assert "1 line cut at 2,000 characters" in text


async def test_what_makes_a_file_odd_is_told(project: ToolProject) -> None:
    project.put("a.txt", "a\r\nb\r\n".encode("utf-16"))
    assert "encoding utf-16-le, line ends '\\r\\n'" in await project.ask(read_file, path="a.txt")


async def test_an_unchanged_file_is_answered_in_one_line_once(project: ToolProject) -> None:
    path = project.put("a.txt", "one\n")
    whole = await project.ask(read_file, path="a.txt")
    again = await project.call(read_file, path="a.txt")
    assert again.text == "a.txt is unchanged since you read it (lines 1–1 of 1)"
    assert again.display == Plain("unchanged"), "`read a.txt · unchanged` on the screen"
    assert await project.ask(read_file, path="a.txt") == whole
    assert (await project.ask(read_file, path="a.txt", task_id=2)) == whole
    path.write_text("two\n")
    assert "two" in await project.ask(read_file, path="a.txt")


async def test_after_compaction_nothing_counts_as_shown(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    whole = await project.ask(read_file, path="a.txt")
    views = project.services()[FileViews]
    assert isinstance(views, FileViews)
    views.forget_shown()
    assert await project.ask(read_file, path="a.txt") == whole


async def test_a_missing_file_is_answered_with_near_names(project: ToolProject) -> None:
    project.put("readme.md", "x")
    assert await project.ask(read_file, path="README.md") == (
        "refused: README.md does not exist. Did you mean readme.md?"
    )


async def test_a_folder_is_listed(project: ToolProject) -> None:
    project.put("src/a.py", "x" * 1500)
    project.put("src/sub/b.py", "x")
    (project.root / "src/link").symlink_to("a.py")
    expected = "src: 3 entries\nsub/\na.py  1.5 kB\nlink  (link to a.py)"
    assert await project.ask(read_file, path="src") == expected
    assert await project.ask(list_files, path="src") == expected
    assert "is not a folder" in await project.ask(list_files, path="src/a.py")


async def test_ignored_entries_are_counted_and_an_ignored_folder_asked_for_is_listed(
    project: ToolProject,
) -> None:
    project.put("a.py", "x")
    project.put("out/b.o", "x")
    rules = IgnoreRules(lambda path, folder: "/out" in path)
    context = ToolContext(1, "c", print, asyncio.Event(), {**project.services(), IgnoreRules: rules})
    listed = [await list_files.run(context, list_files.decode(text)) for text in ("{}", '{"path": "out"}')]
    assert [result.text for result in listed] == [
        ".: 1 entry, 1 ignored\na.py  1 B",
        "out: 1 entry\nb.o  1 B",
    ]


async def test_names_with_control_characters_are_shown_harmless(project: ToolProject) -> None:
    project.put("a\x1b[31mb\nc", "x")
    assert "\x1b" not in await project.ask(list_files)


async def test_pictures_reach_the_model_as_pictures(project: ToolProject) -> None:
    project.put("dot.data", PNG)
    result = await project.call(read_file, path="dot.data")
    assert [(image.media_type, image.data) for image in result.images] == [
        ("image/png", base64.b64encode(PNG).decode())
    ]
    file = PictureFile(str(project.root / "dot.data"), hashlib.sha256(PNG).hexdigest())
    assert result.display == Picture("dot.data", f"dot.data: image/png, {len(PNG)} bytes", (file,))
    assert picture_size(PNG) == (1, 1)


async def test_a_picture_too_large_to_send_says_what_to_do(project: ToolProject) -> None:
    project.put("big.jpg", b"\xff\xd8\xff" + bytes(4_000_000))
    answer = await project.ask(read_file, path="big.jpg")
    assert "cannot be sent as it is" in answer or "cannot be read" in answer


async def test_notebooks_are_shown_as_cells_without_blobs(project: ToolProject) -> None:
    book = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {
                "cell_type": "code",
                "source": "plot()",
                "outputs": [
                    {"output_type": "stream", "text": ["done\n"]},
                    {
                        "output_type": "display_data",
                        "data": {"image/png": "A" * 5000, "text/plain": "<Figure>"},
                    },
                    {"output_type": "error", "ename": "E", "evalue": "bad"},
                ],
            },
        ]
    }
    project.put("a.ipynb", json.dumps(book))
    text = await project.ask(read_file, path="a.ipynb")
    assert "# Title" in text
    assert "[image/png, 5,000 characters]" in text
    assert "[output] <Figure>" in text
    assert "[error] E: bad" in text
    assert "AAAA" not in text


async def test_broken_notebooks_programs_archives_and_binaries_say_what_they_are(
    project: ToolProject,
) -> None:
    project.put("a.ipynb", "{not json")
    project.put("a.zip", b"PK\x03\x04rest")
    project.put("a.docx", b"PK\x03\x04......word/document.xml")
    project.put("a.out", b"\x7fELF\0\0")
    project.put("a.bin", b"x\0y")
    answers = [
        await project.ask(read_file, path=name) for name in ("a.ipynb", "a.zip", "a.docx", "a.out", "a.bin")
    ]
    expected = ["not one", "an archive", "an Office document", "a program", "is binary"]
    assert [want in answer for want, answer in zip(expected, answers, strict=True)] == [True] * 5


async def test_a_broken_notebook_is_read_by_its_lines_and_can_be_repaired(project: ToolProject) -> None:
    project.put("a.ipynb", '{\n<<<<<<< HEAD\n "cells": []\n=======\n>>>>>>> theirs\n}\n')
    project.put("old.ipynb", '{"worksheets": [], "nbformat": 3}\n')
    assert await project.ask(read_file, path="a.ipynb") == (
        '     1\t{\n     2\t<<<<<<< HEAD\n     3\t "cells": []\n     4\t=======\n     5\t>>>>>>> theirs\n'
        "     6\t}\n[a.ipynb: lines 1–6 of 6]\nIt is named like a notebook but is not one: it is not JSON, "
        "Expecting property name enclosed in double quotes: line 2 column 1 (char 2). These are the lines of "
        "the file."
    )
    assert "it has no cells as notebooks of format 4" in await project.ask(read_file, path="old.ipynb")
    await project.call(write_file, path="a.ipynb", content='{\n "cells": []\n}\n')
    assert await project.ask(read_file, path="a.ipynb") == "a.ipynb is a notebook without cells"


async def test_what_no_reading_shows_whole_is_not_asked_to_be_read_before_it_is_replaced(
    project: ToolProject,
) -> None:
    project.put("a.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": "x", "outputs": None}]}))
    project.put("dot.png", PNG)
    project.put("a.bin", b"x\0y")
    project.put("min.js", "x" * 3000)
    project.put("big.txt", "line\n" * 2_000_000)
    said = "exists, and read_file cannot show the whole of it: "
    for name, why in {
        "a.ipynb": "it is a notebook",
        "dot.png": "it is not text",
        "a.bin": "it is not text",
        "min.js": "it has lines of more than 2,000 characters",
        "big.txt": "it is too large",
    }.items():
        await project.ask(read_file, path=name)
        answer = await project.ask(write_file, path=name, content="new\n")
        assert answer.startswith(f"refused: {name} {said}{why}. "), answer
        await project.call(delete_file, path=name)
        await project.call(write_file, path=name, content="new\n")
        assert project.bytes(name) == b"new\n"


async def test_texts_that_begin_with_the_letters_of_a_picture_or_an_archive_are_texts(
    project: ToolProject,
) -> None:
    for name, text in {
        "a": "GIF89a is a format",
        "b": "BZhang",
        "c": "RIFFabcdWEBP, they say",
        "d": "BM",
    }.items():
        project.put(name, text)
        assert (await project.ask(read_file, path=name)).startswith(f"     1\t{text}\n")
    project.put("e", bz2.compress(b"x"))
    project.put("f", bz2.compress(b""))
    for name in ("e", "f"):
        assert "is an archive" in await project.ask(read_file, path=name)


async def test_a_pdf_that_cannot_be_read_says_why(project: ToolProject) -> None:
    project.put("a.pdf", b"%PDF-1.4\nbroken")
    answer = await project.ask(read_file, path="a.pdf")
    assert answer.startswith("refused: a.pdf is a PDF")
    with pytest.raises(ToolError):
        pdf_pages(b"%PDF-1.4\nbroken", "a.pdf")


async def test_SEC_063_pipes_sockets_devices_and_kernel_files_are_refused_at_once(
    project: ToolProject,
) -> None:
    os.mkfifo(project.root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(project.root / "socket"))
    (project.root / "zero").symlink_to("/dev/zero")
    started = time.perf_counter()
    for name in ("pipe", "socket", "zero", "/dev/zero", "/dev/tty", "/proc/kcore", "/proc/self/mem"):
        answer = await project.ask(read_file, path=name)
        assert answer.startswith("refused: "), (name, answer)
    server.close()
    assert time.perf_counter() - started < 40  # a deadline against hanging


async def test_SEC_060_odd_paths_are_read_in_canonical_form_or_refused(project: ToolProject) -> None:
    project.put("a/b.txt", "x\n")
    project.put("line\nbreak", "y\n")
    for task, path in enumerate(("a/../a/b.txt", "a/./b.txt", "a//b.txt", "a/b.txt/")):
        assert (await project.ask(read_file, path=path, task_id=task)).startswith("     1\tx")
    assert (await project.ask(read_file, path="line\nbreak")).startswith("     1\ty")
    for path in ("a\0b", "n" * 5000, ""):
        assert (await project.ask(read_file, path=path)).startswith("refused: ")


async def test_SEC_065_a_sparse_file_of_ten_gigabytes_is_answered_within_limits(project: ToolProject) -> None:
    (project.root / "sparse").touch()
    os.truncate(project.root / "sparse", 10_000_000_000)
    assert "is binary (10,000,000,000 bytes)" in await project.ask(read_file, path="sparse")


async def test_a_large_file_is_read_by_seeking(project: ToolProject) -> None:
    with (project.root / "log").open("w") as file:
        file.writelines(f"entry {n:07}\n" for n in range(1, 1_000_001))
    assert await project.ask(read_file, path="log", offset=777_777, limit=1) == (
        "777777\tentry 0777777\n[log: lines 777777–777777 of 1,000,000; offset=777778 for more]"
    )
    assert (await project.ask(read_file, path="log", offset=-1)).startswith("1000000\tentry 1000000\n")
    assert "past its end" in await project.ask(read_file, path="log", offset=2_000_000)


async def test_a_large_file_of_one_line_stays_bounded(project: ToolProject) -> None:
    project.put("one", b"x" * 20_000_000)
    text = await project.ask(read_file, path="one")
    assert text.endswith(
        "… (cut: the line has more than 58,000 characters)\n[one: lines 1–1 of 1; 1 line cut at 2,000 "
        "characters]"
    )
    assert len(text) < 3000
    assert len(await project.ask(read_file, path="one", offset=-3)) < 3000


async def test_the_last_lines_of_a_large_file_have_their_own_numbers_however_far_it_is_to_them(
    project: ToolProject,
) -> None:
    path = project.put("a", b"one\ntwo\n" + b"x" * 9000)
    os.truncate(path, 70_000_000)
    with path.open("ab") as file:
        file.write(b"\nlast\n")
    answer = await project.ask(read_file, path="a", offset=-4, limit=3)
    assert answer.startswith("     1\tone\n     2\ttwo\n     3\txxx")
    assert (await project.ask(read_file, path="a", offset=-2)).startswith("     3\txxx")
    assert (await project.ask(read_file, path="a", offset=-99, limit=1)).startswith(
        "     1\tone\n[a: lines 1–1"
    )
    assert await project.ask(read_file, path="a", offset=-1) == "     4\tlast\n[a: lines 4–4 of 4]"


async def test_large_files_in_other_encodings_are_read_as_small_ones_are(project: ToolProject) -> None:
    project.put("wide.txt", ("grün\n" * 1_000_000).encode("utf-16"))
    project.put("marked.txt", "\ufefffirst\n" + "line\n" * 2_000_000)
    assert await project.ask(read_file, path="wide.txt", offset=-1) == (
        "1000000\tgrün\n[wide.txt: lines 1000000–1000000 of 1,000,000]\n"
        "[encoding utf-16-le; kept when the file is edited]"
    )
    for offset in (1, -3_000_000):
        assert await project.ask(read_file, path="marked.txt", offset=offset, limit=1) == (
            "     1\tfirst\n[marked.txt: lines 1–1 of 2,000,001; offset=2 for more]"
        )


async def test_a_limit_below_one_is_refused(project: ToolProject) -> None:
    project.put("a.txt", "x\n")
    assert "at least 1" in await project.ask(read_file, path="a.txt", limit=0)
