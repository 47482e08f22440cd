from __future__ import annotations

from buddy.agent.display import FileDiff
from buddy.headless.serve.requests import shorten


def _file(chars: int) -> FileDiff:
    return FileDiff("a.txt", "update", "+x\n" * (chars // 3), chars // 3, 0)


def test_differences_that_fit_are_whole() -> None:
    files = (_file(30), _file(60))
    assert shorten(files, 90) == files


def test_differences_beyond_the_limit_end_at_a_line_and_say_so() -> None:
    first, second, third = shorten((_file(30), _file(90), _file(30)), 50)
    assert first == _file(30)
    assert second.diff == "+x\n" * 6 + "\\ not shown: the rest of 90 characters\n"
    assert (second.added, third.added) == (30, 10)
    assert third.diff == "\\ not shown: the rest of 30 characters\n"
