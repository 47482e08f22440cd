"""Texts of templates, rendered by jinja2 in bounds: a loop without end, or a text without, is an error.

The sandbox of jinja2 keeps a template from what is outside of it, not from running for hours. A trace counts
the lines of Python that rendering runs through, those of jinja2 itself too, and ends it; what makes a large
value in one step, which no trace sees, is judged by its numbers.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sized
from types import FrameType
from typing import Any, cast

import jinja2
import jinja2.sandbox

MAX_STEPS = 1_000_000
"""Lines of Python, about a second. The longest template that ships takes a few thousand."""
MAX_CHARS = 10_000_000
MAX_BITS = 100_000
_WIDTH = re.compile(r"%(?:\([^)]*\))?[^a-zA-Z%(]*?(?:\*|\d{5})")
_FIELD = re.compile(r"\{[^{}]*:[^{}]*(?:\d{5}|\{)")
"""A field of `str.format` that is wide, or whose width is another field."""


class RenderingError(Exception):
    """The place in the text, if it is known, and why it cannot be rendered."""


class _EndlessError(BaseException):
    """Rendering went beyond a bound. No `Exception`: jinja2 takes those for constants it can't compute, and
    an error of a trace ends the trace."""


def _check(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    numbers = (value for value in (*arguments, *named.values()) if isinstance(value, int))
    if any(number > MAX_BITS for number in numbers):
        raise _EndlessError(f"it makes a value that is too large: expected numbers up to {MAX_BITS:,}")


def _check_text(name: str, arguments: tuple[Any, ...]) -> None:
    """Refuse a function that would make one text of many or of a wide one in one step."""
    text = next((value for value in arguments if isinstance(value, str)), "")
    match name:
        case "format" | "format_map":
            is_large = _WIDTH.search(text) is not None or _FIELD.search(text) is not None
        case "replace" | "join" | "indent" | "expandtabs":
            most, second, *_ = (*sorted(map(_length, arguments), reverse=True), 0, 0)
            is_large = (most + 1) * (second + 1) > MAX_CHARS or sum(map(_items, arguments)) > MAX_CHARS
        case "translate":
            is_large = True  # no template needs it
        case _:
            is_large = False
    if is_large:
        raise _EndlessError("it makes a value that is too large")


def _length(value: object) -> int:
    if isinstance(value, int):
        return value
    return len(value) if isinstance(value, Sized) else 0


def _items(value: object) -> int:
    """Return how long the texts in a list are together."""
    return sum(map(_length, cast(list[object], value))) if isinstance(value, list | tuple) else 0


def _modest(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that takes no number of which it may make as many."""

    @functools.wraps(function)  # with the marks by which jinja2 passes it the context
    def checked(*arguments: Any, **named: Any) -> Any:
        _check(arguments, named)
        _check_text(name, (*arguments, *named.values()))
        return function(*arguments, **named)

    return checked


class _BoundedEnvironment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
        )
        self.filters = {name: _modest(name, function) for name, function in self.filters.items()}

    def call(self, *arguments: Any, **named: Any) -> Any:
        """Call what a template calls, unless with a number of which it may make as many."""
        _check(arguments, named)
        method = arguments[1]
        of = getattr(getattr(method, "__wrapped__", method), "__self__", None)  # jinja2 wraps `format`
        if isinstance(of, str):
            _check_text(method.__name__, (of, *arguments[2:], *named.values()))
        return super().call(*arguments, **named)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute what an operator makes, unless it is too large."""
        if _size(operator, left, right) > MAX_BITS:
            raise _EndlessError("it makes a value that is too large")
        return super().call_binop(context, operator, left, right)


def render(text: str, known: Mapping[str, Any]) -> str:
    """Render a text with its variables. Raises `RenderingError`."""
    try:
        return _bounded(_BoundedEnvironment(), text, known)
    except jinja2.TemplateSyntaxError as error:
        raise RenderingError(f", line {error.lineno}: {error.message}") from error
    except (
        *(jinja2.TemplateError, ArithmeticError, AttributeError, LookupError),
        *(RecursionError, TypeError, ValueError, MemoryError, _EndlessError),
    ) as error:
        raise RenderingError(f": {error or type(error).__name__}") from error


def _bounded(environment: jinja2.Environment, text: str, known: Mapping[str, Any]) -> str:
    steps = 0

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        if event == "line":
            steps += 1
            if steps > MAX_STEPS:
                raise _EndlessError("it does not come to an end")
        return count

    pieces: list[str] = []
    length = 0
    before = sys.gettrace()
    sys.settrace(count)
    try:
        # Inside: what is constant is computed when the text is compiled.
        for piece in environment.from_string(text).generate(known):
            length += len(piece)
            if length > MAX_CHARS:
                raise _EndlessError(f"its text is longer than {MAX_CHARS:,} characters")
            pieces.append(piece)
    finally:
        sys.settrace(before)
    return "".join(pieces)


def _size(operator: str, left: object, right: object) -> int:
    """Return about how many bits or items an operator would make."""
    if operator == "%":
        return MAX_BITS + 1 if isinstance(left, str) and _WIDTH.search(left) else 0
    if operator == "**":
        return left.bit_length() * abs(right) if isinstance(left, int) and isinstance(right, int) else 0
    for some, times in ((left, right), (right, left)):
        if isinstance(some, Sized) and isinstance(times, int):
            return len(some) * times
    is_number = isinstance(left, int) and isinstance(right, int)
    return cast(int, left).bit_length() + cast(int, right).bit_length() if is_number else 0
