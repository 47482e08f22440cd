"""Results that are kept: how long, for whom they hold, and what makes them untrue."""

from __future__ import annotations

import json

import msgspec

from buddy.agent.tool import Access, ToolResult
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.cache import MAX_CHARS, MAX_ENTRIES, CacheStatistics, ToolCache


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Asked(msgspec.Struct):
    path: str
    limit: int = 1


READS = Access(reads=("/w/src",))


def kept(cache: ToolCache, path: str, access: Access = READS, *, tool: str = "grep", text: str = "x") -> None:
    cache.set(tool, Asked(path), ToolResult(text), life_s=30, access=access)


def test_an_equal_call_is_answered_again_and_marked_until_its_life_is_over() -> None:
    clock = Clock()
    cache = ToolCache(clock)
    assert cache.get("grep", Asked("a")) is None
    kept(cache, "a")
    assert cache.get("grep", Asked("a")) == ToolResult("x", cached=True)
    assert cache.get("grep", Asked("a", limit=2)) is None
    assert cache.get("find_files", Asked("a")) is None
    clock.now += 30
    assert cache.get("grep", Asked("a")) is None
    assert cache.statistics() == CacheStatistics(hits=1, misses=4, entries=0)


def test_a_result_holds_only_while_what_it_was_read_from_looks_the_same() -> None:
    cache = ToolCache(Clock())
    cache.set("list_files", Asked("a"), ToolResult("x"), life_s=30, access=READS, validity=("stamp", 1))
    assert cache.get("list_files", Asked("a"), ("stamp", 2)) is None
    assert cache.get("list_files", Asked("a"), ("stamp", 1)) is None, "it was dropped, not only passed over"


def test_a_write_drops_what_it_may_have_made_untrue_and_nothing_else() -> None:
    for write, left in {
        "/w/src": 1,
        "/w/src/deep/a.py": 1,
        "/w": 0,
        "/w/src2": 2,
        "/w/other/b": 1,
        "/w/otherwise": 2,
    }.items():
        cache = ToolCache(Clock())
        kept(cache, "src")
        kept(cache, "other", Access(reads=("/w/other",)))
        cache.invalidate_writes(Access(writes=(write,)))
        assert cache.statistics().entries == left, write
    cache = ToolCache(Clock())
    kept(cache, "src")
    cache.invalidate_writes(Access(anything=True))
    assert cache.statistics().entries == 0


def test_results_of_no_named_path_are_dropped_by_every_write() -> None:
    cache = ToolCache(Clock())
    kept(cache, "branch", Access(), tool="git_branch")
    assert cache.invalidate_writes(Access(writes=("/elsewhere",))) == 1


def test_patterns_tools_and_everything_can_be_dropped() -> None:
    clock = Clock()
    cache = ToolCache(clock)
    kept(cache, "src")
    kept(cache, "src", tool="find_files")
    kept(cache, "lib", Access(reads=("/w/lib",)))
    assert cache.invalidate("/w/s*") == 2
    assert cache.invalidate_tool("find_files") == 0
    assert cache.invalidate_tool("grep") == 1
    kept(cache, "src")
    kept(cache, "src", tool="find_files")
    assert cache.invalidate("find_files:/w/lib*") == 0
    assert cache.invalidate("find_files:*") == 1
    kept(cache, "odd", Access(reads=("/w/a:b",)))
    assert cache.invalidate("/w/a:*") == 1
    clock.now += 29
    assert cache.cleanup_expired() == 0
    clock.now += 1
    assert cache.cleanup_expired() == 1
    kept(cache, "src")
    cache.clear()
    assert cache.statistics().entries == 0


def test_what_was_used_longest_ago_goes_first_and_size_counts_too() -> None:
    cache = ToolCache(Clock())
    for number in range(MAX_ENTRIES):
        kept(cache, str(number))
    cache.get("grep", Asked("0"))
    kept(cache, "one more")
    assert cache.get("grep", Asked("0")) is not None
    assert cache.get("grep", Asked("1")) is None
    kept(cache, "large", text="x" * (MAX_CHARS - 10))
    assert cache.get("grep", Asked("large")) is not None
    assert cache.statistics().entries <= 11
    kept(cache, "too large", text="x" * (MAX_CHARS + 1))
    assert cache.statistics().entries == 0


def test_each_tool_has_the_life_that_fits_it_and_none_that_changes_something_has_one() -> None:
    lives = {tool.name: tool.cache_s for tool in BUILTIN_TOOLS if tool.cache_s}
    assert lives == {
        "list_files": 30,
        "find_files": 30,
        "grep": 30,
        "find_definition": 30,
        "git_status": 5,
        "git_diff": 5,
        "git_branch": 10,
        "git_log": 60,
        "git_show": 60,
        "web_search": 60,
    }
    empty = {"name": "x", "query": "x", "pattern": "x", "ref": "x"}
    for tool in (one for one in BUILTIN_TOOLS if one.cache_s):
        given = {name: value for name, value in empty.items() if name in tool.parameters["properties"]}
        assert tool.access(tool.decode(json.dumps(given))).read_only
