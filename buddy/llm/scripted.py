"""A provider that plays a script: for the demo, for tests, and for replaying a session. Deterministic.

A script is replies, one per request, made of records or written in a small language, one step per line:

    think: The file has to be read first.
    say: I look at `app.py`.
    pause: 0.5
    call: read_file {"path": "app.py"}
    reply:
    say: It is fine.
    usage: 1200 34
    error: rate_limit try again later
    finish: length
    cut:

`reply:` begins the next reply; indented lines continue the step above (blank lines between them count);
`#` begins a comment.
"""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import cast, get_args

import msgspec

from buddy.agent.formatting import format_count
from buddy.agent.messages import Usage
from buddy.agent.provider import (
    CallPiece,
    ErrorKind,
    Finished,
    FinishReason,
    ModelDelta,
    ModelRequest,
    ProviderError,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)


class Say(msgspec.Struct, frozen=True):
    """Answer text."""

    text: str


class Think(msgspec.Struct, frozen=True):
    """Reasoning."""

    text: str


class ScriptedCall(msgspec.Struct, frozen=True):
    """A tool call; arguments are JSON text and may be broken."""

    name: str
    arguments: str


class Pause(msgspec.Struct, frozen=True):
    """Nothing for a while."""

    seconds: float


class Fail(msgspec.Struct, frozen=True):
    """The provider fails here."""

    kind: ErrorKind
    message: str
    retry_after_s: float | None = None


class Spent(msgspec.Struct, frozen=True):
    """Usage as the provider would state it."""

    input_tokens: int
    output_tokens: int


class Finish(msgspec.Struct, frozen=True):
    """The reply ends for this reason; without one it ends as its content says."""

    reason: FinishReason


class Cut(msgspec.Struct, frozen=True):
    """The stream ends here without a finish."""


Step = Say | Think | ScriptedCall | Pause | Fail | Spent | Finish | Cut
Reply = tuple[Step, ...]
Chooser = Callable[[ModelRequest], Reply]


class ScriptError(ValueError):
    """A line of a script that cannot be read: which, what was expected, what was found."""


class Pace(msgspec.Struct, frozen=True):
    """Speed of scripted text: pieces of so many characters with a pause between them."""

    characters: int = 12
    seconds: float = 0


class ScriptedProvider:
    """Plays replies one after the other, or the one a function chooses. `requests` are kept for assertions;
    when the script is over, `rest` is played (an error by default)."""

    def __init__(
        self,
        replies: Sequence[Reply] | Chooser,
        *,
        sleep: Callable[[float], Awaitable[None]],
        pace: Pace = Pace(),
        rest: Reply | None = None,
    ) -> None:
        self.requests: list[ModelRequest] = []
        self.open_streams = 0
        self._replies = replies
        self._sleep = sleep
        self._pace = pace
        self._rest = rest

    @property
    def lane(self) -> str:
        """Return the wire format's name."""
        return "scripted"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Yield the next reply in pieces. Raises `ProviderError` where the script says so."""
        number = len(self.requests)
        self.requests.append(request)
        reply = self._choose(request, number)
        self.open_streams += 1
        try:
            async with contextlib.aclosing(self._play(reply, number)) as playing:
                async for delta in playing:
                    yield delta
        finally:
            self.open_streams -= 1

    def _choose(self, request: ModelRequest, number: int) -> Reply:
        if callable(self._replies):
            return self._replies(request)
        if number < len(self._replies):
            return self._replies[number]
        if self._rest is not None:
            return self._rest
        raise ProviderError(
            "bad_request", f"the script has only {format_count(len(self._replies), 'reply', 'replies')}"
        )

    async def _play(self, reply: Reply, number: int) -> AsyncGenerator[ModelDelta, None]:
        calls = 0
        reason: FinishReason | None = None
        for block, step in enumerate(reply):
            match step:
                case Say():
                    for piece in self._pieces(step.text):
                        await self._wait()
                        yield TextPiece(piece, block)
                case Think():
                    for piece in self._pieces(step.text):
                        await self._wait()
                        yield ThinkingPiece(piece, block)
                case ScriptedCall():
                    yield CallPiece(calls, f"call-{number + 1}-{calls + 1}", step.name, "")
                    for piece in self._pieces(step.arguments):
                        await self._wait()
                        yield CallPiece(calls, "", "", piece)
                    calls += 1
                case Pause():
                    await self._sleep(step.seconds)
                case Fail():
                    raise ProviderError(step.kind, step.message, retry_after_s=step.retry_after_s)
                case Spent():
                    yield UsagePiece(_usage(step))
                case Finish():
                    reason = step.reason
                case Cut():
                    return
        yield Finished(reason or ("calls" if calls else "stop"))

    async def _wait(self) -> None:
        if self._pace.seconds:
            await self._sleep(self._pace.seconds)

    def _pieces(self, text: str) -> list[str]:
        size = max(1, self._pace.characters)
        return [text[start : start + size] for start in range(0, len(text), size)]


def _usage(step: Spent) -> Usage:
    return Usage(
        input_tokens=step.input_tokens,
        output_tokens=step.output_tokens,
        cache_read_tokens=0,
        cache_write_tokens=0,
        reasoning_tokens=0,
        estimated=False,
    )


def parse_script(text: str) -> tuple[Reply, ...]:
    """Return the replies of a script. Raises `ScriptError`."""
    replies: list[list[Step]] = [[]]
    for number, word, rest in _steps(text):
        if word == "reply":
            replies.append([])
        else:
            replies[-1].append(_step(number, word, rest))
    return tuple(tuple(steps) for steps in replies if steps)


def _steps(text: str) -> list[tuple[int, str, str]]:
    """(line number, word, the rest with its continuation lines: their common indentation removed)."""
    found: list[tuple[int, str, str, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            continue
        if not line.strip() or line[0] in " \t":
            if found:
                found[-1][3].append(line)
            continue
        word, colon, rest = line.partition(":")
        if not colon:
            raise ScriptError(f"line {number}: expected `word: …`, found {line!r}")
        found.append((number, word.strip(), rest.strip(), []))
    return [
        (number, word, "\n".join(filter(None, (rest, textwrap.dedent("\n".join(more)).strip("\n")))))
        for number, word, rest, more in found
    ]


def _step(number: int, word: str, rest: str) -> Step:
    try:
        match word:
            case "say":
                return Say(rest)
            case "think":
                return Think(rest)
            case "call":
                name, _, arguments = rest.partition(" ")
                return ScriptedCall(name, arguments.strip() or "{}")
            case "pause":
                return Pause(float(rest))
            case "usage":
                given, generated = rest.split()
                return Spent(int(given), int(generated))
            case "error":
                return _fail(rest)
            case "finish" if rest in get_args(FinishReason):
                return Finish(cast("FinishReason", rest))
            case "cut":
                return Cut()
            case _:
                raise ValueError(f"{word}: {rest}")
    except ValueError as error:
        raise ScriptError(
            f"line {number}: expected say, think, call, pause, usage, error, finish, cut or reply with what "
            f"belongs to it, found {word!r} {rest[:40]!r}"
        ) from error


def _fail(rest: str) -> Fail:
    kind, _, message = rest.partition(" ")
    if kind not in get_args(ErrorKind):
        raise ValueError(kind)
    wait = re.search(r"\bafter ([\d.]+) s\b", message)
    return Fail(cast("ErrorKind", kind), message or kind, float(wait[1]) if wait else None)
