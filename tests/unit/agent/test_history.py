"""Legal histories, and the repair of broken ones."""

from __future__ import annotations

import random

import pytest

from buddy.agent.history import (
    CONTINUE_TEXT,
    CUT_TEXT,
    MISSING_START_TEXT,
    RepairedPrefix,
    is_empty,
    reopen_calls,
    repair_history,
)
from buddy.agent.messages import (
    INTERRUPTED_TEXT,
    NO_USAGE,
    NOT_RUN_TEXT,
    AssistantMessage,
    Call,
    Image,
    Message,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
)
from tests.support.legal_history import is_legal


def said(name: str, text: str = "please") -> UserMessage:
    return UserMessage(name, (Text(text),), "prompt")


def call(name: str) -> Call:
    return Call(name, "read_file", '{"path": "a.py"}')


def reply(name: str, *parts: object, finish: str = "stop") -> AssistantMessage:
    return AssistantMessage(name, tuple(parts), "m", "chat", finish, NO_USAGE)


def result(name: str, call_id: str, text: str = "done") -> ToolMessage:
    return ToolMessage(name, call_id, "read_file", text, "ok")


def interrupted(reply_id: str, call_id: str) -> ToolMessage:
    return ToolMessage(f"{reply_id}-{call_id}-result", call_id, "read_file", INTERRUPTED_TEXT, "cancelled")


def not_run(reply_id: str, call_id: str) -> ToolMessage:
    return ToolMessage(f"{reply_id}-{call_id}-result", call_id, "read_file", NOT_RUN_TEXT, "skipped")


WHOLE: list[Message] = [
    said("u1"),
    reply("a1", Text("I look"), call("c1"), call("c2"), finish="calls"),
    result("t1", "c1"),
    result("t2", "c2", ""),
    said("u2", "and now"),
    said("u3", "quickly"),
    reply("a2", Text("It is done")),
]


def test_an_ordinary_history_is_legal_and_comes_back_as_the_same_objects():
    repair = repair_history(WHOLE, set())
    assert is_legal(WHOLE) == []
    assert all(before is after for before, after in zip(WHOLE, repair.history, strict=True))
    assert (repair.notes, repair.not_run_calls) == ((), ())


def test_an_empty_history_is_legal():
    assert is_legal([]) == []
    assert repair_history([], set()).history == ()


def test_REL_018_a_call_that_was_begun_is_answered_as_interrupted_and_not_offered_again():
    history = [said("u1"), reply("a1", call("c1"), finish="calls")]
    repair = repair_history(history, {"c1"})
    assert repair.history == (*history, interrupted("a1", "c1"))
    assert repair.not_run_calls == ()


def test_a_call_that_was_never_begun_is_answered_as_not_run_and_can_be_offered_again():
    history = [said("u1"), reply("a1", call("c1"), call("c2"), finish="calls"), result("t1", "c1")]
    repair = repair_history(history, set())
    assert repair.history == (*history, not_run("a1", "c2"))
    assert repair.not_run_calls == (call("c2"),)
    assert reopen_calls(repair.history, repair.not_run_calls) == tuple(history)
    assert repair_history(repair.history, set()).not_run_calls == (call("c2"),)


def test_a_call_left_behind_by_a_later_prompt_is_not_offered_again():
    history = [said("u1"), reply("a1", call("c1"), finish="calls"), said("u2")]
    repair = repair_history(history, set())
    assert repair.history == (*history[:2], not_run("a1", "c1"), history[2])
    assert repair.not_run_calls == ()


def test_REL_019_three_parallel_calls_of_which_one_ended_get_three_results_in_order():
    ask = reply("a1", call("c1"), call("c2"), call("c3"), finish="calls")
    repair = repair_history([said("u1"), ask, result("t2", "c2")], {"c1", "c2", "c3"})
    assert repair.history == (
        said("u1"),
        ask,
        interrupted("a1", "c1"),
        result("t2", "c2"),
        interrupted("a1", "c3"),
    )


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        pytest.param(
            [said("u1"), reply("a1", call("c1")), said("u2"), reply("a2", Text("x"))],
            [said("u1"), reply("a1", call("c1")), not_run("a1", "c1"), said("u2"), reply("a2", Text("x"))],
            id="an orphan in the middle",
        ),
        pytest.param(
            [said("u1"), reply("a1", call("c1")), result("t1", "c1"), result("t2", "c1", "other")],
            [said("u1"), reply("a1", call("c1")), result("t1", "c1")],
            id="a second result",
        ),
        pytest.param(
            [said("u1"), result("t1", "c9"), reply("a1", Text("x")), result("t2", "c9")],
            [said("u1"), reply("a1", Text("x"))],
            id="results without a call",
        ),
        pytest.param(
            [said("u1"), said("u2", " \n"), reply("a1", Text(" ")), reply("a2", Text("x")), reply("a3")],
            [said("u1"), reply("a2", Text("x"))],
            id="messages with nothing in them",
        ),
        pytest.param(
            [said("u1"), reply("a1", Thinking("hm", "s")), reply("a2", Text("x"))],
            [said("u1"), reply("a2", Text("x"))],
            id="a reply of reasoning alone",
        ),
        pytest.param(
            [reply("a1", Text("x")), reply("a2", Text("y"))],
            [
                UserMessage("a1-before", (Text(MISSING_START_TEXT),), "note"),
                reply("a1", Text("x")),
                UserMessage("a2-before", (Text(CONTINUE_TEXT),), "note"),
                reply("a2", Text("y")),
            ],
            id="no beginning, and a reply after a reply",
        ),
        pytest.param(
            [
                said("u1"),
                reply("a1", call("c1"), call("c2")),
                result("t2", "c2"),
                said("u2"),
                result("t1", "c1"),
            ],
            [
                said("u1"),
                reply("a1", call("c1"), call("c2")),
                result("t1", "c1"),
                result("t2", "c2"),
                said("u2"),
            ],
            id="results in the wrong order with words between them",
        ),
        pytest.param(
            [said("u1"), reply("a1", call("c1"), call("c1")), result("t1", "c1")],
            [said("u1"), reply("a1", call("c1")), result("t1", "c1")],
            id="two calls with one id",
        ),
        pytest.param(
            [said("u1"), reply("a1", call("c1")), reply("a2"), result("t1", "c1")],
            [said("u1"), reply("a1", call("c1")), result("t1", "c1")],
            id="an empty reply between a call and its result",
        ),
    ],
)
def test_REL_020_a_broken_history_is_normalised(broken: list[Message], whole: list[Message]):
    assert is_legal(broken) != []
    repair = repair_history(broken, set())
    assert list(repair.history) == whole
    assert is_legal(repair.history) == []
    assert repair.notes != ()


