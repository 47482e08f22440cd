"""Two tasks that edit, patch, replace, move and delete the same files: nobody takes away what he has not
seen, but into the trash, and a refusal says why. REL-054."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.display import Diff
from buddy.agent.tool import Tool, ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.move import delete_file, move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.workspace.files.read_tracking import FileViews
from tests.support.tool_project import ToolProject

FILES = 6
WORDS = re.compile(r"\bw\d+\b")
SAYS_WHY = re.compile(
    r"not found|changed since you read|deleted or moved since|does not exist|not read it|seen only a part"
    r"|already|exists|there is no such file"
)


class Duel:
    """Files of words, one to a line, none written twice; and what became of each word."""

    def __init__(self, project: ToolProject, seed: int) -> None:
        self.project = project
        self.chance = random.Random(seed)
        self.words: set[str] = set()
        self.removed: Counter[str] = Counter()
        self.seen: dict[int, set[str]] = {1: set(), 2: set()}
        self.refusals: list[str] = []
        self.accepted = self.count = 0
        for number in range(FILES):
            first = [self.word() for _ in range(5)]
            project.put(f"f{number}.txt", "".join(f"{word}\n" for word in first))
            self.words.update(first)

    def word(self) -> str:
        self.count += 1
        return f"w{self.count}"

    def known(self, task: int) -> dict[str, str]:
        """Return the content the task got of non-empty files."""
        views = self.project.services(task)[FileViews]
        assert isinstance(views, FileViews)
        pairs = ((Path(real).name, views.get(real)) for real in views.paths())
        known = {name: view.text for name, view in pairs if view is not None and view.text}
        self.seen[task].update(WORDS.findall(" ".join(known.values())))
        return known

    async def work(self, task: int, rounds: int) -> None:
        for step in range(rounds):
            known, fresh = self.known(task), f"new{step}_{task}.txt"
            there = sorted(path.name for path in self.project.root.glob("*.txt"))
            if len(there) < 3:
                content = f"{self.word()}\n{self.word()}\n"
                await self.make(task, write_file, {"path": fresh, "content": content})
            elif not known or self.chance.random() < 0.25:
                await self.project.ask(read_file, task_id=task, path=self.chance.choice(there))
            else:
                tool, arguments = self.call(known, self.chance.choice(sorted(known)), fresh)
                await self.make(task, tool, arguments)

    def call(self, known: dict[str, str], name: str, fresh: str) -> tuple[Tool, dict[str, Any]]:
        lines = known[name].splitlines()
        old, new = self.chance.choice(lines), self.word()
        match self.chance.randrange(9):
            case 0 | 1:
                return edit_file, {"path": name, "old": f"{old}\n", "new": f"{new}\n"}
            case 2:
                depend = [{"old": f"{old}\n", "new": f"{new}x\n"}, {"old": f"{new}x", "new": new}]
                return edit_file, {"path": name, "edits": depend}
            case 3 | 4:
                picked = self.chance.sample(sorted(known), min(3, len(known)))
                sections = [line for other in picked for line in self.section(other, known[other])]
                return apply_patch, {"patch": "\n".join(("*** Begin Patch", *sections, "*** End Patch"))}
            case 5:
                content = "".join(f"{new if line == old else line}\n" for line in lines)
                return write_file, {"path": name, "content": content}
            case 6:
                moved = f"*** Update File: {name}\n*** Move to: {fresh}\n@@\n-{old}\n+{new}"
                gone = f"*** Delete File: {name}"
                section = moved if self.chance.random() < 0.7 else gone
                return apply_patch, {"patch": f"*** Begin Patch\n{section}\n*** End Patch"}
            case 7:
                return move_file, {"source": name, "target": fresh}
            case _:
                if self.chance.random() < 0.3:
                    return delete_file, {"path": name}
                again = self.chance.choice((fresh, f"f{self.chance.randrange(FILES)}.txt"))
                return write_file, {"path": again, "content": f"{new}\n{self.word()}\n"}

    def section(self, name: str, text: str) -> list[str]:
        return [
            f"*** Update File: {name}",
            "@@",
            f"-{self.chance.choice(text.splitlines())}",
            f"+{self.word()}",
        ]

    async def make(self, task: int, tool: Tool, arguments: dict[str, Any]) -> None:
        try:
            result = await self.project.call(tool, task_id=task, **arguments)
        except ToolError as error:
            self.refusals.append(str(error))
            return
        self.accepted += 1
        assert tool is delete_file or isinstance(result.display, Diff)
        if isinstance(result.display, Diff):
            lines = "\n".join(file.diff for file in result.display.files).split("\n")
            gone = {word for line in lines if line.startswith("-") for word in WORDS.findall(line)}
            self.words.update(word for line in lines if line.startswith("+") for word in WORDS.findall(line))
            assert gone <= self.seen[task], "a task took away what it had not seen"
            self.removed.update(gone)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [54, 55])
async def test_REL_054_nothing_is_lost_where_files_move_go_and_come_back(tmp_path: Path, seed: int) -> None:
    duel = Duel(ToolProject(tmp_path), seed)
    await asyncio.gather(duel.work(1, 200), duel.work(2, 200))
    here = [path for path in tmp_path.rglob("*") if path.is_file() and ".buddyx" not in path.parts]
    trashed = [path for path in (tmp_path / ".buddyx" / "trash").rglob("*") if path.is_file()]
    found = Counter(WORDS.findall("\n".join(path.read_text() for path in here)))
    kept = set(WORDS.findall("\n".join(path.read_text() for path in trashed)))
    assert found.total() == len(found), "a word came back beside itself"
    assert max(duel.removed.values()) == 1, "two tasks replaced the same word"
    assert duel.words - set(found) - set(duel.removed) - kept == set()
    assert set(found) & set(duel.removed) == set()
    assert duel.accepted > 50
    assert len(duel.refusals) > 10
    assert [text for text in duel.refusals if not SAYS_WHY.search(text)] == []
