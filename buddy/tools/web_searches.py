"""Backends for web searches: the ddgs package, an endpoint the user configured, or none."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote

import msgspec

from buddy.agent.provider import ProviderError
from buddy.agent.tool import ToolError
from buddy.llm.direct import Answer
from buddy.llm.http_client import EngineClient
from buddy.llm.proxies import proxy_for
from buddy.safety.sanitise import one_line
from buddy.tools.web import WebResult, WebSearch

SEARCH_SECONDS = 20.0
MAX_ANSWER_BYTES = 2_000_000
_TITLES = ("title", "name")
_ADDRESSES = ("url", "href", "link")
_SUMMARIES = ("content", "body", "snippet", "description", "summary", "text")


class NoSearch:
    """Nobody answers; says what to do."""

    async def search(self, query: str, limit: int) -> list[WebResult]:
        """Raises `ToolError`."""
        raise ToolError(
            f"there is no web search here, so {one_line(query)!r} was not looked up. "
            "The user can install the ddgs package (pip install ddgs) or set web_search_url "
            "under [tools] in the user's buddy.toml. An address that is known can be read with web_fetch."
        )


class DdgsSearch:
    """The optional ddgs package."""

    def __init__(self, package: str = "ddgs", *, seconds: float = SEARCH_SECONDS) -> None:
        self._package = package
        self._seconds = seconds

    async def search(self, query: str, limit: int) -> list[WebResult]:
        """Search in a thread: the package blocks. Raises `ToolError`."""
        try:
            async with asyncio.timeout(self._seconds):
                rows = await asyncio.to_thread(self._blocking, query, limit)
        except TimeoutError as error:
            raise ToolError(f"the search did not answer within {self._seconds:g} seconds") from error
        return list(hits_in(rows))[:limit]

    def _blocking(self, query: str, limit: int) -> Any:
        module: Any = importlib.import_module(self._package)
        try:
            return module.DDGS(timeout=10).text(query, max_results=limit)
        except Exception as error:  # an extension: the package's errors share no documented base
            raise ToolError(f"the search failed: {one_line(str(error), 300)}") from error


class EndpointSearch:
    """An address of the person's own that answers in JSON: `{query}` in it is replaced (SearXNG, Brave and
    the like). `headers` may hold a key."""

    def __init__(self, address: str, headers: Mapping[str, str], *, seconds: float = SEARCH_SECONDS) -> None:
        self._address = address
        self._headers = headers
        self._seconds = seconds

    async def search(self, query: str, limit: int) -> list[WebResult]:
        """Ask the endpoint. Raises `ToolError`."""
        url = self._address.replace("{query}", quote(query, safe=""))
        try:
            async with asyncio.timeout(self._seconds):
                body = await _get(url, self._headers)
        except TimeoutError as error:
            raise ToolError(f"the search did not answer within {self._seconds:g} seconds") from error
        try:
            rows = msgspec.json.decode(body)
        except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
            raise ToolError(f"the search answered with something that is not JSON: {error}") from error
        return list(hits_in(rows))[:limit]


async def _get(url: str, headers: Mapping[str, str]) -> bytes:
    """The body of an answer, which may come through a proxy. Redirects are not followed: the headers may hold
    a key."""
    client = EngineClient(SEARCH_SECONDS, proxy=proxy_for(url, os.environ))
    try:
        answer = await client.get(url, {"accept": "application/json", **headers})
        try:
            return await _bounded(answer)
        finally:
            await answer.aclose()
    except ProviderError as error:
        reason = str(error.__cause__ or "its address is none: expected http:// or https://host")
        raise ToolError(f"the search cannot be reached: {one_line(reason, 300)}") from error
    finally:
        await client.aclose()


async def _bounded(answer: Answer) -> bytes:
    if answer.status != 200:
        raise ToolError(f"the search answered with HTTP status {answer.status}")
    body = bytearray()
    async for chunk in answer.body():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise ToolError(f"the search answered with more than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(body)


def configured_search(address: str, headers: Mapping[str, str]) -> WebSearch:
    """The search of this installation: the configured address, else ddgs, else none. `address` may go without
    `{query}`: it is added as `?q=…&format=json`, as SearXNG wants it."""
    if address:
        return EndpointSearch(
            address if "{query}" in address else f"{address}?q={{query}}&format=json", headers
        )
    return DdgsSearch() if importlib.util.find_spec("ddgs") else NoSearch()


def hits_in(answer: Any) -> Iterator[WebResult]:
    """Results in the shapes search services give them: a list, or one inside an object."""
    for row in _rows(answer):
        hit = WebResult(_first(row, _TITLES), _first(row, _ADDRESSES), _first(row, _SUMMARIES))
        if hit.url:
            yield hit


def _rows(answer: Any) -> list[dict[str, Any]]:
    if isinstance(answer, list):
        return [cast(dict[str, Any], row) for row in cast(list[Any], answer) if isinstance(row, dict)]
    if isinstance(answer, dict):
        node = cast(dict[str, Any], answer)
        for key in ("results", "web", "data", "items", "organic", "organic_results"):
            rows = _rows(node.get(key))
            if rows:
                return rows
    return []


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := row.get(name), str) and value), "")
