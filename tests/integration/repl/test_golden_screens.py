"""Whole screens as people see them, kept as files. After a wanted change: delete the file and run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.display import Checklist, ChecklistItem, Command, Diff, FileDiff, Plain
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import ASCII, UNICODE, Look
from buddy.repl.view.state import QueueRow, SessionFacts
from buddy.repl.view.view import fold
from buddy.workspace.sandbox.status import SandboxStatus
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import Stage, running_repl

GOLDEN = Path(__file__).parents[2] / "golden" / "screens"
ANSWER = """The bug is in `total()`: it starts at **1**.

1. change the start value
2. run the tests

| file | lines |
|------|-------|
| main.py | 12 |

```python
def total(rows):
    return sum(rows, 0)
```

See [the manual](https://docs.python.org/3/).
"""
CHANGE = Diff((FileDiff("main.py", "update", "@@ -1,2 +1,2 @@\n def total(rows):\n-    return sum(rows, 1)\n+    return sum(rows, 0)", 1, 1),))  # fmt: skip  # noqa: E501 -- one diff, as it comes


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was written: look at it, then run again")
    assert text == path.read_text(encoding="utf-8"), (
        f"if the change is meant: delete {path}, run again, read the new file line by line"
    )


async def journey(stage: Stage) -> None:
    """A prompt, thinking, a read, an answer, an edit that waits, a queue, a second task."""
    front, back = Tape(1), Tape(2, at=102.0)
    names = {1: "fix main.py", 2: "write tests"}
    queue = (QueueRow("queue", 1, "then commit it"), QueueRow("steer", 2, "use pytest"))
    stage.facts = SessionFacts(1, "ask", "openai/gpt-5.2", SandboxStatus(3), queue, names)
    stage.send(front.turn("what does main.py do, and fix the bug"), front.reply(), front.thinking("A bug?"))
    stage.send(front.text(ANSWER, after=2.0), front.reply_done(), front.tool("c1", "read_file main.py"))
    stage.send(front.tool_done("c1", Plain("12 lines", "\n".join(f"line {n}" for n in range(12)))))
    plan = Checklist((ChecklistItem("find the bug", "done"), ChecklistItem("fix it", "active")))
    stage.send(front.tool("c2", "todo"), front.tool_done("c2", plan))
    stage.send(front.tool("c3", "run_shell pytest -q"))
    stage.send(front.tool_done("c3", Command("pytest -q", "1 failed", 1, "", 2.0), status="error"))
    stage.send(back.turn("write tests"), back.reply(), front.tool("c4", "edit_file main.py"))
    stage.send(front.asked("q1", "c4"))
    stage.type("meanwhile I type")
    await stage.shows("❯ meanwhile I type")
    await stage.shows("│ git push")
    await stage.shows("y yes")


async def test_the_journey_on_a_screen() -> None:
    async with running_repl(columns=78, rows=60, clock=lambda: 102.0) as stage:
        await journey(stage)
        check("journey.txt", "\n".join(stage.terminal.rows()) + "\n")


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("blocks-color.txt", Look("default", UNICODE, ansi=True)),
        ("blocks-dark-256.txt", Look("dark", UNICODE, ansi=True, depth="256")),
        ("blocks-light-true.txt", Look("light", UNICODE, ansi=True, depth="true")),
        ("blocks-mono.txt", Look("mono", UNICODE, ansi=True)),
        ("blocks-ascii.txt", Look("mono", ASCII, ansi=False)),
    ],
)
def test_blocks_in_each_look(name: str, look: Look) -> None:
    from buddy.repl.view.state import ViewState

    state, tape, painter = ViewState(), Tape(), Painter(look)
    text = ""
    events = [
        tape.turn("fix it"),
        tape.reply(),
        tape.text(ANSWER),
        tape.reply_done(),
        tape.tool("c1", "edit_file main.py"),
        tape.asked("q1"),
        tape.tool_done("c1", CHANGE),
        tape.done("failed", "the key was refused"),
    ]
    for event in events:
        for block in fold(state, event):
            text += painter.ansi(block, 60)
    check(name, text)
