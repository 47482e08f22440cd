"""A library that takes seconds to load is waited for in sight."""

from __future__ import annotations

import asyncio

from buddy.agent.events import LibraryLoading
from buddy.agent.messages import Text, UserMessage
from buddy.agent.provider import Finished, ModelRequest, TextPiece
from buddy.headless.formats import ProgressLines
from buddy.llm.litellm_lane.loader import LitellmLibrary
from buddy.llm.scripted import Say, ScriptedProvider
from buddy.tasks.turn_runner import LoadingProvider

ASKED = ModelRequest("m", "", (UserMessage("u", (Text("hi"),), "prompt"),), ())


class SlowLibrary:
    name = "litellm"

    def __init__(self) -> None:
        self.is_loaded = False
        self.arrived = asyncio.Event()

    async def load(self) -> None:
        await self.arrived.wait()
        self.is_loaded = True


async def test_RU_A16_the_wait_for_a_library_is_told_and_only_once() -> None:
    library, told = SlowLibrary(), list[LibraryLoading]()
    inner = ScriptedProvider(((Say("ok"),), (Say("ok"),)), sleep=asyncio.sleep)
    provider = LoadingProvider(inner, library, told.append)

    async def ask() -> list[object]:
        return [delta async for delta in provider.stream(ASKED)]

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    assert told == [LibraryLoading("litellm", loaded=False)]
    library.arrived.set()
    pieces = await asking
    assert any(isinstance(piece, TextPiece) for piece in pieces)
    assert isinstance(pieces[-1], Finished)
    await ask()
    assert told == [LibraryLoading("litellm", loaded=False), LibraryLoading("litellm", loaded=True)]


async def test_RU_A16_a_library_that_cannot_be_imported_is_told_by_the_request() -> None:
    def broken(name: str) -> object:
        raise ImportError(name)

    library = LitellmLibrary({}, broken)
    assert not library.is_loaded
    await library.load()
    assert library.is_loaded


async def test_RU_A16_exec_names_a_library_only_when_it_takes_long() -> None:
    loop, lines = asyncio.get_running_loop(), list[str]()
    progress = ProgressLines(lines.append)
    progress.event(LibraryLoading("litellm", loaded=False))
    progress.event(LibraryLoading("litellm", loaded=True))
    assert lines == []
    progress = ProgressLines(lines.append, loading_notice_after_s=0)
    progress.event(LibraryLoading("litellm", loaded=False))
    told = loop.create_future()
    loop.call_later(0.01, told.set_result, None)
    await told
    assert lines == ["  loading litellm\n"]
