"""Lines that stand for code that was not written out never get into a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.tools.files.copied_text import find_elision
from buddy.tools.files.edit import edit_file
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from tests.support.tool_project import ToolProject


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest unchanged ...",
        "    // ... existing code ...",
        "/* ... rest of the code stays the same ... */",
        "// ...existing code...",
        "<!-- … rest of the file … -->",
        "(rest of methods ...)",
        "(unchanged code ...)",
        "-- ... remaining columns and lines omitted",
        "# ... (rest of the function remains unchanged)",
        "// … other methods unchanged …",
        "# [... previous imports ...]",
        "{/* ... existing content ... */}",
        "; ... same as before",
        "...rest of the config...",
    ],
)
def test_placeholders_of_many_languages_are_seen(line: str) -> None:
    expected = "" if "columns" in line else line
    assert find_elision(f"a\n{line}\nb\n", "a\nb\n", "a\nb\n") == expected


@pytest.mark.parametrize(
    "line",
    [
        "    ...",
        "def f(self) -> int: ...",
        "call(...rest)",
        "const {a, ...rest} = props;",
        "    ...rest,",
        "    ...config",
        "print('Loading the rest...')",
        "# We keep the existing code as it is",
        "# wait for the remaining items to arrive...",
        "# ... and so on",
        "The rest is history ...",
        "x = [1, 2, ...]",
    ],
)
def test_dots_that_mean_something_else_are_written(line: str) -> None:
    assert find_elision(f"a\n{line}\n", "a\n", "a\nb\nc\n") == ""


def test_a_line_the_file_has_already_may_stay() -> None:
    before = "a\n# ... rest unchanged ...\n"
    assert find_elision("  # ... rest unchanged ...\nb\n", before, before) == ""


@pytest.mark.parametrize(
    "line",
    [
        "# rest of code remains the same",
        "// The rest of the function is unchanged",
        "# remaining code unchanged",
        "/* existing methods unchanged */",
        "# unchanged code omitted for brevity",
        "// keep the rest of the code as is",
        "// ... (keep existing code)",
    ],
)
def test_a_comment_without_dots_stands_for_lines_only_where_lines_go(line: str) -> None:
    assert find_elision(f"a\n{line}\n", "a\nb\nc\n", "a\nb\nc\n") == line
    assert ("..." in line) == bool(find_elision(f"a\n{line}\nb\nc\n", "a\nb\nc\n", "a\nb\nc\n"))


def test_a_comment_of_dots_alone_stands_for_lines_only_where_there_are_fewer_afterwards() -> None:
    assert find_elision("a\n# ...\n", "a\nb\nc\n", "a\nb\nc\n") == "# ..."
    assert find_elision("a\n# ...\n", "a\nb\n", "a\nb\n") == ""


@pytest.mark.parametrize(
    "line",
    ["# existing rows are unchanged", "# same as before, but faster", "# The remaining values are kept"],
)
def test_comments_that_speak_of_other_things_are_written(line: str) -> None:
    assert find_elision(f"{line}\n", "a\nb\n", "a\nb\n") == ""


async def test_edits_and_whole_writes_with_such_a_line_are_refused(tmp_path: Path) -> None:
    project = ToolProject(tmp_path)
    project.put("a.py", "a\nb\nc\n")
    await project.call(read_file, path="a.py")
    edit = await project.ask(edit_file, path="a.py", old="a\nb\n", new="z\n# ... existing code ...\n")
    write = await project.ask(write_file, path="a.py", content="z\n# ... rest of the file unchanged ...\n")
    assert [("instead of the code it stands for" in said) for said in (edit, write)] == [True, True]
    assert project.bytes("a.py") == b"a\nb\nc\n"


async def test_a_new_file_may_hold_what_it_likes(tmp_path: Path) -> None:
    project = ToolProject(tmp_path)
    await project.call(write_file, path="how.md", content="Write:\n// ... existing code ...\n")
    assert project.bytes("how.md").endswith(b"code ...\n")


async def test_ATTACK10_a_number_of_many_digits_in_front_is_content(tmp_path: Path) -> None:
    project = ToolProject(tmp_path)
    project.put("a.txt", "a\nb\n")
    await project.call(read_file, path="a.txt")
    content = "9" * 5_000 + "\tx\n"
    await project.call(write_file, path="a.txt", content=content)
    assert project.bytes("a.txt") == content.encode()
