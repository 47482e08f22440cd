"""`search_tools`: the way to tools that are not offered from the start, and the choice of those that are.

Every declared tool is paid for with each request. Beyond a number of tools, or a share of the window, only
the core is declared: reading, searching, editing and the shell, which is all that the recorded sessions and
edits did, `todo`, and what the system prompt names (`skill`). The rest is found by name or by words and
declared from then on. That changes the beginning of the prompt, so nothing else does it within a turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from buddy.agent.budget import text_tokens
from buddy.agent.display import Plain
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import Tool, ToolContext, ToolError, ToolRegistry, ToolResult, no_access, tool

WINDOW_SHARE = 0.1
"""Declarations may take this share of the window before only the core is offered."""
MAX_FOUND = 5
MAX_LISTED = 40
MAX_QUERY_CHARS = 400
_MCP = "mcp:"


class LateTools(Struct, frozen=True):
    """Servers whose tools are still to come: their names now, and a wait for some of them, of limited
    length."""

    names: Callable[[], tuple[str, ...]]
    wait_for: Callable[[Collection[str]], Awaitable[None]]


async def _wait_for_none(_names: Collection[str]) -> None:
    return


NO_LATE_TOOLS = LateTools(tuple, _wait_for_none)
_WORD = pattern(r"[^\W_]+")
_NAME_SIGN = pattern(r"_|[a-z0-9][A-Z]")
"""In a piece of a query: it is a name, not a word."""
# fmt: off
_SMALL_WORDS = frozenset((
    "a", "an", "and", "any", "are", "at", "be", "by", "can", "do", "does", "for", "from", "how", "i",
    "in", "into", "is", "it", "its", "me", "my", "need", "of", "on", "one", "or", "our", "please",
    "see", "some", "that", "the", "there", "these", "this", "to", "tool", "tools", "use", "want",
    "what", "which", "with",
))
# fmt: on
_RELATED = {
    "histori": ("log",),
    "internet": ("web",),
    "onlin": ("web",),
    "websit": ("web", "page"),
    "download": ("fetch",),
    "link": ("url",),
    "directori": ("folder",),
    "kil": ("stop", "end"),
    "terminat": ("stop", "end"),
    "cancel": ("stop", "end"),
    "proces": ("job",),
    "undo": ("stash", "checkout"),
    "sav": ("commit",),
    "upload": ("push",),
    "publish": ("push",),
    "scaffold": ("template", "project"),
    "user": ("person",),
    "keyboard": ("keys",),
    "compar": ("diff",),
    "input": ("text",),
    "recent": ("newest",),
    "program": ("job",),
    "stag": ("add",),
    "task": ("job",),
    "todai": ("time",),
    "clock": ("time",),
}
"""Words of questions, as stems, with the words of names and descriptions that mean the same."""


@tool(anywhere=True, risk="low", category="other", access=no_access, aliases=("ToolSearch", "tool_search"))
async def search_tools(
    ctx: ToolContext,
    query: Annotated[str, Meta(description="Names, or words for what you need")],
) -> ToolResult:
    """Load more tools: to call from your next reply on."""
    raise ToolError("all tools are loaded already; call the one you need")


def narrow(
    tools: ToolRegistry,
    *,
    most: int,
    window: int,
    admitted: Sequence[str],
    is_core: Callable[[Tool], bool],
    search: Tool,
    note: Callable[[tuple[Tool, ...]], None],
    now: Callable[[], Iterable[Tool]],
    arrivals: LateTools = NO_LATE_TOOLS,
) -> ToolRegistry:
    """Return the registry of a turn: all tools where they are few, else the core, `search_tools` and what was
    admitted before. `most` is the number of tools that counts as few (0: any), `window` the model's in
    tokens; `note` hears of tools that a search admits; `now` returns the tools there are when one begins: a
    server may connect during the turn. While servers are starting, the search is offered even beside few
    tools, so that only a model that wants theirs waits for them."""
    everything = tuple(one for one in tools.list_all() if one.name != search.name)
    is_small = not most or (len(everything) <= most and declared_tokens(everything) <= window * WINDOW_SHARE)
    registry = ToolRegistry(one for one in everything if is_small or is_core(one))
    registry.defer(one for one in everything if registry.get(one.name) is None)
    if not registry.deferred() and not arrivals.names():
        return registry
    registry.register(_bound(search, registry, note, now, arrivals))
    registry.admit(admitted)
    return registry


def declared_tokens(tools: Iterable[Tool]) -> int:
    """Estimate the tokens that the declarations of tools take in each request."""
    return round(sum(text_tokens(one.description) + text_tokens(str(one.parameters)) + 8 for one in tools))


def _bound(
    search: Tool,
    registry: ToolRegistry,
    note: Callable[[tuple[Tool, ...]], None],
    now: Callable[[], Iterable[Tool]],
    arrivals: LateTools,
) -> Tool:
    """Return the search over one registry. Its description names what there is, so that a model knows what it
    may look for; the tools of servers are many and go by their server."""

    def look(query: str) -> tuple[Tool, ...]:
        registry.defer(one for one in now() if registry.get(one.name) is None)
        known = (*registry.list_all(), *registry.deferred())
        return find(query, known, [one for one in known if one.name not in core])

    async def run(ctx: ToolContext, arguments: object) -> ToolResult:
        query = str(getattr(arguments, "query", ""))[:MAX_QUERY_CHARS]
        matches = look(query)
        if late := _meant(query, arrivals.names(), is_open=not matches):
            ctx.progress(f"waiting for MCP servers that are starting: {', '.join(late)}\n")
            await arrivals.wait_for(late)
            matches = look(query)
        loaded = [one for one in matches if registry.get(one.name) is not None and one.name != search.name]
        new = [one for one in matches if registry.get(one.name) is None]
        admitted = registry.admit(one.name for one in new[:MAX_FOUND])
        if admitted:
            note(admitted)
        return _result(query, registry, admitted, loaded, new[MAX_FOUND:], arrivals.names())

    core = {search.name, *(one.name for one in registry.list_all())}
    own = [one.name for one in registry.deferred() if not one.source.startswith(_MCP)]
    servers = sorted({one.source[len(_MCP) :] for one in registry.deferred() if one.source.startswith(_MCP)})
    listed = ", ".join(own[:MAX_LISTED]) + (", …" if len(own) > MAX_LISTED else "")
    pieces = [search.description, *([f"There are: {listed}."] if own else [])]
    pieces += [f"MCP servers with tools: {', '.join(servers[:MAX_LISTED])}."] if servers else []
    if starting := arrivals.names():
        names = ", ".join(starting[:MAX_LISTED])
        pieces.append(f"MCP servers still starting: {names}; name one to wait for it.")
    return replace(search, description=" ".join(pieces), run=run)


def _meant(query: str, starting: Sequence[str], *, is_open: bool) -> tuple[str, ...]:
    """Return the starting servers that a query may be about: those it names; all where nothing else fits."""
    words = {word.lower() for word in _WORD().findall(query)}
    named = tuple(name for name in starting if words.issuperset(map(str.lower, _WORD().findall(name))))
    return named or (tuple(starting) if is_open else ())


def find(query: str, known: Sequence[Tool], searched: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools a query means: those of `known` that it names, else those of `searched` that its words
    fit, best first."""
    pieces = _names_in(query, known)
    named = tuple(one for one in known if pieces & _lower_names(one))
    return named or _best_matches(query, searched)


