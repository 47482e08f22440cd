"""`buddy demo`: the whole program in a temporary repository, with a scripted model.

Everything else is real: files, edits, shell, approvals, session. With `--plain` it plays a fixed sequence
without a terminal.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from buddy.agent.events import ApprovalRequested, TextDelta, TurnFinished
from buddy.agent.interpreter import collect_from_here
from buddy.app.launch import LaunchContext, find_launch, read_settings
from buddy.app.options import Options
from buddy.app.session import Session, open_session
from buddy.app.session_store import open_store
from buddy.cli.demo_model import LABEL, DemoModels
from buddy.config.loading import LoadedSettings
from buddy.headless.formats import TextFormat
from buddy.llm.scripted import Pace
from buddy.tasks.event_hub import EventReader
from buddy.workspace.temporary import TemporaryFolder

PROGRAM = """def average(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total / 3


print(average([2, 4, 6]))
print(average([1, 2]))
"""


def demo(options: Options, environment: Mapping[str, str], modes: list[Any] | None = None) -> int:
    """Run the demo and return the exit code."""
    started_in = os.getcwd()
    with TemporaryFolder("demo") as folder:
        os.chdir(folder)
        try:
            _repository(folder)
            launch = find_launch(options, _demo_environment(environment, folder))
            loaded = read_settings(launch, options)
            is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
            if options.plain or not is_terminal:
                collect_from_here()
                return asyncio.run(_run_plain(options, launch, loaded))
            from buddy.cli.interactive import run_screen
            from buddy.repl.exit import hold_interrupts

            with hold_interrupts():
                return asyncio.run(run_screen(options, launch, loaded, "", modes))
        finally:
            os.chdir(started_in)


def _demo_environment(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment without the user's own settings, history and home."""
    home = os.path.join(folder, ".demo-home")
    os.mkdir(home, 0o700)
    variables = {key: value for key, value in environment.items() if not key.startswith(("BUDDY_", "XDG_"))}
    return {**variables, "HOME": home}


def _repository(folder: str) -> None:
    with open(os.path.join(folder, "main.py"), "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    with open(os.path.join(folder, ".gitignore"), "w", encoding="utf-8") as file:
        file.write(".demo-home/\n.buddyx/\n__pycache__/\n")
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false"]
    steps = (
        ["init", "--quiet"],
        ["add", "."],
        [*identity, "commit", "--quiet", "-m", "a program with a bug"],
    )
    for step in steps:
        # Without git the demo still works, in a folder that is not a repository.
        try:
            subprocess.run(["git", *step], cwd=folder, check=False, capture_output=True, timeout=20)
        except OSError:
            return


async def _run_plain(options: Options, launch: LaunchContext, loaded: LoadedSettings) -> int:
    """Play the fixed sequence: fix the bug, approve each question, write tests in the background, cancel an
    answer."""
    _say(f"{LABEL}\n")
    models = DemoModels(loaded.settings, launch, pace=Pace(characters=24, seconds=0.01))
    store = open_store(launch, loaded.settings, _say)
    async with open_session(launch, loaded, options, models=models, store=store, attended=True) as session:
        await _play(session)
    _say("\nThat was the demo. In a terminal, buddy demo lets you type; buddy init sets up your own model.\n")
    return 0


async def _play(session: Session) -> None:
    board = session.board
    reader = board.reader()
    output = TextFormat(_say, _say, is_terminal=True)
    _say("\n❯ fix the bug\n")
    board.submit(1, "fix the bug")
    other = 0
    while events := await reader.batch():
        for one in events:
            if one.task_id == 1 or isinstance(one.event, TurnFinished):
                output.event(one.event)
            if isinstance(one.event, ApprovalRequested):
                _say(
                    f"  request {one.event.number} (task {one.task_id}): {one.event.call.name}; answered: y\n"
                )
                board.inbox.answer(one.event.request_id, one.event.digest, "once")
        finished = [event.task_id for event in events if isinstance(event.event, TurnFinished)]
        if 1 in finished and not other:
            _say("\n❯ write tests for it &\n")
            task = board.open(copy_of=1)
            other = task.task_id
            board.to_background(other)
            board.submit(other, "write tests for it")
        if other and other in finished:
            _say(f"  task {other} is done: {board.task(other).last_answer()}\n")
            break
    await _play_cancel(session, reader)
    reader.close()


async def _play_cancel(session: Session, reader: EventReader) -> None:
    _say("\n❯ tell me a story      (and Esc once text appears)\n")
    runner = session.board.submit(1, "tell me a story")
    while not any(isinstance(one.event, TextDelta) for one in await reader.batch()):
        pass
    session.board.cancel(1)
    await asyncio.wait({runner})
    task = session.board.task(1)
    outcome = task.outcome.outcome if task.outcome else ""
    _say(f"{task.last_answer()} …\n  {outcome}; the text so far is kept\n")


def _say(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
