"""What tasks in different trees of one project share, and what they don't."""

from __future__ import annotations

from buddy.agent.tool import Access, ToolResult
from buddy.tasks.windows import TestWindows
from buddy.tools.cache import ToolCache
from buddy.tools.write import write_file

WRITES = Access(writes=("a.txt",))


async def test_tests_of_one_tree_hold_up_no_write_in_another() -> None:
    windows = TestWindows(longest_wait_s=60)
    heard: list[str] = []
    with windows.open(1, "/repo") as window:
        await windows.clear(2, "/repo/.buddyx/worktrees/x", write_file, WRITES, heard.append)
        with windows.writing(2, "/repo/.buddyx/worktrees/x", write_file, WRITES):
            pass
        with windows.writing(3, "/repo", write_file, WRITES):
            pass

    assert heard == []
    assert window.writes == ["write_file of task 3: a.txt"]


def test_equal_calls_in_two_trees_have_results_of_their_own() -> None:
    cache = ToolCache(lambda: 0.0)
    arguments = {"path": "a.txt"}
    for place in ("/repo", "/repo/.buddyx/worktrees/x"):
        cache.set(
            "read_file",
            arguments,
            ToolResult(f"in {place}"),
            life_s=10,
            access=Access(reads=(f"{place}/a.txt",)),
            place=place,
        )
    found = [
        cache.get("read_file", arguments, place=place) for place in ("/repo", "/repo/.buddyx/worktrees/x")
    ]

    assert [one.text for one in found if one] == ["in /repo", "in /repo/.buddyx/worktrees/x"]
    assert cache.get("read_file", arguments) is None
    assert cache.invalidate_writes(Access(writes=("/repo/a.txt",))) == 1