def _names_in(query: str, known: Sequence[Tool]) -> set[str]:
    """Return the pieces of a query that are meant as names. Many names and aliases are plain words (`search`,
    `view`, `task`), which in a sentence are not names."""
    names = {name for one in known for name in _lower_names(one)}
    pieces = _words_of(query)
    lower = {piece.lower() for piece in pieces}
    explicit = {piece.lower() for piece in pieces if _NAME_SIGN().search(piece)}
    listed = [part.strip("`\"' ").lower() for part in re.split(r"[,;\n]", query) if part.strip("`\"' ")]
    if names.issuperset(listed) or (explicit and names >= lower):
        return lower
    return explicit


def _best_matches(query: str, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools that the words of a query fit, best first. A word counts the more the fewer tools
    have it: `git` and `file` say little."""
    asked = " ".join(piece for piece in _words_of(query) if not piece.lower().startswith("mcp__"))
    words = {_stem(word) for word in _split(asked) if word not in _SMALL_WORDS}
    weights = {one.name: _weigh_words(one) for one in tools}
    scores = dict.fromkeys(weights, 0.0)
    for word in words:
        same = {word, *map(_stem, _RELATED.get(word, ()))}
        fits = {name: max(weight.get(other, 0) for other in same) for name, weight in weights.items()}
        fits = {name: fit for name, fit in fits.items() if fit}
        for name, fit in fits.items():
            scores[name] += fit * math.log1p(len(tools) / len(fits))
    best = max(scores.values(), default=0)
    close = [one for one in tools if scores[one.name] and scores[one.name] * 2 >= best]
    return tuple(sorted(close, key=lambda one: (-scores[one.name], one.name)))


def _weigh_words(one: Tool) -> dict[str, int]:
    """Return the words a tool is found by with their weight: those of its names count most, then those of
    the first clause about it."""
    first = re.split(r"[.:]\s", one.description, maxsplit=1)[0]
    rest = f"{one.description} {' '.join(one.parameters.get('properties') or ())}"
    names = " ".join((*_names(one), one.source.removeprefix(_MCP)))
    return dict.fromkeys(_stems(rest), 1) | dict.fromkeys(_stems(first), 2) | dict.fromkeys(_stems(names), 4)


def _words_of(query: str) -> list[str]:
    words = [piece.strip("`\"' ") for piece in re.split(r"[,;\s]+", query)]
    return [word for word in words if word]


def _is_known(name: str, registry: ToolRegistry) -> bool:
    known = {one.name.lower() for one in (*registry.list_all(), *registry.deferred())}
    return name.lower() in known


def _names(one: Tool) -> tuple[str, ...]:
    """Return the names a tool is known by: an MCP tool also by the server's own name for it."""
    return (one.name, *one.aliases, *one.name.split("__", 2)[2:])


def _lower_names(one: Tool) -> set[str]:
    return {name.lower() for name in _names(one)}


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in _split(text)}


