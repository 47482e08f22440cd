"""Searching the web: with a configured endpoint, with the optional package, with nothing."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from buddy.agent.display import Plain
from buddy.agent.tool import ToolContext, ToolError, ToolResult
from buddy.tools.web import (
    DdgsSearch,
    EndpointSearch,
    NoSearch,
    WebAccess,
    WebResult,
    WebSearch,
    choose_search,
    hits_in,
    web_search,
)
from buddy.workspace.web import Fetcher
from tests.support.web_server import answering, reply, serving

ROW = {"title": "A \x1b[31mtitle", "url": "https://x.example/\u202e", "content": "words\nand more"}


async def search(provider: WebSearch, query: str = "how to", limit: int = 8) -> ToolResult:
    access = WebAccess(Fetcher(), provider, lambda: 0.0)
    context = ToolContext(1, "c1", lambda _text: None, asyncio.Event(), {WebAccess: access})
    return await web_search.run(context, web_search.arguments(query=query, limit=limit))


async def test_results_are_cleaned_numbered_and_wrapped() -> None:
    async with serving(
        answering(reply(json.dumps({"results": [ROW] * 5}).encode(), "application/json"))
    ) as server:
        provider = EndpointSearch(f"http://127.0.0.1:{server.port}/s?q={{query}}", {"X-Key": "k"})
        result = await search(provider, "a&b c", 2)
    shown = (
        "1. A title\n   https://x.example/⟨U+202E⟩\n   words and more\n"
        "2. A title\n   https://x.example/⟨U+202E⟩\n   words and more"
    )
    assert result.display == Plain("2 results", shown)
    assert shown in result.text
    assert result.text.startswith("Content from a web search for 'a&b c' follows.")
    assert server.requests[0].startswith("GET /s?q=a%26b%20c HTTP/1.1\r\n")
    assert "X-Key: k" in server.requests[0]


async def test_no_results_are_said() -> None:
    async with serving(answering(reply(b"{}", "application/json"))) as server:
        assert (await search(EndpointSearch(server.url("/?q={query}", "127.0.0.1"), {}))).text == (
            "no results for 'how to'"
        )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(b"<html>", "text/html"), "not JSON"),
        (reply(b'["\xff"]', "application/json"), "not JSON"),
        (reply(b"[" * 100_000, "application/json"), "not JSON"),
        (reply(b"no", status="403 Forbidden"), "HTTP status 403"),
        (reply(b"", "", "Location: http://other.example/", status="302 Found"), "HTTP status 302"),
        (reply(b"x" * 2_100_000), "more than 2,000,000 bytes"),
        (b"garbage\r\n\r\n", "cannot be reached"),
    ],
)
async def test_an_endpoint_that_fails_is_said(answer: bytes, message: str) -> None:
    async with serving(answering(answer)) as server:
        with pytest.raises(ToolError, match=message):
            await search(EndpointSearch(server.url("/?q={query}", "127.0.0.1"), {}))


async def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(ToolError, match="cannot be reached"):
        await search(EndpointSearch("http://127.0.0.1:x/{query}", {}))


async def test_without_a_search_the_model_is_told_what_the_user_can_do() -> None:
    with pytest.raises(ToolError, match=r"pip install ddgs\) or set web_search_url"):
        await search(NoSearch())


@pytest.fixture
def package(tmp_path: Path) -> str:
    """A package with the interface of ddgs, under a name of its own."""
    (tmp_path / "search_for_tests.py").write_text(
        "class DDGS:\n"
        "    def __init__(self, timeout): pass\n"
        "    def text(self, query, max_results):\n"
        "        if query == 'slow': import time; time.sleep(0.5)\n"
        "        if query == 'fail': raise RuntimeError('ratelimit \\x1b[31m202')\n"
        "        return [{'title': 't', 'href': 'https://x.example/', 'body': query}] * max_results\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        spec = importlib.util.find_spec("search_for_tests")
        assert spec is not None
        yield "search_for_tests"
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("search_for_tests", None)


async def test_the_optional_package_is_used_and_its_failures_are_told(package: str) -> None:
    result = await search(DdgsSearch(package), "x", 1)
    assert result.display == Plain("1 result", "1. t\n   https://x.example/\n   x")
    with pytest.raises(ToolError, match="the search failed: ratelimit 202"):
        await search(DdgsSearch(package), "fail")
    with pytest.raises(ToolError, match=r"did not answer within 0.1 seconds"):
        await search(DdgsSearch(package, seconds=0.1), "slow")


async def test_an_endpoint_that_says_nothing_meets_the_deadline() -> None:
    async def silent(_path: str, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(silent) as server:
        with pytest.raises(ToolError, match=r"did not answer within 0.1 seconds"):
            await search(EndpointSearch(server.url("/?q={query}", "127.0.0.1"), {}, seconds=0.1))


@pytest.mark.parametrize(
    ("answer", "hits"),
    [
        ([{"title": "t", "href": "u", "body": "b"}], [WebResult("t", "u", "b")]),
        ({"web": {"results": [{"title": "t", "url": "u", "description": "d"}]}}, [WebResult("t", "u", "d")]),
        ({"organic": [{"title": "t", "link": "u", "snippet": "s"}]}, [WebResult("t", "u", "s")]),
        ({"results": [], "data": [{"name": "t", "url": "u"}]}, [WebResult("t", "u", "")]),
        ({"results": [{"title": "no address"}, 3, None]}, []),
        ({"results": "x"}, []),
        (3, []),
    ],
)
def test_results_are_found_in_the_shapes_services_use(answer: object, hits: list[WebResult]) -> None:
    assert list(hits_in(answer)) == hits


def test_the_search_of_this_installation() -> None:
    assert isinstance(choose_search("http://127.0.0.1:8888/search", {}), EndpointSearch)
    assert isinstance(choose_search("http://x/?q={query}", {}), EndpointSearch)
    expected = DdgsSearch if importlib.util.find_spec("ddgs") else NoSearch
    assert isinstance(choose_search("", {}), expected)
