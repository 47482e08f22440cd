"""`edit_file` on real files: what the model reads, what stands on disk afterwards, what is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from buddy.agent.display import Diff, FileDiff
from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from tests.capabilities import requires
from tests.support.tool_project import ToolProject


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


async def test_the_result_shows_counts_lines_and_the_new_region(project: ToolProject) -> None:
    project.put("a.py", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    result = await project.call(edit_file, path="a.py", old="four\n", new="4\n4b\n")
    assert result.text == (
        "a.py: +2 −1, lines 4–5\n     2\ttwo\n     3\tthree\n     4\t4\n     5\t4b\n     6\tfive\n     7\tsix"
    )
    assert result.display == Diff(
        (
            FileDiff(
                "a.py",
                "update",
                "@@ -1,7 +1,8 @@\n one\n two\n three\n-four\n+4\n+4b\n five\n six\n seven\n",
                added=2,
                removed=1,
            ),
        )
    )


async def test_several_edits_are_applied_in_order_and_written_once_or_not_at_all(
    project: ToolProject,
) -> None:
    project.put("a.txt", "x y x\n")
    await project.call(
        edit_file, path="a.txt", edits=[{"old": "x", "new": "a", "all": True}, {"old": "y a", "new": "b"}]
    )
    assert project.bytes("a.txt") == b"a b\n"
    answer = await project.ask(
        edit_file, path="a.txt", edits=[{"old": "a", "new": "c"}, {"old": "q", "new": "d"}]
    )
    assert answer.startswith("refused: edit 2 of 2 (the edits before it do fit): the old text was not found")
    assert project.bytes("a.txt") == b"a b\n"


async def test_names_other_programs_use_for_arguments_are_accepted_and_unknown_ones_are_not(
    project: ToolProject,
) -> None:
    project.put("a.txt", "old\n")
    await project.call(edit_file, file_path="a.txt", old_string="old", new_string="new", replace_all=True)
    assert project.bytes("a.txt") == b"new\n"
    assert "unknown argument 'colour'" in await project.ask(
        edit_file, path="a.txt", old="new", new="x", colour=1
    )


@pytest.mark.parametrize("path", [["a"], 5, None])
async def test_SEC_100_a_path_that_is_no_text_is_a_tool_error(project: ToolProject, path: object) -> None:
    project.put("5", "x\n")
    answer = await project.ask(edit_file, path=path, old="x", new="y")
    assert answer.startswith("refused: ") or project.bytes("5") == b"y\n"  # 5 is taken as the name "5"


async def test_arguments_that_contradict_each_other_are_refused(project: ToolProject) -> None:
    project.put("a.txt", "x\n")
    both = await project.ask(edit_file, path="a.txt", old="x", new="y", edits=[{"old": "x", "new": "z"}])
    assert both == "refused: give either old and new, or edits, not both"
    assert "expected old and new" in await project.ask(edit_file, path="a.txt", old="x")


async def test_an_empty_old_creates_a_file_with_its_folders(project: ToolProject) -> None:
    await project.call(edit_file, path="deep/er/new.txt", old="", new="hello\n")
    assert project.bytes("deep/er/new.txt") == b"hello\n"


async def test_a_missing_file_is_answered_with_near_names(project: ToolProject) -> None:
    project.put("src/parser.py", "x\n")
    assert await project.ask(edit_file, path="src/parsr.py", old="x", new="y") == (
        "refused: src/parsr.py does not exist. Did you mean src/parser.py?"
    )
    assert "Did you mean src/parser.py?" in await project.ask(edit_file, path="parser.py", old="x", new="y")


async def test_a_loose_match_is_named_in_the_result(project: ToolProject) -> None:
    project.put("a.py", "if x:\n    go()\n")
    result = await project.call(edit_file, path="a.py", old="      go()", new="      stop()")
    assert "Note: The old text did not match exactly: indentation differed." in result.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\r\nold\r\nb\r\n", "a\r\nnew\r\nmore\r\nb\r\n"),
        ("\ufeffa\nold\nb", "\ufeffa\nnew\nmore\nb"),
        ("a\rold\rb", "a\rnew\rmore\rb"),
        ("a\nb\r\nold\r\nc\nd", "a\nb\r\nnew\r\nmore\r\nc\nd"),
        ("a\r\nb\nold\nc\r\n", "a\r\nb\nnew\nmore\nc\r\n"),
    ],
    ids=["crlf", "mark, no final newline", "old mac", "crlf region", "lf region"],
)
async def test_line_ends_marks_and_final_newlines_stay(project: ToolProject, before: str, after: str) -> None:
    project.put("a.txt", before)
    await project.call(edit_file, path="a.txt", old="old", new="new\nmore")
    assert project.bytes("a.txt") == after.encode()


async def test_encodings_stay_and_characters_they_lack_are_refused(project: ToolProject) -> None:
    project.put("wide.txt", "\ufeffgrün\r\nold\r\n".encode("utf-16-le"))
    await project.call(edit_file, path="wide.txt", old="old", new="neu €")
    assert project.bytes("wide.txt") == "\ufeffgrün\r\nneu €\r\n".encode("utf-16-le")
    project.put("latin.txt", b"gr\xfcn\nold\n")
    await project.call(edit_file, path="latin.txt", old="old", new="schön")
    assert project.bytes("latin.txt") == b"gr\xfcn\nsch\xf6n\n"
    refusal = await project.ask(edit_file, path="latin.txt", old="schön", new="€")
    assert "the file is latin-1, which cannot hold '€' (U+20AC)" in refusal
    assert project.bytes("latin.txt") == b"gr\xfcn\nsch\xf6n\n"


async def test_half_a_character_is_refused_and_nothing_is_written(project: ToolProject) -> None:
    project.put("a.txt", "old\n")
    assert (await project.ask(edit_file, path="a.txt", old="old", new="\ud800")).startswith("refused: ")
    assert project.bytes("a.txt") == b"old\n"


async def test_a_text_that_would_make_the_file_binary_is_refused(project: ToolProject) -> None:
    project.put("a.c", "char end = 'x';\n")
    refusal = await project.ask(edit_file, path="a.c", old="'x'", new="'\0'")
    assert refusal.startswith("refused: the new text has a NUL character (U+0000)")
    assert 'the arguments need "\\\\0"' in refusal
    patch = "*** Begin Patch\n*** Update File: a.c\n@@\n-char end = 'x';\n+\0\n*** End Patch"
    assert "NUL" in await project.ask(apply_patch, patch=patch)
    assert project.bytes("a.c") == b"char end = 'x';\n"
    project.put("late.txt", b"x" * 9_000 + b"\0old\n")
    await project.call(edit_file, path="late.txt", old="old", new="new")
    assert project.bytes("late.txt") == b"x" * 9_000 + b"\0new\n"


async def test_binary_and_huge_files_and_folders_are_refused(project: ToolProject) -> None:
    project.put("b.bin", b"abc\0def")
    assert "is binary" in await project.ask(edit_file, path="b.bin", old="abc", new="x")
    (project.root / "huge.txt").touch()
    os.truncate(project.root / "huge.txt", 60_000_000)
    assert "at most 50,000,000" in await project.ask(edit_file, path="huge.txt", old="a", new="b")
    (project.root / "folder").mkdir()
    assert "folder is a folder; expected a file" in await project.ask(
        edit_file, path="folder", old="a", new="b"
    )


async def test_past_five_megabytes_only_exact_text_is_found(project: ToolProject) -> None:
    project.put("big.txt", "    line\n" * 700_000 + "    last\n")
    assert (await project.ask(edit_file, path="big.txt", old="last\n\n", new="x")).startswith("refused: ")
    await project.call(edit_file, path="big.txt", old="    last", new="    end")
    assert project.bytes("big.txt").endswith(b"    line\n    end\n")


async def test_the_mode_stays_and_new_files_follow_the_umask(project: ToolProject) -> None:
    script = project.put("run.sh", "#!/bin/sh\necho old\n")
    script.chmod(0o750)
    await project.call(edit_file, path="run.sh", old="old", new="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    (project.root / "plain.txt").touch()
    await project.call(write_file, path="new.txt", content="x")
    assert (project.root / "new.txt").stat().st_mode == (project.root / "plain.txt").stat().st_mode


async def test_a_read_only_file_is_refused(project: ToolProject) -> None:
    if os.geteuid() == 0:
        return  # nothing is read-only for root
    project.put("a.txt", "old\n").chmod(0o444)
    assert "permission denied" in await project.ask(edit_file, path="a.txt", old="old", new="new")


async def test_a_link_is_written_through_and_stays_a_link(project: ToolProject) -> None:
    project.put("real.txt", "old\n")
    (project.root / "link.txt").symlink_to("real.txt")
    await project.call(edit_file, path="link.txt", old="old", new="new")
    assert (project.root / "link.txt").is_symlink()
    assert project.bytes("real.txt") == b"new\n"


async def test_SEC_062_a_hard_link_gets_a_file_of_its_own(project: ToolProject, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.txt"
    outside.write_text("old\n")
    os.link(outside, project.root / "inside.txt")
    await project.call(edit_file, path="inside.txt", old="old", new="new")
    assert (outside.read_text(), project.bytes("inside.txt")) == ("old\n", b"new\n")


async def test_a_changed_file_is_edited_when_the_old_text_is_still_unique_and_says_so(
    project: ToolProject,
) -> None:
    path = project.put("a.txt", "one\ntwo\n")
    await project.call(read_file, path="a.txt")
    path.write_text("one\ntwo\nthree\n")
    result = await project.call(edit_file, path="a.txt", old="two", new="2")
    assert "a.txt had changed since you read it" in result.text
    assert project.bytes("a.txt") == b"one\n2\nthree\n"


async def test_a_refusal_on_a_changed_file_shows_the_changed_lines(project: ToolProject) -> None:
    path = project.put("a.txt", "import b\nimport a\n")
    await project.call(read_file, path="a.txt")
    path.write_text("import a\nimport b\n")
    refusal = await project.ask(edit_file, path="a.txt", old="import b\nimport a", new="import c")
    assert refusal.endswith("a.txt changed since you read it:\n+1     import a\n-2     import a")


async def test_a_tasks_own_writes_count_as_read(project: ToolProject) -> None:
    project.put("a.txt", "a\nb\n")
    await project.call(read_file, path="a.txt")
    await project.call(edit_file, path="a.txt", old="a", new="A")
    await project.call(edit_file, path="a.txt", old="b", new="B")
    await project.call(write_file, path="a.txt", content="whole\n")
    assert project.bytes("a.txt") == b"whole\n"


async def test_the_preview_is_what_is_written_then(project: ToolProject) -> None:
    project.put("a.txt", "one\ntwo\n")
    arguments = {"path": "a.txt", "old": "two", "new": "2"}
    shown = project.preview(edit_file, "c1", **arguments)
    assert project.bytes("a.txt") == b"one\ntwo\n"
    result = await project.call(edit_file, call_id="c1", **arguments)
    assert result.display == shown


async def test_SEC_064_a_file_that_changed_after_it_was_shown_is_not_written(project: ToolProject) -> None:
    path = project.put("a.txt", "one\ntwo\n")
    arguments = {"path": "a.txt", "old": "two", "new": "2"}
    project.preview(edit_file, "c1", **arguments)
    path.write_text("ONE\ntwo\n")
    with pytest.raises(ToolError, match="changed on disk after this change was shown"):
        await project.call(edit_file, call_id="c1", **arguments)
    assert path.read_text() == "ONE\ntwo\n"


async def test_a_call_that_would_be_refused_is_refused_by_its_preview(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    with pytest.raises(ToolError, match="not found"):
        project.preview(edit_file, "c1", path="a.txt", old="two", new="2")


async def test_at_most_forty_lines_of_the_new_region_are_shown(project: ToolProject) -> None:
    project.put("a.txt", "x\n")
    result = await project.call(edit_file, path="a.txt", old="x", new="\n".join(map(str, range(200))))
    assert len(result.text.split("\n")) == 42


@requires("extended attributes")
async def test_REL_064_extended_attributes_stay(project: ToolProject) -> None:
    path = project.put("a.txt", "one\n")
    os.setxattr(path, "user.note", b"kept")
    await project.call(edit_file, path="a.txt", old="one", new="two")
    assert (os.getxattr(path, "user.note"), path.read_bytes()) == (b"kept", b"two\n")


async def test_the_other_names_of_a_hard_link_are_told(project: ToolProject) -> None:
    path = project.put("a.txt", "one\n")
    os.link(path, project.root / "b.txt")
    answer = await project.ask(edit_file, path="a.txt", old="one", new="two")
    assert answer.endswith("\nNote: a.txt was a hard link; its other names (1) keep the old content.")
    assert (project.bytes("a.txt"), project.bytes("b.txt")) == (b"two\n", b"one\n")
    assert "hard link" not in await project.ask(edit_file, path="a.txt", old="two", new="three")
