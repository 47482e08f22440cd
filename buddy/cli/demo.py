"""`buddy demo`: the whole program in a temporary repository, with a scripted model.

Everything else is real: the files, the edits, the shell, the approvals, the session. The script looks at the
words of the prompt and at the files, so that its lines work in any order. With `--plain` it plays a fixed
journey without a terminal.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from buddy.agent.budget import Window
from buddy.agent.events import ApprovalRequested, TextDelta, TurnFinished
from buddy.agent.host import Sampling
from buddy.agent.messages import AssistantMessage, Text, ToolMessage, UserMessage
from buddy.agent.provider import ModelRequest
from buddy.app.launch import LaunchContext, find_place, read_settings, session_store
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.app.services import LaunchRequest
from buddy.app.session import Desk, open_desk
from buddy.cli.collector import collect_from_here
from buddy.config.loading import LoadedSettings
from buddy.config.settings import Settings
from buddy.extend.system_prompt import template_text
from buddy.headless.formats import TextFormat
from buddy.llm.rate_limiter import Governor
from buddy.llm.scripted import Pace, Reply, ScriptedProvider, parse_script
from buddy.tasks.dependencies import ModelAccess
from buddy.tasks.event_hub import EventReader

PROGRAM = """def average(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total / 3


print(average([2, 4, 6]))
print(average([1, 2]))
"""
BUG = "total / 3"
LABEL = "DEMO: a scripted model in a temporary repository. Nothing leaves this machine; no key is used."
HINTS = (
    f"{LABEL}\n"
    "Try:  fix the bug            (y and Enter approve the edit, then the command)\n"
    "      write tests for it &   (in the background; /ps shows it, @2 … steers it)\n"
    "      tell me a story        (Esc cancels it)      /help  ?  Ctrl+D"
)
FAREWELL = "That was the demo; its folder is gone. buddy init sets up your own model."


class DemoModels(Models):
    """One model: the script."""

    def __init__(self, settings: Settings, place: LaunchContext, *, pace: Pace) -> None:
        super().__init__(settings, place)
        self._scripts = _scripts()
        self._root = place.boundary.root
        self._chosen_for: dict[str, str] = {}
        self._access = ModelAccess(
            name="demo (scripted)",
            model="demo",
            provider=ScriptedProvider(self._chosen, sleep=asyncio.sleep, pace=pace),
            window=Window(32_000, guessed=False, reserve=2_000),
            price=lambda usage: (usage.input_tokens * 3 + usage.output_tokens * 15) / 1_000_000,
            sampling=Sampling(),
            governor=Governor(),
        )

    def access(self, name: str) -> ModelAccess:
        """The script, whatever is asked for."""
        return self._access

    async def problem(self, name: str) -> str:
        """Never one."""
        return ""

    def _chosen(self, request: ModelRequest) -> Reply:
        """The next reply of the script the last prompt asks for; a denied call ends it."""
        replied = 0
        last = request.history[-1]
        if isinstance(last, ToolMessage) and last.status == "denied":
            return self._scripts["denied"][0]
        for message in reversed(request.history):
            if isinstance(message, UserMessage) and message.origin != "instructions":
                replies = self._scripts[self._script_for(message)]
                return replies[min(replied, len(replies) - 1)]
            replied += isinstance(message, AssistantMessage)
        return self._scripts["other"][0]

    def _script_for(self, prompt: UserMessage) -> str:
        """The script of a prompt: chosen once, since its own calls change the files."""
        if prompt.id not in self._chosen_for:
            self._chosen_for[prompt.id] = script_name(
                person_words(prompt),
                is_fixed=BUG not in _content(os.path.join(self._root, "main.py")),
                has_tests=os.path.exists(os.path.join(self._root, "test_main.py")),
            )
        return self._chosen_for[prompt.id]


def person_words(prompt: UserMessage) -> str:
    """The words a person typed. Notes that travel along and attached files stand in brackets of their own."""
    texts = [part.text for part in prompt.parts if isinstance(part, Text)]
    return " ".join(text for text in texts if not text.lstrip().startswith("[")).lower()


def script_name(words: str, *, is_fixed: bool, has_tests: bool) -> str:
    """The script for these words in a repository of this state."""
    if "story" in words:
        return "story"
    if "test" in words:
        return "tests again" if has_tests else "tests" if is_fixed else "tests first"
    if any(sign in words for sign in ("fix", "bug", "wrong", "repair")):
        return "fixed" if is_fixed else "fix"
    if "run" in words.split():
        return "run"
    if any(sign in words for sign in ("explain", "what does", "main.py", "read ", "show ", "look ")):
        return "explain"
    if words.split()[:1] and words.split()[0].strip("!.,") in ("hi", "hello", "hey", "thanks", "thank"):
        return "hello"
    return "other"


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # somebody deleted it in the demo: then it has no bug
        return ""


def _scripts() -> dict[str, tuple[Reply, ...]]:
    found: dict[str, tuple[Reply, ...]] = {}
    for section in ("\n" + template_text("demo.txt")).split("\n== ")[1:]:
        name, _, text = section.partition("\n")
        found[name.strip()] = parse_script(text)
    return found


def demo(options: Options, environment: Mapping[str, str], modes: list[Any] | None = None) -> int:
    """Run the demo. Returns the exit code."""
    started_in = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="buddy-demo-") as folder:
        os.chdir(folder)
        try:
            _repository(folder)
            place = find_place(options, _demo_environment(environment, folder))
            loaded = read_settings(place, options)
            is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
            if options.plain or not is_terminal:
                collect_from_here()
                return asyncio.run(_plain(options, place, loaded))
            from buddy.cli.interactive import run_screen
            from buddy.repl.exit import interrupts_held

            with interrupts_held():
                return asyncio.run(run_screen(options, place, loaded, "", modes))
        finally:
            os.chdir(started_in)


def _demo_environment(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """The person's own settings and history stay out of it, and are left alone."""
    home = os.path.join(folder, ".demo-home")
    os.mkdir(home, 0o700)
    kept = {key: value for key, value in environment.items() if not key.startswith(("BUDDY_", "XDG_"))}
    return {**kept, "HOME": home}


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
        # Without git the demo works all the same, in a folder that is no repository.
        try:
            subprocess.run(["git", *step], cwd=folder, check=False, capture_output=True, timeout=20)
        except OSError:
            return


async def _plain(options: Options, place: LaunchContext, loaded: LoadedSettings) -> int:
    """A fixed journey: fix the bug (approving each question), tests in the background, an answer that is
    cancelled."""
    _say(f"{LABEL}\n")
    models = DemoModels(loaded.settings, place, pace=Pace(characters=24, seconds=0.01))
    store = session_store(place, loaded.settings, _say)
    async with open_desk(place, loaded, store, models, LaunchRequest("", options, attended=True)) as desk:
        await _journey(desk)
    _say("\nThat was the demo. In a terminal, buddy demo lets you type; buddy init sets up your own model.\n")
    return 0


async def _journey(desk: Desk) -> None:
    board = desk.board
    reader = board.reader()
    shown = TextFormat(_say, _say, is_terminal=True)
    _say("\n❯ fix the bug\n")
    board.submit(1, "fix the bug")
    other = 0
    while events := await reader.batch():
        for one in events:
            if one.task_id == 1 or isinstance(one.event, TurnFinished):
                shown.event(one.event)
            if isinstance(one.event, ApprovalRequested):
                _say(
                    f"  request {one.event.number} (task {one.task_id}): {one.event.call.name}; answered: y\n"
                )
                board.inbox.answer(one.event.request_id, one.event.digest, "once")
        finished = [one.task_id for one in events if isinstance(one.event, TurnFinished)]
        if 1 in finished and not other:
            _say("\n❯ write tests for it &\n")
            task = board.open(copy_of=1)
            task.background = True
            other = task.number
            board.submit(other, "write tests for it")
        if other and other in finished:
            _say(f"  task {other} is done: {board.task(other).last_answer()}\n")
            break
    await _cancelled(desk, reader)
    reader.close()


async def _cancelled(desk: Desk, reader: EventReader) -> None:
    _say("\n❯ tell me a story      (and Esc, as soon as it writes)\n")
    runner = desk.board.submit(1, "tell me a story")
    while not any(isinstance(one.event, TextDelta) for one in await reader.batch()):
        pass
    desk.board.cancel(1)
    await asyncio.wait({runner})
    task = desk.board.task(1)
    ended = task.outcome.outcome if task.outcome else ""
    _say(f"{task.last_answer()} …\n  {ended}; what was shown is kept\n")


def _say(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
