"""The choice of the tools a model is offered, and the search for the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buddy.agent.tool import Tool, ToolContext, ToolRegistry, tool
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.search_tools import declared_tokens, find, narrow, search_tools

ALL = ToolRegistry(BUILTIN_TOOLS)
CORE = ["apply_patch", "edit_file", "find_files", "grep", "read_file", "run_shell", "todo", "write_file"]


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
    ("words", "first"),
    [
        ("search the internet", "web_search"),
        ("fetch a web page", "web_fetch"),
        ("commit changes", "git_commit"),
        ("read output of background job", "read_job"),
        ("rename a file", "move_file"),
        ("AskUserQuestion", "ask_user"),
        ("subagent", "delegate"),
        ("run the tests", "run_tests"),
        ("`git_stash`", "git_stash"),
    ],
)
def test_words_find_the_tool_that_is_meant(words: str, first: str) -> None:
    assert first in [one.name for one in find(words, narrowed()[0].deferred())[:3]]


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
