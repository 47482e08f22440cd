"""A scripted session of many turns, what it must still know after any end, and a child process in which it is
killed at a chosen file operation."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from buddy.agent.messages import Message, UserMessage
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.loading import LoadedSession
from buddy.sessions.records import TaskChanged
from tests.support.legal_history import is_legal
from tests.support.session_files import OPERATIONS, call, replied, result, said, store_in

Acked = Callable[[str], None]


async def play(root: Path, *, turns: int, files: JournalFiles, acked: Acked) -> None:
    """`turns` turns, each with two calls; `acked(name)` once a step is on the disk."""
    session = await store_in(root, files=files).create(name="scripted")
    writer = session.writer

    async def message(message: Message) -> None:
        await writer.record_message(1, message)
        acked(f"message {message.id}")

    await writer.record_task(1, TaskChanged("scripted", "running"))
    for turn in range(turns):
        prompt = said(f"u{turn}", f"prompt {turn}")
        await writer.record_queue(1, (prompt,), ())
        acked(f"queued u{turn}")
        await message(prompt)
        writer.record_partial(1, replied(f"a{turn}", "I look", finish="cut"))
        calls = [call(f"c{turn}-1"), call(f"c{turn}-2")]
        await message(replied(f"a{turn}", "I look", *calls, finish="calls"))
        for each in calls:
            await writer.tool_begin(1, each.id, each.name)
            acked(f"begun {each.id}")
            writer.tool_end(1, each.id, "ok", 0.1)
            await message(result(f"t-{each.id}", each.id, "output " * 20))
        await message(replied(f"b{turn}", f"answer {turn}"))
        if turn % 7 == 6:
            writer.idle()
    await session.close()
    acked("closed")


def check(loaded: LoadedSession, acked: list[str], *, turns: int) -> None:
    """Nothing acknowledged is lost, nothing is there twice, and the history is legal."""
    if not acked:
        return
    (task,) = loaded.tasks
    raw = next(record for record in loaded.state.tasks)
    history = task.record.history
    assert is_legal(history) == []
    ids = [message.id for message in history]
    assert len(set(ids)) == len(ids)
    prompts = [message.id for message in history if isinstance(message, UserMessage)]
    waiting = [message.id for message in (*task.record.queued, *task.record.steering)]
    everything = prompts + waiting
    assert everything == [f"u{turn}" for turn in range(len(everything))], "a prompt is lost or there twice"
    begun = {begun.call_id for begun in raw.begun}
    for step in acked:
        kind, _, name = step.partition(" ")
        if kind == "message":
            assert name in ids, f"{step} was acknowledged and is lost"
        elif kind == "queued":
            assert name in everything, f"{step} was acknowledged and is lost"
        elif kind == "begun":
            assert name in begun or f"t-{name}" in ids, f"{step} was acknowledged and is lost"
    if "closed" in acked:
        assert ids[-1] == f"b{turns - 1}"


class Killer:
    """Real files that count their operations and kill the process with SIGKILL right before number `at`, or,
    with `half`, in the middle of it when it is a write. `at` 0 never kills."""

    def __init__(self, at: int, *, half: bool) -> None:
        self.count = 0
        self._at = at
        self._half = half

    def files(self) -> JournalFiles:
        real = JournalFiles()
        return msgspec.structs.replace(
            real, **{name: self._watched(name, getattr(real, name)) for name in OPERATIONS}
        )

    def _watched(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            self.count += 1
            if self.count == self._at:
                if self._half and name == "write":
                    descriptor, data, offset = args
                    operation(descriptor, bytes(data)[: len(data) // 2], offset)
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*args)

        return run


def killed_at(root: Path, at: int, *, turns: int, half: bool) -> tuple[list[str], int]:
    """Play in a forked child that is killed at its file operation number `at` (see `Killer`). What it had
    acknowledged, and how many operations it made when it came to its end."""
    return forked(lambda acked: _play_and_count(root, Killer(at, half=half), turns, acked))


def killed_after(root: Path, seconds: float, *, turns: int) -> tuple[list[str], int]:
    """Play in a forked child that is killed with SIGKILL after some time."""
    return forked(lambda acked: _play_and_count(root, Killer(0, half=False), turns, acked), seconds)


def _play_and_count(root: Path, killer: Killer, turns: int, acked: Acked) -> int:
    asyncio.run(play(root, turns=turns, files=killer.files(), acked=acked))
    return killer.count


def forked(body: Callable[[Acked], int], kill_after_s: float | None = None) -> tuple[list[str], int]:
    """Run in a forked child. What it acknowledged, and what it returned (0 when it was killed)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _report_to(writing, body)
    os.close(writing)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        steps = pipe.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status) != 0:
        raise AssertionError(f"the child failed instead of dying: {steps[-1:]}")
    count = int(steps.pop().removeprefix("count ")) if steps and steps[-1].startswith("count ") else 0
    return steps, count


def _report_to(pipe: int, body: Callable[[Acked], int]) -> None:
    code = 17
    try:
        count = body(lambda step: _say(pipe, step))
        _say(pipe, f"count {count}")
        code = 0
    except BaseException as error:
        _say(pipe, repr(error))
    finally:
        os._exit(code)


def _say(pipe: int, step: str) -> None:
    os.write(pipe, f"{step}\n".encode())
