"""Matchers of hooks: names separated by bars, or a regular expression."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from buddy.agent.lazy_regex import pattern

MAX_MATCHER_CHARS = 500
_NAMES = pattern(r"[A-Za-z0-9_\-|, ]+")


class WrongMatcher(ValueError):
    """The matcher is no regular expression; the message says why."""


def matches(matcher: str, subjects: Sequence[str]) -> bool:
    """Tell whether a matcher means one of the subjects; an event without subjects is meant by every matcher.
    A wrong one matches nothing: whoever loads hooks has reported it."""
    if matcher in ("", "*") or not subjects:
        return True
    try:
        test = compile_matcher(matcher)
    except WrongMatcher:
        return False
    return any(map(test, subjects))


@functools.lru_cache(maxsize=256)
def compile_matcher(matcher: str) -> Callable[[str], bool]:
    """Return the test of a matcher. Raises `WrongMatcher`."""
    if len(matcher) > MAX_MATCHER_CHARS:
        raise WrongMatcher(f"a matcher has at most {MAX_MATCHER_CHARS} characters")
    if _NAMES().fullmatch(matcher):
        names = {name.strip() for name in matcher.replace(",", "|").split("|")}
        return lambda subject: subject in names
    try:
        search = _linear_search(matcher)
    except re.error as error:
        raise WrongMatcher(f"the matcher {matcher!r} is no regular expression: {error}") from error
    return lambda subject: search(subject) is not None


def _linear_search(matcher: str) -> Callable[[str], object]:
    """Return the search of RE2, which no pattern can make slow; of `re` where RE2 has no wheel. Raises
    `re.error`."""
    try:
        re2: Any = importlib.import_module("re2")  # here: only hooks with a pattern need it
    except ImportError:
        return re.compile(matcher).search
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(matcher, options).search
    except re2.error as error:
        raise re.error(_words(error)) from error


def _words(error: BaseException) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
