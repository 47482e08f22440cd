"""/try and /variants: one prompt, several tasks, one of them picked."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.support.repl import open_repl

EDIT = ("--permission-mode", "edit")
LINES = "".join(f"line {number}\n" for number in range(1, 11))


def edits(asked: Asked) -> Reply:
    """Each variant changes line 3 to the name of its worktree."""
    if asked.turns[-1][0] == "user" and "rewrite" in asked.last_user_text:
        tree = re.findall(r"worktrees/([\w-]+), on", str(asked.json))[-1]
        return reply(call("edit_file", path="list.txt", old="line 3\n", new=f"{tree}\n"))
    return reply(f"answer with {len(asked.turns)}")


async def test_two_variants_work_at_once_and_one_is_picked(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        repo = repl.program.repo
        (repo / "list.txt").write_text(LINES.replace("line 9", "mine 9"))
        (repo / "new.txt").write_text("untracked\n")
        await repl.said("/try 2 rewrite it", "2 variants started: 1 is task 2, 2 is task 3")
        await repl.quiet()
        said = await repl.said("/variants", "2 variants of: rewrite it", "1 file +1 −1")
        print(said)
        trees = repo / ".buddyx/worktrees"
        assert (trees / "rewrite-it/new.txt").read_text() == "untracked\n"
        assert "mine 9" in (trees / "rewrite-it-2/list.txt").read_text()
        print(await repl.said("/variants diff 1 2", "−rewrite-it", "+rewrite-it-2"))
        print(
            await repl.said("/variants pick 2", "Variant 2 picked, not committed: 1 file; /undo @3 undoes it")
        )
        assert "rewrite-it-2\n" in (repo / "list.txt").read_text()
        assert "mine 9" in (repo / "list.txt").read_text()
        await repl.said("/variants pick 1", "variant 2 is in your tree already; /undo @3 takes it out")
        await repl.said("/variants drop rest", "dropped: variant 1")
        assert not (trees / "rewrite-it").exists()
        await repl.said("/undo @3", "Undone")
        assert (repo / "list.txt").read_text() == LINES.replace("line 9", "mine 9")
        print(await repl.said("/variants", "dropped"))
