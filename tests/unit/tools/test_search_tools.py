"""The choice of the tools a model is offered, and the search for the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buddy.agent.tool import Tool, ToolContext, ToolRegistry, tool
from buddy.extend.scaffolds.templates import Scaffolds
from buddy.extend.scaffolds.tools import scaffold_tools
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.search_tools import LateTools, declared_tokens, narrow, search_tools

ALL = ToolRegistry(BUILTIN_TOOLS)
EVERY = ToolRegistry((*BUILTIN_TOOLS, *scaffold_tools(Scaffolds(tuple))))
"""With the tools for new projects, which the program adds."""
CORE = [
    "apply_patch",
    "edit_file",
    "find_files",
    "grep",
    "read_file",
    "retrieve_variant",
    "run_shell",
    "todo",
    "write_file",
]


def a_tool(name: str, about: str, source: str = "built-in") -> Tool:
    @tool(name=name, description=about, risk="low", source=source)
    def run(text: str) -> str:
        return text

    return run


def narrowed(tools: ToolRegistry = ALL, **more: Any) -> tuple[ToolRegistry, list[str]]:
    """The registry of a turn, and the names that a search is told of."""
    heard: list[str] = []
    given = {
        "most": 20,
        "window": 200_000,
        "admitted": (),
        "is_core": lambda one: one.core,
        "search": search_tools,
        "now": tools.list_all,
        "note": lambda admitted: heard.extend(one.name for one in admitted),
    }
    return narrow(tools, **{**given, **more}), heard


async def search(registry: ToolRegistry, query: str) -> str:
    found = registry.get("search_tools")
    assert found is not None
    context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})
    return (await found.run(context, found.arguments(query=query))).text


def names(registry: ToolRegistry) -> list[str]:
    return [one.name for one in registry.list_all()]


def test_many_tools_are_offered_as_the_core_and_a_search() -> None:
    registry, _heard = narrowed()
    assert names(registry) == sorted({*CORE, "search_tools"})
    described = registry.get("search_tools")
    assert described is not None
    assert "git_log" in described.description
    everything = {*names(registry), *(one.name for one in registry.deferred())}
    assert everything == {one.name for one in BUILTIN_TOOLS}


def test_few_tools_are_offered_at_once() -> None:
    few = ToolRegistry(one for one in BUILTIN_TOOLS if one.name.startswith("git_"))
    assert names(narrowed(few)[0]) == names(few)
    assert "search_tools" not in names(narrowed(ToolRegistry((*few.list_all(), search_tools)))[0])


def test_tools_that_fill_a_small_window_are_not_few() -> None:
    few = ToolRegistry(one for one in BUILTIN_TOOLS if one.name.startswith("git_"))
    window = declared_tokens(few.list_all()) * 10
    assert names(narrowed(few, window=window)[0]) == names(few)
    assert names(narrowed(few, window=window - 20)[0]) == ["search_tools"]


def test_zero_offers_everything() -> None:
    assert len(names(narrowed(most=0)[0])) == len(BUILTIN_TOOLS) - 1


def test_a_list_that_leaves_nothing_to_find_has_no_search() -> None:
    core = ToolRegistry(one for one in BUILTIN_TOOLS if one.core)
    assert "search_tools" not in names(narrowed(core, most=2)[0])


async def test_what_a_search_names_can_be_called_and_stands_behind_all_others() -> None:
    registry, heard = narrowed()
    before = registry.list_definitions()
    assert registry.get("git_log") is None
    text = await search(registry, "git_log, git_diff")
    assert heard == ["git_diff", "git_log"]
    assert registry.get("git_log") is not None
    assert registry.list_definitions()[: len(before)] == before
    assert [one.name for one in registry.list_definitions()[len(before) :]] == heard
    assert "git_log: List commits, newest first" in text


async def test_a_search_that_finds_nothing_new_changes_no_prefix() -> None:
    registry, heard = narrowed()
    before = registry.list_definitions()
    assert "Loaded already: run_shell" in await search(registry, "run_shell")
    assert "No tool fits" in await search(registry, "zzz")
    assert registry.list_definitions() is before
    assert heard == []


def test_the_next_turn_declares_what_was_loaded_in_the_same_order() -> None:
    registry, _heard = narrowed(admitted=("web_fetch", "git_log", "of_a_server_that_is_gone"))
    assert names(registry)[-2:] == ["web_fetch", "git_log"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("search the internet", "web_search"),
        ("search the web", "web_search"),
        ("SEARCH THE WEB", "web_search"),
        ("google an error message", "web_search"),
        ("fetch a web page", "web_fetch"),
        ("read a website", "web_fetch"),
        ("download a url", "web_fetch"),
        ("view the git history", "git_log"),
        ("git log", "git_log"),
        ("list recent commits", "git_log"),
        ("show what a commit changed", "git_show"),
        ("show uncommitted changes", "git_diff"),
        ("compare two branches", "git_diff"),
        ("which files are changed", "git_status"),
        ("stage files for a commit", "git_add"),
        ("commit changes", "git_commit"),
        ("create a new branch", "git_checkout"),
        ("generate an icon", "generate_image"),
        ("make a picture of a snail", "generate_image"),
        ("remove the background of the photo", "remove_background"),
        ("list branches", "git_branch"),
        ("push to the remote", "git_push"),
        ("pull from the remote", "git_pull"),
        ("put changes aside", "git_stash"),
        ("stop a background job", "stop_job"),
        ("stop a background task", "stop_job"),
        ("kill a running process", "stop_job"),
        ("read output of background job", "read_job"),
        ("list background jobs", "list_jobs"),
        ("send input to a running program", "write_job"),
        ("press a key in a terminal", "send_keys"),
        ("show the terminal screen", "capture_pane"),
        ("move a file", "move_file"),
        ("rename a file", "move_file"),
        ("copy a file", "copy_file"),
        ("delete a file", "delete_file"),
        ("see the files in a folder", "list_files"),
        ("find where a symbol is defined", "find_definition"),
        ("run the tests", "run_tests"),
        ("start a subagent", "delegate"),
        ("ask the user a question", "ask_user"),
        ("what is the date today", "time"),
        ("create a new project from a template", "create_project"),
        ("list project templates", "list_templates"),
        ("add a component to a project", "add_component"),
    ],
)
async def test_words_load_the_tool_that_is_meant(words: str, meant: str) -> None:
    registry, heard = narrowed(EVERY)
    text = await search(registry, words)
    assert meant in heard[:3], text
    assert registry.get(meant) is not None


@pytest.mark.parametrize(
    ("query", "loaded"),
    [
        ("subagent", ["delegate"]),
        ("AskUserQuestion", ["ask_user"]),
        ("`git_stash`", ["git_stash"]),
        ("delegate, time", ["delegate", "time"]),
        ("git_log delegate", ["delegate", "git_log"]),
        ("use git_log to view the history of a task", ["git_log"]),
        ("WebSearch for the docs", ["web_search"]),
        ("view", []),
        ("view, search", []),
        ("read_file", []),
    ],
)
async def test_a_name_loads_its_tool_alone(query: str, loaded: list[str]) -> None:
    registry, heard = narrowed(EVERY)
    text = await search(registry, query)
    assert heard == loaded
    assert loaded or "Loaded already:" in text


async def test_words_that_found_a_tool_before_load_nothing_else() -> None:
    registry, heard = narrowed(EVERY)
    await search(registry, "search the internet")
    before = list(heard)
    assert "Loaded already: web_search" in await search(registry, "search the internet")
    assert heard == before


async def test_a_server_with_many_tools_is_named_once_and_searched_by_its_words() -> None:
    many = [
        a_tool(f"mcp__hub__{word}", f"(MCP server hub) Handle {word}", "mcp:hub")
        for word in ("issues", "pulls", "labels", "teams", "releases", "branches", "tags", "users")
    ]
    registry, heard = narrowed(ToolRegistry((*BUILTIN_TOOLS, *many)))
    described = registry.get("search_tools")
    assert described is not None
    assert "MCP servers with tools: hub." in described.description
    assert "mcp__hub__labels" not in described.description
    await search(registry, "labels")
    assert heard == ["mcp__hub__labels"]
    text = await search(registry, "hub")
    assert len(heard) == 6
    assert "Further matches, not loaded:" in text


def test_a_call_of_a_tool_that_was_not_found_names_the_search() -> None:
    registry, _heard = narrowed()
    assert registry.unknown("git_log") == (
        "git_log is not loaded and was not called. "
        'Call search_tools with query "git_log"; it can be called from your next reply on.'
    )
    assert "git_log is not loaded" not in registry.unknown("git_lgo")
    assert "Did you mean git_log?" in registry.unknown("git_lgo")
    assert "search_tools finds" in registry.unknown("git_lgo")
    assert "ask_user is not loaded" in registry.unknown("AskUserQuestion")


async def test_a_query_of_any_length_and_signs_is_an_answer() -> None:
    registry, heard = narrowed()
    for query in ("", " ,,; ", "x" * 100_000, "(a+)+$[", "\x1b[31m", "git " * 5_000):
        assert await search(registry, query)
    assert len(heard) <= 5


async def test_a_tool_that_came_during_the_turn_is_found() -> None:
    tools = ToolRegistry(BUILTIN_TOOLS)
    registry, heard = narrowed(tools)
    tools.register(a_tool("mcp__late__forecast", "(MCP server late) Tell the weather", "mcp:late"))
    before = registry.list_definitions()
    assert registry.get("mcp__late__forecast") is None
    await search(registry, "weather")
    assert heard == ["mcp__late__forecast"]
    assert registry.list_definitions()[: len(before)] == before


class Starting:
    """Servers that are starting; each brings its tool when it is waited for."""

    def __init__(self, *names: str) -> None:
        self.left = list(names)
        self.waited: list[tuple[str, ...]] = []
        self.tools = ToolRegistry(BUILTIN_TOOLS)

    def arrivals(self) -> LateTools:
        return LateTools(lambda: tuple(self.left), self._wait_for)

    async def _wait_for(self, names: Any) -> None:
        self.waited.append(tuple(names))
        for name in names:
            if name != "hangs":
                self.left.remove(name)
                self.tools.register(a_tool(f"mcp__{name}__sing", f"Sing about {name}", f"mcp:{name}"))


@pytest.mark.parametrize("most", [0, 20])
async def test_a_search_for_a_starting_server_waits_for_it(most: int) -> None:
    starting = Starting("choir", "my band")
    registry, heard = narrowed(
        starting.tools, most=most, now=starting.tools.list_all, arrivals=starting.arrivals()
    )
    described = registry.get("search_tools")
    assert described is not None
    assert "still starting: choir, my band;" in described.description
    assert "Loaded; call them" in await search(registry, "choir sing")
    assert starting.waited == [("choir",)]
    assert heard == ["mcp__choir__sing"]
    assert "mcp__choir__sing" in names(registry)


async def test_a_search_that_names_no_starting_server_waits_for_none() -> None:
    starting = Starting("choir")
    registry, heard = narrowed(starting.tools, now=starting.tools.list_all, arrivals=starting.arrivals())
    await search(registry, "git_log")
    assert heard == ["git_log"]
    assert starting.waited == []


async def test_a_search_that_finds_nothing_waits_for_all_and_says_what_is_still_missing() -> None:
    starting = Starting("choir", "hangs")
    registry, _heard = narrowed(starting.tools, now=starting.tools.list_all, arrivals=starting.arrivals())
    found = await search(registry, "xylophone quux")
    assert starting.waited == [("choir", "hangs")]
    assert "Still starting, search again later: hangs" in found


def test_few_tools_go_without_a_search_once_every_server_is_there() -> None:
    few = ToolRegistry(one for one in BUILTIN_TOOLS if one.name.startswith("git_"))
    starting = Starting("choir")
    assert "search_tools" in names(narrowed(few, arrivals=starting.arrivals())[0])
    starting.left.clear()
    assert "search_tools" not in names(narrowed(few, arrivals=starting.arrivals())[0])
