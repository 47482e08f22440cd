"""Unified diffs given to `apply_patch`: made as the patch with markers is, counts not believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.tools.files.patch import apply_patch
from tests.support.tool_project import ToolProject

BEFORE = "import os\n\ndef one():\n    return 1\n\ndef two():\n    return 2\n"
HUNK = "@@ -3,4 +3,4 @@ import os\n def one():\n-    return 1\n+    return 10\n \n def two():\n"
NAMES = "--- a/a.py\t2026-01-01\n+++ b/a.py\n"


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    made = ToolProject(tmp_path)
    made.put("a.py", BEFORE)
    return made


async def patched(project: ToolProject, patch: str) -> str:
    answer = await project.ask(apply_patch, patch=patch)
    return answer if answer.startswith("refused") else project.bytes("a.py").decode()


@pytest.mark.parametrize(
    "patch",
    [
        NAMES + HUNK,
        NAMES + HUNK.replace("-3,4 +3,4", "-1,99 +7,1"),
        NAMES + HUNK.replace("@@ -3,4 +3,4 @@ import os", "@@ ... @@"),
        NAMES + HUNK.replace("@@ -3,4 +3,4 @@ import os", "@@"),
        "diff --git a/a.py b/a.py\nindex 11..22 100644\n" + NAMES + HUNK,
        (NAMES + HUNK).replace("\n \n", "\n\n"),
        (NAMES + HUNK).replace("a/a.py", "a.py").replace("b/a.py", "a.py"),
    ],
    ids=["plain", "wrong counts", "no numbers", "bare", "git", "empty line for context", "no prefixes"],
)
async def test_a_hunk_is_found_by_its_text(project: ToolProject, patch: str) -> None:
    assert await patched(project, patch) == BEFORE.replace("return 1", "return 10")


async def test_of_equal_places_the_one_at_the_given_line_is_meant(project: ToolProject) -> None:
    project.put("a.py", "x\ny\nx\n")
    assert await patched(project, f"{NAMES}@@ -3 +3 @@\n-x\n+z\n") == "x\ny\nz\n"
    project.put("a.py", "x\ny\nx\n")
    assert "again at line 3" in await patched(project, f"{NAMES}@@ -9 +9 @@\n-x\n+z\n")


async def test_files_are_added_deleted_and_renamed(project: ToolProject) -> None:
    project.put("old.txt", "o\n")
    patch = (
        "--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+x\n+y\n"
        "diff --git a/old.txt b/old.txt\ndeleted file mode 100644\n"
        "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n"
        "diff --git a/a.py b/lib/b.py\nsimilarity index 90%\nrename from a.py\nrename to lib/b.py\n"
        "--- a/a.py\n+++ b/lib/b.py\n@@ -1 +1 @@\n-import os\n+import sys\n"
    )
    await project.call(apply_patch, patch=patch)
    found = {
        str(path.relative_to(project.root)): path.read_text()
        for path in project.root.rglob("*.*")
        if ".buddyx" not in path.parts and path.is_file()
    }
    assert found == {"n.py": "x\ny\n", "lib/b.py": BEFORE.replace("import os", "import sys")}


async def test_a_rename_without_a_change_moves(project: ToolProject) -> None:
    await project.call(
        apply_patch,
        patch="diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n",
    )
    assert (project.bytes("b.py"), (project.root / "a.py").exists()) == (BEFORE.encode(), False)


async def test_lines_without_end_stay_without(project: ToolProject) -> None:
    project.put("a.py", "one\ntwo")
    marker = "\\ No newline at end of file\n"
    assert await patched(project, f"{NAMES}@@ -1,2 +1,2 @@\n one\n-two\n{marker}+2\n{marker}") == "one\n2"
    await project.call(apply_patch, patch=f"--- /dev/null\n+++ b/open.txt\n@@ -0,0 +1 @@\n+x\n{marker}")
    assert project.bytes("open.txt") == b"x"


MARKER = "\\ No newline at end of file\n"


@pytest.mark.parametrize(
    ("hunk", "after"),
    [
        ("@@ -1,2 +1,2 @@\n one\n-two\n+2\n", "one\n2"),
        ("@@ -1 +1 @@\n-one\n+1\n", "1\ntwo"),
        ("@@ -1,2 +1,3 @@\n one\n two\n+three\n", "one\ntwo\nthree"),
        ("@@ -1,2 +1 @@\n one\n-two\n", "one\n"),
        (f"@@ -1,2 +1,2 @@\n one\n-two\n{MARKER}+2\n", "one\n2\n"),
        (f"@@ -1,2 +1,2 @@\n-one\n+1\n two\n{MARKER}", "1\ntwo"),
    ],
)
async def test_RU_small_a_diff_adds_no_final_newline_that_it_does_not_name(
    project: ToolProject, hunk: str, after: str
) -> None:
    project.put("a.py", "one\ntwo")
    assert await patched(project, f"{NAMES}{hunk}") == after


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (NAMES + HUNK.replace(" def two", " def zwei"), "Nearest text in the file"),
        ("--- a/a.py\n+++ b/a.py\n", "expected a hunk"),
        ("diff --git a/a.py b/a.py\n--- a/a.py\nx\n", "starts with '+++ '"),
        (f"{NAMES}@@ -1 +1 @@\n", "expected lines that start with a space"),
        (f"{NAMES}@@ -1 +1\n-x\n+y\n", "expected a hunk header"),
        (f"{NAMES}@@ -1 +1 @@\n-import os\n+import re\nand so on\n", "found 'and so on'"),
        (f"{NAMES}@@ -1 +1 @@\n-import os\n+import re\nNote: x\n", "found 'Note: x'"),
        ("diff --git a/a.png b/a.png\nGIT binary patch\nliteral 3\n", "cannot be applied"),
    ],
)
async def test_what_does_not_fit_is_refused_and_nothing_changes(
    project: ToolProject, patch: str, said: str
) -> None:
    assert said in await patched(project, patch)
    assert project.bytes("a.py").decode() == BEFORE


@pytest.mark.parametrize(
    "patch",
    [
        "```diff\n" + NAMES + HUNK + "```\n",
        "*** Begin Patch\n" + NAMES + HUNK + "*** End Patch\n",
        "Here is the change:\n\n" + NAMES + HUNK,
        "Index: a.py\n=====\n" + NAMES + HUNK,
        "diff -u a/a.py b/a.py\n" + NAMES + HUNK,
        "--- a.py.orig\n+++ a.py\n" + HUNK,
        "From 01ab Mon Sep 17\nSubject: x\n\n---\n a.py | 2 +-\n\ndiff --git a/a.py b/a.py\n"
        + NAMES
        + HUNK
        + "-- \n2.43.0\n",
    ],
    ids=["fence", "markers", "words", "subversion", "diff -u", "a copy's name", "mail"],
)
async def test_what_stands_around_a_diff_is_looked_through(project: ToolProject, patch: str) -> None:
    assert await patched(project, patch) == BEFORE.replace("return 1", "return 10")


async def test_a_folder_named_like_a_prefix_is_a_folder(project: ToolProject) -> None:
    project.put("a/a.py", BEFORE)
    await project.call(apply_patch, patch="--- a/a.py\n+++ a/a.py\n" + HUNK)
    assert project.bytes("a.py").decode() == BEFORE
    assert project.bytes("a/a.py").decode() == BEFORE.replace("return 1", "return 10")


async def test_another_name_without_a_rename_moves_nothing(project: ToolProject) -> None:
    assert "names two files" in await patched(project, "--- a/a.py\n+++ b/b.py\n" + HUNK)
    assert not (project.root / "b.py").exists()


@pytest.mark.parametrize(("name", "quoted"), [("é.txt", "\\303\\251.txt"), ('q"x.txt', 'q\\"x.txt')])
async def test_names_in_gits_quotes_are_read(project: ToolProject, name: str, quoted: str) -> None:
    project.put(name, "one\n")
    await project.call(apply_patch, patch=f'--- "a/{quoted}"\n+++ "b/{quoted}"\n@@ -1 +1 @@\n-one\n+two\n')
    assert project.bytes(name) == b"two\n"


async def test_a_file_that_holds_something_else_is_not_deleted(project: ToolProject) -> None:
    project.put("u.txt", "a\nb\nmore\n")
    refusal = await project.ask(apply_patch, patch="--- a/u.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n")
    assert "     3  more" in refusal
    assert project.bytes("u.txt") == b"a\nb\nmore\n"
    shorter = "--- a/u.txt\n+++ /dev/null\n@@ -1,4 +0,0 @@\n-a\n-b\n-more\n-end\n"
    assert "the end of the file" in await project.ask(apply_patch, patch=shorter)


async def test_lines_without_context_are_added_only_at_the_end(project: ToolProject) -> None:
    assert "line numbers alone are not trusted" in await patched(project, f"{NAMES}@@ -2,0 +3 @@\n+x\n")
    assert "line numbers alone are not trusted" in await patched(project, f"{NAMES}@@ -9,0 +10 @@\n+x\n")
    assert await patched(project, f"{NAMES}@@ -7,0 +8 @@\n+x\n") == BEFORE + "x\n"


async def test_a_last_context_line_that_is_blank_counts(project: ToolProject) -> None:
    project.put("a.py", "\n")
    assert await patched(project, f"{NAMES}@@ -1 +1,2 @@\n+x\n \n") == "x\n\n"


async def test_removed_and_added_lines_may_look_like_file_names(project: ToolProject) -> None:
    project.put("a.py", "-- x\ny\n")
    assert await patched(project, f"{NAMES}@@ -1,2 +1,2 @@\n--- x\n+++ z\n y\n") == "++ z\ny\n"
