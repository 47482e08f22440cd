"""New files as a diff for the person: their content, bounded, and no secrets."""

from __future__ import annotations

from pathlib import Path

from buddy.tools.files.task_diff import MAX_FILES, MAX_LINES, new_files
from tests.security.test_git_hostile import git, repository
from tests.support.tool_project import tool_project


async def test_new_files_show_their_content_up_to_a_bound_and_no_secrets(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        root = repository(project.root)
        (root / "new.txt").write_text("one\ntwo\n")
        (root / "a b").mkdir()
        (root / "a b" / "in it.py").write_text("x = 1\n")
        (root / "long.txt").write_text("line\n" * (MAX_LINES + 5))
        (root / ".env").write_text("API_KEY=hidden\n")
        (root / "data.bin").write_bytes(b"\0" * 200_000)
        (root / "out").symlink_to("/etc/hostname")
        (root / ".gitignore").write_text("ignored\n")
        (root / "ignored").write_text("not this\n")
        shown, more = await new_files(project.context())
    files = {file.path: file for file in shown.files}
    assert more == 0
    assert files["new.txt"].diff == "@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert "+x = 1" in files["a b/in it.py"].diff
    assert files["long.txt"].diff.endswith("… 5 more lines\n")
    assert files["long.txt"].added == MAX_LINES + 5
    assert "hidden" not in files[".env"].diff
    assert files[".env"].diff.startswith("not shown: ")
    assert files["data.bin"].diff.startswith("not shown: ")
    assert files["out"].diff.startswith("not shown: it lies outside")
    assert "ignored" not in files


async def test_of_very_many_new_files_the_first_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        root = repository(project.root)
        git(root, "add", "-A")
        for number in range(MAX_FILES + 3):
            (root / f"n{number:03}.txt").write_text("x\n")
        shown, more = await new_files(project.context())
        below, _ = await new_files(project.context(), "n001.txt")
    assert (len(shown.files), more) == (MAX_FILES, 3)
    assert [file.path for file in below.files] == ["n001.txt"]
