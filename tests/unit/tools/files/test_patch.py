"""`apply_patch`: sections, hunks, four passes, all files or none."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from buddy.agent.display import Diff, FileDiff
from buddy.agent.tool import ToolError, call_title
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.patch_format import parse_patch
from buddy.tools.files.read import read_file
from buddy.workspace.files.atomic_replace import DISK, Disk
from tests.support.tool_project import ToolProject


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    return ToolProject(tmp_path)


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


async def applied(project: ToolProject, before: str, *hunk: str) -> str:
    """The file after a patch of one update section."""
    project.put("f.txt", before)
    answer = await project.ask(apply_patch, patch=patch("*** Update File: f.txt", *hunk))
    return answer if answer.startswith("refused") else project.bytes("f.txt").decode()


async def test_files_are_added_changed_moved_and_deleted_together(project: ToolProject) -> None:
    project.put("a.txt", "one\ntwo\n")
    project.put("b.txt", "bye\n")
    project.put("c.txt", "stay\n")
    text = patch(
        "*** Add File: new/d.txt",
        "+hello",
        "*** Update File: a.txt",
        "@@",
        " one",
        "-two",
        "+2",
        "*** Update File: c.txt",
        "*** Move to: moved/c.txt",
        "*** Delete File: b.txt",
    )
    result = await project.call(apply_patch, patch=text)
    files = {name: project.bytes(name) for name in ("new/d.txt", "a.txt", "moved/c.txt")}
    assert files == {"new/d.txt": b"hello\n", "a.txt": b"one\n2\n", "moved/c.txt": b"stay\n"}
    assert not (project.root / "b.txt").exists()
    assert not (project.root / "c.txt").exists()
    assert isinstance(result.display, Diff)
    assert [(file.path, file.change) for file in result.display.files] == [
        ("new/d.txt", "add"),
        ("a.txt", "update"),
        ("c.txt", "move"),
        ("b.txt", "delete"),
    ]


async def test_one_section_that_does_not_fit_leaves_every_file_as_it_was(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    answer = await project.ask(
        apply_patch,
        patch=patch("*** Add File: new.txt", "+x", "*** Update File: a.txt", "@@", "-two", "+2"),
    )
    assert (
        answer.startswith("refused: hunk 1 of 1 for a.txt") or "not found in hunk 1 of 1 for a.txt" in answer
    )
    assert not (project.root / "new.txt").exists()


async def test_a_write_that_fails_late_takes_the_earlier_ones_back(tmp_path: Path) -> None:
    def exchange(source: str, target: str, folder: int) -> bool:
        if target == "b.txt":
            raise OSError(28, "No space left on device")
        return DISK.exchange(source, target, folder)

    project = ToolProject(tmp_path, disk=Disk(DISK.write, DISK.sync, DISK.rename, exchange))
    project.put("a.txt", "one\n")
    project.put("b.txt", "two\n")
    text = patch("*** Update File: a.txt", "@@", "-one", "+1", "*** Update File: b.txt", "@@", "-two", "+2")
    answer = await project.ask(apply_patch, patch=text)
    assert answer == "refused: cannot write b.txt: the disk is full; nothing was changed"
    assert (project.bytes("a.txt"), project.bytes("b.txt")) == (b"one\n", b"two\n")
    assert project.undo.entries() == ()
    assert [name for name in os.listdir(project.root) if name.endswith(".tmp")] == []


async def test_context_narrows_down_where_a_hunk_goes(project: ToolProject) -> None:
    before = "def g():\n    pass\n\ndef f():\n    pass\n"
    assert await applied(project, before, "@@ def f():", "-    pass", "+    return 1") == (
        "def g():\n    pass\n\ndef f():\n    return 1\n"
    )


async def test_a_hunk_that_fits_twice_is_refused_with_both_lines(project: ToolProject) -> None:
    answer = await applied(project, "x\ny\nx\n", "@@", "-x", "+z")
    assert "its lines stand at line 1 and again at line 3" in answer


async def test_a_hunk_that_fits_behind_its_anchor_twice_is_refused_with_both_lines(
    project: ToolProject,
) -> None:
    twice = "class A:\n  def f():\n    1\nclass B:\n  def f():\n    1\n"
    answer = await applied(project, twice, "@@ def f():", "-    1", "+    2")
    assert "its lines stand at line 3 and again at line 6, and the @@ line above both" in answer
    for name, after in (("A", "    2\nclass B:\n  def f():\n    1\n"), ("B", None)):
        told = await applied(project, twice, f"@@ class {name}:", "@@ def f():", "-    1", "+    2")
        assert told == f"class A:\n  def f():\n{after}" if after else told.endswith("B:\n  def f():\n    2\n")
    once = "def f():\n  0\ndef f():\n  1\n"
    assert await applied(project, once, "@@ def f():", "-  1", "+  2") == "def f():\n  0\ndef f():\n  2\n"


async def test_hunks_follow_each_other_and_say_so_when_they_do_not(project: ToolProject) -> None:
    assert await applied(project, "a\nb\nc\n", "@@", "-a", "+A", "@@", "-c", "+C") == "A\nb\nC\n"
    answer = await applied(project, "a\nb\nc\n", "@@", "-c", "+C", "@@", "-a", "+A")
    assert "stands at line 1, before the hunk above it" in answer


@pytest.mark.parametrize(
    ("before", "old", "after"),
    [
        ("keep\t \nold  \n", "old", "keep\t \nnew\n"),
        ("keep\n    old\n", "old", "keep\n    new\n"),
        ("keep\n“old” – it\n", '"old" - it', "keep\nnew\n"),
    ],
    ids=["trailing blanks", "indentation", "typography"],
)
async def test_lines_may_differ_in_blanks_and_typography(
    project: ToolProject, before: str, old: str, after: str
) -> None:
    assert await applied(project, before, "@@", " keep", f"-{old}", "+new") == after


async def test_added_lines_end_as_the_file_does_and_the_last_line_ends_too(project: ToolProject) -> None:
    assert await applied(project, "a\r\nb", "@@", " a", "+x", " b") == "a\r\nx\r\nb\r\n"


async def test_lines_without_context_go_to_the_end(project: ToolProject) -> None:
    assert await applied(project, "a\n", "@@", "+b") == "a\nb\n"
    assert await applied(project, "", "@@", "+b") == "b\n"


async def test_lines_after_an_anchor_without_context_are_refused(project: ToolProject) -> None:
    assert "does not say on which side" in await applied(
        project, "def f():\n    a\n", "@@ def f():", "+    b"
    )


async def test_the_end_of_file_marker_means_the_last_place(project: ToolProject) -> None:
    before = "mark\nx\nmark\n"
    assert await applied(project, before, "@@", "-mark", "+end", "*** End of File") == "mark\nx\nend\n"


@pytest.mark.parametrize(
    "text",
    [
        "not a patch",
        "*** Begin Patch\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\n+x",
        "*** Begin Patch\n*** Frob File: a\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\nno sign\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch",
        "*** Begin Patch\n*** Update File: a\n@@\n@@\n*** End Patch",
        "<<EOF\n*** Begin Patch\n*** Update File: a\nEOF",
    ],
)
def test_text_that_is_no_patch_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ToolError, match="expected"):
        parse_patch(text)


def test_a_here_document_around_the_patch_is_looked_through() -> None:
    body = patch("*** Delete File: a")
    assert parse_patch(f"apply_patch <<'EOF'\n{body}\nEOF\n") == parse_patch(body)


async def test_an_existing_file_is_replaced_by_an_add_only_when_it_was_read(project: ToolProject) -> None:
    project.put("a.txt", "old\n")
    text = patch("*** Add File: a.txt", "+new")
    assert "you have not read it" in await project.ask(apply_patch, patch=text)
    await project.call(read_file, path="a.txt")
    await project.call(apply_patch, patch=text)
    assert project.bytes("a.txt") == b"new\n"


async def test_one_file_in_two_sections_is_refused_also_through_a_link(project: ToolProject) -> None:
    project.put("a.txt", "x\n")
    (project.root / "l.txt").symlink_to("a.txt")
    text = patch("*** Update File: a.txt", "@@", "-x", "+y", "*** Update File: l.txt", "@@", "-x", "+z")
    assert "more than one section" in await project.ask(apply_patch, patch=text)


async def test_the_preview_of_a_patch_is_what_is_written(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    text = patch("*** Update File: a.txt", "*** Move to: b.txt", "@@", "-one", "+1")
    shown = project.preview(apply_patch, "c1", patch=text)
    assert shown == Diff(
        (FileDiff("a.txt", "move", "@@ -1 +1 @@\n-one\n+1\n", added=1, removed=1, new_path="b.txt"),)
    )
    assert (await project.call(apply_patch, call_id="c1", patch=text)).display == shown


def test_the_paths_of_a_patch_are_its_access() -> None:
    text = patch("*** Add File: a", "+x", "*** Update File: b", "*** Move to: c", "*** Delete File: d")
    arguments = apply_patch.decode('{"patch": ' + json.dumps(text) + "}")
    assert apply_patch.access(arguments).writes == ("a", "b", "c", "d")


async def test_added_lines_move_with_the_indentation_of_the_lines_they_replace(project: ToolProject) -> None:
    before = "class A:\n    def f(self):\n        return 1\n"
    after = before.replace("return 1", "return 2")
    assert await applied(project, before, "@@", " def f(self):", "-    return 1", "+    return 2") == after


async def test_a_forgotten_sign_before_context_is_no_indentation(project: ToolProject) -> None:
    before = "def f():\n    a()\n    b()\n"
    after = "def f():\n    a()\n    x()\n    b()\n"
    assert await applied(project, before, "@@", "    a()", "+    x()", "    b()") == after


async def test_added_lines_stay_as_written_where_they_do_not_reach_the_indentation(
    project: ToolProject,
) -> None:
    assert await applied(project, "a\nb\n", "@@", "-    a", "-    b", "+    x", "+y") == "    x\ny\n"


async def test_a_line_that_stands_for_others_is_refused(project: ToolProject) -> None:
    answer = await applied(project, "a\nb\nc\n", "@@", "-a", "-b", "+z", "+# ... rest of the code ...")
    assert "instead of the code it stands for" in answer
    assert project.bytes("f.txt") == b"a\nb\nc\n"


async def test_two_update_sections_of_one_file_are_one(project: ToolProject) -> None:
    assert (
        await applied(project, "a\nb\n", "@@", "-a", "+A", "*** Update File: f.txt", "@@", "-b", "+B")
        == "A\nB\n"
    )


async def test_a_code_fence_around_the_patch_is_looked_through(project: ToolProject) -> None:
    project.put("f.txt", "a\n")
    fenced = "```diff\n" + patch("*** Update File: f.txt", "@@", "-a", "+b") + "\n```\n"
    assert "+1 −1" in await project.ask(apply_patch, patch=fenced)


async def test_line_numbers_after_at_signs_decide_only_where_the_text_stands_there(
    project: ToolProject,
) -> None:
    before = "x = 0\ny\nx = 0\n"
    assert await applied(project, before, "@@ -3,1 +3,1 @@", "-x = 0", "+x = 1") == "x = 0\ny\nx = 1\n"
    assert "again at line 3" in await applied(project, before, "@@ -2,1 +2,1 @@", "-x = 0", "+x = 1")


async def test_a_last_line_said_to_have_no_end_has_none(project: ToolProject) -> None:
    hunk = ("@@", " a", "-b", "\\ No newline at end of file", "+c", "\\ No newline at end of file")
    assert await applied(project, "a\nb", *hunk) == "a\nc"
    assert await applied(project, "a\nb", "@@", "-b", "\\ No newline at end of file", "+c") == "a\nc\n"


@pytest.mark.parametrize(
    "section", ["*** Delete File: l.txt", "*** Update File: l.txt\n*** Move to: b.txt\n@@\n-one\n+two"]
)
async def test_a_link_does_not_take_the_file_it_leads_to_with_it(project: ToolProject, section: str) -> None:
    project.put("a.txt", "one\n")
    (project.root / "l.txt").symlink_to("a.txt")
    answer = await project.ask(apply_patch, patch=f"*** Begin Patch\n{section}\n*** End Patch")
    assert "is a link, and the file it leads to would be gone. Nothing was changed" in answer
    assert project.bytes("a.txt") == b"one\n"
    assert (project.root / "l.txt").is_symlink()
    assert not (project.root / "b.txt").exists()


NESTED = "def f():\n    if a:\n        b()\n    return 1\n"


async def test_lines_that_are_nested_in_another_way_are_not_found(project: ToolProject) -> None:
    project.put("n.py", NESTED)
    start, end = "*** Begin Patch\n*** Update File: n.py\n@@\n", "*** End Patch"
    inside = f"{start}         b()\n-        return 1\n+        return 2\n{end}"
    assert "     4  ····return 1" in await project.ask(apply_patch, patch=inside)
    outside = inside.replace(
        "         b()\n-        return 1\n+        return 2", " b()\n-return 1\n+return 2"
    )
    assert (await project.ask(apply_patch, patch=outside)).startswith("n.py: +1 −1")
    assert project.bytes("n.py").decode() == NESTED.replace("return 1", "return 2")


async def test_a_hunk_without_any_indentation_takes_that_of_the_removed_lines(project: ToolProject) -> None:
    project.put("n.py", NESTED)
    start, end = "*** Begin Patch\n*** Update File: n.py\n@@\n if a:\n-b()\n", " return 1\n*** End Patch"
    assert "was not found" in await project.ask(apply_patch, patch=f"{start}+    c()\n{end}")
    await project.call(apply_patch, patch=f"{start}+c()\n{end}")
    assert project.bytes("n.py").decode() == NESTED.replace("b()", "c()")


async def test_added_lines_get_the_files_tabs_on_every_level(project: ToolProject) -> None:
    project.put("t.go", "\tif a {\n\t\tb()\n\t}\n")
    hunk = "     if a {\n-        b()\n+        if x {\n+            c()\n+        }\n     }\n"
    await project.call(apply_patch, patch=f"*** Begin Patch\n*** Update File: t.go\n@@\n{hunk}*** End Patch")
    assert project.bytes("t.go") == b"\tif a {\n\t\tif x {\n\t\t\tc()\n\t\t}\n\t}\n"


@pytest.mark.parametrize(
    ("anchor", "found"),
    [("def b", True), ("def b(y)", True), ("def b(y): @@", True), ("def a", False), ("def c", False)],
)
async def test_an_anchor_may_be_the_start_of_one_line(project: ToolProject, anchor: str, found: bool) -> None:
    project.put("d.py", "def aa():\n    x\n\ndef b(y):\n    x\n\ndef a_b():\n    x\n")
    said = await project.ask(
        apply_patch,
        patch=f"*** Begin Patch\n*** Update File: d.py\n@@ {anchor}\n-    x\n+    z\n*** End Patch",
    )
    assert said.startswith("d.py: +1 −1, line 5") is found, said


@pytest.mark.parametrize(
    "change",
    [
        ("*** Update File: n.py", "*** Update File: `n.py`"),
        ("*** Update File: n.py", "*** Update File:n.py"),
        ("*** Update File: n.py", "*** Update File: n.py\n--- a/n.py\n+++ b/n.py"),
        ("*** Update File: n.py", "*** Update File: n.py\n*** Move to: n.py"),
        ("*** Begin Patch", "This is it:\n\n*** Begin Patch"),
        ("*** End Patch", "*** End Patch\n*** Begin Patch\n*** Add File: m.py\n+m\n*** End Patch"),
    ],
    ids=["quoted", "no blank", "names again", "moved to itself", "words", "two patches"],
)
async def test_what_is_clear_in_spite_of_its_form_is_done(
    project: ToolProject, change: tuple[str, str]
) -> None:
    project.put("n.py", NESTED)
    patch = "*** Begin Patch\n*** Update File: n.py\n@@\n-    return 1\n+    return 2\n*** End Patch"
    await project.call(apply_patch, patch=patch.replace(*change))
    assert project.bytes("n.py").decode() == NESTED.replace("return 1", "return 2")


async def test_a_file_that_changed_since_it_was_seen_is_not_deleted(project: ToolProject) -> None:
    project.put("a.txt", "one\n")
    gone = patch("*** Delete File: a.txt")
    await project.ask(read_file, path="a.txt")
    project.put("a.txt", "one\nmore\n")
    assert await project.ask(apply_patch, patch=gone) == (
        "refused: a.txt changed since you read it:\n+2     more\nNothing was changed. Read it again before "
        "deleting it."
    )
    assert project.bytes("a.txt") == b"one\nmore\n"
    await project.ask(read_file, path="a.txt")
    await project.call(apply_patch, patch=gone)
    assert not (project.root / "a.txt").exists()


async def test_near_repeats_end_in_time(project: ToolProject) -> None:
    started = time.process_time()
    project.put("s.txt", "    x\n\tx\n" * 8_000)
    for old in ("-x\n-  x\n-    x\n" * 600, "-x\n" * 2_000 + "-y\n"):
        patch = f"*** Begin Patch\n*** Update File: s.txt\n@@\n{old}+y\n*** End Patch"
        assert "was not found" in await project.ask(apply_patch, patch=patch)
    assert time.process_time() - started < 5


async def test_context_lines_may_belong_to_two_hunks(project: ToolProject) -> None:
    before = "a\nb\nc\nd\ne\n"
    hunks = ("@@", " a", "-b", "+B", " c", "@@", " c", "-d", "+D", " e")
    assert await applied(project, before, *hunks) == "a\nB\nc\nD\ne\n"
    inserted = ("@@", " a", "+A", " b", "@@", " b", "+B", " c", "@@", " c", "-d", " e")
    assert await applied(project, before, *inserted) == "a\nA\nb\nB\nc\ne\n"
    changed = await applied(project, before, "@@", " a", "-b", "+B", " c", "@@", "-b", "+x", " c")
    assert "before the hunk above it" in changed
    twice = await applied(project, "a\nb\nc\nd\nc\nd\n", "@@", " a", "-b", "+B", " c", "@@", " c", "-d", "+D")
    assert "its lines stand at line 3 and again at line 5" in twice


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            "*** Begin Patch\n*** Update File: a.py\n@@\n x\n-y\n+z\n+w\n*** Add File: b.py\n+1\n+2\n"
            "*** Delete File: c.py\n*** End Patch",
            "apply_patch a.py +2 −1, b.py +2, c.py deleted",
        ),
        (
            "*** Begin Patch\n*** Update File: a.py\n*** Move to: d.py\n@@\n-y\n+z\n*** End Patch",
            "apply_patch a.py → d.py +1 −1",
        ),
        ("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-y\n+z\n", "apply_patch a.py +1 −1"),
        (
            "*** Begin Patch\n" + "".join(f"*** Delete File: {n}.py\n" for n in range(5)) + "*** End Patch",
            "apply_patch 0.py deleted, 1.py deleted, 2.py deleted and 2 more files",
        ),
        ("no patch at all", "apply_patch"),
    ],
)
def test_a_patch_is_titled_by_the_files_it_changes(text: str, title: str) -> None:
    arguments = apply_patch.decode(json.dumps({"patch": text}))
    assert call_title("apply_patch", arguments, apply_patch) == title