def _split(text: str) -> list[str]:
    """Return the words of a text, in lower case. Names are taken apart."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return _WORD().findall(spaced.lower())


def _stem(word: str) -> str:
    """Return a word without the endings that a question and a description differ in."""
    for ending in ("ing", "es", "s", "ed", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:  # stopp(ing), committ(ed)
        return word[:-1]
    return f"{word[:-1]}i" if word.endswith("y") else word  # copy, copi(es)


def _result(
    query: str,
    registry: ToolRegistry,
    admitted: Sequence[Tool],
    loaded: Sequence[Tool],
    more: Sequence[Tool],
    starting: Sequence[str],
) -> ToolResult:
    names = ", ".join(one.name for one in admitted)
    lines = [f"{one.name}: {first_sentence(one.description)}" for one in admitted]
    if admitted:
        lines.insert(0, "Loaded; call them from your next reply on:")
    if loaded:
        lines.append(f"Loaded already: {', '.join(one.name for one in loaded[:MAX_FOUND])}")
    absent = [name for name in _words_of(query) if name.startswith("mcp__") and not _is_known(name, registry)]
    if absent:
        lines.append(f"Not there now, its server may not be connected: {', '.join(absent[:MAX_FOUND])}")
    if more:
        lines.append(f"Further matches, not loaded: {', '.join(one.name for one in more[:MAX_LISTED])}")
    if not lines:
        rest = [one.name for one in registry.deferred()]
        lines.append(f"No tool fits {query!r}. There are: {', '.join(rest[:MAX_LISTED]) or 'none'}")
        if len(rest) > MAX_LISTED:
            lines.append(f"and {format_count(len(rest) - MAX_LISTED, 'more')}; use other words")
    if starting and not admitted:
        lines.append(f"Still starting, search again later: {', '.join(starting[:MAX_LISTED])}")
    return ToolResult(
        "\n".join(lines), Plain(f"loaded {names}" if names else lines[0][:200], "\n".join(lines))
    )


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, in one line, without its full stop."""
    first = " ".join(text.split()).partition(". ")[0].removesuffix(".")
    return first if len(first) <= 200 else f"{first[:199]}…"
