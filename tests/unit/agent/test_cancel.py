"""Cleanup runs only after a failure, and the failure is raised again."""

from __future__ import annotations

import asyncio

import pytest

from buddy.agent.cancel import on_failure


def test_a_body_that_comes_to_its_end_keeps_what_it_made() -> None:
    made: list[str] = []
    with on_failure(made.remove, "file"):
        made.append("file")
    assert made == ["file"]


@pytest.mark.parametrize("kind", [OSError, asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_whatever_a_body_raises_is_raised_after_the_clean_up(kind: type[BaseException]) -> None:
    made = ["file"]
    with pytest.raises(kind), on_failure(made.remove, "file"):
        raise kind
    assert made == []


def test_a_clean_up_that_fails_too_names_what_it_was_for() -> None:
    with pytest.raises(ValueError, match="not in list") as raised, on_failure([].remove, "file"):
        raise OSError("the disk is full")
    assert repr(raised.value.__context__) == "OSError('the disk is full')"


async def test_work_that_is_cancelled_is_cleaned_up() -> None:
    closed: list[str] = []

    async def work() -> None:
        with on_failure(closed.append, "the connection"):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["the connection"]
