"""The loop guard, and which calls of a reply run together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.messages import Call
from buddy.agent.tool import Access
from buddy.agent.tool_calls import MAX_TOGETHER, conflict, group_calls
from buddy.agent.turn import LoopGuard

READ, WRITE, ANYTHING = Access(reads=("a",)), Access(writes=("a",)), Access(anything=True)


def seen(*exchanges: tuple[str, str]) -> list[str]:
    """Return the guard's decision for each exchange (call, result)."""
    guard = LoopGuard()
    return [guard.observe(Call("id", name, "{}"), result)[0] for name, result in exchanges]


def test_REL_039_the_same_call_with_the_same_result_is_noticed_at_3_and_stopped_at_5() -> None:
    assert seen(*[("a", "x")] * 5) == ["ok", "ok", "notice", "notice", "stop"]


def test_REL_039_how_long_a_command_took_is_no_news() -> None:
    assert seen(*[("run", f"failed\n[exit code 1, {n}.5 s]") for n in range(5)])[-1] == "stop"


def test_REL_040_a_call_whose_answer_changes_is_polling() -> None:
    assert set(seen(*[("a", f"line {n}") for n in range(50)])) == {"ok"}
    assert set(seen(*[("job", f"running, {n} s") for n in range(50)])) == {"ok"}


def test_REL_040_calls_that_alternate_are_detected_by_the_eighth() -> None:
    assert "stop" in seen(*[("a", "x"), ("b", "y")] * 4)
    assert "stop" in seen(*[("a", "x"), ("b", "y"), ("c", "z")] * 3)
    assert set(seen(*[("a", "x"), ("b", "y")] * 2)) == {"ok"}


def test_other_work_in_between_starts_the_count_again() -> None:
    assert set(seen(("a", "x"), ("a", "x"), ("b", "1"), ("a", "x"), ("a", "x"), ("b", "2"))) == {"ok"}


def test_REL_029_more_than_three_malformed_calls_in_a_row_ask_the_person() -> None:
    guard = LoopGuard()

    def malformed_reply(calls: int = 1) -> bool:
        guard.begin_reply()
        return [guard.note_malformed() for _ in range(calls)][-1]

    assert [malformed_reply(calls) for calls in (1, 4, 2, 1)] == [False, False, False, True]
    guard.note_well_formed()
    assert malformed_reply(4) is False


def test_reads_run_together_and_whatever_changes_something_stands_alone() -> None:
    found = group_calls([READ, READ, WRITE, READ, ANYTHING, READ, READ])
    assert [one.positions for one in found] == [(0, 1), (2,), (3,), (4,), (5, 6)]
    assert group_calls([]) == ()


def test_no_more_than_the_cap_run_together() -> None:
    assert [len(one.positions) for one in group_calls([READ] * (MAX_TOGETHER + 3))] == [MAX_TOGETHER, 3]


ACCESS = st.sampled_from([READ, WRITE, ANYTHING, Access()])


@given(st.lists(ACCESS, max_size=40))
def test_every_call_runs_once_in_order_and_only_reads_share_a_group(accesses: list[Access]) -> None:
    found = group_calls(accesses)
    assert [at for one in found for at in one.positions] == list(range(len(accesses)))
    for one in found:
        assert len(one.positions) == 1 or all(accesses[at].read_only for at in one.positions)


def test_paths_conflict_with_themselves_their_parents_and_their_children() -> None:
    def write(path: str) -> Access:
        return Access(writes=(path,))

    assert conflict(write("a/b"), Access(reads=("a/b",)))
    assert conflict(write("a/b"), Access(reads=("a",)))
    assert conflict(write("a"), Access(reads=("a/b/c",)))
    assert conflict(write("./a//b"), write("a/b"))
    assert conflict(Access(reads=("x/../a",)), write("a"))
    assert conflict(write("a"), Access(reads=(".",)))
    assert conflict(ANYTHING, Access())
    assert not conflict(write("a/b"), Access(reads=("a/bc",)))
    assert not conflict(Access(reads=("a",)), Access(reads=("a",)))


@given(ACCESS, ACCESS)
def test_a_conflict_has_no_direction(one: Access, other: Access) -> None:
    assert conflict(one, other) == conflict(other, one)
