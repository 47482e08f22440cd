"""A REPL on a real terminal with a fake event source, for tests that need a process of their own.

The first argument says what happens: quiet, stream, clear (the same), three (streams), crash (a frame
fails), crash_source, print.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator

from buddy.agent import events as ev
from buddy.agent.messages import Text, UserMessage
from buddy.repl.app import AppSettings
from buddy.repl.exit import Ending
from buddy.repl.intents import Intent, Prompt
from buddy.repl.render.style import choose_look
from buddy.repl.start import open_repl
from buddy.repl.view.blocks import NoteBlock
from buddy.repl.view.state import NO_SESSION, SessionFacts


async def three_streams() -> AsyncGenerator[list[ev.TaskEvent], None]:
    """Words of a task in front and of two in the background."""
    seqs = dict.fromkeys((1, 2, 3), 0)

    def event(task: int, what: ev.AgentUiEvent) -> ev.TaskEvent:
        seqs[task] += 1
        return ev.TaskEvent(task, seqs[task], time.monotonic(), what)

    for task in seqs:
        prompt = UserMessage(f"u{task}", (Text("go"),), "prompt")
        yield [event(task, ev.TurnStarted((prompt,))), event(task, ev.ReplyStarted(f"r{task}", "m"))]
    for number in range(100_000):
        texts = (
            f"word{number} " + ("\n\n" if number % 9 == 8 else ""),
            f"b{number}\n\n",
            f"c{number} ",
        )
        yield [event(task, ev.TextDelta(f"r{task}", 0, texts[task - 1])) for task in seqs]
        await asyncio.sleep(0.005)


def main(mode: str, log_path: str) -> int:
    broken = False

    def log(line: str) -> None:
        with open(log_path, "a") as file:
            file.write(f"{line}\n")

    def act(intent: Intent) -> None:
        nonlocal broken
        log(f"intent {intent}")
        if mode == "crash" and isinstance(intent, Prompt):
            broken = True
            repl.screen.touch()

    def facts() -> SessionFacts:
        if broken:
            raise ZeroDivisionError("the facts are broken")
        return NO_SESSION

    async def events() -> AsyncGenerator[list[ev.TaskEvent], None]:
        if mode == "print":
            print("to nobody", flush=True)
            print("an error", file=sys.stderr)
        if mode == "crash_source":
            await asyncio.sleep(0.2)
            raise RuntimeError("the source is broken")
        if mode == "many":
            for number in range(40):
                text = f"paragraph {number} says a few words that take more than one line."
                repl.print(NoteBlock("info", text))
                await asyncio.sleep(0)
        if mode in ("stream", "clear"):
            prompt = UserMessage("u", (Text("go"),), "prompt")
            yield [
                ev.TaskEvent(1, 1, time.monotonic(), ev.TurnStarted((prompt,))),
                ev.TaskEvent(1, 2, time.monotonic(), ev.ReplyStarted("r", "m")),
            ]
            for number in range(100_000):
                text = f"word{number} " + ("\n\n" if number % 9 == 8 else "")
                yield [ev.TaskEvent(1, 3 + number, time.monotonic(), ev.TextDelta("r", 0, text))]
                await asyncio.sleep(0.005)
        if mode == "three":
            async for batch in three_streams():
                yield batch
        await asyncio.Event().wait()

    look = choose_look(environ=os.environ, color="auto", theme="default", encoding="utf-8", is_terminal=True)
    settings = AppSettings(
        look=look,
        vi="VI" in os.environ,
        title=True,
        bell=True,
        notifications="off",
        history_path=None,
        environ=os.environ,
        progress=True,
    )
    repl = open_repl(settings=settings, facts=facts, act=act, log=log)

    async def tell_tidied() -> None:
        """Log every width for which the screen has been tidied up."""
        columns = 0
        while True:
            if not repl.screen._settling.is_on and repl.screen._size.columns != columns:
                columns = repl.screen._size.columns
                log(f"tidied up at {columns}")
            await asyncio.sleep(0.01)

    async def run() -> Ending:
        telling = asyncio.ensure_future(tell_tidied())
        try:
            return await repl.run(events())
        finally:
            telling.cancel()

    ending = asyncio.run(run())
    log(f"ended {ending}")
    return 0 if ending == "left" else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2]))
