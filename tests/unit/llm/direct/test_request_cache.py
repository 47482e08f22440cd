"""A turn costs what is new: what a conversation said before is neither encoded nor looked at again, and the
bytes are the same as if it were."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from buddy.agent.json_codec import dumps
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Call,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
)
from buddy.agent.provider import ModelRequest
from buddy.llm.direct.anthropic import AnthropicWire
from buddy.llm.direct.openai import MAX_PICTURES, ChatWire
from buddy.llm.direct.request_cache import KEPT, SettledHistories
from buddy.llm.quirks import anthropic_quirks, chat_quirks

Wire = ChatWire | AnthropicWire
Encode = Callable[[Any], bytes]

WIRES: dict[str, Callable[[Encode], Wire]] = {
    "chat": lambda encode: ChatWire(chat_quirks("api.openai.com", "gpt-5.2"), "gpt-5.2", encode),
    "neighbours merged": lambda encode: ChatWire(chat_quirks("127.0.0.1", "m"), "m", encode),
    "system as user": lambda encode: ChatWire(chat_quirks("localhost", "gemma-2-9b"), "gemma-2-9b", encode),
    "bridged": lambda encode: ChatWire(chat_quirks("api.mistral.ai", "devstral"), "devstral", encode),
    "marked": lambda encode: ChatWire(
        chat_quirks("openrouter.ai", "anthropic/claude-opus-5"), "anthropic/claude-opus-5", encode
    ),
    "anthropic": lambda encode: AnthropicWire(
        anthropic_quirks("api.anthropic.com", "claude-opus-5"), "claude-opus-5", encode=encode
    ),
}


def user(text: str, name: str) -> UserMessage:
    return UserMessage(name, (Text(text),), "prompt")


def exchange(number: int) -> tuple[AssistantMessage, ToolMessage]:
    call = Call(f"c{number}", "read_file", '{"path":"a.py"}')
    reply = AssistantMessage(f"a{number}", (Text("Looking."), call), "m", "chat", "calls", NO_USAGE)
    return reply, ToolMessage(f"t{number}", call.id, call.name, f"line {number}", "ok")


def asked(history: Sequence[Message], system: str = "You are buddy.") -> ModelRequest:
    return ModelRequest("m", system, tuple(history), ())


class NeverSettled:
    """Every request as if it were the first, and whole."""

    def split(self, history: Sequence[Message], key: str = "") -> tuple[bytes, Sequence[Message]]:
        return b"", history


def unsettled(make: Callable[[Encode], Wire]) -> Wire:
    wire = make(dumps)
    wire._settled = NeverSettled()
    return wire


@pytest.mark.parametrize("make", WIRES.values(), ids=WIRES)
def test_every_turn_encodes_as_much_as_the_one_before_it(make: Callable[[Encode], Wire]) -> None:
    count = 0

    def encode(data: Any) -> bytes:
        nonlocal count
        count += 1
        return dumps(data)

    wire, history, costs = make(encode), [user("go", "u")], []
    for turn in range(120):
        history += exchange(turn)
        count = 0
        wire.body(asked(history))
        costs.append(count)
    assert set(costs[5:]) == {costs[5]}, "not one message more at turn 120 than at turn 6"
    assert costs[5] <= 3, "the reply and its result; one more where a mark stands on the last message"


def test_every_turn_looks_at_as_many_messages_as_the_one_before_it() -> None:
    looked: list[str] = []

    def is_sent(reply: AssistantMessage) -> bool:
        looked.append(reply.id)
        return True

    runs: list[int] = []

    def encode(run: Sequence[Message], is_first: bool, key: str) -> bytes:
        runs.append(len(run))
        return b",".join(message.id.encode() for message in run)

    settled, history, costs = SettledHistories(encode, is_sent), [user("go", "u")], []
    for turn in range(120):
        history += exchange(turn)
        looked.clear()
        known, rest = settled.split(tuple(history))
        costs.append((len(looked), len(rest)))
        whole = [*([bytes(known).decode()] if known else []), *(message.id for message in rest)]
        assert ",".join(whole) == ",".join(message.id for message in history)
    assert set(costs[5:]) == {(4, 6)}
    assert sum(runs) + costs[-1][1] == len(history), "what settled was encoded once"


@pytest.mark.parametrize("make", WIRES.values(), ids=WIRES)
def test_the_bytes_are_those_of_a_conversation_that_is_encoded_whole(make: Callable[[Encode], Wire]) -> None:
    for seed in range(12):
        wire, whole = make(dumps), unsettled(make)
        for one, other in zip(grown(seed, 60), grown(seed + 1_000, 60), strict=True):
            for history in (one, other):
                assert wire.body(asked(history)) == whole.body(asked(history)), (seed, history)
        assert wire.body(asked(one, "Another.")) == whole.body(asked(one, "Another."))


@pytest.mark.parametrize("make", WIRES.values(), ids=WIRES)
def test_what_is_cut_back_or_stubbed_is_another_conversation(make: Callable[[Encode], Wire]) -> None:
    wire, whole = make(dumps), unsettled(make)
    history: list[Message] = [user("go", "u")]
    for turn in range(20):
        history += exchange(turn)
    stubbed = [*history[:2], ToolMessage("t0", "c0", "read_file", "dropped", "ok"), *history[3:]]
    lengths = [history[:end] for end in range(1, len(history) + 1)]
    for one in (history, stubbed, *lengths, *reversed(lengths), [*history, user("and now", "u2")]):
        assert wire.body(asked(one)) == whole.body(asked(one))


def test_the_newest_conversations_are_remembered_and_no_more() -> None:
    settled = SettledHistories(lambda run, _first, _key: b"%d" % len(run), lambda _reply: True)
    tasks = [[user("go", f"u{task}")] for task in range(3 * KEPT)]
    for task in tasks:
        for turn in range(4):
            task += exchange(turn)
        settled.split(tuple(task))
    assert len(settled._beginnings) == KEPT
    assert settled._beginnings[0].messages[0] is tasks[-1][0]


def test_pictures_of_what_settled_are_let_go() -> None:
    wire = ChatWire(chat_quirks("api.openai.com", "gpt-5.2"), "gpt-5.2")
    history: list[Message] = [user("go", "u")]
    for turn in range(4 * MAX_PICTURES):
        history += exchange(turn)
        shown = history[-1]
        assert isinstance(shown, ToolMessage)
        history[-1] = msgspec.structs.replace(shown, images=(Image("image/png", f"picture {turn}"),))
        body = wire.body(asked(tuple(history)))
    assert body.count(b"picture ") == 4 * MAX_PICTURES
    assert len(wire._pictures) <= MAX_PICTURES + 1


def grown(seed: int, steps: int) -> Iterator[tuple[Message, ...]]:
    """A conversation as it grows, with everything that goes wrong in one: results nobody asked for, calls
    without a result, cut and empty replies, pictures, changed results, an undo now and then."""
    pick = random.Random(seed)
    history: list[Message] = []
    waiting: list[str] = []
    for step in range(steps):
        kind = pick.random()
        if kind < 0.12:
            parts = (Text(f"hi {step}"), Text(" "), Image("image/png", "xx"))
            history.append(
                UserMessage(f"u{step}", tuple(pick.choices(parts, k=pick.randint(0, 2))), "prompt")
            )
        elif kind < 0.5:
            reply = _reply(pick, step)
            history.append(reply)
            waiting = [part.id for part in reply.parts if isinstance(part, Call)]
        elif kind < 0.94:
            call = waiting.pop(0) if waiting and pick.random() < 0.9 else f"c{pick.randint(0, step)}"
            pictures = (Image("image/png", "yy"),) if pick.random() < 0.2 else ()
            text = pick.choice(["ok", "", "much"])
            history.append(ToolMessage(f"t{step}", call, "f", text, pick.choice(["ok", "error"]), pictures))
        elif history and kind < 0.97:
            del history[pick.randrange(len(history)) :]
        elif history:
            at = pick.randrange(len(history))
            old = history[at]
            if isinstance(old, ToolMessage):
                history[at] = ToolMessage(old.id, old.call_id, old.name, "stub", old.status)
        while waiting and pick.random() < 0.7:
            history.append(ToolMessage(f"t{step}-{len(waiting)}", waiting.pop(0), "f", f"r{step}", "ok"))
        yield tuple(history)


def _reply(pick: random.Random, step: int) -> AssistantMessage:
    kinds = (
        Text(f"said {step}"),
        Text(""),
        Thinking("hm", "sig"),
        Thinking("hm", ""),
        Call(f"c{step}", "f", '{"a":1}'),
        Call(f"c{step}-b", "f", "{"),
        ServerItem({"type": "x"}),
    )
    return AssistantMessage(
        f"a{step}",
        tuple(pick.choices(kinds, k=pick.choice([0, 1, 1, 1, 2, 3]))),
        pick.choice(["m", "claude-opus-5"]),
        pick.choice(["chat", "anthropic"]),
        pick.choice(["calls", "calls", "calls", "cut", "stop"]),
        NO_USAGE,
        pick.choice([{}, {"reasoning_content": "z"}]),
    )