def test_a_cut_reply_is_kept_without_its_calls():
    cut = reply("a1", Text("I will"), Call("c1", "write_file", '{"path": "a'), finish="cut")
    repair = repair_history([said("u1"), cut, result("t1", "c1"), said("u2")], {"c1"})
    assert repair.history == (said("u1"), reply("a1", Text("I will"), finish="cut"), said("u2"))


def test_a_cut_reply_that_only_thought_is_kept_and_says_so():
    cut = reply("a1", Thinking("let me see", ""), finish="cut")
    repair = repair_history([said("u1"), cut], set())
    assert repair.history[1] == reply("a1", Thinking("let me see", ""), Text(CUT_TEXT), finish="cut")
    assert repair_history(repair.history, set()).history == repair.history


def test_a_cut_reply_of_which_nothing_was_seen_is_dropped():
    assert repair_history([said("u1"), reply("a1", finish="cut")], set()).history == (said("u1"),)


def test_a_cut_reply_of_calls_alone_is_marked():
    repair = repair_history([said("u1"), reply("a1", call("c1"), finish="cut")], set())
    assert repair.history == (said("u1"), reply("a1", Text(CUT_TEXT), finish="cut"))


def test_the_same_call_id_in_two_replies_means_two_calls():
    history = [
        said("u1"),
        reply("a1", call("call_0")),
        result("t1", "call_0"),
        reply("a2", call("call_0")),
    ]
    assert repair_history(history, set()).history == (*history, not_run("a2", "call_0"))


def test_a_picture_alone_is_something_a_person_said():
    assert not is_empty(UserMessage("u", (Image("image/png", "AAAA"),), "prompt"))


def random_history(random: random.Random) -> list[Message]:
    """Any sequence at all: ids collide, results stray, texts are blank, replies are cut."""
    ids = [f"c{n}" for n in range(4)]

    def any_message(n: int) -> Message:
        match random.randrange(3):
            case 0:
                texts = tuple(
                    Text(random.choice(["", " ", f"words {n}"])) for _ in range(random.randrange(3))
                )
                return UserMessage(f"u{n}", texts, "prompt")
            case 1:
                parts = tuple(any_part() for _ in range(random.randrange(4)))
                return reply(f"a{n}", *parts, finish=random.choice(["stop", "calls", "cut", "length"]))
            case _:
                return result(f"t{n}", random.choice(ids), random.choice(["", "done", NOT_RUN_TEXT]))

    def any_part() -> object:
        return random.choice([Text(""), Text("I look"), Thinking("hm", ""), call(random.choice(ids))])

    return [any_message(n) for n in range(random.randrange(12))]


def words_of(history: list[Message] | tuple[Message, ...]) -> list[UserMessage]:
    return [message for message in history if isinstance(message, UserMessage) and not is_empty(message)]


def test_REL_020_ten_thousand_random_histories_are_legal_after_repair_and_keep_every_word_of_the_person():
    source = random.Random(20)
    for _ in range(10_000):
        history = random_history(source)
        begun = {f"c{n}" for n in range(4) if source.random() < 0.5}
        repair = repair_history(history, begun)
        assert is_legal(repair.history) == []
        assert bool(repair.notes) == bool(is_legal(history))
        assert repair_history(repair.history, begun).history == repair.history
        assert repair_history(repair.history, begun).notes == ()
        kept = [message for message in words_of(repair.history) if not message.id.endswith("-before")]
        assert kept == words_of(history)


def test_a_growing_history_repaired_step_by_step_equals_one_repaired_at_once():
    source = random.Random(21)
    for _ in range(2_000):
        history = random_history(source)
        prefix = RepairedPrefix()
        growing: list[Message] = []
        for message in history:
            growing.append(message)
            assert prefix.repair(growing, {"c1"}) == repair_history(growing, {"c1"})


def test_a_replaced_message_in_the_checked_part_is_noticed():
    prefix = RepairedPrefix()
    prefix.repair(WHOLE, set())
    shortened = [*WHOLE[:2], result("t1", "c1", "[shortened]"), *WHOLE[3:]]
    assert prefix.repair(shortened, set()).history == tuple(shortened)
    assert prefix.repair([], set()).history == ()


def test_only_the_last_exchange_is_looked_at_again():
    class Counting(list[Message]):
        looked_at = 0

        def __getitem__(self, at):
            if isinstance(at, int):
                Counting.looked_at += 1
            return super().__getitem__(at)

    history = Counting(WHOLE)
    for n in range(300):
        history += [said(f"u-{n}"), reply(f"a-{n}", Text("yes"))]
    prefix = RepairedPrefix()
    prefix.repair(history, set())
    Counting.looked_at = 0
    history.append(said("last"))
    prefix.repair(history, set())
    assert Counting.looked_at <= 4
