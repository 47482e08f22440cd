"""Texts of templates, rendered by jinja2 in bounds: a loop without end, or a text without, is an error.

The sandbox of jinja2 keeps a template from what is outside of it, not from running for hours. A trace counts
the lines of Python that rendering runs through, those of jinja2 itself too, and ends it; what makes a large
value in one step, which no trace sees, is judged by its numbers, and every value is weighed when it is made.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sized
from types import FrameType
from typing import Any, cast

import jinja2
import jinja2.sandbox
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

MAX_STEPS = 1_000_000
"""Lines of Python, about a second. The longest template that ships takes a few thousand."""
MAX_CHARS = 10_000_000
MAX_MADE = 100_000_000
"""Characters and items of all values a rendering makes, those it drops again too."""
MAX_BITS = 100_000
_TOO_LARGE = "it makes a value that is too large"
_WIDTH = re.compile(r"%(?:\([^)]*\))?[^a-zA-Z%(]*?(?:\*|\d{5})")
_FIELD = re.compile(r"\{[^{}]*:[^{}]*(?:\d{5}|\{)")
"""A field of `str.format` that is wide, or whose width is another field."""


class RenderingError(Exception):
    """The place in the text, if it is known, and why it cannot be rendered."""


class _EndlessError(BaseException):
    """Rendering went beyond a bound. No `Exception`: jinja2 takes those for constants it can't compute, and
    an error of a trace ends the trace."""


def _weigh(value: object) -> int:
    """Return the characters and items of a value, each as often as it would be written; beyond `MAX_CHARS`
    some larger number."""
    weight, pending = 0, [value]
    while pending:
        part = pending.pop()
        if not isinstance(part, str | bytes | list | tuple | set | frozenset | dict):
            continue
        weight += len(cast(Sized, part))
        if weight > MAX_CHARS:
            break
        if isinstance(part, dict):
            items = cast(dict[object, object], part)
            pending.extend((*items, *items.values()))
        elif not isinstance(part, str | bytes):
            pending.extend(cast(list[object], part))
    return weight


def _check_made(name: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Refuse a function that may make a value that is too large, judged by its numbers and texts."""
    values = (*arguments, *named.values())
    numbers = [value for value in values if isinstance(value, int)]
    if any(number > MAX_BITS for number in numbers):
        raise _EndlessError(f"it makes a value that is too large: expected numbers up to {MAX_BITS:,}")
    weights = list(map(_weigh, values))
    if sum(weights) > MAX_CHARS:
        raise _EndlessError(_TOO_LARGE)
    at, text = next(((at, value) for at, value in enumerate(values) if isinstance(value, str)), (0, ""))
    most, second, *_ = (*sorted((*weights, *numbers), reverse=True), 0, 0)
    match name:
        case "format" | "format_map":
            fields = max(text.count("{"), text.count("%"))
            is_large = _WIDTH.search(text) is not None or _FIELD.search(text) is not None
            is_large = is_large or fields * sum((*weights[:at], *weights[at + 1 :])) > MAX_CHARS
        case "replace" | "join" | "indent" | "expandtabs" | "wordwrap" | "urlize" | "tojson":
            is_large = (most + 1) * (second + 1) > MAX_CHARS
        case "translate":
            is_large = True  # no template needs it
        case _:
            is_large = False
    if is_large:
        raise _EndlessError(_TOO_LARGE)


class _Generator(CodeGenerator):
    """Makes code in which lists, tuples, dictionaries and joined texts are weighed as soon as they exist:
    even comparing two of them may take for ever."""

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802 - jinja2 names it
        """Write a list."""
        self._weighed(super().visit_List, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802 - jinja2 names it
        """Write a tuple, or the targets of an assignment."""
        if node.ctx == "load":
            self._weighed(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802 - jinja2 names it
        """Write a dictionary."""
        self._weighed(super().visit_Dict, node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - jinja2 names it
        """Write what `~` joins."""
        self.write("environment.write_together((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def _weighed(self, visit: Callable[[Any, Frame], None], node: nodes.Node, frame: Frame) -> None:
        self.write("environment.count(")
        visit(node, frame)
        self.write(")")


class _BoundedEnvironment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("*", "**", "%", "+"))
    code_generator_class = _Generator

    def __init__(self) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constants are computed while rendering, where they are counted
            finalize=self._count_written,
        )
        self.filters = {name: self._modest(name, function) for name, function in self.filters.items()}
        self.concat = self._concat  # what a block, a macro or {% set %} wrote
        self._made = 0

    def count(self, value: Any) -> Any:
        """Return a value, unless it is too large by itself or with all that were made before."""
        weight = _weigh(value)
        self._made += weight
        if weight > MAX_CHARS or self._made > MAX_MADE:
            raise _EndlessError(_TOO_LARGE)
        return value

    def write_together(self, values: tuple[Any, ...]) -> str:
        """Return some values as one text."""
        self.count(values)
        return "".join(map(str, values))

    @jinja2.pass_context  # with it jinja2 computes no output while it compiles
    def _count_written(self, _context: object, value: Any) -> Any:
        return self.count(value)

    def _concat(self, pieces: Iterable[str], /) -> str:
        written = self.count(list(pieces))
        return "".join(written)

    def _modest(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter that makes no value that is too large."""

        @functools.wraps(function)  # with the marks by which jinja2 passes it the context
        def checked(*arguments: Any, **named: Any) -> Any:
            _check_made(name, arguments, named)
            return self.count(function(*arguments, **named))

        return checked

    def call(self, *arguments: Any, **named: Any) -> Any:
        """Call what a template calls, unless it makes a value that is too large."""
        method = arguments[1]
        of = getattr(getattr(method, "__wrapped__", method), "__self__", None)  # jinja2 wraps `format`
        is_text = isinstance(of, str)
        _check_made(method.__name__ if is_text else "", (*((of,) if is_text else ()), *arguments[2:]), named)
        return self.count(super().call(*arguments, **named))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute what an operator makes, unless it is too large."""
        if operator == "+":
            self.count((left, right))
        elif _size(operator, left, right) > MAX_BITS:
            raise _EndlessError(_TOO_LARGE)
        return self.count(super().call_binop(context, operator, left, right))


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
    if operator == "%" and isinstance(left, str):
        is_large = _WIDTH.search(left) or left.count("%") * _weigh(right) > MAX_CHARS
        return MAX_BITS + 1 if is_large else 0
    if operator == "%":
        return 0
    if operator == "**":
        return left.bit_length() * abs(right) if isinstance(left, int) and isinstance(right, int) else 0
    for some, times in ((left, right), (right, left)):
        if isinstance(some, Sized) and isinstance(times, int):
            return len(some) * times
    is_number = isinstance(left, int) and isinstance(right, int)
    return cast(int, left).bit_length() + cast(int, right).bit_length() if is_number else 0
