"""The manual is true, short and complete: `templates/help` against the code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from buddy.agent.tool import ToolResult
from buddy.cli.arguments import COMMANDS, LATER, parse
from buddy.config.settings import Settings
from buddy.extend.manual import Topic, find_topic, topics
from buddy.repl.commands.registry import CommandError, SlashCommand, builtin_commands
from buddy.tools.builtin import BUILTIN_TOOLS

ROOT = Path(__file__).resolve().parents[1]
PAGES = topics()
MAX_LINES = 120
SLASH = builtin_commands()
_CODE = re.compile(r"```\w*\n(?P<block>.*?)```|`(?P<span>[^`\n]+)`", re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def code_of(page: Topic) -> list[str]:
    """Lines of code of a page: those of its blocks, and its spans."""
    return [
        line for found in _CODE.finditer(page.text) for line in (found["block"] or found["span"]).split("\n")
    ]


def test_the_generated_parts_equal_the_code() -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / ".ci" / "help_pages.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_every_topic_people_look_for_has_a_page() -> None:
    wanted = (
        "start tasks permissions sandbox sessions models settings tools commands keys headless plug-ins "
        "files troubleshooting"
    )
    assert set(wanted.split()) <= {page.name for page in PAGES}
    for word, name in {
        "modes": "permissions",
        "rules": "permissions",
        "exit-codes": "headless",
        "undo": "sessions",
    }.items():
        assert find_topic(word).name == name


def test_no_word_leads_to_two_pages() -> None:
    words = Counter(word for page in PAGES for word in (page.name, *page.also))
    assert [word for word, count in words.items() if count > 1] == []


@each_page
def test_a_page_is_short(page: Topic) -> None:
    text = (ROOT / "templates" / "help" / f"{page.name}.md").read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert len(page.summary) <= 72


@pytest.mark.parametrize("name", [*COMMANDS, *(one.name for one in SLASH.all()), *LATER & {"mcp"}])
def test_every_subcommand_and_slash_command_leads_to_a_page(name: str) -> None:
    has_page = any(name in (page.name, *page.also) for page in PAGES)
    assert has_page or name == "help", f"add {name} to the `also` line of one page of templates/help"


@pytest.mark.parametrize("entry", SLASH.all(), ids=lambda entry: entry.name)
def test_the_help_of_a_slash_command_has_no_full_stop(entry: SlashCommand) -> None:
    assert not entry.help.endswith("."), "the first line of its docstring stands in a table: no full stop"


@each_page
def test_the_slash_commands_a_page_names_exist(page: Topic) -> None:
    for line in code_of(page):
        if (found := re.match(r"/([a-z][a-z-]*)(?![\w/.])", line)) and line != "/tmp":
            try:
                assert SLASH.find(found[1]).name
            except CommandError as error:
                pytest.fail(f"{line}: {error}")


@each_page
def test_the_subcommands_and_options_a_page_names_exist(page: Topic) -> None:
    for line in code_of(page):
        command = line.split(" | ")[-1 if "| buddy" in line else 0].partition("  #")[0]
        command = command.partition("| jq")[0]
        if not re.match(r"(git diff \| )?buddy( |$)", command) or "<" in command or "…" in command:
            continue
        words = re.findall(r'"[^"]*"|\S+', command.removeprefix("git diff | "))[1:]
        if words[:1] in (["--version"], ["mcp"]):
            continue
        options = parse([word.strip('"') for word in words])
        if words and re.fullmatch(r"[a-z]+", words[0]) and "exec" not in words:
            assert options.command == words[0] or len(words) > 2, line


@each_page
def test_the_settings_a_page_names_exist(page: Topic) -> None:
    tables = {field: getattr(Settings(), field) for field in Settings.__struct_fields__}
    for block in re.findall(r"```toml\n(.*?)```", page.text, re.DOTALL):
        for section, keys in tomllib.loads(block).items():
            if section in (
                "permissions",
                "sandbox",
                "api",
                "display",
                "tools",
                "session",
                "network",
                "budget",
            ):
                assert set(keys) <= set(type(tables[section]).__struct_fields__), block
    for section, name in re.findall(r"`\[([a-z]+)\] ([a-z_]+)", page.text):
        assert name in type(tables[section]).__struct_fields__, f"[{section}] {name}"


def test_a_start_reads_nothing_of_the_manual() -> None:
    code = (
        "import sys, buddy.cli.interactive, buddy.cli.headless, buddy.repl.start\n"
        "print('buddy.extend.manual' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_the_tools_page_names_every_tool() -> None:
    text = find_topic("tools").text
    assert [tool.name for tool in BUILTIN_TOOLS if f"`{tool.name}`" not in text] == []


async def test_the_python_of_the_plug_ins_page_works_as_it_stands() -> None:
    (plug_in,) = re.findall(r"```python\n(.*?)```", find_topic("plug-ins").text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(plug_in, names)
    assert await names["shout"].run(None, names["shout"].arguments(text="hi")) == ToolResult("HI")
