"""The scripted model of `buddy demo`. Its replies depend on the words of the prompt and the state of the
files, so the suggested prompts work in any order."""

from __future__ import annotations

import asyncio
import os

from buddy.agent.budget import Window
from buddy.agent.host import Sampling
from buddy.agent.messages import AssistantMessage, ToolMessage, UserMessage, typed_text
from buddy.agent.provider import ModelRequest
from buddy.app.launch import LaunchContext
from buddy.app.providers import Models
from buddy.config.settings import Settings
from buddy.extend.system_prompt import template_text
from buddy.llm.rate_limiter import Governor
from buddy.llm.scripted import Pace, Reply, ScriptedProvider, parse_script
from buddy.tasks.dependencies import ModelAccess

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
    """The models of the demo: only the script."""

    def __init__(self, settings: Settings, launch: LaunchContext, *, pace: Pace) -> None:
        super().__init__(settings, launch)
        self._scripts = _scripts()
        self._root = launch.boundary.root
        self._script_names: dict[str, str] = {}
        self._access = ModelAccess(
            name="demo (scripted)",
            model="demo",
            provider=ScriptedProvider(self._choose_reply, sleep=asyncio.sleep, pace=pace),
            window=Window(32_000, guessed=False, reserve=2_000),
            price=lambda usage: (usage.input_tokens * 3 + usage.output_tokens * 15) / 1_000_000,
            sampling=Sampling(),
            governor=Governor(),
        )

    def access(self, name: str) -> ModelAccess:
        """Return the script, whatever model is named."""
        return self._access

    async def problem(self, name: str) -> str:
        """Return "": the script needs nothing."""
        return ""

    def _choose_reply(self, request: ModelRequest) -> Reply:
        """Return the next reply of the script for the last prompt; a denied call ends the script."""
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
        """Return the script of a prompt, chosen once because its own calls change the files."""
        if prompt.id not in self._script_names:
            self._script_names[prompt.id] = script_name(
                typed_text(prompt).lower(),
                is_fixed=BUG not in _content(os.path.join(self._root, "main.py")),
                has_tests=os.path.exists(os.path.join(self._root, "test_main.py")),
            )
        return self._script_names[prompt.id]


def script_name(words: str, *, is_fixed: bool, has_tests: bool) -> str:
    """Return the name of the script for these words and this state of the repository."""
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
    except OSError:  # deleted during the demo: then it has no bug
        return ""


def _scripts() -> dict[str, tuple[Reply, ...]]:
    scripts: dict[str, tuple[Reply, ...]] = {}
    for section in ("\n" + template_text("demo.txt")).split("\n== ")[1:]:
        name, _, text = section.partition("\n")
        scripts[name.strip()] = parse_script(text)
    return scripts
