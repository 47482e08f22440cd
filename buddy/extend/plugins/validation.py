"""Validate plug-in tools, and confine their errors to one call."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast, get_args

import msgspec

from buddy.agent.display import NOTHING, Display, Plain
from buddy.agent.formatting import keep_ends
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Image
from buddy.agent.tool import Access, Category, Risk, Tool, ToolContext, ToolError, ToolResult

MAX_RESULT_CHARS = 100_000
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Tool names every provider accepts: with one other name in the list, a provider refuses each request."""
_Told = tuple[str, tuple[str, ...], dict[str, str], float]
_ANYTHING = Access(anything=True)
_log = logging.getLogger(__name__)
T = TypeVar("T")

Run = Callable[[Callable[[], None]], BaseException | None]
"""Runs code that may raise anything or never end; returns what it raised."""


def unfit(tool: Tool) -> str:
    """Return the reason a tool can't be offered, "" when it can."""
    if _NAME().fullmatch(str(tool.name)) is None:
        return (
            f"providers refuse the name {tool.name!r}; expected at most 64 letters (a to z), digits, _ and "
            "-, with a letter first"
        )
    for field, allowed in (("risk", get_args(Risk)), ("category", get_args(Category))):
        if (found := getattr(tool, field)) not in allowed:
            return f"{tool.name}: expected as {field} one of {', '.join(allowed)}, found {found!r}"
    try:
        json.dumps(msgspec.to_builtins(tool.definition()), allow_nan=False)
        msgspec.convert((tool.name, tool.aliases, tool.argument_aliases, tool.cache_s), _Told)
    except (TypeError, ValueError) as error:
        return f"{tool.name}: {error}"
    return ""


def careful(tool: Tool, run: Run) -> Tool:
    """Return the tool, so that what it says of its access and its preview holds up nobody. One that fails to
    say what it touches may touch anything. The commands it starts are confined."""

    def access(arguments: Any) -> Access:
        found, error = _ask(run, lambda: msgspec.convert(msgspec.to_builtins(tool.access(arguments)), Access))
        if error is not None:
            _log.warning("%s does not say what it touches", tool.name, exc_info=error)
        return found or _ANYTHING

    def preview(ctx: ToolContext, arguments: Any) -> Display:
        if tool.preview is None:
            return NOTHING
        theirs = tool.preview
        found, error = _ask(run, lambda: theirs(ctx, arguments))
        if isinstance(error, ToolError):
            raise error
        if error is not None:
            _log.warning("the preview of %s failed", tool.name, exc_info=error)
            return Plain(f"the preview of {tool.name} failed: {type(error).__name__}: {error}")
        return _display(found)

    return msgspec.structs.replace(
        tool, access=access, preview=preview if tool.preview else None, confined=True
    )


def _ask(run: Run, ask: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    held: list[T] = []
    error = run(lambda: held.append(ask()))
    return (held[0] if held and error is None else None), error


def to_result(result: object, printed: str) -> ToolResult:
    """Convert a tool's return value and printed output to a result that can be sent, shown and kept."""
    if not isinstance(result, ToolResult):
        result = ToolResult("the tool returned nothing" if result is None else _text(result))
    text = _text(result.text)
    if printed.strip():
        text = f"{text}\n[printed]\n{printed.rstrip()}".lstrip("\n")
    return ToolResult(
        keep_ends(text, MAX_RESULT_CHARS),
        _display(result.display),
        tuple(one for one in cast(Iterable[object], result.images) if isinstance(one, Image)),
        ok=bool(result.ok),
    )


def _display(found: object) -> Display:
    return cast(Display, found) if isinstance(found, get_args(Display)) else NOTHING


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
